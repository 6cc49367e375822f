"""A table of msgpack's tags, the first bytes of values: the kind and the length of each.

https://github.com/msgpack/msgpack/blob/master/spec.md
"""

import numpy as np
from numpy.typing import NDArray

BROKEN, NIL, BOOL, INT, FLOAT, STR, BIN, EXT, ARRAY, MAP = range(10)

TAG_NIL, TAG_FALSE, TAG_TRUE = 0xC0, 0xC2, 0xC3
TAG_FIXMAP, TAG_FIXSTR = 0x80, 0xA0  # smaller tags than the first are integers
TAG_FLOAT32, TAG_FLOAT64 = 0xCA, 0xCB
TAG_NEGATIVE_FIXINT = 0xE0
TAG_INT8 = 0xD0  # unsigned integers have smaller tags, signed ones this and larger

_LONGEST_IN_TAG = ((TAG_FIXMAP, MAP, 16), (0x90, ARRAY, 16), (TAG_FIXSTR, STR, 32))
_LENGTH_FOLLOWS = (
    (0xC4, BIN, (1, 2, 4)),
    (0xC7, EXT, (1, 2, 4)),
    (0xD9, STR, (1, 2, 4)),
    (0xDC, ARRAY, (2, 4)),
    (0xDE, MAP, (2, 4)),
)
_FIXED_LENGTH = (
    (TAG_NIL, NIL, (0,)),
    (TAG_FALSE, BOOL, (0, 0)),
    (TAG_FLOAT32, FLOAT, (4, 8)),
    (0xCC, INT, (1, 2, 4, 8)),
    (TAG_INT8, INT, (1, 2, 4, 8)),
    (0xD4, EXT, (1, 2, 4, 8, 16)),
)


def _table() -> NDArray[np.uint8]:
    table = np.zeros((256, 3), np.uint8)
    table[:TAG_FIXMAP, 0] = table[TAG_NEGATIVE_FIXINT:, 0] = INT
    for first, kind, count in _LONGEST_IN_TAG:
        for length in range(count):
            table[first + length] = (kind, 0, length)
    for first, kind, widths in _LENGTH_FOLLOWS:
        for step, width in enumerate(widths):
            table[first + step] = (kind, width, 0)
    for first, kind, lengths in _FIXED_LENGTH:
        for step, length in enumerate(lengths):
            table[first + step] = (kind, 0, length)
    return table


KINDS, LENGTH_BYTES, LENGTHS = np.ascontiguousarray(_table().T)
"""uint8[256] each: kind; bytes of the length that follows (0 = none follows); the length if none follows.

A length counts bytes, items of an array or pairs of a map; that of an extension leaves out the byte of its
type. Byte 0xc1 is never used: BROKEN.
"""
