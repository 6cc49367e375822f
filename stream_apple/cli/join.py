"""`stream-apple join`: the joiner."""

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

import click

from stream_apple import logs
from stream_apple.config import HttpSettings, conceal, load
from stream_apple.errors import StreamAppleError

_log = logs.get_logger()


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
def command(path: Path | None, log_format: logs.LogFormat) -> None:
    """Make examples of impressions and of the outcomes that come later, until stopped.

    Impressions wait in their topic for `join.wait`; what they then become is a function of the two topics. Several
    joiners of a group (join.group) share the partitions, each under a worker.id of its own.

    Exits with 0 after SIGTERM or SIGINT. The other exit codes: 69 Kafka is unavailable, 70 impressions are
    gone from the topic, 75 another process has started with this worker.id, 78 configuration.
    """
    logs.configure(log_format, conceal=conceal)
    logs.catch_crashes()
    try:
        sys.exit(_work(path, log_format))
    except StreamAppleError as error:
        if logs.is_human(log_format):
            raise  # the command line says it, as it does for every command
        # Whoever reads JSON gets the last words in JSON too.
        _log.error("failed", error=str(error), kind=type(error).__name__, exit_code=error.exit_code)
        sys.exit(error.exit_code)


def _work(path: Path | None, log_format: logs.LogFormat) -> int:
    from stream_apple.app.identity import named
    from stream_apple.signals import Signals

    config = load(path)
    config = named(config.model_copy(update={"worker": config.worker.of_group(config.join.group)}))
    logs.configure(
        log_format, {"group": config.worker.group, "worker": config.worker.id}, conceal, _sentences(config.http)
    )
    with Signals(_end, _log_request) as signals:
        from stream_apple.app.joiner import join_until_stopped

        return join_until_stopped(config, signals)


def _sentences(http: HttpSettings) -> dict[str, logs.Sentence]:
    """Return a sentence for each event that somebody at a terminal waits for; others are shown with their fields."""
    return {
        "started": lambda told: f"metrics are at {http.address(told['http_port'])}metrics",
        "join_live": lambda told: f"partition {told['partition']} joins impressions from offset {told['offset']:,} on",
    }


def _end() -> NoReturn:
    """Exit at once, there being nothing to finish yet."""
    os._exit(0)


def _log_request(first: signal.Signals) -> None:
    _log.info("stop_requested", signal=first.name)
