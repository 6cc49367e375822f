"""`stream-apple repair`: rebuild committed offsets whose notes something else has replaced."""

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
    """Rebuild committed offsets whose notes something else has replaced.

    If another consumer commits in the workers' group, `run` ends with 78. This command rebuilds the offset and the note
    of each such partition from the newest snapshot and the newest answers. Other partitions stay as they are.

    The group must have no members. Without --yes the command only shows what it would commit. Exits with 78, and
    commits nothing, if a partition lacks the evidence.
    """
    # These import numba and the Kafka client, for which `--help` would wait.
    from stream_apple.app.repair import carry_out, plan_repair

    config = load_with_model(path, from_model)
    repairs = plan_repair(config)
    table = Table("partition", "committed", "note", "evidence", "to commit", box=box.SIMPLE_HEAD)
    for each in repairs:
        damaged = bool(each.committed or each.missing)
        table.add_row(
            str(each.partition),
            "nothing" if each.found is None else str(each.found.offset),
            "" if each.found is None else "damaged" if damaged else "good",
            each.evidence,
            "" if each.committed is None else f"{each.committed.offset} {each.committed.metadata}",
        )
    table_console().print(table)
    lacking = [f"{config.topics.examples}-{each.partition}: {each.missing}" for each in repairs if each.missing]
    if lacking:
        raise ConfigurationError(f"expected the evidence for each damaged note, {'; '.join(lacking)}. Nothing was done")
    if not any(each.committed for each in repairs):
        say("no note is damaged: nothing to do")
    elif yes:
        carry_out(config, repairs)
        say("committed, and read back")
    else:
        say("nothing was committed; with --yes the same command commits this")
