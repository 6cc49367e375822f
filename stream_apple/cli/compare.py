"""`stream-apple compare`: whether a challenger predicts better than the champion, on the same examples."""

import json
import math
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich import box
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from stream_apple import logs
from stream_apple.cli.options.parameters import parsed_by
from stream_apple.cli.output import number_or_dash, say, table_console, utc_text
from stream_apple.config import conceal, load
from stream_apple.signals import Signals

if TYPE_CHECKING:
    from stream_apple.app.comparison_server import ComparisonView
    from stream_apple.comparing.group_comparison import ComparisonReport
    from stream_apple.comparing.loss_comparison import LossStanding

_SHOWN_EPOCHS = 15
_LINE_S = 10.0
_TABLE_S = 1.0


def _since(text: str) -> int:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"expected a time such as 2026-11-24T14:00, found {text!r}") from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


@click.command()
@click.option(
    "--champion", required=True, type=click.Path(path_type=Path), help="TOML file of the group that is in use."
)
@click.option(
    "--challenger", required=True, type=click.Path(path_type=Path), help="TOML file of the group that may replace it."
)
@click.option(
    "--confidence",
    type=click.FloatRange(0.5, 1.0, min_open=False, max_open=True),
    default=0.95,
    show_default=True,
    help="Probability that no verdict on all examples is ever wrong, however often one looks.",
)
@click.option(
    "--since",
    "since_ms",
    callback=parsed_by(_since),
    metavar="TIME",
    help="Only examples from this event time on (UTC), to be chosen before looking.  [default: all]",
)
@click.option("--weights", "weighted", is_flag=True, help="Let importance weights count: reads the examples, too.")
@click.option("--follow", is_flag=True, help="Go on with what is published from now on, until stopped.")
@click.option(
    "--serve",
    "port",
    type=click.IntRange(0, 65_535),
    help="With --follow: metrics, probes and JSON on this port of the champion's http.host; 0 is any that is free.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; with --follow, one a line.")
def command(
    champion: Path,
    challenger: Path,
    confidence: float,
    since_ms: int | None,
    port: int | None,
    *,
    weighted: bool,
    follow: bool,
    as_json: bool,
) -> None:
    """Say which of two groups predicts better, over all and by epoch.

    It reads both predictions topics (read_committed), and pairs the predictions of each example. It compares their
    losses, which are those before the example was learned. The interval of the mean difference holds at all times at
    once: one may look at any time, and stop when there is a verdict. A group is called better only if the interval does
    not contain 0, which takes 2,000 pairs at least.

    Both groups must learn from the same examples topic, with the same loss. The workers need not do anything. See
    docs/comparing-models.md.

    Exits with 0, whichever is better, also after a signal; with 69 if Kafka does not answer, 78 if the two can't be
    compared, or if, with --follow, a topic is deleted or gets further partitions.
    """
    if port is not None and not follow:
        raise click.UsageError("--serve is for --follow: without it the command ends when all has been compared")
    # These import numba, for which `--help` and a mistyped option would wait.
    from stream_apple.app.compare import compare_groups
    from stream_apple.app.comparison_server import ComparisonView, serving
    from stream_apple.comparing.group_comparison import CompareRequest

    first, second = load(champion), load(challenger)
    request = CompareRequest(1.0 - confidence, weighted, since_ms, follow)
    names = (first.worker.group, second.worker.group)
    view = ComparisonView(first, second)
    with ExitStack() as opened:
        if port is not None:
            logs.configure("auto", conceal=conceal)
            found = opened.enter_context(serving(view, first.http.host, port))
            say(f"stream-apple: {first.http.address(found)}")
        signals = opened.enter_context(Signals())
        told = compare_groups(first, second, request, lambda: view.turned() or signals.stopping())
        _follow(told, view, names, as_json=as_json) if follow else _show_last(told, names, as_json=as_json)
    sys.exit(0)


def _show_last(found: "Iterator[ComparisonReport]", names: tuple[str, str], *, as_json: bool) -> None:
    """Print the last report, which is the newest one if a signal has come."""
    newest = deque(found, maxlen=1)
    if not newest:
        return
    if as_json:
        say(_in_json(newest[0], names))
    else:
        table_console().print(_table(newest[0], names))


