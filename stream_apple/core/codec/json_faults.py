"""Descriptions of faults in JSON records: where they are, and what was found there.

This code is slow and plain, as it runs for dead letters only; but a kernel scans the whole record.
"""

import re

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel

_QUOTE, _BACKSLASH, _COLON, _COMMA, _OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_ARRAY, _CLOSE_ARRAY = b'"\\:,{}[]'
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_NUMBER = re.compile(rb"-?[0-9][0-9.eE+-]*")
_WORD = re.compile(rb"-?[A-Za-z][A-Za-z0-9]*")
LONGEST_QUOTE = 40
LOOKED_AT = 4 * LONGEST_QUOTE
"""How many bytes of what is quoted are looked at."""
_KINDS = {b"{": "an object", b"[": "an array"}
_WORDS = {b"true": "a bool", b"false": "a bool", b"null": ""}


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


def enclosing_key(value: bytes, place: int) -> tuple[str | None, bool]:
    """Return the outermost object's key in whose value byte `place` lies, if any; and whether that object has ended.

    A long key is cut.
    """
    start, stop, ended = _enclosing(np.frombuffer(value, np.uint8), min(place, len(value)))
    if start < 0 or ended:
        return None, bool(ended)
    return value[start : min(stop, start + LOOKED_AT)].decode(errors="replace"), False


def found_in(value: bytes, place: int) -> str:
    """Describe in a few words what stands at byte `place`."""
    if place >= len(value):
        return "the end of the record"
    first = value[place : place + 1]
    if first in _KINDS:
        return _KINDS[first]
    if first == b'"':
        found = _STRING.match(value, place, place + LOOKED_AT)
        assert found is not None
        return f"a string: {quoted(found.group()[1:].removesuffix(first))}"
    number = _NUMBER.match(value, place, place + LOOKED_AT)
    if number is not None:
        return f"a number: {quoted(number.group())[1:-1]}"
    word = _WORD.match(value, place, place + LOOKED_AT)
    if word is not None:
        kind = _WORDS.get(word.group(), "")
        quote = quoted(word.group())[1:-1]
        return f"{kind}: {quote}" if kind else quote
    return f"byte 0x{value[place]:02x}" if not 0x20 < value[place] < 0x7F else quoted(first)


def quoted(text: bytes) -> str:
    """Return the beginning of a text as Python would quote it, in ASCII."""
    quote = ascii(text[:LOOKED_AT].decode(errors="replace"))
    return quote if len(quote) <= LONGEST_QUOTE else f"{quote[:LONGEST_QUOTE]}...{quote[0]}"
