"""`stream-apple topics`: create the topics, or compare existing ones with what is needed."""

import sys
from pathlib import Path

import click
from rich import box
from rich.table import Table

from stream_apple.adapters.kafka.admin import Cluster
from stream_apple.adapters.kafka.topics import BROKER_DEFAULT, FOREVER, RETENTION_MS, TopicReport, ensure
from stream_apple.cli.options.parameters import duration
from stream_apple.cli.output import table_console
from stream_apple.config import load
from stream_apple.config.duration import format_duration
from stream_apple.errors import ConfigurationError


@click.command()
@click.option("--config", "path", type=click.Path(path_type=Path), help="TOML file.")
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    help="Partitions of each topic but `merges`.  [default: as many as the examples topic has, else 1]",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(min=1),
    help="Replicas of each partition.  [default: the broker's own]",
)
@click.option(
    "--retention",
    callback=duration(words={"forever": FOREVER}),
    default=format_duration(RETENTION_MS),
    show_default=True,
    metavar="DURATION",
    help="How long a record stays, by its own timestamp; the examples topic refuses one older than half of that. "
    "`forever` for histories: nothing is deleted or refused.",
)
@click.option("--dry-run", is_flag=True, help="Let the broker check the creation, create nothing.")
def command(
    path: Path | None, partitions: int | None, replication_factor: int | None, retention: int, *, dry_run: bool
) -> None:
    """Create the topics, or compare existing ones with what is needed.

    Four topics, and a fifth of one partition where `merge.mode` is on.

    Existing topics are never altered. Exits with 78 if one differs; then nothing is created either.
    """
    config = load(path)
    reports = ensure(
        Cluster(config.kafka),
        config.topics,
        partitions,
        BROKER_DEFAULT if replication_factor is None else replication_factor,
        retention,
        config.limits.max_record_bytes,
        merging=config.merging,
        dry_run=dry_run,
    )
    table_console().print(_table(reports))
    if any(report.differences for report in reports):
        sys.exit(ConfigurationError.exit_code)


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
