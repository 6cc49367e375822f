"""`stream-apple tail`: shows predictions and dead letters, as any reader of the topics would find them."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args

import click

from stream_apple.app.tail import PublishedMessage, TailRequest, TailSource, tail
from stream_apple.cli.options.common import CONFIG
from stream_apple.cli.options.parameters import WholeNumber
from stream_apple.cli.output import say, utc_text
from stream_apple.config import load
from stream_apple.signals import Signals
from stream_apple.terminal import printable_line

_NEWEST = 10
_HEADER = (
    f"{'time (UTC)':23}  {'example':>14}  {'model':8}  {'prediction':>11}  {'label':>10}  {'loss':>10}  "
    "id, or what is wrong"
)
_MODEL_DIGITS = 8  # of a fingerprint: enough to tell models apart, and `--json` has the rest
_WITHOUT_A_TERMINAL = 300  # columns
_LONGEST_OFFSET = 18  # digits, so that it fits 64 bits
_OF_WORKERS: tuple[TailSource, ...] = ("predictions", "dead-letters")

_Start = Literal["newest", "beginning", "end"] | int


def _start(_context: click.Context, _parameter: click.Parameter, text: str | None) -> _Start:
    words: dict[str | None, _Start] = {None: "newest", "beginning": "beginning", "end": "end"}
    if text in words:
        return words[text]
    if text is not None and text.isascii() and text.isdigit() and len(text) <= _LONGEST_OFFSET:
        return int(text)
    raise click.BadParameter(f"expected `beginning`, `end` or an offset, found {text!r}")


@click.command()
@CONFIG
@click.option(
    "--only",
    type=click.Choice(get_args(TailSource)),
    help="One kind of message.  [default: predictions and dead letters of workers]",
)
@click.option(
    "--partition",
    "partitions",
    type=WholeNumber(0),
    multiple=True,
    help="Partition of the topics; may be repeated.  [default: all]",
)
@click.option(
    "--from",
    "start",
    callback=_start,
    metavar="beginning|end|OFFSET",
    help="Where to begin. OFFSET is an offset of the topic itself, and needs --only and one --partition.  "
    "[default: with the newest]",
)
@click.option(
    "--limit",
    type=WholeNumber(1),
    help=f"Show at most so many messages.  [default: the newest {_NEWEST}; with --from, no limit]",
)
@click.option("--follow", is_flag=True, help="Go on with what is published from now on, until stopped.")
@click.option("--json", "as_json", is_flag=True, help="Print each message as one line of JSON.")
def command(
    path: Path | None,
    only: TailSource | None,
    partitions: tuple[int, ...],
    start: _Start,
    limit: int | None,
    *,
    follow: bool,
    as_json: bool,
) -> None:
    """Show the predictions and dead letters that workers have published, or the dead letters of joiners (--only): the
    newest, or all from somewhere on.

    Only committed messages are shown (`isolation.level=read_committed`), in the order of each partition; the newest of
    several partitions in the order of their times. An example is shown as partition@offset of the examples topic, with
    its event time; a model by the first digits of its fingerprint, and by its group if that is another one. The first
    SIGINT or SIGTERM ends the command.
    """
    if isinstance(start, int) and (only is None or len(partitions) != 1):
        raise click.UsageError("--from OFFSET is of one log: name it with --only and one --partition")
    if start == "newest" and limit is None:
        limit = _NEWEST
    config = load(path)
    sources = _OF_WORKERS if only is None else (only,)
    request = TailRequest(sources, partitions, start, limit, follow)
    write = _write_json if as_json else _table_of(config.topics.examples, config.worker.group)
    shown = 0
    with Signals() as signals:
        for messages in tail(config, request, signals.stopping):
            if messages:
                write(messages)
            shown += len(messages)
    if not shown and not follow:
        say(f"stream-apple: there are no {' and no '.join(sources)} to show", err=True)
    sys.exit(signals.exit_code)


def _write_json(messages: list[PublishedMessage]) -> None:
    # The JSON is ASCII: other characters are escaped.
    say("\n".join(json.dumps(message.facts()) for message in messages))


def _table_of(examples: str, group: str) -> Callable[[list[PublishedMessage]], None]:
    """Return a function that prints rows, with a header before the first; rows don't name `examples` and `group`."""
    width = shutil.get_terminal_size((_WITHOUT_A_TERMINAL, 0)).columns if sys.stdout.isatty() else _WITHOUT_A_TERMINAL
    header = [_HEADER]

    def write(messages: list[PublishedMessage]) -> None:
        rows = [_row(message, examples, group, width) for message in messages]
        say("\n".join(header + rows))
        header.clear()

    return write


def _row(message: PublishedMessage, examples: str, group: str, width: int) -> str:
    told = message.told
    if message.kind == "prediction":
        remark = "" if told.get("id") is None else str(told["id"])
        if "probability" in told:
            remark = f"probability {told['probability']:.3g}  {remark}".rstrip()
    else:
        remark = f"{told.get('reason', message.kind)}: {told.get('message', '')}"
    numbers = (_number(told.get(name), width) for name, width in (("prediction", 11), ("label", 10), ("loss", 10)))
    model = printable_line(str(told.get("model", "-")))[:_MODEL_DIGITS]
    time = "-" if message.timestamp_ms is None else utc_text(message.timestamp_ms, "milliseconds")
    row = f"{time:23}  {_example(message, examples):>14}  {model:8}  {'  '.join(numbers)}  "
    remark = printable_line(remark if told.get("group") in {None, group} else f"(of group {told['group']}) {remark}")
    room = max(width - len(row), 20)
    return row + (remark if len(remark) <= room else f"{remark[: room - 1]}\u2026")


def _example(message: PublishedMessage, examples: str) -> str:
    """Return partition and offset, with the topic if it is not `examples`; the message's own if it names no example."""
    topic, partition, offset = message.example or message.place
    place = f"{partition}@{offset}"
    if message.example is None or topic != examples:
        place = f"{topic}-{place}"
    return printable_line(place)


def _number(value: Any, width: int) -> str:  # noqa: ANN401  whatever the message holds
    if isinstance(value, bool | str):
        return printable_line(str(value))[:width].rjust(width)
    return ("-" if value is None else f"{value:z.6g}").rjust(width)
