"""Reading the examples of a file, in order, whatever its format."""

import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from stream_apple.errors import InputFileError
from stream_apple.files import csv_text, msgpack, parquet, svmlight, vowpal_wabbit
from stream_apple.files.detection import FileFormat, detect_format
from stream_apple.files.field_mapping import example_reader, parse_json_line
from stream_apple.files.input_stream import STDIN, numbered_lines, opened, rejoined
from stream_apple.files.table import BY_NAME, ColumnRoles
from stream_apple.records.message.example import Example
from stream_apple.records.spelling import ParseError

_TABLES = {FileFormat.CSV, FileFormat.PARQUET}
_WITHOUT_KEYS = {FileFormat.SVMLIGHT, FileFormat.VOWPAL_WABBIT}


def read_examples(
    path: Path, timestamp_field: str | None = None, roles: ColumnRoles = BY_NAME, key_field: str | None = None
) -> Iterator[Example]:
    """Yield the examples of `path` ("-" is standard input) in order, one at a time in memory.

    timestamp_field  the field or column that holds an example's time, in formats whose fields have names
    roles            what the columns are for, in formats that have columns; or a mapping, which names the time, too
    key_field        the field or column that holds the key of an example's record; in Vowpal Wabbit text the namespace
                     whose only feature is named like the key, in svmlight `qid`

    InputFileError, with path and line, at the first thing that can't be read.
    """
    with readable_file(path) as stream:
        name = file_label(path)
        try:
            found, head = detect_format(stream)
        except ParseError as error:
            raise InputFileError(f"{name}: {error}") from None
        joined = rejoined(head, stream)
        if timestamp_field is not None and found in _WITHOUT_KEYS:
            raise InputFileError(
                f"{name}: expected JSON lines, msgpack, CSV or Parquet, which can hold the timestamp field "
                f"{timestamp_field!r}, found {found.value}"
            )
        if roles.mapping is not None and found in _WITHOUT_KEYS:
            raise InputFileError(
                f"{name}: expected JSON lines, msgpack, CSV or Parquet, whose fields have names, found {found.value}"
            )
        if roles.mapping is None and roles != BY_NAME and found is not None and found not in _TABLES:
            raise InputFileError(f"{name}: expected CSV or Parquet, which have columns, found {found.value}")
        if found is FileFormat.SVMLIGHT and key_field not in {None, svmlight.QUERY}:
            raise InputFileError(
                f"{name}: expected the key field {svmlight.QUERY!r}, which svmlight may have, found {key_field!r}"
            )
        read = example_reader(roles.mapping, timestamp_field, key_field, roles.met)
        match found:
            case FileFormat.SVMLIGHT:
                yield from _from_lines(joined, name, partial(svmlight.parse_line, keyed=key_field is not None))
            case FileFormat.VOWPAL_WABBIT:
                yield from _from_lines(joined, name, partial(vowpal_wabbit.parse_line, key_field=key_field))
            case FileFormat.JSON_LINES:
                yield from _from_lines(joined, name, partial(parse_json_line, read=read))
            case FileFormat.MSGPACK:
                yield from msgpack.examples(joined, name, read)
            case FileFormat.CSV:
                yield from csv_text.read_csv(joined, name, timestamp_field, key_field, roles)
            case FileFormat.PARQUET if path == STDIN or not path.is_file():  # such as a named pipe, which is read once
                raise InputFileError(f"{name}: expected a format that is read from its start, found {found.value}")
            case FileFormat.PARQUET:
                yield from parquet.read_parquet(path, name, timestamp_field, key_field, roles)
            case None:
                return


def file_label(path: Path) -> str:
    """Return what messages call the file."""
    return "standard input" if path == STDIN else str(path)


@contextmanager
def readable_file(path: Path) -> Iterator[io.BufferedReader]:
    """Open the stream of `path` as a context that turns whatever goes wrong in reading into InputFileError.

    Only a generator may yield within it: what goes wrong with those who take what was read is no fault of the file.
    """
    name = file_label(path)
    try:
        with opened(path) as stream:
            yield stream
    except (EOFError, zlib.error) as error:
        raise InputFileError(f"{name}: expected a whole gzip file, found a damaged one: {error}") from None
    except OSError as error:
        # gzip's own BadGzipFile is an OSError without a number
        raise InputFileError(f"{name}: expected a readable file, found: {error.strerror or error}") from None


def _from_lines(stream: io.BufferedReader, name: str, parse_line: Callable[[str], Example | None]) -> Iterator[Example]:
    for place, line in numbered_lines(stream, name):
        try:
            example = parse_line(line)
        except ParseError as error:
            raise InputFileError(f"{name}:{place}: {error}") from None
        if example is not None:
            yield example
