"""`stream-apple produce`: files of examples -> a topic. Options, progress and signals; `adapters` sends."""

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import islice
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import click
from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from stream_apple.adapters.producing import EvenlySpaced, Pace, TopicWriter, Totals, silent
from stream_apple.config import load
from stream_apple.config.duration import parse_duration
from stream_apple.core.examples import Example
from stream_apple.files import Fault, milliseconds, read_examples
from stream_apple.files.source import STDIN

_DEFAULT_INTERVAL_MS = Fraction(1)


def _rate(_context: click.Context, _parameter: click.Parameter, value: str | None) -> Fraction | None:
    if value is None:
        return None
    try:
        rate = Fraction(value.removesuffix("/s"))
    except (ValueError, ZeroDivisionError):
        rate = Fraction(0)
    if rate <= 0:
        raise click.BadParameter(f"expected a number of examples a second such as 500/s, found {value!r}")
    return rate


def _start(_context: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    try:
        return None if value is None else milliseconds(value)
    except Fault as fault:
        raise click.BadParameter(str(fault)) from None


def _interval(_context: click.Context, _parameter: click.Parameter, value: str | None) -> Fraction | None:
    try:
        return None if value is None else Fraction(parse_duration(value))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option("--topic", help="Topic to write to.  [default: topics.examples of the configuration]")
@click.option("--config", "path", type=click.Path(path_type=Path), help="TOML file.")
@click.option("--bootstrap-servers", metavar="HOST:PORT,...", help="Brokers, instead of the configuration's.")
@click.option("--rate", callback=_rate, metavar="N/s", help="Examples a second.  [default: as fast as it goes]")
@click.option("--limit", type=click.IntRange(min=0), help="Stop after so many examples in all.")
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    help="Spread over the first N only.  [default: all the topic has]",
)
@click.option(
    "--timestamp-field",
    metavar="NAME",
    help="Key that holds each example's time: ms or s since 1970, or ISO 8601 (JSON lines and msgpack).",
)
@click.option("--start-time", callback=_start, metavar="TIME", help="Time of the first example.  [default: now]")
@click.option(
    "--interval",
    callback=_interval,
    metavar="DURATION",
    help="Time from one example to the next, such as 20ms.  [default: what --rate implies, else 1ms]",
)
@click.option("--repeat", type=click.IntRange(min=1), default=1, help="Send the files N times.  [default: 1]")
@click.option("--quiet", is_flag=True, help="No progress, no summary.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as a JSON object.")
def command(
    files: tuple[Path, ...],
    topic: str | None,
    path: Path | None,
    bootstrap_servers: str | None,
    rate: Fraction | None,
    limit: int | None,
    partitions: int | None,
    timestamp_field: str | None,
    start_time: int | None,
    interval: Fraction | None,
    repeat: int,
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    """Send files of examples to the examples topic.

    FILE is svmlight, Vowpal Wabbit text, JSON lines or msgpack, gzipped or not, told apart by content; - is
    standard input.

    An example's key is its id, or its running number if it has none; it goes to the key's partition, by the
    rule of Kafka's own clients. Example i, counted over all files from 0, has the timestamp
    start + i * interval, unless --timestamp-field gives its own.

    Kafka's retention goes by these times: a topic that keeps a week deletes older examples within minutes, so
    give it retention.ms=-1 before sending a history.

    The first SIGINT or SIGTERM stops reading and waits for what was sent, the second does not wait.
    """
    if timestamp_field is not None and (start_time is not None or interval is not None):
        raise click.UsageError(
            "--timestamp-field takes each time from the file: --start-time and --interval do not apply"
        )
    if timestamp_field is not None and repeat > 1:
        raise click.UsageError("--repeat with --timestamp-field would send the same times again, as late examples")
    if STDIN in files and (repeat > 1 or files.count(STDIN) > 1):
        raise click.UsageError("standard input can be read once only")
    config = load(path)
    properties = dict(config.kafka)
    if bootstrap_servers is not None:
        properties["bootstrap.servers"] = bootstrap_servers
    writer = TopicWriter(properties, config.topics.examples if topic is None else topic, partitions)
    if interval is None:
        interval = _DEFAULT_INTERVAL_MS if rate is None else 1000 / rate
    timestamps = EvenlySpaced(time.time_ns() // 1_000_000 if start_time is None else start_time, interval)
    examples = islice(_read(files, repeat, timestamp_field), limit)
    started = time.monotonic()
    with _Signals() as signals, _progress(limit, shown=not quiet) as report:
        totals = writer.write(signals.guard(examples), timestamps, Pace(rate), signals.stopping, report)
    summary = _summary(writer, totals, time.monotonic() - started, interrupted=signals.stopping())
    if as_json:
        click.echo(json.dumps(summary))
    elif not quiet:
        click.echo(_sentence(summary))
    if totals.without_features:
        click.echo(
            f"stream-apple: {totals.without_features} of the examples have no features: workers reject those",
            err=True,
        )
    if signals.received is not None:
        sys.exit(128 + signals.received)


def _read(files: tuple[Path, ...], repeat: int, timestamp_field: str | None) -> Iterator[Example]:
    for _ in range(repeat):
        for file in files:
            yield from read_examples(file, timestamp_field)


class _Signals:
    """SIGINT and SIGTERM, which must not break into the sending: its counts would be wrong."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._reading = False
        self._previous: dict[int, Any] = {}

    def stopping(self) -> bool:
        return self.received is not None

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        again = self.received is not None
        self.received = number
        if again or self._reading:
            raise KeyboardInterrupt

    def guard(self, examples: Iterator[Example]) -> Iterator[Example]:
        """`examples`, ended by a signal even while the next one is waited for (a silent pipe)."""
        while True:
            try:
                self._reading = True
                example = next(examples, None)
            except KeyboardInterrupt:
                return
            finally:
                self._reading = False
            if example is None:
                return
            yield example


@contextmanager
def _progress(limit: int | None, *, shown: bool) -> Iterator[Callable[[Totals], None]]:
    console = Console(stderr=True)
    if not (shown and console.is_terminal):
        yield silent
        return
    columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.fields[done]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=limit, done="")

        def report(totals: Totals) -> None:
            done = f"{totals.delivered:,} examples, {decimal(totals.bytes)}"
            progress.update(task, completed=totals.delivered, done=done)

        yield report


def _summary(writer: TopicWriter, totals: Totals, seconds: float, *, interrupted: bool) -> dict[str, Any]:
    return {
        "topic": writer.topic,
        "partitions": writer.partitions,
        "examples": totals.delivered,
        "bytes": totals.bytes,
        "seconds": round(seconds, 3),
        "examples_per_second": round(totals.delivered / seconds, 1),
        "without_features": totals.without_features,
        "interrupted": interrupted,
    }


def _sentence(summary: dict[str, Any]) -> str:
    return (
        f"{'interrupted; ' if summary['interrupted'] else ''}sent {summary['examples']:,} examples "
        f"({decimal(summary['bytes'])}) to {summary['topic']} over {summary['partitions']} partitions "
        f"in {summary['seconds']:.1f} s: {summary['examples_per_second']:,.0f} examples/s"
    )
