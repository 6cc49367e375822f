"""Shows a run of the loop: as a picture on a terminal, as a line elsewhere, and as a summary in the end."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stream_apple.demo.loop.loop_report import LoopReport, LoopView
from stream_apple.demo.picture import (
    MARGIN,
    OWN,
    REFERENCE,
    chart,
    facts_table,
    heading,
    loss_text,
    page_link,
    parents_text,
    progress,
)

_EXPLANATION = (
    "A site asks `serve` how likely a click is; the click, if any, comes seconds later. `join` makes an example of "
    "both, `run` learns it, and `serve` follows: watch the loss of its answers fall, judged when the outcome is known."
)
_NEXT = (
    ("docs/closed-loop.md", "the same on your own cluster"),
    ("stream-apple serve", "answers over HTTP"),
    ("stream-apple join", "labels that come later"),
)


def loop_line(view: LoopView) -> str:
    """Return how a run stands, in a line."""
    return (
        f"{view.asked:>7,} of {view.total:,} requests  {view.per_second:>5,.0f}/s  "
        f"p99 {view.latency.p99_ms:.1f} ms  outcomes waiting {view.undecided:>5,}  examples {view.examples:>7,}  "
        f"recent loss: answers {loss_text(view.recent.answers)}, constant {loss_text(view.recent.constant)}"
    )


def loop_picture(view: LoopView, width: int) -> RenderableType:
    """Return how a run stands, as a picture `width` characters wide."""
    top = heading("stream-apple demo --loop", _EXPLANATION)
    if not view.asked:
        return Group(*top, Text(f"{view.doing} ...", "bold"), page_link(view.address))
    return Group(*top, *_curves(view, width), Text(), _facts(view))


def _curves(view: LoopView, width: int) -> list[Text]:
    about = Text.assemble("loss when asked:  ", ("the best constant", REFERENCE), "  ", ("answers of serve", OWN))
    end = f"{view.total:,} requests"
    return chart(about, view, "0".ljust(width - MARGIN - len(end)) + end, width)


def _facts(view: LoopView) -> Table:
    table = facts_table()
    table.add_row("requests", progress(view.asked, view.total, view.per_second, "", 80))
    latency = view.latency
    unanswered = view.asked - view.answered
    table.add_row(
        "answers of serve",
        f"{view.answered:,} in {latency.median_ms:.1f} ms, p99 {latency.p99_ms:.1f} ms; {unanswered:,} without a model",
    )
    table.add_row(
        "their loss", f"{loss_text(view.recent.answers)} recently, a constant's {loss_text(view.recent.constant)}"
    )
    table.add_row(
        "outcomes waiting", f"{view.undecided:,} impressions undecided, {view.clicks_to_come:,} clicks to come"
    )
    table.add_row("examples learned", f"{view.examples:,}   parents: {parents_text(view.reading.parents)}")
    table.add_row("now", view.doing)
    table.add_row("status page", page_link(view.address))
    return table


def loop_summary(report: LoopReport) -> Text:
    """Return what was seen in the run, and what to try next."""
    result = report.result
    less = 1 - result.last_third_loss / result.last_third_constant_loss
    return Text.assemble(
        f"\n{result.requests:,} requests; `serve` answered {result.answered:,}, all since it had a model, in "
        f"{result.latency_median_ms:.1f} ms (median), {result.latency_p99_ms:.1f} ms (p99).\n",
        f"{result.clicks:,} were clicked, later; `join` made {result.examples:,} examples; `run` learned each once.\n",
        "Mean loss of the last third of answers: ",
        ("a constant", REFERENCE),
        f" {result.last_third_constant_loss:.4f}, ",
        ("serve", OWN),
        f" {result.last_third_loss:.4f}, which is {less:.0%} less.\n",
        ("The cluster was a toy inside this process and is gone; serve, join and run were the real ones.\n", "dim"),
        "\nNext:\n",
        *(f"  {command:37} {what}\n" for command, what in _NEXT),
    )
