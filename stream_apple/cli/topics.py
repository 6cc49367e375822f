"""`stream-apple topics`: create the four topics, or compare existing ones with what is needed."""

import sys
from pathlib import Path

import click
from rich import box
from rich.console import Console
from rich.table import Table

from stream_apple.adapters.admin import Cluster
from stream_apple.adapters.topics import BROKER_DEFAULT, FOREVER, RETENTION_MS, Outcome, ensure
from stream_apple.config import load
from stream_apple.config.duration import format_duration, parse_duration
from stream_apple.errors import ConfigurationError

_WIDTH_OF_A_FILE = 200  # wide enough that no cell is broken in a log or a pipe
_FOREVER = "forever"


def _retention(_context: click.Context, _parameter: click.Parameter, value: str) -> int:
    if value == _FOREVER:
        return FOREVER
    try:
        found = parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(f"{error}, or {_FOREVER!r}") from None
    if found == 0:
        raise click.BadParameter("expected a duration above 0")
    return found


@click.command()
@click.option("--config", "path", type=click.Path(path_type=Path), help="TOML file.")
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    help="Partitions of each topic.  [default: as many as the examples topic has, else 1]",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(min=1),
    help="Replicas of each partition.  [default: the broker's own]",
)
@click.option(
    "--retention",
    callback=_retention,
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
    """Create the four topics, or compare existing ones with what is needed.

    Existing topics are never altered. Exits with 78 if one differs; then nothing is created either.
    """
    config = load(path)
    outcomes = ensure(
        Cluster(config.kafka),
        config.topics,
        partitions,
        BROKER_DEFAULT if replication_factor is None else replication_factor,
        retention,
        dry_run=dry_run,
    )
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH_OF_A_FILE
    console.print(_table(outcomes))
    if any(outcome.differences for outcome in outcomes):
        sys.exit(ConfigurationError.exit_code)


def _table(outcomes: list[Outcome]) -> Table:
    table = Table("topic", "partitions", "is", "property", "expected", "found", box=box.SIMPLE_HEAD)
    for outcome in outcomes:
        row: tuple[str, str, str] = (outcome.topic, str(outcome.partitions), outcome.verdict)
        if not outcome.differences:
            table.add_row(*row, "", "", "")
        for difference in outcome.differences:
            table.add_row(*row, difference.property, difference.expected, difference.found)
            row = ("", "", "")
    return table
