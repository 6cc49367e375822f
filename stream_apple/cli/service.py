"""The parts that commands share which work until they are stopped: options, exit codes, and signals."""

import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import click

from stream_apple import cli, logs
from stream_apple.cli.options.parameters import Decorator, option_group
from stream_apple.config import conceal
from stream_apple.core.compile_notice import tell_of_compiling
from stream_apple.errors import StreamAppleError

_log = logs.get_logger()


def service_options(file: str = "TOML file") -> Decorator:
    """Return a decorator that adds the options --config, as `path`, and --log-format.

    file  describes the file in the help of --config
    """
    return option_group(
        click.option(
            "--config",
            "path",
            type=click.Path(path_type=Path),
            help=f"{file}; without it, the defaults and STREAM_APPLE_<SECTION>__<KEY> variables.",
        ),
        click.option(
            "--log-format",
            type=click.Choice(["auto", "json", "human"]),
            default="auto",
            show_default=True,
            help="auto: human on a terminal, JSON elsewhere.",
        ),
    )


def exit_with(work: Callable[[], int], log_format: logs.LogFormat) -> NoReturn:
    """End the process with the code that `work` returns, or with that of the StreamAppleError that it raises."""
    logs.configure(log_format, conceal=conceal)
    logs.catch_crashes()
    tell_of_compiling(lambda: _log.info("compiling"))
    try:
        sys.exit(work())
    except StreamAppleError as error:
        if logs.is_human(log_format):
            raise  # `cli` prints the error, as for every command
        # A reader of JSON gets the last line in JSON, too.
        _log.error("failed", error=str(error), kind=type(error).__name__, exit_code=error.exit_code)
        cli.leave(error.exit_code)


def compiling(_told: Mapping[str, Any]) -> str:
    """Return what the event `compiling` is on a terminal."""
    return cli.COMPILING


def end_at_once() -> NoReturn:
    """Exit at once, as there is nothing to finish yet: a supervisor may stop a worker that still compiles."""
    # This is as safe as a crash. An exception would be raised in the middle of other code, and a constructor in C, such
    # as that of a Kafka client, would turn it into another error.
    _log.info("stopped")
    os._exit(0)


def log_request(first: signal.Signals) -> None:
    """Log that the process was asked to stop, and by which signal."""
    _log.info("stop_requested", signal=first.name)
