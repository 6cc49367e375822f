"""Reading the strings and numbers of JSON out of bytes that nobody has checked yet, and writing them as msgpack.

JSON is that of RFC 8259, in UTF-8, and nothing beyond: no NaN, no comments, no lone surrogates. What is written is what
`msgpack.packb` makes of the same value. Every function takes where it starts and where the record ends, and reads
no byte at or after that end.
"""

import numpy as np

from stream_apple.core.codec import msgpack_tags as mp
from stream_apple.core.codec.decimal_numbers import nearest_float
from stream_apple.core.codec.msgpack_reader import OK, ZERO, Bytes, byte, is_utf8
from stream_apple.core.codec.rejects import Reason
from stream_apple.core.jit import kernel

_MALFORMED = int(Reason.MALFORMED)

QUOTE, BACKSLASH, COMMA, COLON, MINUS, PLUS, POINT = (ord(sign) for sign in '"\\,:-+.')
OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY = (ord(sign) for sign in "{}[]")
_ZERO_DIGIT, _NINE, _SMALL_E, _CAPITAL_E, _SMALL_U = (ord(sign) for sign in "09eEu")
_ESCAPED = b'"\\/bfnrt'
_MEANT = b'"\\/\b\f\n\r\t'

_MOST_DIGITS = 19  # that surely fit into 64 bits
_LARGEST_START = np.uint64((2**64 - 1) // 10)  # of the largest integer of 64 bits, all its digits but the last
_LARGEST_LAST = (2**64 - 1) % 10
_LARGEST_NEGATIVE = np.uint64(1 << 63)
_HUGE = 1 << 40  # an exponent beyond the length of any record: what it makes of a number doesn't change any more
_SIGN = np.uint64(1 << 63)


def _escape_table() -> Bytes:
    table = np.zeros(256, np.uint8)
    table[list(_ESCAPED)] = list(_MEANT)
    return table


_ESCAPES = _escape_table()
"""uint8[256]: what the character after a backslash means; 0 = it may not stand there, but for u."""


@kernel
def after_space(source: Bytes, at: int, end: int) -> int:
    """The first byte from `at` on that is no white space of JSON."""
    while at < end and byte(source, at) in (0x20, 0x0A, 0x0D, 0x09):
        at += 1
    return at


@kernel
def begins_object(source: Bytes, at: int, end: int) -> bool:
    """Whether a record is meant to be JSON: no map of msgpack begins so."""
    at = after_space(source, at, end)
    return at < end and byte(source, at) == OPEN_OBJECT


@kernel
def put(out: Bytes, to: int, tag: int, bits: np.uint64, size: int) -> int:
    """Write `tag` and `size` <= 8 bytes after it, big-endian; returns where they end."""
    out[np.uint64(to)] = tag
    for step in range(size):
        out[np.uint64(to + 1 + step)] = np.uint8(bits >> np.uint64(8 * (size - 1 - step)))
    return to + 1 + size


@kernel
def _four_hex(source: Bytes, at: int, stop: int) -> int:
    """The number that four hexadecimal digits spell; -1 if they do not stand there."""
    if stop - at < 4:
        return -1
    number = 0
    for step in range(4):
        sign = byte(source, at + step)
        if _ZERO_DIGIT <= sign <= _NINE:
            number = number * 16 + sign - _ZERO_DIGIT
        elif ord("a") <= sign | 0x20 <= ord("f"):
            number = number * 16 + (sign | 0x20) - ord("a") + 10
        else:
            return -1
    return number


@kernel
def _escape(source: Bytes, at: int, stop: int) -> tuple[int, int]:
    """The code point of the escape whose backslash is at `at`, and where it ends; -1 for none, or a lone surrogate."""
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


@kernel
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


@kernel
def _measured(source: Bytes, start: int, end: int) -> tuple[int, int, int, int]:
    """A string from after its quote on: its closing quote or where the fault is, its bytes in UTF-8, escapes, fault."""
    at = start
    saved = escapes = high = 0
    while at < end:
        sign = byte(source, at)
        high |= sign
        if sign == QUOTE:
            if high >= 0x80 and not is_utf8(source, start, at):
                return start - 1, 0, 0, _MALFORMED
            return at, at - start - saved, escapes, OK
        if sign < 0x20:
            return at, 0, 0, _MALFORMED
        if sign == BACKSLASH:
            code, after = _escape(source, at, end)
            if code < 0:
                return at, 0, 0, _MALFORMED
            escapes += 1
            saved += after - at - (1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4)
            at = after
        else:
            at += 1
    return end, 0, 0, _MALFORMED


@kernel
def string_at(source: Bytes, at: int, end: int, out: Bytes, to: int) -> tuple[int, int, int]:
    """The string whose opening quote is at `at`: where it ends or the fault is, where its msgpack ends, the fault."""
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


@kernel
def _put_integer(out: Bytes, to: int, size: np.uint64, negative: bool) -> int:  # noqa: FBT001
    """An integer of at most 64 bits in the shortest form."""
    if negative and size != ZERO:
        bits = ZERO - size
        if size <= np.uint64(32):
            return put(out, to, int(bits & np.uint64(0xFF)), ZERO, 0)
        if size <= np.uint64(1 << 7):
            return put(out, to, 0xD0, bits, 1)
        if size <= np.uint64(1 << 15):
            return put(out, to, 0xD1, bits, 2)
        if size <= np.uint64(1 << 31):
            return put(out, to, 0xD2, bits, 4)
        return put(out, to, 0xD3, bits, 8)
    if size < np.uint64(1 << 7):
        return put(out, to, int(size), ZERO, 0)
    if size < np.uint64(1 << 8):
        return put(out, to, 0xCC, size, 1)
    if size < np.uint64(1 << 16):
        return put(out, to, 0xCD, size, 2)
    if size < np.uint64(1 << 32):
        return put(out, to, 0xCE, size, 4)
    return put(out, to, 0xCF, size, 8)


@kernel
def number_text(source: Bytes, at: int, end: int, out: Bytes, to: int) -> tuple[int, int, int, bool]:
    """The number at `at`: where it ends or the fault is, where its msgpack ends, the fault, and whether it is settled.

    An integer of 64 bits is one, any other number is a 64-bit float. One that is not settled has its 9 bytes, the last
    8 of which are still to be written.
    """
    negative = byte(source, at) == MINUS
    at += negative
    significand = ZERO
    digits = power = last = 0
    cut = False  # digits that are not zero have no room
    whole = True
    start = at
    while at < end:
        sign = byte(source, at)
        if sign == POINT:
            if not whole or at == start:
                return at, to, _MALFORMED, True
            whole = False
            start = at + 1
        elif _ZERO_DIGIT <= sign <= _NINE:
            last = sign - _ZERO_DIGIT
            if digits < _MOST_DIGITS:
                significand = significand * np.uint64(10) + np.uint64(last)
                digits += significand != ZERO
                power -= not whole
            else:
                cut |= last != 0
                power += whole
            if whole and at == start + 1 and byte(source, start) == _ZERO_DIGIT:
                return at, to, _MALFORMED, True
        else:
            break
        at += 1
    if at == start:
        return at, to, _MALFORMED, True
    if at < end and byte(source, at) in (_SMALL_E, _CAPITAL_E):
        whole = False
        at += 1
        down = at < end and byte(source, at) == MINUS
        at += down or (at < end and byte(source, at) == PLUS)
        start = at
        exponent = 0
        while at < end and _ZERO_DIGIT <= byte(source, at) <= _NINE:
            exponent = min(exponent * 10 + byte(source, at) - _ZERO_DIGIT, _HUGE)
            at += 1
        if at == start:
            return at, to, _MALFORMED, True
        power += -exponent if down else exponent
    if whole:
        if power == 1 and (significand < _LARGEST_START or (significand == _LARGEST_START and last <= _LARGEST_LAST)):
            significand = significand * np.uint64(10) + np.uint64(last)
            power = 0
            cut = False
            if not negative:
                return at, _put_integer(out, to, significand, False), OK, True  # noqa: FBT003
            return at, put(out, to, mp.TAG_FLOAT64, ZERO, 8), OK, False
        if power == 0 and not (negative and significand > _LARGEST_NEGATIVE):
            return at, _put_integer(out, to, significand, negative), OK, True
    bits, settled = nearest_float(significand, power)
    if cut and settled:
        # The true number lies between these two.
        above, settled = nearest_float(significand + np.uint64(1), power)
        settled = settled and above == bits
    return at, put(out, to, mp.TAG_FLOAT64, bits | (_SIGN if negative else ZERO), 8), OK, settled
