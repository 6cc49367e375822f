"""`stream-apple run`: the worker."""

import sys
from pathlib import Path

import click
import structlog

from stream_apple import logs
from stream_apple.config import conceal, load
from stream_apple.errors import StreamAppleError


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
    logs.configure(log_format, conceal=conceal)
    logs.catch_crashes()
    try:
        sys.exit(_work(path, log_format))
    except StreamAppleError as error:
        if logs.is_human(log_format):
            raise  # the command line says it, as it does for every command
        # Whoever reads JSON gets the last words in JSON too.
        log = structlog.get_logger(__name__)
        log.error(  # noqa: TRY400  its message is for an operator: no traceback
            "failed", error=str(error), kind=type(error).__name__, exit_code=error.exit_code
        )
        sys.exit(error.exit_code)


def _work(path: Path | None, log_format: logs.Format) -> int:
    config = load(path)
    logs.configure(log_format, {"group": config.worker.group, "worker": config.worker.id}, conceal)
    from stream_apple.adapters.opening import open_up
    from stream_apple.adapters.signals import Signals

    with Signals() as signals:
        opening = open_up(config)
        # Numba comes with this one, and takes about as long as the fencing that has just begun.
        from stream_apple.adapters.worker import run

        return run(config, opening, signals)
