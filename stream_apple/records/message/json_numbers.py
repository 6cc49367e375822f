"""Transcoding of JSON numbers, from unchecked bytes, to msgpack: integers, and the nearest 64-bit floats.

There are three ways to a float. If significand and power of ten are exact floats, one operation rounds, ties to even.
Otherwise the significand is multiplied with the power's leading 128 bits, as in D. Lemire, "Number parsing at a
gigabyte per second" (2021). If that can't tell on which side of the middle between two floats a number lies, all its
digits are compared with that middle: about one ordinary number in 10^18 needs it, and numbers that are chosen for it.
So no number costs more than a few microseconds and one pass over its digits, nor more memory than `EXACT`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import routine, unlikely
from stream_apple.records.message import msgpack_tags as mp
from stream_apple.records.message.msgpack_reader import OK, ZERO, Bytes, byte
from stream_apple.records.message.msgpack_writer import put, put_integer
from stream_apple.records.message.reasons import Reason

MINUS, PLUS, POINT = (ord(sign) for sign in "-+.")
ZERO_DIGIT, NINE, SMALL_E, CAPITAL_E = (ord(sign) for sign in "09eE")

_MOST_DIGITS = 19  # that surely fit into 64 bits
_LARGEST_START = np.uint64((2**64 - 1) // 10)  # of the largest integer of 64 bits, all its digits but the last
_LARGEST_LAST = (2**64 - 1) % 10
_LARGEST_NEGATIVE = np.uint64(1 << 63)
_HUGE = 1 << 40  # an exponent beyond the length of any record: a larger one gives the same number
_SIGN = np.uint64(1 << 63)
_LEAST, _MOST = -342, 308  # powers of ten that 19 digits can need
_EXACT = 22  # 10**22 is the largest power of ten that is a 64-bit float
_LARGEST_EXACT = 1 << 53
_LOW_32 = np.uint64(0xFFFFFFFF)
_SHIFT_32 = np.uint64(32)
_ONE = np.uint64(1)
_ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
_FRACTION = (_ONE << np.uint64(52)) - _ONE
_INFINITY = np.uint64(0x7FF << 52)
_LARGEST_EXPONENT = 2045  # of a finite float, without the one that the leading bit adds

# The middle between two floats has at most 767 digits; with as many, and any after them, both sides of a comparison
# have less than 2,700 bits: the smallest float is above 10**-324, so that 5**1124 is the largest power.
_TELLING_DIGITS = 800
EXACT = (2, 96)
"""Shape of the scratch that `exact_float` needs, uint64: two integers in digits of 32 bits, the lowest first."""
_CHUNK = 10**9
_FIVE_13, _LEAP = 5**13, 13  # the largest power below 2**32


def _leading_bits(power: int) -> int:
    """Return the first 128 bits of 5**power, rounded down."""
    if power >= 0:
        number: int = 5**power
        spare = 128 - number.bit_length()
        return number << spare if spare >= 0 else number >> -spare
    divisor: int = 5**-power
    return (1 << (127 + divisor.bit_length())) // divisor


def _powers_of_five() -> NDArray[np.uint64]:
    bits = [_leading_bits(power) for power in range(_LEAST, _MOST + 1)]
    return np.array([[one >> 64, one & ((1 << 64) - 1)] for one in bits], np.uint64)


_FIVES = _powers_of_five()
_TENS = np.array([float(10**power) for power in range(_EXACT + 1)])


@routine
def _product(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return the high and the low word of the 128-bit product a * b."""
    a_high, a_low, b_high, b_low = a >> _SHIFT_32, a & _LOW_32, b >> _SHIFT_32, b & _LOW_32
    low = a_low * b_low
    middle = a_high * b_low + (low >> _SHIFT_32)
    other = a_low * b_high + (middle & _LOW_32)
    return a_high * b_high + (middle >> _SHIFT_32) + (other >> _SHIFT_32), (other << _SHIFT_32) | (low & _LOW_32)


@routine
def _leading_zeros(word: np.uint64) -> int:
    """Return the number of leading zero bits of a word that is not 0."""
    count = 0
    for step in (32, 16, 8, 4, 2, 1):
        if word >> np.uint64(64 - step) == ZERO:
            word <<= np.uint64(step)
            count += step
    return count


