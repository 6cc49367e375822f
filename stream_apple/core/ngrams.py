"""N-grams of neighbouring features in a namespace, as further base features, in the order of the features.

A namespace with the features a, b, c gets the n-grams of two, (a, b) and (b, c), and, if the options ask for it, the
n-gram of three. They are those of Vowpal Wabbit's `--ngram`: the value is 1 whatever the values of the features are,
since it says that they are neighbours. They belong to the namespace, and are multiplied like other base features.

A feature of value 0 is not a neighbour of any. A name that occurs twice makes n-grams at both of its places. A
namespace that occurs twice, with others between, is two texts: no n-gram spans both.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch, space_key
from stream_apple.core.jit import kernel, routine
from stream_apple.core.splitmix64 import GOLDEN, finalize

_ZERO = np.uint64(0)
_NOT_ZERO = GOLDEN  # of a key that would be 0, which marks a free slot
_ORDER = np.uint64(0xD6E8FEB86659FD93)  # a factor of the first key, so that (a, b) and (b, a) have different keys


class NgramSizes(NamedTuple):
    """The size of the longest n-gram in each namespace; 1: it has no n-grams.

    spaces  uint64[k]  keys of namespaces, as in `Batch.spaces`
    sizes   int64[k]   the size in each of these
    others  the size in all other namespaces, also for features without a namespace (such as packed ones)
    """

    spaces: NDArray[np.uint64]
    sizes: NDArray[np.int64]
    others: int

    @property
    def largest(self) -> int:
        """The size of the longest n-gram anywhere: n-grams make at most so many features of each feature."""
        return max(self.others, int(self.sizes.max(initial=1)))


def ngram_sizes(by_namespace: Mapping[str, int], others: int) -> NgramSizes:
    """Return the sizes by the keys of namespaces, given by name; "" is the name of features without a namespace."""
    spaces = [space_key(name) for name in by_namespace]
    return NgramSizes(np.array(spaces, np.uint64), np.array(list(by_namespace.values()), np.int64), others)


NO_NGRAMS = ngram_sizes({}, 1)
"""No namespace has n-grams."""


def size_of(sizes: NgramSizes, namespace: str) -> int:
    """Return the size of the longest n-gram in the namespace of this name."""
    found = np.flatnonzero(sizes.spaces == np.uint64(space_key(namespace)))
    return int(sizes.sizes[found[0]]) if len(found) else int(sizes.others)


@routine
def _key_of_ngram(before: np.uint64, feature: np.uint64) -> np.uint64:
    """Return the key of an n-gram, from the key of what precedes its last feature, and that feature's; never 0.

    It is splitmix64's finalizer of before * _ORDER + feature, and must never change, because models depend on it.
    """
    word = finalize(before * _ORDER + feature)
    return word if word != _ZERO else _NOT_ZERO


@kernel
def ngram_key(before: np.uint64, feature: np.uint64) -> np.uint64:
    """Return the key of an n-gram, from the key of what precedes its last feature, and that feature's; never 0."""
    return _key_of_ngram(before, feature)


def add_ngrams(batch: Batch, sizes: NgramSizes) -> Batch:
    """Return the examples with their n-grams, which come after the features that they had; without attributes.

    Without any n-grams the batch stays as it is. AssertionError for a batch without spaces, or with roles.
    """
    if sizes.largest == 1:
        return batch
    if len(batch.spaces) != len(batch.keys) or len(batch.roles):
        raise AssertionError(
            f"expected a batch with spaces, as of Options.wanted_columns, and without roles, found "
            f"{len(batch.spaces)} and {len(batch.roles)} for {len(batch.keys)} features"
        )
    room = int(batch.indptr[-1] - batch.indptr[0]) * sizes.largest
    out = batch.with_room(room, spaces=True)
    with np.errstate(over="ignore"):  # hashes wrap; only interpreted code would tell
        return out.up_to(_write_rows(batch, sizes, out))


@kernel
def _write_rows(batch: Batch, sizes: NgramSizes, out: Batch) -> int:
    """Write the rows of `out`, whose arrays have room; return how many features there are."""
    z = 0
    for row in range(len(batch.labels)):
        start, stop = batch.indptr[row], batch.indptr[row + 1]
        for f in range(start, stop):
            out.keys[z], out.values[z], out.spaces[z] = batch.keys[f], batch.values[f], batch.spaces[f]
            z += 1
        first = start
        while first < stop:
            space = batch.spaces[first]
            last = first + 1
            while last < stop and batch.spaces[last] == space:
                last += 1
            z = _write_ngrams(batch, first, last, _size_of(sizes, space), out, z)
            first = last
        out.indptr[row + 1] = z
    return z


@routine
def _size_of(sizes: NgramSizes, space: np.uint64) -> int:
    for k in range(len(sizes.spaces)):
        if sizes.spaces[k] == space:
            return int(sizes.sizes[k])
    return int(sizes.others)


@routine
def _write_ngrams(batch: Batch, first: int, last: int, largest: int, out: Batch, z: int) -> int:
    """Append the n-grams of features [first, last), of one namespace, at z, short ones first; return their end."""
    for size in range(2, largest + 1):
        for f in range(first, last - size + 1):
            key = batch.keys[f]
            for step in range(1, size):
                key = _key_of_ngram(key, batch.keys[f + step])
            out.keys[z], out.values[z], out.spaces[z] = key, np.float32(1.0), batch.spaces[f]
            z += 1
    return z
