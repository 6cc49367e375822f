"""Where a fault in a message lies: the keys in whose values a byte is.

This code is slow and plain, as it runs for dead letters only.
"""

import msgpack

from stream_apple.records.message import msgpack_tags as mp
from stream_apple.records.message.found import lenient_unpacker

_FEATURES = "features"


def enclosing_keys(value: bytes, place: int) -> list[str]:
    """Return the keys of the example in whose values byte `place` lies, the outermost first; [] if it lies in no value.

    Below `features` these are a namespace and a name, or a name.
    """
    keys: list[str] = []
    start = 0
    while (found := _enclosing(value, start, place)) is not None:
        key, start = found
        keys.append(key)
        if keys[0] != _FEATURES or not start < place:
            break
    return keys


def _enclosing(value: bytes, start: int, place: int) -> tuple[str, int] | None:
    """Return the key of the map at byte `start` in whose value byte `place` lies, and where that value starts."""
    unpacker = lenient_unpacker(value[start:])
    found: tuple[str, int] | None = None
    try:
        for _ in range(unpacker.read_map_header()):
            found = None
            at = start + unpacker.tell()
            if place <= at or mp.KINDS[value[at]] != mp.STR:
                return None  # a key that is not a str is the first fault
            key = unpacker.unpack()
            at = start + unpacker.tell()
            if place < at:
                return None
            found = key, at
            unpacker.skip()
            if place < start + unpacker.tell():
                return found
    except (ValueError, msgpack.UnpackException):
        return found  # the fault is at or before the first bytes that are not msgpack
    return None
