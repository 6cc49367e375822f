"""`stream-apple generate`: the demo's clicks as live traffic, for a cluster that has none yet."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import islice
from pathlib import Path
from types import FrameType

import click

from stream_apple.adapters.producing import EvenlySpaced, Pace, TopicWriter
from stream_apple.config import load
from stream_apple.config.duration import parse_duration
from stream_apple.demo.traffic import now_ms, traffic


def _day(_context: click.Context, _parameter: click.Parameter, value: str) -> int:
    try:
        found = parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if found == 0:
        raise click.BadParameter("expected a duration above 0")
    return found


@click.command()
@click.option("--config", "path", type=click.Path(path_type=Path), help="TOML file.")
@click.option(
    "--rate",
    type=click.FloatRange(min=0, max=1_000_000, min_open=True),
    default=1000.0,
    show_default=True,
    help="Examples a second.",
)
@click.option(
    "--day",
    "day_ms",
    callback=_day,
    default="10m",
    show_default=True,
    metavar="DURATION",
    help="In which a day of the visitors passes: what they click depends on its hours.",
)
@click.option(
    "--broken",
    type=click.FloatRange(min=0, max=1),
    default=0.0,
    show_default=True,
    help="Share of examples that no worker can use: they become dead letters.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of what is drawn.")
@click.option("--limit", type=click.IntRange(min=0), help="Stop after so many examples.  [default: never]")
def command(path: Path | None, rate: float, day_ms: int, broken: float, seed: int, limit: int | None) -> None:
    """Send made-up clicks to the examples topic, until stopped.

    Their timestamps are the time at which they are sent. What decides a click is the same as in `stream-apple demo`:
    mostly pairs and triples of features, which a linear model does not see. Train with `learner.loss = "logistic"`.

    The first SIGINT or SIGTERM waits for what was sent and ends with 0, the second does not wait.
    """
    config = load(path)
    writer = TopicWriter(config.kafka, config.topics.examples)
    click.echo(
        f"sending {rate:g} examples a second to {writer.topic} over {writer.partitions} partitions; Ctrl-C stops",
        err=True,
    )
    with _until_signalled() as stopped:
        examples = islice(traffic(seed, day_ms, broken), limit)
        # Every example has a timestamp of its own, so these are never used.
        unused = EvenlySpaced(now_ms(), Fraction(1))
        totals = writer.write(examples, unused, Pace(Fraction(rate)), stopped)
    click.echo(f"sent {totals.delivered:,} examples", err=True)


@contextmanager
def _until_signalled() -> Iterator[Callable[[], bool]]:
    """Whether SIGINT or SIGTERM has come; the second one has its usual effect."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    received: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        for each in numbers:
            signal.signal(each, signal.SIG_DFL)

    previous = {number: signal.signal(number, note) for number in numbers}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
