"""Which tuples of attributes may have features: what was selected so far, as kernels see it.

A tuple is a set of attributes, and its key the sum of theirs mod 2^64. See `tuple_expansion.py` for their features and
`tuple_selection.py` for how they are selected.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import part
from stream_apple.core.learner.kernels.table import U0, U1, Index, Words

LEVEL, SEEN, SINCE = range(3)  # indices of `Tuples.state`


class Tuples(NamedTuple):
    """What was selected; empty sets before, and if method is not tuples.

    chosen  uint64[2^k]  the keys of the tuples that may have features, as a set: see `set_of`
    known   uint64[2^k]  of the attributes that tuples were chosen from, as a set
    state   int64[3]     the order of the tuples that are being explored, one more than the last when all are selected;
                         how many tuples of the last order there were to choose from; and how many examples were learned
                         when the last were selected
    """

    chosen: Words
    known: Words
    state: NDArray[np.int64]


def set_of(keys: Words) -> Words:
    """uint64[2^k], at most half full: a set to be asked with `holds`."""
    size = 1 << max(2 * len(keys) - 1, 1).bit_length()
    table = np.zeros(size, np.uint64)
    for key in np.maximum(keys, U1).tolist():
        at = key & (size - 1)
        while table[at]:
            at = (at + 1) & (size - 1)
        table[at] = key
    return table


@part
def holds(chosen: Words, key: Index) -> bool:
    """Whether the key is in the set."""
    mask = np.uint64(len(chosen) - 1)
    key = max(key, U1)  # 0 says that a place is free
    at = key & mask
    while chosen[at] != U0 and chosen[at] != key:
        at = (at + U1) & mask
    return bool(chosen[at] != U0)
