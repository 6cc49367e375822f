"""msgpack: maps like the stream's message, one after the other, nothing between them."""

import io
from collections.abc import Iterator

import msgpack

from stream_apple.errors import InputFileError
from stream_apple.files.field_mapping import ExampleReader
from stream_apple.records.message.example import Example
from stream_apple.records.parsing import AS_DATETIME, Parts, fault_of_msgpack
from stream_apple.records.spelling import MOST_PARTS, ParseError, in_json

_MAX_MESSAGE_BYTES = 64 << 20


class _Counted:
    """A stream that counts how much of it was read, so that a cut-off end is detected."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self._stream = stream
        self.bytes = 0

    def read(self, size: int) -> bytes:
        # read1: a slow pipe hands over what it has
        data = self._stream.read1(size)
        self.bytes += len(data)
        return data


def examples(stream: io.BufferedReader, name: str, read: ExampleReader) -> Iterator[Example]:
    """Yield the examples of `stream`, in order; InputFileError names the message (from 1) and its first byte."""
    counted, parts = _Counted(stream), Parts()
    unpacker = msgpack.Unpacker(
        counted,
        object_pairs_hook=parts.map,
        list_hook=parts.list,
        timestamp=AS_DATETIME,
        max_buffer_size=_MAX_MESSAGE_BYTES,
        max_array_len=MOST_PARTS,
        max_map_len=MOST_PARTS,
    )
    number = start = 0
    try:
        while True:
            start = unpacker.tell()
            number += 1
            parts.count = 0
            yield read(_map(unpacker.unpack(), number))
    except msgpack.OutOfData:
        if counted.bytes > start:
            found = f"only {counted.bytes - start} bytes of one"
            raise InputFileError(_at(name, number, start, f"expected a whole message, found {found}")) from None
    except ParseError as error:
        raise InputFileError(_at(name, number, start, str(error))) from None
    except msgpack.BufferFull:
        expected = f"expected a message of at most {_MAX_MESSAGE_BYTES} bytes, found a longer one"
        raise InputFileError(_at(name, number, start, expected)) from None
    except (ValueError, OverflowError) as error:
        raise InputFileError(_at(name, number, start, f"expected msgpack, found {fault_of_msgpack(error)}")) from None


def _map(found: object, number: int) -> dict[str, object]:
    """Return a message, which is a map; ParseError for anything else, which comes behind a map: `number` is not 1."""
    if not isinstance(found, dict):
        raise ParseError("a map or the end", f"bytes left over behind message {number - 1}: {in_json(found)}")
    return found


def _at(name: str, number: int, start: int, what: str) -> str:
    return f"{name}: message {number} at byte {start}: {what}"
