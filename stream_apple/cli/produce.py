"""`stream-apple produce`: sends files of examples to a topic. Here are its options, progress and signals."""

import json
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.filesize import decimal
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from stream_apple.adapters.kafka.example_producer import DeliveryTotals, RateLimiter, TopicWriter
from stream_apple.cli.advice import tell_of_files, tell_of_short_epochs, tell_of_times
from stream_apple.cli.options.common import CONFIG
from stream_apple.cli.options.example_times import Times, time_of_day_ms, times_options
from stream_apple.cli.options.input_mapping import InputOptions, input_options
from stream_apple.cli.options.parameters import WholeNumber, gathered, parsed_by
from stream_apple.cli.output import PrintableConsole, say
from stream_apple.config import Config, load
from stream_apple.config.duration import format_duration
from stream_apple.core.timestamps import END_MS
from stream_apple.errors import InputFileError
from stream_apple.files import NO_TIMES, EventTimes, FileShape, TimeSpan
from stream_apple.files.input_stream import STDIN
from stream_apple.records.mapper import RecordMapper
from stream_apple.records.message.example import Example, encode_example
from stream_apple.records.times import time_text
from stream_apple.signals import Signals

_DEFAULT_INTERVAL_MS = Fraction(1)


class _Target(NamedTuple):
    """The options on where the examples go."""

    topic: str | None
    bootstrap_servers: str | None
    partitions: int | None

    def writer(self, config: Config, encode: Callable[[Example], bytes]) -> TopicWriter:
        """Return a writer to this target; the configuration gives what the options don't."""
        properties = dict(config.kafka)
        if self.bootstrap_servers is not None:
            properties["bootstrap.servers"] = self.bootstrap_servers
        topic = config.topics.examples if self.topic is None else self.topic
        return TopicWriter(properties, topic, self.partitions, encode)


class _Amount(NamedTuple):
    """The options on how many examples are sent, and how fast."""

    rate: Fraction | None
    limit: int | None
    repeat: int


