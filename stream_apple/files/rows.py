"""What the readers of files yield."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from stream_apple.records.mapper import RecordMapper
from stream_apple.records.spelling import ParseError


class Row(NamedTuple):
    """One record of a file.

    place   where it is, as `FileRows.where` takes it
    record  its fields, in types of Python
    key     the value of the field that holds the key of its record, as it is written; None if there is none
    """

    place: int
    record: dict[Any, Any]
    key: object = None


class FileRows(NamedTuple):
    """The records of a file that are read by one mapper.

    where  returns the place of a row in words
    """

    mapper: RecordMapper
    rows: Iterator[Row]
    where: Callable[[int], str]


def identifier(what: str, value: object) -> str | int | bytes:
    """Return the value, if it may be an id or a key; ParseError otherwise."""
    if isinstance(value, bool) or not isinstance(value, str | int | bytes):
        raise ParseError(f"text, an integer or bytes as {what}", "none" if value is None else value)
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise ParseError(f"an integer of 64 bits, which msgpack can hold, as {what}", value)
    return value
