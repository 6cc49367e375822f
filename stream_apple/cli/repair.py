"""`stream-apple repair`: rebuild committed offsets that are lost, or whose notes another consumer has replaced."""

from pathlib import Path

import click
from rich import box
from rich.table import Table

from stream_apple.cli.options.common import CONFIG_OF_WORKERS, FROM_MODEL, load_with_model
from stream_apple.cli.output import say, table_console
from stream_apple.errors import ConfigurationError


@click.command()
@CONFIG_OF_WORKERS
@FROM_MODEL
@click.option("--yes", is_flag=True, help="Commit what the command shows.  [default: only show it]")
def command(path: Path | None, from_model: Path | None, *, yes: bool) -> None:
    """Rebuild offsets of the workers' group that are lost, or whose notes another consumer has replaced.

    If another consumer commits in the workers' group, `run` ends with 78. This command rebuilds the offset and the note
    of each such partition from the newest snapshot and the newest answers. Other partitions stay as they are.

    The group must have no members. Without --yes the command only shows what it would commit. It exits with 78, and
    commits nothing, if a partition lacks the evidence.
    """
    # These import numba and the Kafka client, for which `--help` would wait.
    from stream_apple.app.repair import carry_out, plan_repair

    config = load_with_model(path, from_model)
    repairs = plan_repair(config)
    table = Table("partition", "committed", "note", "evidence", "to commit", box=box.SIMPLE_HEAD)
    for number, found, text, committed in repairs:
        note = "damaged" if text else "" if found is None else "good"
        offset = "nothing" if found is None else str(found.offset)
        table.add_row(str(number), offset, note, text, committed and f"{committed.offset} {committed.metadata}")
    table_console().print(table)
    if lacking := [f"{config.topics.examples}-{each.partition}: {each.text}" for each in repairs if each.missing]:
        raise ConfigurationError(
            f"expected evidence of each damaged offset, found {'; '.join(lacking)}. Nothing was committed"
        )
    if not any(each.committed for each in repairs):
        say("nothing is damaged")
    elif yes:
        carry_out(config, repairs)
        say("committed, and read back")
    else:
        say("nothing was committed; with --yes the same command commits this")
