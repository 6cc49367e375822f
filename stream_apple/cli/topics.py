"""`stream-apple topics`: create the topics, or compare existing ones with what is needed."""

import sys
from pathlib import Path

import click
from rich import box
from rich.table import Table

from stream_apple.adapters.kafka.admin import Cluster
from stream_apple.adapters.kafka.topics import (
    BROKER_DEFAULT,
    FOREVER,
    RETENTION_MS,
    Difference,
    NeededTopics,
    TopicReport,
    alter,
    ensure,
)
from stream_apple.cli.options.common import CONFIG
from stream_apple.cli.options.parameters import duration
from stream_apple.cli.output import say, table_console
from stream_apple.config import load
from stream_apple.config.duration import format_duration
from stream_apple.errors import ConfigurationError

_MOST_PARTITIONS, _MOST_REPLICAS = 100_000, 10_000  # librdkafka's own bounds


@click.command()
@CONFIG
@click.option(
    "--partitions",
    type=click.IntRange(1, _MOST_PARTITIONS),
    help="Partitions of each topic but `merges`.  [default: as many as the examples topic has, else "
    "the impressions, else 1]",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1, _MOST_REPLICAS),
    help="Replicas of each partition.  [default: the broker's own]",
)
@click.option(
    "--retention",
    callback=duration(words={"forever": FOREVER}),
    default=None,
    metavar="DURATION",
    help="How long a record stays, by its own timestamp; the examples topic refuses one older than half of that. "
    "With `forever`, for histories, nothing is deleted or refused. With [join] at least a day longer than impressions "
    "wait.  "
    f"[default: {format_duration(RETENTION_MS)} for new topics, unchanged for existing ones]",
)
@click.option(
    "--alter",
    "altering",
    is_flag=True,
    help="Change existing topics, too, to these options and to what is needed. Partitions are added, never removed; "
    "a cleanup.policy and replicas are never changed.",
)
@click.option("--dry-run", is_flag=True, help="Let the broker check what would be done, but do nothing.")
def command(
    path: Path | None,
    partitions: int | None,
    replication_factor: int | None,
    retention: int | None,
    *,
    altering: bool,
    dry_run: bool,
) -> None:
    """Create the topics, or compare existing ones with what is needed, and with the options that are given.

    There are four topics, a fifth of one partition if `merge.mode` is on, and three more with a section [join].

    Existing topics are altered only with --alter. Exits with 78 if one differs, without doing anything.
    """
    config = load(path)

    def looked_at() -> list[TopicReport]:
        return ensure(
            Cluster(config.kafka),
            NeededTopics.of(config),
            partitions,
            BROKER_DEFAULT if replication_factor is None else replication_factor,
            retention,
            dry_run=dry_run,
        )

    reports = looked_at()
    if altering:
        reports = alter(Cluster(config.kafka), config.topics.examples, reports, dry_run=dry_run)
        if any(report.verdict == "altered" for report in reports):
            changed = {report.topic: report for report in reports if report.verdict == "altered"}
            reports = [changed.get(report.topic, report) for report in looked_at()]
    table_console().print(_table(reports))
    different = [each for report in reports if report.verdict == "different" for each in report.differences]
    if different:
        say(f"stream-apple: {_advice(different, altering=altering)}", err=True)
        sys.exit(ConfigurationError.exit_code)


def _advice(different: list[Difference], *, altering: bool) -> str:
    """Return a sentence that says what can be done about the differences."""
    stuck = sorted({each.property for each in different if not each.alterable()})
    if not stuck:
        return "nothing was done; with --alter the same command changes what is found to what is expected"
    rules = {"partitions": "partitions are added, with a larger --partitions and --alter, but never removed"}
    reasons = ", and ".join(rules.get(name, f"{name} can't be altered here") for name in stuck)
    advice = f"nothing was {'altered' if altering else 'done'}; {reasons}"
    return f"{advice}: name other topics in [topics], or mend them with Kafka's own tools"


def _table(reports: list[TopicReport]) -> Table:
    table = Table("topic", "partitions", "is", "property", "expected", "found", box=box.SIMPLE_HEAD)
    for report in reports:
        row: tuple[str, str, str] = (report.topic, str(report.partitions), report.verdict)
        if not report.differences:
            table.add_row(*row, "", "", "")
        for difference in report.differences:
            table.add_row(*row, difference.property, difference.expected, difference.found)
            row = ("", "", "")
    return table