def _follow(
    found: "Iterator[ComparisonReport]", view: "ComparisonView", names: tuple[str, str], *, as_json: bool
) -> None:
    """Show reports as they come, a table on a terminal and lines elsewhere; a changed verdict is shown at once."""
    console = table_console()
    with ExitStack() as opened:
        if console.is_terminal and not as_json:
            live, pause_s = opened.enter_context(Live(console=console, auto_refresh=False)), _TABLE_S
        else:
            live, pause_s = None, _LINE_S
        due, better = time.monotonic(), None
        for told in found:
            view.tell(told)
            standing = told.comparison.whole()
            if time.monotonic() >= due or standing.better != better:
                due, better = time.monotonic() + pause_s, standing.better
                if live is None:
                    say(_in_json(told, names) if as_json else _line(told))
                    sys.stdout.flush()
                else:
                    live.update(_table(told, names), refresh=True)


def _in_json(told: "ComparisonReport", names: tuple[str, str]) -> str:
    return json.dumps({"champion_group": names[0], "challenger_group": names[1], **told.facts()})


def _line(told: "ComparisonReport") -> str:
    return f"{_counts(told)}: {_verdict(told.comparison.whole())}"


def _table(told: "ComparisonReport", names: tuple[str, str]) -> Group:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("epoch")
    for name in ("pairs", "champion's loss", "challenger's loss", "gain", "\u00b1", "better"):
        table.add_column(name, justify="right")
    epochs = told.comparison.epochs()
    for epoch in list(epochs)[-_SHOWN_EPOCHS:]:
        table.add_row(str(epoch), *_cells(epochs[epoch]))
    table.add_section()
    table.add_row("all", *_cells(told.comparison.whole()))
    lines = [Text(f"champion {names[0]}, challenger {names[1]}: {_counts(told)}")]
    lines += [Text(f"  {remark}") for remark in _remarks(told)]
    return Group(*lines, table, Text(_verdict(told.comparison.whole()), "bold"))


def _cells(standing: "LossStanding") -> tuple[str, ...]:
    return (
        f"{standing.pairs:,}",
        number_or_dash(standing.champion_loss, ".6g"),
        number_or_dash(standing.challenger_loss, ".6g"),
        number_or_dash(standing.gain, "+.2%"),
        number_or_dash(standing.gain_radius, ".2%"),
        standing.better or "not yet",
    )


def _counts(told: "ComparisonReport") -> str:
    return f"{told.comparison.whole().pairs:,} pairs" + ("" if told.complete else " so far")


def _remarks(told: "ComparisonReport") -> Iterator[str]:
    """Yield a remark for each kind of answers that are in no pair."""
    if told.comparison.unbounded:
        yield (
            f"{told.comparison.unbounded:,} examples have a loss that is infinite or no number: there is no verdict "
            f"with them; --since leaves them out"
        )
    for side, count in told.unpaired.items():
        if count and side != "weights":
            yield f"{count:,} answers of the {side} are to examples that the other has not answered"
    for side, count in told.waiting.items():
        if count and side != "weights":
            yield f"{count:,} answers of the {side} are ahead of the other's"
    if told.unlabelled:
        yield f"{told.unlabelled:,} examples have no label"
    if told.disputed:
        yield (
            f"{told.disputed:,} examples have another label for the challenger, and are left out: expected the same "
            f"input.label and input.label_map in both configurations"
        )
    for side, count in told.repeated.items():
        if count:
            yield f"{count:,} further answers of the {side} to the same example are left out"
    for side, count in told.unreadable.items():
        if count and side != "weights":
            yield f"{count:,} messages of the {side} are no predictions for these examples"


def _verdict(standing: "LossStanding") -> str:
    """Return a sentence that says which group is better, or that this is not known yet."""
    if standing.better is None:
        if math.isinf(standing.gain_radius):
            return "not yet"
        size = f"{'smaller' if standing.gain >= 0 else 'larger'} by {abs(standing.gain):.2%}"
        return f"not yet: the challenger's loss is {size} \u00b1 {standing.gain_radius:.2%}"
    gain = standing.gain if standing.better == "challenger" else -standing.gain
    since = "" if standing.since_ms is None else f", since {utc_text(standing.since_ms, 'minutes')} UTC"
    return f"{standing.better} is better by {gain:.2%} \u00b1 {standing.gain_radius:.2%} of the champion's loss{since}"
