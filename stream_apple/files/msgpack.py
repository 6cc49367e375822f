"""msgpack: maps, one after the other, nothing between them."""

import io
from collections.abc import Iterator
from itertools import count

import msgpack

from stream_apple.errors import InputFileError
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


def maps(stream: io.BufferedReader, name: str) -> Iterator[tuple[int, dict[object, object]]]:
    """Yield the first byte and the map of each message, in order; InputFileError names the byte."""
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
    start = 0
    try:
        for number in count(1):
            start = unpacker.tell()
            parts.count = 0
            yield start, _map(unpacker.unpack(), number)
    except msgpack.OutOfData:
        if counted.bytes > start:
            found = f"only {counted.bytes - start} bytes of one"
            raise InputFileError(f"{place(name, start)}: expected a whole message, found {found}") from None
    except ParseError as error:
        raise InputFileError(f"{place(name, start)}: {error}") from None
    except msgpack.BufferFull:
        expected = f"expected a message of at most {_MAX_MESSAGE_BYTES} bytes, found a longer one"
        raise InputFileError(f"{place(name, start)}: {expected}") from None
    except (ValueError, OverflowError) as error:
        found = fault_of_msgpack(error)
        raise InputFileError(f"{place(name, start)}: expected msgpack, found {found}") from None


def _map(found: object, number: int) -> dict[object, object]:
    """Return a message, which is a map; ParseError for anything else, which comes behind a map: `number` is not 1."""
    if not isinstance(found, dict):
        raise ParseError("a map or the end", f"bytes left over behind message {number - 1}: {in_json(found)}")
    return found


def place(name: str, start: int) -> str:
    """Return the place of a message in words."""
    return f"{name}: message at byte {start}"
