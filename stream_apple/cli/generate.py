"""`stream-apple generate`: the demo's clicks as live traffic, for a cluster that has none yet."""

from fractions import Fraction
from itertools import islice
from pathlib import Path

import click

from stream_apple.adapters.kafka.example_producer import RateLimiter, TopicWriter
from stream_apple.cli.options.parameters import duration
from stream_apple.cli.output import say
from stream_apple.config import load
from stream_apple.demo.traffic import traffic
from stream_apple.signals import Signals


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
    callback=duration(),
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
    say(
        f"sending {rate:g} examples a second to {writer.topic} over {writer.partitions} partitions; Ctrl-C stops",
        err=True,
    )
    with Signals() as signals:
        examples = islice(traffic(seed, day_ms, broken), limit)
        totals = writer.write(examples, RateLimiter(Fraction(rate)), signals.stopping)
    say(f"sent {totals.delivered:,} examples", err=True)