@routine
def nearest_float(significand: np.uint64, power: int) -> tuple[np.uint64, bool]:
    """Return the bits of the positive float nearest to significand * 10**power, and whether that is settled.

    If it is not, the nearest is this one or the next larger one.
    """
    if significand == ZERO:
        return ZERO, True
    if significand <= np.uint64(_LARGEST_EXACT) and -_EXACT <= power <= _EXACT:
        number = np.float64(significand)
        number = number * _TENS[power] if power >= 0 else number / _TENS[-power]
        return np.float64(number).view(np.uint64), True
    if power < _LEAST:  # below 2**64 * 10**-343, which is less than half of the smallest float
        return ZERO, True
    if power > _MOST:
        return _INFINITY, True
    zeros = _leading_zeros(significand)
    scaled = significand << np.uint64(zeros)
    # 192 bits; the true product lies from these to less than `scaled` above them, since the power was rounded down.
    top, middle = _product(scaled, _FIVES[power - _LEAST, 0])
    carry, low = _product(scaled, _FIVES[power - _LEAST, 1])
    middle += carry
    top += _ONE if middle < carry else ZERO
    leads: Any = np.int64(top >> np.uint64(63))
    # The significand's leading bit adds one to the exponent, as a carry out of it does.
    exponent = ((217_706 * power) >> 16) + 62 + leads - zeros + 1023
    if unlikely(exponent > _LARGEST_EXPONENT):
        return _INFINITY, True
    dropped = 10 + leads
    field = ZERO
    if unlikely(exponent < 0):  # a subnormal number: fewer bits, and no exponent to add to
        dropped -= exponent
        if dropped > 64:
            return ZERO, True
    else:
        field = np.uint64(exponent) << np.uint64(52)
    half = _ONE << np.uint64(dropped - 1)
    rest = top & (half | (half - _ONE))
    below = field + (top >> np.uint64(dropped) if dropped < 64 else ZERO)
    if unlikely(bool(rest == half and middle == ZERO and low == ZERO)):
        return below, False
    if unlikely(bool(rest == half - _ONE and middle == _ALL_ONES and low + scaled < low)):
        return below, False
    return below + (_ONE if rest >= half else ZERO), True


@routine
def _times(number: NDArray[np.uint64], size: int, factor: int, more: int) -> int:
    """Replace the integer of `size` digits by number * factor + more; return how many digits it has then.

    `factor` and `more` are both below 2**32.
    """
    carry = np.uint64(more)
    for step in range(size):
        carry += number[np.uint64(step)] * np.uint64(factor)
        number[np.uint64(step)] = carry & _LOW_32
        carry >>= _SHIFT_32
    if carry != ZERO:
        number[np.uint64(size)] = carry
        size += 1
    return size


@routine
def _times_five_to(number: NDArray[np.uint64], size: int, power: int) -> int:
    while power >= _LEAP:
        size = _times(number, size, _FIVE_13, 0)
        power -= _LEAP
    for _ in range(power):
        size = _times(number, size, 5, 0)
    return size


@routine
def _times_two_to(number: NDArray[np.uint64], size: int, power: int) -> int:
    size = _times(number, size, 1 << (power & 31), 0)
    words = power >> 5
    for step in range(size - 1, -1, -1):
        number[np.uint64(step + words)] = number[np.uint64(step)]
    number[:words] = ZERO
    return size + words


@routine
def _order(one: NDArray[np.uint64], size: int, other: NDArray[np.uint64], other_size: int) -> int:
    """Compare two integers, neither of which is 0: above 0 if `one` is larger, below 0 if it is smaller."""
    if size != other_size:
        return size - other_size
    for step in range(size - 1, -1, -1):
        if one[np.uint64(step)] != other[np.uint64(step)]:
            return 1 if one[np.uint64(step)] > other[np.uint64(step)] else -1
    return 0


