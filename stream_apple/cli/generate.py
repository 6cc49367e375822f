"""`stream-apple generate`: sends the demo's clicks as live traffic, for a cluster that has none yet."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from fractions import Fraction
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

import click

from stream_apple.adapters.kafka.example_producer import DeliveryTotals, RateLimiter, TopicWriter
from stream_apple.cli.options.common import CONFIG
from stream_apple.cli.options.parameters import WholeNumber, duration, parsed_by
from stream_apple.cli.output import say
from stream_apple.config import load
from stream_apple.demo.loop.asking import Asker
from stream_apple.demo.loop.judging import Judge
from stream_apple.demo.loop.site import Site
from stream_apple.demo.traffic import traffic
from stream_apple.signals import Signals

_REPORT_S = 10.0
_STOP_S = 0.1
_SHORTEST_DAY_MS, _LONGEST_DAY_MS = 100, 365 * 86_400_000  # the visitors' time since 1970 has 64 bits


def _address(value: str) -> str:
    try:
        parts = urlsplit(value)
        fits = parts.scheme == "http" and parts.hostname and parts.path in {"", "/"} and (parts.port or 1)
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"expected an address such as http://localhost:8080, found {value!r}")
    return value


@click.command()
@CONFIG
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
    callback=duration(least=_SHORTEST_DAY_MS, most=_LONGEST_DAY_MS),
    default="10m",
    show_default=True,
    metavar="DURATION",
    help="How long a day of the visitors lasts; what they click depends on its hours.",
)
@click.option(
    "--broken",
    type=click.FloatRange(min=0, max=1),
    default=0.0,
    show_default=True,
    help="Share of examples that no worker can use: they become dead letters.",
)
@click.option("--seed", type=WholeNumber(0), default=0, show_default=True, help="Seed of all random numbers.")
@click.option("--limit", type=WholeNumber(0), help="Stop after so many examples.  [default: never]")
@click.option(
    "--ask",
    "server",
    metavar="URL",
    callback=parsed_by(_address),
    help="Ask this `stream-apple serve` about each visit, and send impressions and late outcomes for `join`.",
)
def command(
    path: Path | None, rate: float, day_ms: int, broken: float, seed: int, limit: int | None, server: str | None
) -> None:
    """Send made-up clicks to the examples topic, until stopped.

    Their timestamps are the times at which they are sent. As in `stream-apple demo`, mostly pairs and triples of
    features decide a click, which a linear model does not see. Train with `learner.loss = "logistic"`.

    With --ask, clicks come late: each visit is an impression, in `join.impressions`, and each click an outcome, in
    `join.outcomes`, some time within `join.wait`. A line every ten seconds says how good the answers were.

    The first SIGINT or SIGTERM waits until all that was sent is acknowledged and ends with 0; the second does not wait.
    """
    if server and broken:
        raise click.UsageError("--broken: expected nothing beside --ask, whose server refuses what is broken")
    config = load(path)
    config.input.check_own_messages("try made-up clicks with a group and topics of their own, without that section")
    visits, limiter = islice(traffic(seed, day_ms, broken), limit), RateLimiter(Fraction(rate))
    topic, what = (config.join.impressions, "impressions") if server else (config.topics.examples, "examples")
    with Signals() as signals:
        writer = TopicWriter(config.kafka, topic)
        place = f"{writer.topic} over {writer.partitions} partitions"
        say(f"sending {rate:g} {what} a second to {place}; Ctrl-C stops", err=True)
        if server is None:
            totals = writer.write(visits, limiter, signals.stopping)
        else:
            with closing(Asker(server, config.served_as)) as asker:
                site = Site(visits, asker.ask, config.join.wait, seed)
                outcomes = TopicWriter(config.kafka, config.join.outcomes)
                totals = _run_site(site, writer, outcomes, limiter, signals.stopping)
    say(f"sent {totals.delivered:,} {what}", err=True)


def _run_site(
    site: Site, impressions: TopicWriter, outcomes: TopicWriter, limiter: RateLimiter, stop: Callable[[], bool]
) -> DeliveryTotals:
    """Send what happens on the site; return when all impressions have been sent, and all clicks or `stop()`."""
    with ThreadPoolExecutor(1) as pool, site:
        clicks = pool.submit(outcomes.write, site.outcomes(), RateLimiter(None), stop)
        report = _report_on(site)
        totals = impressions.write(site.impressions(), limiter, lambda: stop() or clicks.done(), report)
        while not stop() and not clicks.done():
            wait([clicks], _STOP_S)
        if clicks.done():
            clicks.result()  # raises the error of sending clicks, if there is one
    return totals


def _report_on(site: Site) -> Callable[[DeliveryTotals], None]:
    """Return a function that judges the answers whose outcome is known, and prints the judgement, if it is due."""
    judge, due = Judge(), time.monotonic() + _REPORT_S

    def report(_totals: DeliveryTotals) -> None:
        nonlocal judge, due
        for shown in site.decided():
            judge.take(shown)
        if time.monotonic() >= due:
            say(f"{site.asked:,} asked; {_how_good(judge)}", err=True)
            judge, due = Judge(), time.monotonic() + _REPORT_S

    return report


def _how_good(judge: Judge) -> str:
    (answers, constant), unanswered = judge.judgement(0), judge.unanswered(0)
    told = f"of the latest {judge.judged:,} decided, {unanswered:,} had no answer"
    if unanswered == judge.judged:
        return told
    return f"{told}, the others a loss of {answers:.4f}, the best constant {constant:z.4f}"
