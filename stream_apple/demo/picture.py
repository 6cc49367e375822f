"""A run as a picture for a terminal, and as a line for where there is none."""

import itertools
import math
from operator import attrgetter

from rich.bar import Bar
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stream_apple.demo.plot import Curve, draw, range_of
from stream_apple.demo.state import DAYS, DemoReport, RunView, View

OWN, REFERENCE = "bold green", "yellow"
QUIET = "dim"
_PLOT_HEIGHT = 9
_LABEL_EVERY = 4
_AXIS_WIDTH = 6
MARGIN = _AXIS_WIDTH + 1
"""Characters beside the curves."""

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


def line(view: View) -> str:
    """Return how a run stands, in a line."""
    recent = view.reading.recent
    return (
        f"{view.answered:>9,} of {view.total:,} predictions  {view.per_second:>7,.0f}/s  "
        f"lag {view.reading.lag:>6,}  epochs {view.epochs}  parents {sum(view.reading.parents):>3}  "
        f"recent loss: apple {loss_text(recent.apple)}, linear {loss_text(recent.linear)}"
    )


def picture(view: View, width: int) -> RenderableType:
    """Return how a run stands, as a picture `width` characters wide."""
    top = heading("stream-apple demo", _EXPLANATION)
    if not view.curve:
        return Group(*top, Text(f"{view.doing} ...", "bold"), page_link(view.address))
    return Group(*top, *_chart(view, width), Text(), _facts(view, width))


def heading(command: str, explanation: str) -> tuple[Text, ...]:
    """Return what stands at the top of the picture."""
    return Text(command, "bold"), Text(explanation, QUIET), Text()


def _chart(view: View, width: int) -> list[Text]:
    about = Text.assemble("loss of the last 10,000 or so examples:  ", ("linear", REFERENCE), "  ", ("apple", OWN))
    return chart(about, view, _ticks(DAYS, width - MARGIN), width)


def chart(about: Text, view: RunView, axis: str, width: int) -> list[Text]:
    """Return a heading, both curves with numbers beside them, and the axis below, `width` - MARGIN characters long.

    Points whose value is NaN are left out: nothing was measured yet when they were taken.
    """
    drawn = [
        Curve([(at.done / view.total, loss(at)) for at in view.curve if not math.isnan(loss(at))], style)
        for loss, style in ((attrgetter("reference"), REFERENCE), (attrgetter("own"), OWN))
    ]
    shown = range_of(drawn)
    lines = [about]
    for number, curve_line in enumerate(draw(drawn, shown, width - MARGIN, _PLOT_HEIGHT)):
        value = shown.high - (shown.high - shown.low) * number / (_PLOT_HEIGHT - 1)
        label = f"{value:{_AXIS_WIDTH - 1}.3f} " if number % _LABEL_EVERY == 0 else " " * _AXIS_WIDTH
        lines.append(Text(label, QUIET) + curve_line)
    return [*lines, Text(" " * _AXIS_WIDTH + axis, QUIET)]


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
    table = facts_table()
    table.add_row("predictions", progress(view.answered, view.total, view.per_second, f"lag {reading.lag:,}", width))
    table.add_row("epochs ended", f"{view.epochs}   parents chosen by them: {parents_text(reading.parents)}")
    for name, style, recent, whole in (
        ("apple", OWN, reading.recent.apple, reading.whole.apple),
        ("linear", REFERENCE, reading.recent.linear, reading.whole.linear),
    ):
        table.add_row(
            Text(f"loss, {name}", style), f"{loss_text(recent)} recently   {loss_text(whole)} since the start"
        )
    table.add_row("worker", view.doing)
    table.add_row("status page", page_link(view.address))
    return table


def facts_table() -> Table:
    """Return an empty table of two columns: what, and how much."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style=QUIET, no_wrap=True)
    table.add_column(no_wrap=True)
    return table


def progress(done: int, of: int, per_second: float, remark: str, width: int) -> Table:
    """Return how far a count is, as numbers and as a bar, in a picture `width` characters wide."""
    share = Table.grid(padding=(0, 2))
    bar = Bar(of, 0, done, width=max(8, width - 60), color="green", bgcolor="grey30")
    share.add_row(f"{done:,} of {of:,}", bar, f"{per_second:,.0f}/s", remark)
    return share


def page_link(page: str) -> Text:
    """Return the address of the status page, as a link in terminals that know links."""
    address = f"{page}/"
    return Text(address, f"bold underline link {address}") if page else Text()


def parents_text(by_degree: tuple[int, ...]) -> str:
    """Return how many parents there are of each degree, in words."""
    return ", ".join(f"{count} {name}" for count, name in zip(by_degree, _DEGREES, strict=False) if count) or "none yet"


def loss_text(value: float) -> str:
    """Return a loss to four digits, or a dash before there is one."""
    return "   -  " if math.isnan(value) else f"{value:.4f}"


def summary(report: DemoReport) -> Text:
    """Return what was seen in the run, and what to try next."""
    result = report.result
    less = 1 - result.progressive_loss / result.linear_progressive_loss
    return Text.assemble(
        f"\n{result.predictions:,} predictions, one for each example, made before its label was learned.\n",
        "Mean loss: ",
        ("linear", REFERENCE),
        f" {result.linear_progressive_loss:.4f}, ",
        ("apple", OWN),
        f" {result.progressive_loss:.4f}, which is {less:.0%} less. ",
        f"In {result.epochs} epochs it chose {parents_text(report.reading.parents)} to multiply.\n",
        ("The cluster was a toy inside this process and is gone; the worker was the real one.\n", QUIET),
        "\nNext:\n",
        *(f"  {command:37} {what}\n" for command, what in _NEXT),
    )