@routine
def exact_float(
    source: Bytes, at: int, stop: int, power: int, below: np.uint64, scratch: NDArray[np.uint64]
) -> np.uint64:
    """Return the bits of the float nearest to a number: either `below`, or those of the next larger float.

    The number is what the digits, and perhaps a point, in source[at:stop] spell, times 10**power; it is not 0.

    scratch  uint64[EXACT]
    """
    number, middle = scratch[0], scratch[1]
    size = digits = chunk = 0
    scale = 1
    more = fraction = False
    for place in range(at, stop):
        sign = byte(source, place)
        if sign == POINT:
            fraction = True
            continue
        digit = sign - ZERO_DIGIT
        if digits == _TELLING_DIGITS:
            more |= digit != 0
            power += not fraction
            continue
        digits += digits > 0 or digit > 0
        power -= fraction
        chunk = chunk * 10 + digit
        scale *= 10
        if scale == _CHUNK:
            size = _times(number, size, scale, chunk)
            chunk, scale = 0, 1
    size = _times(number, size, scale, chunk)

    significand = below & _FRACTION
    exponent: Any = np.int64(below >> np.uint64(52))
    if exponent > 0:
        significand |= _FRACTION + _ONE
        exponent -= 1
    exponent -= 1075
    twice = significand + significand + _ONE
    middle[0], middle[1] = twice & _LOW_32, twice >> _SHIFT_32
    middle_size = 2 if middle[1] != ZERO else 1
    # number * 10**power against middle * 2**exponent, both made integers.
    if power >= 0:
        size = _times_five_to(number, size, power)
    else:
        middle_size = _times_five_to(middle, middle_size, -power)
    shift = power - exponent
    if shift >= 0:
        size = _times_two_to(number, size, shift)
    else:
        middle_size = _times_two_to(middle, middle_size, -shift)
    order = _order(number, size, middle, middle_size)
    above = order > 0 or (order == 0 and (more or significand & _ONE != ZERO))
    return below + (_ONE if above else ZERO)


@routine
def number_text(
    source: Bytes, at: int, end: int, out: Bytes, to: int, scratch: NDArray[np.uint64]
) -> tuple[int, int, int]:
    """Transcode the number at `at`; return where it ends or the fault is, where its msgpack ends, and the fault.

    An integer of 64 bits stays one, any other number becomes the nearest 64-bit float; scratch as for `exact_float`.
    """
    negative = byte(source, at) == MINUS
    at += negative
    first = at
    significand = ZERO
    digits = power = last = 0
    cut = False  # digits that are not zero have no room
    whole = True
    start = at
    while at < end:
        sign = byte(source, at)
        if sign == POINT:
            if not whole or at == start:
                return at, to, Reason.MALFORMED
            whole = False
            start = at + 1
        elif ZERO_DIGIT <= sign <= NINE:
            last = sign - ZERO_DIGIT
            if digits < _MOST_DIGITS:
                significand = significand * np.uint64(10) + np.uint64(last)
                digits += significand != ZERO
                power -= not whole
            else:
                cut |= last != 0
                power += whole
            if whole and at == start + 1 and byte(source, start) == ZERO_DIGIT:
                return at, to, Reason.MALFORMED
        else:
            break
        at += 1
    if at == start:
        return at, to, Reason.MALFORMED
    stop = at
    exponent = 0
    if at < end and byte(source, at) in (SMALL_E, CAPITAL_E):
        whole = False
        at += 1
        down = at < end and byte(source, at) == MINUS
        at += down or (at < end and byte(source, at) == PLUS)
        start = at
        while at < end and ZERO_DIGIT <= byte(source, at) <= NINE:
            exponent = min(exponent * 10 + byte(source, at) - ZERO_DIGIT, _HUGE)
            at += 1
        if at == start:
            return at, to, Reason.MALFORMED
        if down:
            exponent = -exponent
        power += exponent
    if whole:
        if power == 1 and (significand < _LARGEST_START or (significand == _LARGEST_START and last <= _LARGEST_LAST)):
            significand = significand * np.uint64(10) + np.uint64(last)
            power = 0
            cut = False
        if power == 0 and not (negative and significand > _LARGEST_NEGATIVE):
            return at, put_integer(out, to, significand, negative), OK
    bits, settled = nearest_float(significand, power)
    if cut and settled:
        # The true number lies between these two.
        above, settled = nearest_float(significand + np.uint64(1), power)
        settled = settled and above == bits
    if unlikely(not settled):
        bits = exact_float(source, first, stop, exponent, bits, scratch)
    return at, put(out, to, mp.TAG_FLOAT64, bits | (_SIGN if negative else ZERO), 8), OK
