"""Parameters of commands: durations, files to be written, and groups of options that belong together."""

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from stream_apple.config.duration import format_duration, parse_duration
from stream_apple.whole_files import why_not_a_folder, why_not_writable


class WholeNumber(click.IntRange):
    """A whole number from `min` on, of at most 64 bits.

    A larger one would end in an error of whatever library counts with it, which names no option.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401  click's
        """Return the number; click.BadParameter for another one, or for what is none."""
        found = super().convert(value, param, ctx)
        if found > sys.maxsize:
            self.fail(f"expected at most {sys.maxsize}, found {value}", param, ctx)
        return found


_Found = TypeVar("_Found")
ParsingCallback = Callable[[click.Context, click.Parameter, str | None], _Found | None]


def parsed_by(parse: Callable[[str], _Found]) -> ParsingCallback[_Found]:
    """Return a callback that parses the text of an option, if it is given; the text of a ValueError is the user's."""

    def convert(_context: click.Context, _parameter: click.Parameter, text: str | None) -> _Found | None:
        try:
            return None if text is None else parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return convert


def duration(least: int = 1, words: Mapping[str, int] | None = None, most: int | None = None) -> ParsingCallback[int]:
    """Return a callback that parses options such as `250ms` or `1h30m` to whole milliseconds.

    least  the lower bound in milliseconds; 0 or 1 if there is no `most`
    words  words that may stand for a number -> that number
    most   the upper bound in milliseconds; None: there is none
    """
    known = words or {}

    def parse(text: str) -> int:
        if text in known:
            return known[text]
        try:
            found = parse_duration(text)
        except ValueError as error:
            raise ValueError(f"{error}" + "".join(f", or {word!r}" for word in known)) from None
        if most is not None and not least <= found <= most:
            bounds = f"from {format_duration(least)} to {format_duration(most)}"
            raise ValueError(f"expected a duration {bounds}, found {text!r}")
        if found < least:
            raise ValueError("expected a duration above 0")
        return found

    return parsed_by(parse)


class OutputFile(click.ParamType[Path]):
    """The path of a file that the command will write; it is refused at the start if it can't be written."""

    name = "file"

    def convert(self, value: str | Path, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path; fail if the file can't be written."""
        path = Path(value)
        fault = "-: standard output is /dev/stdout" if value == "-" else why_not_writable(path)
        if fault is not None:
            self.fail(f"expected a file that can be written, found {fault}", param, ctx)
        return path


class OutputFolder(click.ParamType[Path]):
    """The path of a folder into which the command will write files, and which it makes if necessary."""

    name = "directory"

    def convert(self, value: str | Path, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path; fail if the folder can't be written to or made."""
        path = Path(value)
        fault = why_not_a_folder(path, to_be_made=True)
        if fault is not None:
            self.fail(f"expected a directory that can be written, found {fault}", param, ctx)
        return path


def refuse_writing_over(written: Mapping[str, Path | None], read: Iterable[Path | None]) -> None:
    """Raise click.UsageError for a path that would be written over after it was read, or after it was written.

    written  option -> what the command will write; None: the option is not given
    """
    taken = [path for path in read if path is not None]
    for option, path in written.items():
        if path is None:
            continue
        if any(_same(path, each) for each in taken):
            raise click.UsageError(f"{option}: expected another path than those that are read or written, found {path}")
        taken.append(path)


def _same(path: Path, other: Path) -> bool:
    return path.resolve() == other.resolve() or (path.exists() and other.exists() and path.samefile(other))


Decorator = Callable[[Callable[..., None]], Callable[..., None]]
"""Adds options to a command."""


def option_group(*options: Decorator) -> Decorator:
    """Return a decorator that adds these options to a command, in this order in `--help`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):  # the last one comes first, as decorators are applied from below
            command = option(command)
        return command

    return decorate


def given_options(*names: str) -> list[str]:
    """Return the options that were typed on the command line, of these parameters."""
    context = click.get_current_context()
    return [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name in names and context.get_parameter_source(parameter.name) is not ParameterSource.DEFAULT
    ]


def gathered(**groups: type[Any]) -> Decorator:
    """Decorate a command, below its options, so that it gets each group, a NamedTuple, in place of the fields' options.

    An option belongs to the group that has a field of its name; the others are passed one by one. A field without an
    option keeps its default.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def call(**given: Any) -> None:  # noqa: ANN401  options have many types
            parts = {
                name: group(**{field: given.pop(field) for field in group._fields if field in given})
                for name, group in groups.items()
            }
            command(**given, **parts)

        return call

    return decorate
