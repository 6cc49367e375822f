"""The only module that writes to the terminal: lines, and consoles for tables and progress."""

import errno
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Literal

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from stream_apple.errors import ConfigurationError
from stream_apple.terminal import printable

_WIDTH_OF_A_FILE = 200  # wide enough that no cell is broken in a log or a pipe


class PrintableConsole(Console):
    """A console of rich that prints only printable text and its own codes, whatever is in the text."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as the base class does, but make text printable, see `printable`."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)

    def print(self, *objects: Any, **settings: Any) -> None:  # noqa: ANN401  rich's
        """Print as the base class does; ConfigurationError if a disk is full."""
        with _written():
            super().print(*objects, **settings)


def table_console() -> Console:
    """Return a console on standard output, as wide as its terminal; wide enough for every table if there is none."""
    console = PrintableConsole(highlight=False)
    if not console.is_terminal:
        console.width = _WIDTH_OF_A_FILE
    return console


def say(text: str, *, err: bool = False, styled: str = "") -> None:
    """Print a line to standard output, or to standard error; `styled` comes before it, with our own terminal codes.

    ConfigurationError if standard output can't be written; nobody can be told that of standard error.
    """
    try:
        with _written():
            click.echo(styled + printable(text), err=err)
    except ConfigurationError:
        if not err:
            raise


def utc_text(timestamp_ms: int, precision: Literal["minutes", "milliseconds"]) -> str:
    """Return a time, milliseconds since 1970, in UTC; the number itself if the calendar has no such day."""
    try:
        found = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return found.isoformat(" ", precision).removesuffix("+00:00")


def number_or_dash(value: float | None, form: str) -> str:
    """Return a number in this form; a dash for None, and for what is not finite."""
    return "-" if value is None or not math.isfinite(value) else format(value, form)


@contextmanager
def _written() -> Iterator[None]:
    """Raise ConfigurationError for output that can't be written; click knows what to do if a pipe's reader has gone."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        raise unwritable_output(error) from error


def unwritable_output(error: OSError) -> ConfigurationError:
    """Return the error for standard output that can't be written, for instance because its disk is full."""
    return ConfigurationError(f"standard output: expected one that can be written, found: {error.strerror or error}")


def printable_facts(facts: Any) -> Any:  # noqa: ANN401  JSON
    """Return JSON types with all text in them made printable, for tables, which measure text before they print it."""
    if isinstance(facts, dict):
        return {key: printable_facts(value) for key, value in facts.items()}
    if isinstance(facts, list | tuple):
        return [printable_facts(value) for value in facts]
    return printable(facts) if isinstance(facts, str) else facts
