"""`stream-apple verify`: learns the log again, and compares the result with what was published."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from stream_apple.cli.options.common import AS_JSON, CONFIG_OF_WORKERS, FROM_MODEL, PARTITIONS, load_with_model
from stream_apple.cli.options.parameters import WholeNumber
from stream_apple.cli.output import PrintableConsole, say, table_console
from stream_apple.cli.progress import PlainLines
from stream_apple.errors import UnprovedError, VerificationError
from stream_apple.stream.verification.partition_report import Published, Report, ReportProgress


@click.command()
@CONFIG_OF_WORKERS
@PARTITIONS
@click.option(
    "--to",
    type=WholeNumber(0),
    help="Verify the examples before this offset, of one --partition.  [default: all that are committed]",
)
@FROM_MODEL
@click.option(
    "--allow-unproved",
    is_flag=True,
    help="Exit with 0 in spite of answers that can't be proved, if at least one answer could be.",
)
@AS_JSON
def command(
    path: Path | None,
    partitions: tuple[int, ...],
    to: int | None,
    from_model: Path | None,
    *,
    allow_unproved: bool,
    as_json: bool,
) -> None:
    """Learn again what is in the log, and compare it with what was published.

    Every example needs one prediction, or one dead letter, equal byte for byte to that of a model that was never
    interrupted, and the newest snapshot must be this model's state. The topics may hold nothing else that readers would
    take for an answer: no second answer of any model, none without an example or in another partition, and nothing
    unreadable.

    It only reads the topics and the committed offsets; workers may go on. A partition whose first records are gone is
    learned from its newest snapshot on.

    Where models are merged, each partition passes the ends of rounds as recorded. If all partitions are verified, they
    are learned at the same time, with memory for a model of each, and every merged model is made again.

    Exits with 0 if every answer to the chosen examples was compared and is right; with 74 if there are faults; else
    with 76 if answers could not be proved, because examples, answers or merged models are gone: the report says how
    many, in which partitions, and why. Retention regularly causes that: --allow-unproved is for topics that are
    verified again and again.
    """
    if to is not None and len(partitions) != 1:
        raise click.UsageError("--to is an offset of one partition: name it with one --partition")
    # These import numba, for which `--help` and a mistyped option would wait.
    from stream_apple.app.verify import verify
    from stream_apple.monitoring.inspection import plain

    config = load_with_model(path, from_model)
    with _progress() as progress:
        reports = verify(config, partitions, to, progress)
    faults = sum(report.fault_count for report in reports)
    unproved = sum(report.unproved_count for report in reports)
    if as_json:
        facts = {"verified": not faults and not unproved, "unproved": unproved}
        say(json.dumps({**facts, "partitions": plain([report.facts() for report in reports])}))
    else:
        _show(reports, faults, unproved)
    if faults:
        wrong = [str(report.partition) for report in reports if report.fault_count]
        raise VerificationError(
            f"expected what a model publishes that is never interrupted, found {faults} faults in "
            f"{config.topics.examples}, partition {', '.join(wrong)}"
        )
    proved = sum(report.covered.records for report in reports)
    if unproved and not (allow_unproved and proved):
        lacking = [str(report.partition) for report in reports if report.unproved]
        raise UnprovedError(
            f"expected to compare every answer, found {unproved:,} that can't be proved in {config.topics.examples}, "
            f"partition {', '.join(lacking)}, beside {proved:,} records that are, and no fault"
        )


@contextmanager
def _progress() -> Iterator[ReportProgress]:
    """Yield a function that reports progress: a bar on a terminal, lines elsewhere."""
    console = PrintableConsole(stderr=True)
    if not console.is_terminal:
        lines = PlainLines()
        yield lambda done, total: lines.show(f"verify: {done:,} of {total:,} records", done, total)
        return
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("records"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _show(reports: list[Report], faults: int, unproved: int) -> None:
    console = table_console()
    columns = ("partition", "model", "learned from", "up to", "records", "predictions", "dead letters", "snapshot")
    table = Table(*columns, "faults", box=box.SIMPLE_HEAD)
    for report in reports:
        table.add_row(
            str(report.partition),
            report.model or "nothing committed",
            "" if report.covered.origin is None else f"{report.covered.start} ({report.covered.origin})",
            str(report.covered.stop),
            str(report.covered.records),
            _counted(report.predictions),
            _counted(report.dead_letters),
            _snapshot(report),
            str(report.fault_count),
        )
    console.print(table)
    for report in reports:
        _remarks(console, report)
    _verdict(console, reports, faults, unproved)


def _verdict(console: Console, reports: list[Report], faults: int, unproved: int) -> None:
    """Print the sums over all partitions, which a narrow terminal would break in the table."""
    records = sum(report.covered.records for report in reports)
    answers = sum(report.predictions.expected for report in reports)
    rejected = sum(report.dead_letters.expected for report in reports)
    console.print(
        f"verified: {records:,} records, {answers:,} predictions, {rejected:,} dead letters: "
        f"{f'{faults:,} faults' if faults else 'no faults'}{f'; {unproved:,} unproved' if unproved else ''}",
        soft_wrap=True,
    )
    made = next((report.made_again for report in reports if report.made_again is not None), None)
    if made is not None:
        unknown = f"; {made.unknown:,} could not be, because records of those in them are gone" if made.unknown else ""
        console.print(f"merged models: {made.matched:,} of {made.merges:,} made again{unknown}", soft_wrap=True)


def _counted(published: Published) -> str:
    found = published.matched + published.earlier
    gone = f", {published.gone} gone" if published.gone else ""
    return f"{found} of {published.expected}{gone}"


def _snapshot(report: Report) -> str:
    if report.snapshot is None:
        return "none"
    known = "not relearned" if report.relearned is None else "relearned"
    return f"{report.snapshot.digest[:8]} at {report.snapshot.at}, {known}"


def _remarks(console: Console, report: Report) -> None:
    """Print a line for each fact that the table has no room for."""

    def tell(text: str) -> None:
        console.print(f"partition {report.partition}: {text}", markup=False, soft_wrap=True)

    for each in report.unproved:
        tell(f"{each.answers:,} answers to examples from {each.start} to {each.stop} are not proved: {each.why}")
    if report.boundaries is not None:
        adopted, late, skipped = report.boundaries
        ends = adopted + late + skipped
        tell(f"passed the end of {ends} rounds: {adopted} in the merge, {late} late, {skipped} alone")
    for gap in report.gaps:
        tell(f"records from {gap.start} to {gap.stop} were left out: an operator has accepted the gap")
    for published, name in ((report.predictions, "predictions"), (report.dead_letters, "dead letters")):
        if published.foreign:
            tell(f"{published.foreign} other {name} are of other groups: they are not compared")
    for fault in report.faults:
        message = "" if fault.offset is None else f"@{fault.offset}"
        example = "" if fault.example is None else f", example {fault.example}"
        tell(f"{fault.kind}: {fault.topic}-{fault.partition}{message}{example}: {fault.text}")
    if report.fault_count > len(report.faults):
        tell(f"and {report.fault_count - len(report.faults)} faults more")
