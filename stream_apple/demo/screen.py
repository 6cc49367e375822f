"""Two ways of showing a run: a picture that is painted anew, and lines for where there is no terminal."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.live import Live

from stream_apple.demo.state import SomeView

_LINE_SECONDS = 1.0
_PICTURE_SECONDS = 0.1
_WIDEST = 100


@contextmanager
def screen_of(
    console: Console,
    picture: Callable[[SomeView, int], RenderableType],
    line: Callable[[SomeView], str],
    *,
    quiet: bool,
) -> Iterator[Callable[[SomeView], None]]:
    """Give the function that shows how a run stands, which may be called as often as there is news.

    picture  returns at most 24 lines, given the width in characters
    line     returns the same in a line
    quiet    show nothing where there is no terminal
    """
    # The curve is drawn in Braille, which needs UTF-8; other terminals get lines.
    if console.is_terminal and console.encoding.startswith("utf"):
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            yield _painting(live, picture)
    elif quiet:
        yield lambda _view: None
    else:
        yield _writing(console, line)


def _painting(live: Live, picture: Callable[[SomeView, int], RenderableType]) -> Callable[[SomeView], None]:
    """Return a function that paints a view, unless the last one is too new to be replaced."""
    doing, due = "", 0.0

    def show(view: SomeView) -> None:
        nonlocal doing, due
        now = time.monotonic()
        if view.doing != doing or now >= due:
            doing, due = view.doing, now + _PICTURE_SECONDS
            live.update(picture(view, min(live.console.width, _WIDEST)), refresh=True)

    return show


def _writing(console: Console, line: Callable[[SomeView], str]) -> Callable[[SomeView], None]:
    """Return a function that writes a line a second, and one for each new thing that is done."""
    doing, address, due = "", "", 0.0

    def write(text: str) -> None:
        console.print(text, soft_wrap=True, highlight=False, markup=False)

    def show(view: SomeView) -> None:
        nonlocal doing, address, due
        now = time.monotonic()
        if view.address != address:
            address = view.address
            write(f"status page: {address}/")
        if view.doing != doing:
            doing = view.doing
            write(doing)
        elif view.answered and now >= due:
            write(line(view))
        else:
            return
        due = now + _LINE_SECONDS

    return show
