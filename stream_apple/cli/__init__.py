"""The command line: one module per command, loaded only when that command is called.

Several commands share `options`, which has kinds and groups of options, and `output.py`, which prints tables and
untrusted text.

Commands import kernels when they begin their work, as `--help` and a mistyped option must answer at once.
Errors that a user can act on end here as one message on stderr and an exit code.
"""

import errno
import gc
import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import click

from stream_apple.cli.standard_streams import spell_what_can_not_be_encoded, stand_in_for_closed
from stream_apple.core.compile_notice import tell_of_compiling
from stream_apple.errors import StreamAppleError
from stream_apple.nearest_names import nearest_names
from stream_apple.signals import noting_interrupts

SUMMARIES = {
    "run": "Learn from the examples topic and publish predictions, until stopped.",
    "serve": "Answer over HTTP with models that follow those of the workers, until stopped.",
    "join": "Make examples of impressions and of outcomes that come later, until stopped.",
    "topics": "Create the topics, or compare existing ones with what is needed.",
    "check": "Check the configuration against the live cluster.",
    "repair": "Rebuild offsets of the workers' group that are lost, or whose notes another consumer has replaced.",
    "verify": "Learn again what is in the log, and compare it with what was published.",
    "score": "Score instances by a model as it was at any offset: what was served, made again.",
    "inspect": "Show what a model has found: monomials by name, parents and their children.",
    "explain": "Show a published prediction as a sum: what each feature added to it.",
    "compare": "Say which of two groups predicts better, and whether that is sure.",
    "merge": "Make one model of several that are saved in files.",
    "tail": "Show the predictions and dead letters that have been published.",
    "produce": "Send a file of examples to the examples topic.",
    "evaluate": "Learn from a file without Kafka and print the progressive loss.",
    "generate": "Send made-up clicks to the examples topic, until stopped.",
    "compile": "Compile every kernel into the cache on disk, for images.",
    "demo": "Run everything on a cluster inside this process: nothing to install.",
}
"""Command -> its line in `--help`; the command is the function `command` of the module with its name."""

COMPILING = "compiling what the cache does not have, for up to a minute; `stream-apple compile` does it beforehand"
"""What people are told while a command seems to do nothing."""

INTERRUPTED = 130  # 128 + SIGINT, as shells report it

_MORE_THAN_IMPORTS_MAKE = 200_000
"""Objects. None of those that imports make is ever garbage: to look among them takes a tenth of a second."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        return list(SUMMARIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  click's signature
        if cmd_name not in SUMMARIES:
            return None
        command: click.Command = importlib.import_module(f"{__name__}.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's signature
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        near = [] if args[0] in SUMMARIES else nearest_names(args[0], SUMMARIES)
        if near:
            ctx.fail(f"No such command {args[0]!r}; the nearest one is {near[0]!r}.")
        try:
            return super().resolve_command(ctx, args)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)

    def main(self, *arguments: Any, **settings: Any) -> Any:  # noqa: ANN401  click's signature
        stand_in_for_closed()
        spell_what_can_not_be_encoded()
        with _collecting_seldom(), noting_interrupts() as interrupted:
            try:
                return super().main(*arguments, **settings)
            except SystemExit as ended:
                leave(ended.code)
            except Exception as error:
                if interrupted():
                    leave(INTERRUPTED)
                if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
                    _leave_full_output(error)  # of a help page or a version, which click prints itself
                if not settings.get("standalone_mode", True):
                    raise
                crash(error)

    def invoke(self, ctx: click.Context) -> object:
        tell_of_compiling(_tell_people)
        try:
            return super().invoke(ctx)
        except StreamAppleError as error:
            from stream_apple.cli.output import say
            from stream_apple.config import conceal

            say(conceal(f"stream-apple: {error}"), err=True)
            leave(error.exit_code)
        except KeyboardInterrupt:
            leave(INTERRUPTED)


def _tell_people() -> None:
    """Say that this process compiles, if standard error is a terminal."""
    if sys.stderr.isatty():
        from stream_apple.cli.output import say

        say(COMPILING, err=True)


@contextmanager
def _collecting_seldom() -> Iterator[None]:
    """Let Python's garbage collector wait for many new objects; afterwards for as many as before."""
    before = gc.get_threshold()
    gc.set_threshold(_MORE_THAN_IMPORTS_MAKE)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _leave_full_output(error: OSError) -> NoReturn:
    """Say that standard output is on a full disk, and end the process without trying again what it still holds."""
    from stream_apple.cli.output import say, unwritable_output

    told = unwritable_output(error)
    say(f"stream-apple: {told}", err=True)
    os._exit(told.exit_code)


def crash(error: Exception) -> NoReturn:
    """Report an exception that nobody expected, as the interpreter would, and end the process with 1, by `leave`."""
    sys.excepthook(type(error), error, error.__traceback__)
    leave(1)


def leave(code: int | str | None) -> NoReturn:
    """End the process as `sys.exit` does; if Kafka's client was imported, without finalising the interpreter.

    A Kafka client that is destroyed while its request waits for brokers that are gone may abort the process
    (librdkafka's assertion on `rd_kafka_enq_once`); one whose brokers refused it has ended it by SIGSEGV, and so has
    one that a thread was still closing when a worker had stopped. The exit code would not be the documented one.
    """
    if "confluent_kafka" not in sys.modules or isinstance(code, str):
        sys.exit(code)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # each line was flushed when it was written
            stream.flush()
    os._exit(code or 0)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="stream-apple", prog_name="stream-apple")
def main() -> None:
    """Exactly-once online learning on Kafka with adaptive polynomial expansion (apple)."""
