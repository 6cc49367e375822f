"""What commands share that work until they are stopped: their options, their last words, and what signals do."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeVar

import click

from stream_apple import cli, logs
from stream_apple.config import conceal
from stream_apple.errors import StreamAppleError

_log = logs.get_logger()
_C = TypeVar("_C", bound=Callable[..., object])


def service_options(file: str = "TOML file") -> Callable[[_C], _C]:
    """Return what adds the options --config, as `path`, whose `file` is described so, and --log-format."""
    config = click.option(
        "--config",
        "path",
        type=click.Path(path_type=Path),
        help=f"{file}; without it, the defaults and STREAM_APPLE_<SECTION>__<KEY> variables.",
    )
    log_format = click.option(
        "--log-format",
        type=click.Choice(["auto", "json", "human"]),
        default="auto",
        show_default=True,
        help="auto: human on a terminal, JSON elsewhere.",
    )
    return lambda command: config(log_format(command))


def exit_with(work: Callable[[], int], log_format: logs.LogFormat) -> NoReturn:
    """End the process with what `work` returns, or with the code of the StreamAppleError that it raises."""
    logs.configure(log_format, conceal=conceal)
    logs.catch_crashes()
    try:
        sys.exit(work())
    except StreamAppleError as error:
        if logs.is_human(log_format):
            raise  # the command line says it, as it does for every command
        # Whoever reads JSON gets the last words in JSON too.
        _log.error("failed", error=str(error), kind=type(error).__name__, exit_code=error.exit_code)
        cli.leave(error.exit_code)


def end_at_once() -> NoReturn:
    """Exit at once, there being nothing to finish yet: a supervisor may stop a worker that still compiles."""
    # As safe as a crash. An exception raised here would come up in the middle of whatever is being made, and a
    # constructor in C, such as that of a Kafka client, turns it into an error of its own.
    os._exit(0)


def log_request(first: signal.Signals) -> None:
    """Say that the process was asked to stop."""
    _log.info("stop_requested", signal=first.name)
