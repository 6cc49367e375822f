"""`stream-apple run`: the worker."""

import sys
from pathlib import Path

import click

from stream_apple import logs
from stream_apple.config import load


@click.command()
@click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    help="TOML file; without it, the defaults and STREAM_APPLE_<SECTION>__<KEY> variables.",
)
@click.option(
    "--log-format",
    type=click.Choice(["auto", "json", "human"]),
    default="auto",
    show_default=True,
    help="auto: human on a terminal, JSON elsewhere.",
)
def command(path: Path | None, log_format: logs.Format) -> None:
    """Learn from the examples topic and publish predictions, until stopped.

    Exits with 0 after SIGTERM or SIGINT. The other exit codes: 69 Kafka is unavailable, 70 records are
    gone from the topic, 71 too many rejected records, 72 the model is no longer finite, 73 its snapshot can not
    be used, 78 configuration.
    """
    config = load(path)
    logs.configure(log_format)
    from stream_apple.adapters.worker import run

    sys.exit(run(config))
