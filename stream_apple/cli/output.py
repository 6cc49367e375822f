"""The only module that writes to the terminal: lines, and consoles for tables and progress."""

from collections.abc import Iterable
from typing import Any

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from stream_apple.terminal import printable

_WIDTH_OF_A_FILE = 200  # wide enough that no cell is broken in a log or a pipe


class PrintableConsole(Console):
    """A console of rich that prints only printable text and its own codes, whatever is in the text."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as the base class does, but make text printable, see `printable`."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def table_console() -> Console:
    """Return a console on standard output, as wide as its terminal; wide enough for every table if there is none."""
    console = PrintableConsole(highlight=False)
    if not console.is_terminal:
        console.width = _WIDTH_OF_A_FILE
    return console


def say(text: str, *, err: bool = False, styled: str = "") -> None:
    """Print a line to standard output, or to standard error; `styled` comes before it, with our own terminal codes."""
    click.echo(styled + printable(text), err=err)


def printable_facts(facts: Any) -> Any:  # noqa: ANN401  JSON
    """Return JSON types with all text in them made printable, for tables, which measure text before they print it."""
    if isinstance(facts, dict):
        return {key: printable_facts(value) for key, value in facts.items()}
    if isinstance(facts, list | tuple):
        return [printable_facts(value) for value in facts]
    return printable(facts) if isinstance(facts, str) else facts
