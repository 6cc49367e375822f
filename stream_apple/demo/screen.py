"""Two ways of showing a run: a picture that is painted anew, and lines for where there is no terminal."""

import itertools
import math
import time
from types import TracebackType
from typing import Protocol, Self

from rich.bar import Bar
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from stream_apple.demo.plot import Curve, draw, range_of
from stream_apple.demo.state import DemoReport, View

APPLE, LINEAR = "bold green", "yellow"
_QUIET = "dim"
_LINE_SECONDS = 1.0
_PICTURE_SECONDS = 0.1
_PLOT_HEIGHT = 9
_LABEL_EVERY = 4
_AXIS_WIDTH = 6
_WIDEST = 100

_EXPLANATION = (
    "Ad clicks that depend on pairs and triples (phone x 8 o'clock, gb x wine), which a linear model can't see. "
    "At each simulated day's end apple multiplies its heaviest features with the others: watch its loss fall."
)
_NEXT = (
    ("stream-apple demo --examples 1000000", "the same with longer epochs"),
    ("stream-apple evaluate FILE", "your own examples, without Kafka"),
    ("stream-apple topics", "on your own cluster (--config FILE):"),
    ("stream-apple run", "the worker"),
    ("stream-apple produce FILE", "and examples for it"),
)
_DEGREES = ("features", "pairs", "triples", "of degree 4", "of degree 5", "of degree 6")


class Screen(Protocol):
    """A context that shows how a run stands."""

    def show(self, view: View) -> None:
        """Show how the run stands now; may be called as often as there is news."""

    def __enter__(self) -> Self:
        """Start to draw the screen."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class LiveScreen:
    """A picture of at most 24 lines in a terminal, painted anew as the run goes on."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")
        self._doing = ""
        self._due = 0.0

    def show(self, view: View) -> None:
        """Paint the picture anew, unless the last one is too new to be replaced."""
        now = time.monotonic()
        if view.doing == self._doing and now < self._due:
            return
        self._doing, self._due = view.doing, now + _PICTURE_SECONDS
        self._live.update(picture(view, min(self._live.console.width, _WIDEST)), refresh=True)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)


class LineScreen:
    """Writes a line a second, and one for each new thing that is done."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._doing = ""
        self._address = ""
        self._due = 0.0

    def show(self, view: View) -> None:
        """Write a line, unless the last one is too recent."""
        now = time.monotonic()
        if view.address != self._address:
            self._address = view.address
            self._write(f"status page: {view.address}/")
        if view.doing != self._doing:
            self._write(view.doing)
            self._doing = view.doing
        elif view.answered and now >= self._due:
            self._write(line(view))
        else:
            return
        self._due = now + _LINE_SECONDS

    def _write(self, text: str) -> None:
        self._console.print(text, soft_wrap=True, highlight=False, markup=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close nothing, because nothing is open."""


class NullScreen:
    """Shows nothing, for whoever wants the result only."""

    def show(self, view: View) -> None:
        """Ignore the state: there is no terminal to show it on."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close nothing, because nothing is open."""


def line(view: View) -> str:
    """Return how a run stands, in a line."""
    recent = view.reading.recent
    return (
        f"{view.answered:>9,} of {view.examples:,} predictions  {view.per_second:>7,.0f}/s  "
        f"lag {view.reading.lag:>6,}  epochs {view.epochs}  parents {sum(view.reading.parents):>3}  "
        f"recent loss: apple {_loss(recent.apple)}, linear {_loss(recent.linear)}"
    )


def picture(view: View, width: int) -> RenderableType:
    """Return how a run stands, as a picture `width` characters wide."""
    if not view.curve:
        return Group(*_title(), Text(f"{view.doing} ...", "bold"), _page(view))
    return Group(*_title(), *_chart(view, width), Text(), _facts(view, width))


def _title() -> tuple[Text, ...]:
    return Text("stream-apple demo", "bold"), Text(_EXPLANATION, _QUIET), Text()


