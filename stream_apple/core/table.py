"""The table of monomials: 2^bits slots in buckets of eight, each owned by one 64-bit key.

A key is looked up in one word of tags first (a byte of each slot's key, as in Google's SwissTable), so most absent
keys are told without touching their slots. Indices are unsigned throughout the kernels: a signed one costs a test
for Python's negative indices at every access.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel

Slots: TypeAlias = NDArray[np.void]
Floats: TypeAlias = NDArray[np.float32]
Words: TypeAlias = NDArray[np.uint64]
Index: TypeAlias = Any  # np.uint64 once compiled
Record: TypeAlias = Any  # one element of a structured array, changed in place

BUCKET = 8  # slots among which a key may live; their tags fill one word
CACHE_LINE = 64  # bytes

# Half a cache line, so that one miss brings all that scoring and learning a monomial needs.
SLOT = np.dtype(
    [
        ("key", np.uint64),  # the owner; 0 = free (and the constant's, in the last slot)
        ("weight", np.float32),
        ("gradient", np.float32),  # sum of squared gradients, AdaGrad's accumulator
        ("scale", np.float32),  # largest |x| learned from
        ("linear_weight", np.float32),  # weight and accumulator of the linear predictor
        ("linear_gradient", np.float32),
        ("degree", np.uint8),
        ("parent", np.uint8),  # 1 = its products with base features are features
        ("active", np.uint8),  # scratch: already a feature of this example; 0 between examples
        ("reserved", np.uint8),
    ]
)


class Table(NamedTuple):
    """All monomials of a model.

    slots    SLOT[2^bits + 1]  in buckets of 8, and the constant's
    tags     uint64[buckets]   a byte of each slot's key, 0 = free
    visitor  uint8[buckets]    a byte of the last key that found the bucket full. A monomial is given another's
                               slot the second time it knocks, so those seen once do not wear the table out
    """

    slots: Slots
    tags: Words
    visitor: NDArray[np.uint8]


def empty_table(bits: int) -> Table:
    """A table of 2^bits free slots, aligned to cache lines."""
    size = (1 << bits) + 1
    raw = np.zeros(size * SLOT.itemsize + CACHE_LINE, np.uint8)
    start = -raw.ctypes.data % CACHE_LINE
    slots = raw[start : start + size * SLOT.itemsize].view(SLOT)
    buckets = (1 << bits) // BUCKET
    return Table(slots, np.zeros(buckets, np.uint64), np.zeros(buckets, np.uint8))


# One byte of a word per slot of a bucket.
ONES = np.uint64(0x0101010101010101)
HIGHS = np.uint64(0x8080808080808080)
PLACES = np.uint64(0x0001020304050607)  # 256^j * PLACES has j in its top byte
U0, U1, U3, U7, U8, U56 = (np.uint64(n) for n in (0, 1, 3, 7, 8, 56))
BYTE = np.uint64(0xFF)
FREE = np.uint64(1) << np.uint64(61)  # added to a slot that is free
NOWHERE = np.uint64(1) << np.uint64(62)


@kernel
def find(slots: Slots, tags: Words, key: Index) -> Index:
    """The slot that `key` owns; else FREE + its bucket's first free slot; else NOWHERE."""
    bucket = (key >> U8) & np.uint64(len(tags) - 1)
    word = tags[bucket]
    fits = word ^ (((key & BYTE) | U1) * ONES)
    fits = (fits - ONES) & ~fits & HIGHS
    while fits != U0:
        lowest = fits & (~fits + U1)
        place = (bucket << U3) + (((lowest >> U7) * PLACES) >> U56)
        if slots[place]["key"] == key:
            return place
        fits ^= lowest
    free = (word - ONES) & ~word & HIGHS
    if free == U0:
        return NOWHERE
    lowest = free & (~free + U1)
    return FREE + (bucket << U3) + (((lowest >> U7) * PLACES) >> U56)


@kernel
def knock(tags: Words, visitor: NDArray[np.uint8], key: Index) -> bool:
    """Whether an absent monomial may have a slot: one is free, or it was the last to find the bucket full."""
    bucket = (key >> U8) & np.uint64(len(tags) - 1)
    word = tags[bucket]
    if (word - ONES) & ~word & HIGHS != U0:
        return True
    mark = np.uint8(key >> U56)
    known = visitor[bucket] == mark
    visitor[bucket] = mark
    return bool(known)
