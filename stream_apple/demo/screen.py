"""Two ways of showing a run: a picture that is painted anew, and lines for where there is no terminal."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, NamedTuple

from rich.console import Console, RenderableType
from rich.live import Live

from stream_apple.demo.state import SomeView

_LINE_SECONDS = 1.0
_PICTURE_SECONDS = 0.1
_WIDEST = 100


class Appearance(NamedTuple, Generic[SomeView]):
    """How it looks where a run stands.

    picture  of at most 24 lines, given the width in characters
    line     the same in a line
    """

    picture: Callable[[SomeView, int], RenderableType]
    line: Callable[[SomeView], str]


@contextmanager
def screen_of(console: Console, look: Appearance[SomeView], *, quiet: bool) -> Iterator[Callable[[SomeView], None]]:
    """Give the function that shows how a run stands, which may be called as often as there is news.

    quiet  show nothing where there is no terminal
    """
    # The curve is drawn in Braille, which needs UTF-8; other terminals get lines.
    if console.is_terminal and console.encoding.startswith("utf"):
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            yield _Picture(live, look).show
    elif quiet:
        yield lambda _view: None
    else:
        yield _Lines(console, look).show


class _Picture(Generic[SomeView]):
    """A picture of at most 24 lines in a terminal, painted anew as the run goes on."""

    def __init__(self, live: Live, look: Appearance[SomeView]) -> None:
        self._look = look
        self._live = live
        self._doing = ""
        self._due = 0.0

    def show(self, view: SomeView) -> None:
        """Paint the picture anew, unless the last one is too new to be replaced."""
        now = time.monotonic()
        if view.doing == self._doing and now < self._due:
            return
        self._doing, self._due = view.doing, now + _PICTURE_SECONDS
        self._live.update(self._look.picture(view, min(self._live.console.width, _WIDEST)), refresh=True)


class _Lines(Generic[SomeView]):
    """Writes a line a second, and one for each new thing that is done."""

    def __init__(self, console: Console, look: Appearance[SomeView]) -> None:
        self._look = look
        self._console = console
        self._doing = ""
        self._address = ""
        self._due = 0.0

    def show(self, view: SomeView) -> None:
        """Write a line, unless the last one is too recent."""
        now = time.monotonic()
        if view.address != self._address:
            self._address = view.address
            self._write(f"status page: {view.address}/")
        if view.doing != self._doing:
            self._write(view.doing)
            self._doing = view.doing
        elif view.answered and now >= self._due:
            self._write(self._look.line(view))
        else:
            return
        self._due = now + _LINE_SECONDS

    def _write(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, highlight=False, markup=False)