def _chart(view: View, width: int) -> list[Text]:
    linear = Curve([(point.examples / view.examples, point.losses.linear) for point in view.curve], LINEAR)
    apple = Curve([(point.examples / view.examples, point.losses.apple) for point in view.curve], APPLE)
    shown = range_of([linear, apple])
    inner = width - _AXIS_WIDTH - 1
    lines = [Text.assemble("loss of the last 10,000 or so examples:  ", ("linear", LINEAR), "  ", ("apple", APPLE))]
    for number, curve_line in enumerate(draw([linear, apple], shown, inner, _PLOT_HEIGHT)):
        value = shown.high - (shown.high - shown.low) * number / (_PLOT_HEIGHT - 1)
        label = f"{value:{_AXIS_WIDTH - 1}.3f} " if number % _LABEL_EVERY == 0 else " " * _AXIS_WIDTH
        lines.append(Text(label, _QUIET) + curve_line)
    return [*lines, Text(" " * _AXIS_WIDTH + _ticks(view.all_epochs, inner), _QUIET)]


def _ticks(epochs: int, width: int) -> str:
    """Return the axis of days: a mark where each begins."""
    starts = [width * day // epochs for day in range(epochs + 1)]
    days = (
        f"|day {day + 1}"[: stop - start].ljust(stop - start)
        for day, (start, stop) in enumerate(itertools.pairwise(starts))
    )
    return "".join(days)


def _facts(view: View, width: int) -> Table:
    reading = view.reading
    table = Table.grid(padding=(0, 2))
    table.add_column(style=_QUIET, no_wrap=True)
    table.add_column(no_wrap=True)
    share = Table.grid(padding=(0, 2))
    share.add_row(
        f"{view.answered:,} of {view.examples:,}",
        Bar(view.examples, 0, view.answered, width=max(8, width - 60), color="green", bgcolor="grey30"),
        f"{view.per_second:,.0f}/s",
        f"lag {reading.lag:,}",
    )
    table.add_row("predictions", share)
    table.add_row("epochs ended", f"{view.epochs}   parents chosen by them: {_parents(reading.parents)}")
    for name, style, recent, whole in (
        ("apple", APPLE, reading.recent.apple, reading.whole.apple),
        ("linear", LINEAR, reading.recent.linear, reading.whole.linear),
    ):
        table.add_row(Text(f"loss, {name}", style), f"{_loss(recent)} recently   {_loss(whole)} since the start")
    table.add_row("worker", view.doing)
    table.add_row("status page", _page(view))
    return table


def _page(view: View) -> Text:
    """Return the address of the status page, as a link in terminals that know links."""
    address = f"{view.address}/"
    return Text(address, f"bold underline link {address}") if view.address else Text()


def _parents(by_degree: tuple[int, ...]) -> str:
    return ", ".join(f"{count} {name}" for count, name in zip(by_degree, _DEGREES, strict=False) if count) or "none yet"


def _loss(value: float) -> str:
    return "   -  " if math.isnan(value) else f"{value:.4f}"


def summary(report: DemoReport) -> Text:
    """Return what was seen in the run, and what to try next."""
    result = report.result
    less = 1 - result.progressive_loss / result.linear_progressive_loss
    return Text.assemble(
        f"\n{result.predictions:,} predictions, one for each example, made before its label was learned.\n",
        "Mean loss: ",
        ("linear", LINEAR),
        f" {result.linear_progressive_loss:.4f}, ",
        ("apple", APPLE),
        f" {result.progressive_loss:.4f}, which is {less:.0%} less. ",
        f"In {result.epochs} epochs it chose {_parents(report.reading.parents)} to multiply.\n",
        ("The cluster was a toy inside this process and is gone; the worker was the real one.\n", _QUIET),
        "\nNext:\n",
        *(f"  {command:37} {what}\n" for command, what in _NEXT),
    )
