"""From decimal digits to the nearest 64-bit float, ties to even, wherever 128 bits of a power of ten settle it.

Two ways: where significand and power of ten are floats without error, one rounding operation; else the significand
times the power's leading 128 bits, as in D. Lemire, "Number parsing at a gigabyte per second" (2021). What neither
settles, some one in 10^18 of ordinary numbers, and what is no normal number, is left to whoever asks.
"""

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel

_LEAST, _MOST = -342, 308  # powers of ten that 19 digits can need
_EXACT = 22  # 10**22 is the largest power of ten that is a 64-bit float
_LARGEST_EXACT = 1 << 53
_LOW_32 = np.uint64(0xFFFFFFFF)
_SHIFT_32 = np.uint64(32)
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)


def _leading_bits(power: int) -> int:
    """The first 128 bits of 5**power, rounded down."""
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


@kernel
def _product(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """The high and the low word of a * b."""
    a_high, a_low, b_high, b_low = a >> _SHIFT_32, a & _LOW_32, b >> _SHIFT_32, b & _LOW_32
    low = a_low * b_low
    middle = a_high * b_low + (low >> _SHIFT_32)
    other = a_low * b_high + (middle & _LOW_32)
    return a_high * b_high + (middle >> _SHIFT_32) + (other >> _SHIFT_32), (other << _SHIFT_32) | (low & _LOW_32)


@kernel
def _leading_zeros(word: np.uint64) -> int:
    """Of a word that is not zero."""
    count = 0
    for step in (32, 16, 8, 4, 2, 1):
        if word >> np.uint64(64 - step) == _ZERO:
            word <<= np.uint64(step)
            count += step
    return count


@kernel
def nearest_float(significand: np.uint64, power: int) -> tuple[np.uint64, bool]:
    """The bits of the 64-bit float nearest to significand * 10**power, and whether they are known for sure."""
    if significand == _ZERO:
        return _ZERO, True
    if significand <= np.uint64(_LARGEST_EXACT) and -_EXACT <= power <= _EXACT:
        number = np.float64(significand)
        number = number * _TENS[power] if power >= 0 else number / _TENS[-power]
        return np.float64(number).view(np.uint64), True
    if not _LEAST <= power <= _MOST:
        return _ZERO, False
    zeros = _leading_zeros(significand)
    scaled = significand << np.uint64(zeros)
    # 192 bits; the true product lies from these to less than `scaled` above them, since the power was rounded down.
    top, middle = _product(scaled, _FIVES[power - _LEAST, 0])
    carry, low = _product(scaled, _FIVES[power - _LEAST, 1])
    middle += carry
    top += _ONE if middle < carry else _ZERO
    leads = np.int64(top >> np.uint64(63))
    dropped = np.uint64(10 + leads)
    rest = top & ((_ONE << dropped) - _ONE)
    half = _ONE << (dropped - _ONE)
    if rest == half and middle == _ZERO and low == _ZERO:
        return _ZERO, False
    if rest == half - _ONE and middle == _ALL_ONES and low + scaled < low:
        return _ZERO, False
    # The significand's leading bit adds one to the exponent, as a carry out of it does.
    exponent = ((217_706 * power) >> 16) + 62 + leads - zeros + 1023
    if not 0 <= exponent < 2045:
        return _ZERO, False
    kept = (top >> dropped) + (_ONE if rest >= half else _ZERO)
    return (np.uint64(exponent) << np.uint64(52)) + kept, True
