"""A reader of unchecked JSON: it writes strings as msgpack, and skips values that are not needed.

JSON is that of RFC 8259, in UTF-8, and nothing beyond: no NaN, no comments, no lone surrogates. Strings are written as
`msgpack.packb` writes them. A value that is skipped is checked for its syntax, with the same faults. Every function
takes the place where it starts and the place where the record ends, and reads no byte at or after that end.
"""

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import routine
from stream_apple.records.message import msgpack_tags as mp
from stream_apple.records.message.json_numbers import CAPITAL_E, MINUS, NINE, PLUS, POINT, SMALL_E, ZERO_DIGIT
from stream_apple.records.message.msgpack_reader import MAX_DEPTH, OK, ZERO, Bytes, byte, is_utf8
from stream_apple.records.message.msgpack_writer import put
from stream_apple.records.message.reasons import Reason

QUOTE, BACKSLASH, COMMA, COLON = (ord(sign) for sign in '"\\,:')
OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY = (ord(sign) for sign in "{}[]")
_SMALL_U = ord("u")
_ESCAPED = b'"\\/bfnrt'
_MEANT = b'"\\/\b\f\n\r\t'
TRUE, FALSE, NULL = (np.frombuffer(word, np.uint8) for word in (b"true", b"false", b"null"))


def _escape_table() -> Bytes:
    table = np.zeros(256, np.uint8)
    table[list(_ESCAPED)] = list(_MEANT)
    return table


_ESCAPES = _escape_table()
"""uint8[256]: what the character after a backslash means; 0 for u, and for characters that are not allowed there."""


@routine
def after_space(source: Bytes, at: int, end: int) -> int:
    """Return the place of the first byte from `at` on that is no white space of JSON."""
    while at < end and byte(source, at) in (0x20, 0x0A, 0x0D, 0x09):
        at += 1
    return at


@routine
def begins_object(source: Bytes, at: int, end: int) -> bool:
    """Return whether a record is meant to be JSON: no map of msgpack begins so."""
    at = after_space(source, at, end)
    return at < end and byte(source, at) == OPEN_OBJECT


@routine
def _four_hex(source: Bytes, at: int, stop: int) -> int:
    """Return the number that four hexadecimal digits spell; -1 if they are not there."""
    if stop - at < 4:
        return -1
    number = 0
    for step in range(4):
        sign = byte(source, at + step)
        if ZERO_DIGIT <= sign <= NINE:
            number = number * 16 + sign - ZERO_DIGIT
        elif ord("a") <= sign | 0x20 <= ord("f"):
            number = number * 16 + (sign | 0x20) - ord("a") + 10
        else:
            return -1
    return number


