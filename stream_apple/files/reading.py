"""A path -> examples, in the file's order, whatever the format."""

import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from stream_apple.core.examples import Example
from stream_apple.errors import InputFileError
from stream_apple.files import json_lines, messages, svmlight, vowpal_wabbit
from stream_apple.files.detection import Format, detect_format
from stream_apple.files.faults import Fault
from stream_apple.files.source import STDIN, numbered_lines, opened, rejoined


def detect(path: Path) -> Format | None:
    """The format of `path`, by its content; None if it holds no example; InputFileError if none of ours."""
    with _readable(path) as stream:
        return _detected(stream, path)[0]


def read_examples(path: Path, timestamp_field: str | None = None) -> Iterator[Example]:
    """The examples of `path` ("-" is standard input), in order, of which one at a time is in memory.

    timestamp_field  the key that holds an example's time, in the formats that have keys.

    InputFileError, with path and line, at the first thing that can't be read.
    """
    with _readable(path) as stream:
        found, joined = _detected(stream, path)
        name = _name(path)
        if timestamp_field is not None and found in {Format.SVMLIGHT, Format.VOWPAL_WABBIT}:
            raise InputFileError(
                f"{name}: expected JSON lines or msgpack, which can hold the timestamp field "
                f"{timestamp_field!r}, found {found.value}"
            )
        match found:
            case Format.SVMLIGHT:
                yield from _from_lines(joined, name, svmlight.parse)
            case Format.VOWPAL_WABBIT:
                yield from _from_lines(joined, name, vowpal_wabbit.parse)
            case Format.JSON_LINES:
                parse = partial(json_lines.parse, timestamp_field=timestamp_field)
                yield from _from_lines(joined, name, parse)
            case Format.MSGPACK:
                yield from messages.examples(joined, name, timestamp_field)
            case None:
                return


def _name(path: Path) -> str:
    return "standard input" if path == STDIN else str(path)


@contextmanager
def _readable(path: Path) -> Iterator[io.BufferedReader]:
    """The stream of `path`, with what can go wrong while reading it as InputFileError."""
    name = _name(path)
    try:
        with opened(path) as stream:
            yield stream
    except (EOFError, zlib.error) as error:
        raise InputFileError(f"{name}: expected a whole gzip file, found a damaged one: {error}") from None
    except OSError as error:
        # gzip's own BadGzipFile is an OSError without a number
        raise InputFileError(f"{name}: expected a readable file, found: {error.strerror or error}") from None


def _detected(stream: io.BufferedReader, path: Path) -> tuple[Format | None, io.BufferedReader]:
    try:
        found, head = detect_format(stream)
    except Fault as fault:
        raise InputFileError(f"{_name(path)}: {fault}") from None
    return found, rejoined(head, stream)


def _from_lines(stream: io.BufferedReader, name: str, parse: Callable[[str], Example | None]) -> Iterator[Example]:
    for place, line in numbered_lines(stream, name):
        try:
            example = parse(line)
        except Fault as fault:
            raise InputFileError(f"{name}:{place}: {fault}") from None
        if example is not None:
            yield example