def _rate(value: str) -> Fraction:
    try:
        rate = Fraction(value.removesuffix("/s"))
    except (ValueError, ZeroDivisionError):
        rate = Fraction(0)
    if rate <= 0:
        raise ValueError(f"expected a number of examples a second such as 500/s, found {value!r}")
    return rate


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option("--topic", help="Topic to write to.  [default: topics.examples of the configuration]")
@CONFIG
@click.option("--bootstrap-servers", metavar="HOST:PORT,...", help="Brokers, instead of the configuration's.")
@click.option(
    "--rate", callback=parsed_by(_rate), metavar="N/s", help="Examples a second.  [default: as fast as it goes]"
)
@click.option("--limit", type=WholeNumber(0), help="Stop after so many examples in all.")
@click.option("--partitions", type=WholeNumber(1), help="Send to the first N partitions only.  [default: all]")
@input_options
@click.option(
    "--key", default="", metavar="FIELD", help="Field of each record's key.  [default: the id, or the running number]"
)
@times_options(start="so that the last is now", interval="what --rate implies, else 1ms")
@click.option("--repeat", type=WholeNumber(1), default=1, help="Send the files N times.  [default: 1]")
@click.option("--quiet", is_flag=True, help="Print no progress and no summary.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as a JSON object.")
@gathered(target=_Target, amount=_Amount, times=Times, fields=InputOptions)
def command(
    files: tuple[Path, ...],
    path: Path | None,
    target: _Target,
    amount: _Amount,
    times: Times,
    fields: InputOptions,
    *,
    key: str,
    quiet: bool,
    as_json: bool,
) -> None:
    """Send files of examples to the examples topic.

    FILE holds svmlight, Vowpal Wabbit text, JSON lines, msgpack, CSV or Parquet, which is detected from its content;
    all but Parquet may be gzipped; - is standard input.

    Examples are sent as messages of the product's own. If the configuration has a section `input`, records are sent
    that workers read by it.

    An example's key is its id, or its running number if it has none, or what --key names; it goes to the key's
    partition, by the rule of Kafka's own clients. Example i, counted over all files from 0, has the timestamp
    start + i * interval, unless --timestamp gives its own. By default the start is so early that the last example
    has the present time. With --rate alone, and without options for a pipe, the times are those of sending.

    Kafka's retention goes by these times: if the topic would refuse examples, or delete them within minutes, an error
    says so before anything is sent. `stream-apple topics --retention forever --alter` prepares the topic for old times.

    The first SIGINT or SIGTERM stops reading and waits until all that was sent is acknowledged; the second does not
    wait.
    """
    config = load(path)
    shape, mapped = fields.shape(config.input), config.input.mapping() is not None
    if mapped and fields.typed:
        raise click.UsageError(
            f"{fields.typed[0]}: expected no such option where the configuration has a section `input`, by which "
            "workers read the records that are sent"
        )
    _check(files, amount, times, shape)
    read = partial(_read, files, shape=shape, key=key, with_records=mapped)
    from stream_apple.records.outer_record import packed_record

    mapper = RecordMapper(shape.mapping)
    writer = target.writer(
        config, (lambda each: packed_record(each.record or {}, mapper)) if mapped else encode_example
    )
    with Signals() as signals, _progress(amount.limit, shown=not quiet) as report:
        event_times, span = _plan(files, amount, times, shape, read, signals)
        if span.first_ms is not None and span.last_ms is not None and not signals.stopping():
            writer.check_times(span.first_ms, span.last_ms)
            examples_each = -(-span.examples // writer.partitions)
            epochs = min((span.last_ms - span.first_ms) // config.epochs.length, examples_each)
            tell_of_short_epochs(config.epochs.length, examples_each, epochs, 'epochs.length = "{}" for the worker')
        examples = islice(read(amount.repeat, event_times), amount.limit)
        started = time.monotonic()
        totals = writer.write(signals.until_first(examples), RateLimiter(amount.rate), signals.stopping, report)
    if not signals.stopping():
        tell_of_files(shape)
    summary = _summary(writer, totals, time.monotonic() - started, interrupted=signals.stopping())
    sent = span if event_times.spaced is None else event_times.spaced.span(totals.delivered)
    known = not (summary["interrupted"] and event_times.spaced is None)
    summary["start_time_ms"] = None if event_times.spaced is None else event_times.spaced.start_ms
    summary["first_time_ms"], summary["last_time_ms"] = sent[1:] if known else (None, None)
    if as_json:
        say(json.dumps(summary))
    elif not quiet:
        say(_sentence(summary))
    sys.exit(signals.exit_code)


def _check(files: tuple[Path, ...], amount: _Amount, times: Times, shape: FileShape) -> None:
    """Raise click.UsageError for options that contradict each other."""
    times.check(shape.mapping.timestamp)
    if shape.mapping.timestamp and amount.repeat > 1:
        raise click.UsageError("--repeat with --timestamp would send the same times again, as late examples")
    if STDIN in files and (amount.repeat > 1 or files.count(STDIN) > 1):
        raise click.UsageError("standard input can be read once only")
    if times.interval is not None and times.start_time is None and any(map(_passes_once, files)):
        raise click.UsageError(
            "--interval ends its times now, for which the examples are counted first, and a pipe passes once: "
            "expected --start-time as well, such as -14h"
        )


def _passes_once(file: Path) -> bool:
    """Return whether the file is a pipe, or another one that can't be read a second time."""
    try:
        return file == STDIN or not (file.is_dir() or stat.S_ISREG(file.stat().st_mode))
    except OSError:
        return False  # reading the file will raise an error that says what is wrong


def _plan(
    files: tuple[Path, ...],
    amount: _Amount,
    times: Times,
    shape: FileShape,
    read: Callable[[int, EventTimes], Iterator[Example]],
    signals: Signals,
) -> tuple[EventTimes, TimeSpan]:
    """Return the times of the examples, and their span as far as it is known before sending.

    Files, but no pipes, are read to the end for that.

    read  returns the examples, given how often and the rule for their times

    InputFileError for a file that can't be read to its end, UsageError for a span outside of the calendar.
    """
    event_times = NO_TIMES
    if not shape.mapping.timestamp:
        interval_ms = _DEFAULT_INTERVAL_MS if amount.rate is None else 1000 / amount.rate
        event_times = times.event_times(time_of_day_ms(), interval_ms)
    of_sending = times == Times(None, None) and not shape.mapping.timestamp
    if any(map(_passes_once, files)):
        if of_sending and amount.rate is None:
            return NO_TIMES, TimeSpan()
        return event_times, TimeSpan() if event_times.spaced is None else event_times.spaced.span(1)
    if of_sending and amount.rate is not None:
        return event_times, TimeSpan()
    try:
        found = TimeSpan.of(signals.until_first(islice(read(1, event_times), amount.limit)))
    except InputFileError as error:
        raise InputFileError(f"{error}; nothing was sent") from None
    if event_times.spaced is None:
        return event_times, found
    tell_of_times(shape, "with --timestamp {}, examples have their own times, and not made-up ones")
    count = found.examples * amount.repeat
    count = count if amount.limit is None else min(count, amount.limit)
    spaced = (
        event_times.spaced if times.start_time is not None else event_times.spaced.ending_at(time_of_day_ms(), count)
    )
    first_ms, last_ms = spaced.at(0), spaced.at(max(0, count - 1))
    if not 0 < first_ms <= last_ms < END_MS:
        raise click.UsageError(
            f"expected times from 1970 to 9999, found {count} examples, {format_duration(round(spaced.interval_ms))} "
            "apart, that reach further: choose a shorter --interval, or another --start-time"
        )
    return EventTimes(spaced), spaced.span(count)


def _read(
    files: tuple[Path, ...], repeat: int, times: EventTimes, shape: FileShape, key: str, *, with_records: bool
) -> Iterator[Example]:
    number = 0
    for _ in range(repeat):
        for file in files:
            for example in times.examples(file, number, shape, key, with_records=with_records):
                yield example
                number += 1


@contextmanager
def _progress(limit: int | None, *, shown: bool) -> Iterator[Callable[[DeliveryTotals], None]]:
    console = PrintableConsole(stderr=True)
    if not (shown and console.is_terminal):
        yield lambda _: None
        return
    columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.fields[done]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=limit, done="")

        def report(totals: DeliveryTotals) -> None:
            done = f"{totals.delivered:,} examples, {decimal(totals.bytes)}"
            progress.update(task, completed=totals.delivered, done=done)

        yield report


def _summary(writer: TopicWriter, totals: DeliveryTotals, seconds: float, *, interrupted: bool) -> dict[str, Any]:
    return {
        "topic": writer.topic,
        "partitions": writer.partitions,
        "examples": totals.delivered,
        "bytes": totals.bytes,
        "seconds": round(seconds, 3),
        "examples_per_second": round(totals.delivered / seconds, 1),
        "interrupted": interrupted,
    }


def _sentence(summary: dict[str, Any]) -> str:
    first, last = summary["first_time_ms"], summary["last_time_ms"]
    return (
        f"{'interrupted; ' if summary['interrupted'] else ''}sent {summary['examples']:,} examples "
        f"({decimal(summary['bytes'])}) to {summary['topic']} over {summary['partitions']} partitions "
        f"in {summary['seconds']:.1f} s: {summary['examples_per_second']:,.0f} examples/s"
        + (f"; their times: {time_text(first)} to {time_text(last)}" if first is not None and last is not None else "")
    )