@routine
def _escape(source: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Return the code point of the escape whose backslash is at `at`, and its end; -1 for none, or a lone surrogate."""
    if at + 1 >= stop:
        return -1, at
    sign = byte(source, at + 1)
    if sign != _SMALL_U:
        meant = byte(_ESCAPES, sign)
        return (meant, at + 2) if meant else (-1, at)
    code = _four_hex(source, at + 2, stop)
    if not 0xD800 <= code < 0xE000:
        return code, at + 6
    if code < 0xDC00 and stop - at >= 12 and byte(source, at + 6) == BACKSLASH and byte(source, at + 7) == _SMALL_U:
        low = _four_hex(source, at + 8, stop)
        if 0xDC00 <= low < 0xE000:
            return 0x10000 + ((code - 0xD800) << 10) + low - 0xDC00, at + 12
    return -1, at


@routine
def _put_utf8(out: Bytes, to: int, code: int) -> int:
    if code < 0x80:
        out[np.uint64(to)] = code
        return to + 1
    more = 1 if code < 0x800 else 2 if code < 0x10000 else 3
    lead = (0xC0, 0xE0, 0xF0)[more - 1]
    out[np.uint64(to)] = lead | (code >> (6 * more))
    for step in range(more):
        out[np.uint64(to + 1 + step)] = 0x80 | ((code >> (6 * (more - 1 - step))) & 0x3F)
    return to + 1 + more


@routine
def _measured(source: Bytes, start: int, end: int) -> tuple[int, int, int, int]:
    """Measure a string from after its opening quote.

    Returns where its closing quote or the fault is, its bytes in UTF-8, how many escapes it has, and the fault.
    """
    at = start
    saved = escapes = high = 0
    while at < end:
        sign = byte(source, at)
        high |= sign
        if sign == QUOTE:
            if high >= 0x80 and not is_utf8(source, start, at):
                return start - 1, 0, 0, Reason.MALFORMED
            return at, at - start - saved, escapes, OK
        if sign < 0x20:
            return at, 0, 0, Reason.MALFORMED
        if sign == BACKSLASH:
            code, after = _escape(source, at, end)
            if code < 0:
                return at, 0, 0, Reason.MALFORMED
            escapes += 1
            saved += after - at - (1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4)
            at = after
        else:
            at += 1
    return end, 0, 0, Reason.MALFORMED


@routine
def string_at(source: Bytes, at: int, end: int, out: Bytes, to: int) -> tuple[int, int, int]:
    """Transcode the string whose opening quote is at `at`.

    Returns where it ends or the fault is, where its msgpack ends, and the fault.
    """
    start = at + 1
    stop, size, escapes, fault = _measured(source, start, end)
    if fault != OK:
        return stop, to, fault
    if size < 32:
        to = put(out, to, mp.TAG_FIXSTR + size, ZERO, 0)
    else:
        width = 1 if size < 1 << 8 else 2 if size < 1 << 16 else 4
        to = put(out, to, (0xD9, 0xDA, 0xDB)[width >> 1], np.uint64(size), width)
    at = start
    if escapes == 0:
        for step in range(size):
            out[np.uint64(to + step)] = source[np.uint64(start + step)]
        return stop + 1, to + size, OK
    while at < stop:
        if byte(source, at) == BACKSLASH:
            code, at = _escape(source, at, stop)
            to = _put_utf8(out, to, code)
        else:
            out[np.uint64(to)] = source[np.uint64(at)]
            to += 1
            at += 1
    return stop + 1, to, OK


@routine
def spells(source: Bytes, at: int, end: int, word: Bytes) -> bool:
    """Return whether the bytes of `word` stand at `at`."""
    same = end - at >= word.size
    for step in range(word.size if same else 0):
        same &= source[np.uint64(at + step)] == word[np.uint64(step)]
    return same


@routine
def begins_number(sign: int) -> bool:
    """Return whether a number of JSON may begin with the byte `sign`."""
    return sign == MINUS or ZERO_DIGIT <= sign <= NINE


@routine
def after_colon(source: Bytes, at: int, end: int) -> tuple[int, int]:
    """Skip the colon behind a key; return where the value or the fault is, and the fault."""
    at = after_space(source, at, end)
    if at >= end or byte(source, at) != COLON:
        return at, Reason.MALFORMED
    return after_space(source, at + 1, end), OK


@routine
def _after_digits(source: Bytes, at: int, end: int) -> int:
    while at < end and ZERO_DIGIT <= byte(source, at) <= NINE:
        at += 1
    return at


@routine
def _after_number(source: Bytes, at: int, end: int) -> tuple[int, int]:
    """Skip a number; return where it ends or the fault is, and the fault, as `number_text` does."""
    at += byte(source, at) == MINUS
    start = at
    at = _after_digits(source, at, end)
    if at == start:
        return at, Reason.MALFORMED
    if at > start + 1 and byte(source, start) == ZERO_DIGIT:
        return start + 1, Reason.MALFORMED
    if at < end and byte(source, at) == POINT:
        start = at + 1
        at = _after_digits(source, start, end)
        if at == start:
            return at, Reason.MALFORMED
    if at < end and byte(source, at) in (SMALL_E, CAPITAL_E):
        at += 1
        at += at < end and byte(source, at) in (MINUS, PLUS)
        start = at
        at = _after_digits(source, start, end)
        if at == start:
            return at, Reason.MALFORMED
    return at, OK


@routine
def _after_key(source: Bytes, at: int, end: int) -> tuple[int, int]:
    """Skip a key and its colon; return where the value or the fault is, and the fault."""
    if at >= end or byte(source, at) != QUOTE:
        return at, Reason.MALFORMED
    at, _, _, fault = _measured(source, at + 1, end)
    if fault != OK:
        return at, fault
    return after_colon(source, at + 1, end)


@routine
def after_value(source: Bytes, at: int, end: int, depth: int, objects: NDArray[np.int64]) -> tuple[int, int]:
    """Skip the value at `at`, of any kind; return where it ends, or where the fault is, and the fault.

    depth    of the objects and arrays around it
    objects  int64[MAX_DEPTH], scratch from `depth` on: whether what is open there is an object
    """
    outer = depth
    while True:
        # A value begins here.
        sign = byte(source, at) if at < end else 0
        if sign in (OPEN_OBJECT, OPEN_ARRAY):
            if depth == MAX_DEPTH:
                return at, Reason.TOO_DEEP
            is_object = sign == OPEN_OBJECT
            objects[depth] = is_object
            depth += 1
            at = after_space(source, at + 1, end)
            if at >= end or byte(source, at) != (CLOSE_OBJECT if is_object else CLOSE_ARRAY):
                if is_object:
                    at, fault = _after_key(source, at, end)
                    if fault != OK:
                        return at, fault
                continue
        elif sign == QUOTE:
            at, _, _, fault = _measured(source, at + 1, end)
            if fault != OK:
                return at, fault
            at += 1
        elif begins_number(sign):
            at, fault = _after_number(source, at, end)
            if fault != OK:
                return at, fault
        elif spells(source, at, end, TRUE) or spells(source, at, end, NULL):
            at += 4
        elif spells(source, at, end, FALSE):
            at += 5
        else:
            return at, Reason.MALFORMED
        # After a value: arrays and objects end until there is another one.
        while depth > outer:
            at = after_space(source, at, end)
            is_object = objects[depth - 1] != 0
            sign = byte(source, at) if at < end else 0
            if sign == COMMA:
                at = after_space(source, at + 1, end)
                if is_object:
                    at, fault = _after_key(source, at, end)
                    if fault != OK:
                        return at, fault
                break
            if sign != (CLOSE_OBJECT if is_object else CLOSE_ARRAY):
                return at, Reason.MALFORMED
            depth -= 1
            at += 1
        else:
            return at, OK
