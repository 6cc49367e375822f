"""`stream-apple serve`: replicas of the models that answer over HTTP."""

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

import click

from stream_apple import logs
from stream_apple.cli.options.extra import needs_extra
from stream_apple.cli.options.from_model import FROM_MODEL, started_from_model
from stream_apple.config import conceal, load
from stream_apple.errors import StreamAppleError

_log = logs.get_logger()


@click.command()
@click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    help="TOML file, the workers' own; without it, the defaults and STREAM_APPLE_<SECTION>__<KEY> variables.",
)
@click.option(
    "--log-format",
    type=click.Choice(["auto", "json", "human"]),
    default="auto",
    show_default=True,
    help="auto: human on a terminal, JSON elsewhere.",
)
@FROM_MODEL
def command(path: Path | None, log_format: logs.LogFormat, from_model: Path | None) -> None:
    """Answer over HTTP with models that follow those of the workers, until stopped.

    POST /v1/models/GROUP:predict with {"instances": [{"features": {"price": 1.5}, "key": "u1"}]}, JSON or msgpack;
    GROUP is worker.group. Each answer names the partition and the offset of the model that gave it, by which
    `stream-apple score` makes it again. The process joins no group and writes nothing to Kafka: there may be any number
    of them. See docs/serving.md.

    Exits with 0 after SIGTERM or SIGINT; with 69 if Kafka can't be reached at the start, 78 for what is wrong with the
    configuration.
    """
    logs.configure(log_format, conceal=conceal)
    logs.catch_crashes()
    try:
        sys.exit(_serve(path, log_format, from_model))
    except StreamAppleError as error:
        if logs.is_human(log_format):
            raise  # the command line says it, as it does for every command
        _log.error("failed", error=str(error), kind=type(error).__name__, exit_code=error.exit_code)
        sys.exit(error.exit_code)


def _serve(path: Path | None, log_format: logs.LogFormat, from_model: Path | None) -> int:
    config = started_from_model(load(path), from_model)
    url = config.serve.address
    sentences: dict[str, logs.Sentence] = {
        "serving": lambda told: f"predictions: POST {url(told['http_port'])}v1/models/{config.worker.group}:predict"
    }
    logs.configure(log_format, {"group": config.worker.group}, conceal, sentences)
    from stream_apple.signals import Signals

    with Signals(_end, _log_request) as signals:
        with needs_extra("serve"):
            from stream_apple.app.serve import serve
        return serve(config, signals)


def _end() -> NoReturn:
    """Exit at once, there being nothing to finish yet."""
    os._exit(0)


def _log_request(first: signal.Signals) -> None:
    _log.info("stop_requested", signal=first.name)
