"""Where a fault in a record lies: the outermost key in whose value a byte is.

A kernel scans records of JSON, as it has to read all of them.
"""

import msgpack
import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel
from stream_apple.records.message import msgpack_tags as mp
from stream_apple.records.message.found import LOOKED_AT, lenient_unpacker

_QUOTE, _BACKSLASH, _COLON, _COMMA, _OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_ARRAY, _CLOSE_ARRAY = b'"\\:,{}[]'


@kernel
def _enclosing(source: NDArray[np.uint8], place: int) -> tuple[int, int, bool]:
    """Return where the key starts and stops, without its quotes, in whose value byte `place` lies; -1 for none.

    The key is one of the outermost object. Also returns whether that object ends before `place`.
    """
    at = depth = start = stop = 0
    key = key_stop = -1
    ended = False
    while at < place:
        sign = source[np.uint64(at)]
        if sign == _QUOTE:
            start = at = at + 1
            while at < place and source[np.uint64(at)] != _QUOTE:
                at += 2 if source[np.uint64(at)] == _BACKSLASH else 1
            stop = min(at, place)
        elif sign in (_OPEN_OBJECT, _OPEN_ARRAY):
            depth += 1
        elif sign in (_CLOSE_OBJECT, _CLOSE_ARRAY):
            depth -= 1
            ended |= depth <= 0
        elif depth == 1 and sign == _COLON:
            key, key_stop = start, stop
        elif depth == 1 and sign == _COMMA:
            key = -1
        at += 1
    return key, key_stop, ended


def enclosing_key_of_json(value: bytes, place: int) -> tuple[str | None, bool]:
    """Return the outermost object's key in whose value byte `place` lies, if any; and whether that object has ended.

    A long key is cut.
    """
    start, stop, ended = _enclosing(np.frombuffer(value, np.uint8), min(place, len(value)))
    if start < 0 or ended:
        return None, bool(ended)
    return value[start : min(stop, start + LOOKED_AT)].decode(errors="replace"), False


def enclosing_key_of_msgpack(value: bytes, place: int) -> str | None:
    """Return the key of the example in whose value byte `place` lies; None if it lies in no value."""
    unpacker = lenient_unpacker(value)
    key: str | None = None
    try:
        for _ in range(unpacker.read_map_header()):
            key = None
            if place <= unpacker.tell() or mp.KINDS[value[unpacker.tell()]] != mp.STR:
                return None  # a key that is not a str is the first fault
            found = unpacker.unpack()
            if place < unpacker.tell():
                return None
            key = found
            unpacker.skip()
            if place < unpacker.tell():
                return key
    except (ValueError, msgpack.UnpackException):
        return key  # the fault is at or before the first bytes that are not msgpack
    return None
