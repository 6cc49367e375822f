"""Reading the examples of a file, in order, whatever its format.

A reader turns its format into records, in values of Python; the mapper makes the examples, as it does of a topic's
records. svmlight and Vowpal Wabbit text have no fields with names: their lines are examples.
"""

import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from stream_apple.errors import InputFileError
from stream_apple.files import csv_text, msgpack, parquet, svmlight, vowpal_wabbit
from stream_apple.files.detection import FileFormat, detect_format
from stream_apple.files.input_stream import STDIN, numbered_lines, opened, rejoined
from stream_apple.files.rows import FileRows, Row, identifier
from stream_apple.files.shape import BY_NAME, FileShape, in_options
from stream_apple.nearest_names import missing
from stream_apple.records.mapper import RecordMapper, fields_of, held_at
from stream_apple.records.mapping import ALL, OWN_MESSAGE, InputMapping
from stream_apple.records.message.example import Example
from stream_apple.records.parsing import parsed_json
from stream_apple.records.spelling import ParseError

_OF_LINES: dict[FileFormat, Callable[[str], Example | None]] = {
    FileFormat.SVMLIGHT: svmlight.parse_line,
    FileFormat.VOWPAL_WABBIT: vowpal_wabbit.parse_line,
}


def read_examples(
    path: Path, shape: FileShape = BY_NAME, key: str = "", *, with_records: bool = False
) -> Iterator[Example]:
    """Yield the examples of `path` ("-" is standard input) in order, one at a time in memory.

    shape         which field is what
    key           the field or column that holds the key of an example's record; "" = none
    with_records  each example has the record that it was made of

    InputFileError, with path and line, at the first thing that can't be read.
    """
    with readable_file(path) as stream:
        name = file_label(path)
        try:
            found, head = detect_format(stream)
        except ParseError as error:
            raise InputFileError(f"{name}: {error}") from None
        joined = rejoined(head, stream)
        if found is None:
            return
        if found in _OF_LINES:
            yield from _of_lines(joined, name, found, shape, key, with_records=with_records)
            return
        with _rows(path, joined, name, found, shape, key) as rows:
            for place, record, value in rows.rows:
                if shape.notes is not None:
                    shape.notes.look_at(record, rows.mapper)
                try:
                    example = rows.mapper.example(record).example
                    if key:
                        example = example._replace(key=_key(key, value, record))
                except ParseError as error:
                    raise InputFileError(f"{rows.where(place)}: {in_options(str(error))}") from None
                yield example._replace(record=sent(record, rows.mapper, shape)) if with_records else example


@contextmanager
def _rows(
    path: Path, stream: io.BufferedReader, name: str, found: FileFormat, shape: FileShape, key: str
) -> Iterator[FileRows]:
    """Open the records of a file whose fields have names."""
    if found is FileFormat.CSV:
        with csv_text.csv_rows(stream, name, shape, key) as rows:
            yield rows
    elif found is FileFormat.PARQUET:
        if path == STDIN or not path.is_file():  # such as a named pipe, which is read once
            raise InputFileError(f"{name}: expected a format that is read from its start, found {found.value}")
        yield parquet.parquet_rows(path, name, shape, key)
    else:
        if found is FileFormat.MSGPACK:
            maps, where = msgpack.maps(stream, name), partial(msgpack.place, name)
        else:
            maps, where = _json_maps(stream, name), partial(_line, name)
        first = list(islice(maps, 1))
        separator = shape.mapping.separator
        records = (Row(place, record, held_at(record, key, separator)) for place, record in chain(first, maps))
        yield FileRows(shape.of_record(first[0][1] if first else {}), records, where)


def _line(name: str, place: int) -> str:
    return f"{name}:{place}"


def _json_maps(stream: io.BufferedReader, name: str) -> Iterator[tuple[int, dict[Any, Any]]]:
    """Yield the number and the object of each line that is not blank; InputFileError for one that holds none."""
    for place, line in numbered_lines(stream, name):
        if not line or line.isspace():
            continue
        try:
            found = fields_of(parsed_json(line))
        except ParseError as error:
            raise InputFileError(f"{name}:{place}: {error}") from None
        yield place, found


def _key(field: str, value: object, record: dict[Any, Any]) -> str | int | bytes:
    """Return the value of this field as the key of a record; ParseError if it can't be one."""
    if value is None:
        raise ParseError(f"the key field {field!r}", missing(field, list(map(str, record))))
    return identifier(f"key in {field!r}", value)


def sent(record: dict[Any, Any], mapper: RecordMapper, shape: FileShape) -> dict[Any, Any]:
    """Return the record that workers with the mapping of `shape` read as the file is read.

    A flat file may be read by a mapping that has the features in a map.
    """
    mapping = shape.mapping
    if mapper.mapping.features == mapping.features:
        return record
    paths = {mapping.label, mapping.weight, mapping.id, mapping.timestamp}
    features = {name: value for name, value in record.items() if mapper.reads(name) and name not in paths}
    return {name: value for name, value in record.items() if name in paths} | {mapping.features: features}


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


def _of_lines(
    stream: io.BufferedReader, name: str, found: FileFormat, shape: FileShape, key: str, *, with_records: bool
) -> Iterator[Example]:
    """Yield the examples of lines, with a mapping as the records of fields that it names."""
    mapping = shape.mapping
    for what, field in {"key": key, "timestamp": mapping.timestamp}.items():
        if field:
            raise InputFileError(
                f"{name}: expected JSON lines, msgpack, CSV or Parquet, which can hold the {what} field {field!r}, "
                f"found {found.value}"
            )
    mapper = None if mapping == OWN_MESSAGE else RecordMapper(mapping)
    for place, line in numbered_lines(stream, name):
        try:
            example = _OF_LINES[found](line)
            if example is not None and (mapper is not None or with_records):
                record = _record_of(example, mapping)
                example = example if mapper is None else mapper.example(record).example
                example = example._replace(record=record if with_records else None)
        except ParseError as error:
            raise InputFileError(f"{name}:{place}: {in_options(str(error))}") from None
        if example is not None:
            yield example


def _record_of(example: Example, mapping: InputMapping) -> dict[Any, Any]:
    """Return an example as a record whose fields have the names of the mapping."""
    roles = ((mapping.label, example.label), (mapping.weight, example.weight), (mapping.id, example.id))
    record: dict[Any, Any] = {name: value for name, value in roles if name and value is not None}
    if mapping.features != ALL:
        return record | {mapping.features: example.features}
    for name in example.features:
        if name in record:
            raise ParseError("features of other names than the fields of input.label, weight, and id", repr(name))
    return record | example.features
