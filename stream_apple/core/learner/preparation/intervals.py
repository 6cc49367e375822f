"""Features as intervals: which of them are cut, where, and what becomes of an example's row.

A value of a feature that is cut becomes the indicator of its interval [a, b): value 1, role BIN, and a key made of the
feature's key and of a and b, so that an interval is the same monomial whatever the cuts beside it are. A feature that
an example lacks has the value 0 there (svmlight and JSON leave zeros out): of the *dense* ones, present in at least
PRESENT of the reservoir's examples, it gets the interval of 0. Of the others absence is the reference level. That
bounds an example's row: twice its features, and the dense ones.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import BIN, Batch
from stream_apple.core.jit import kernel

PRESENT = 0.1
"""Share of examples."""

Keys = NDArray[np.uint64]
Places = NDArray[np.int64]
_END = np.uint64(0x7F800000)  # the bits of infinity
_SIGN = np.uint64(0x80000000)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Intervals(NamedTuple):
    """All features that are cut, `n` of them, with `c` cuts in all.

    features    uint64[n]   their keys, ascending
    ends        int64[n]    where the cuts of each end
    cuts        float32[c]  of one after another, ascending
    dense       uint8[n]    whether absence is an interval too
    spaces      uint64[n]   the key of each one's namespace, and
    attributes  uint64[n]   that of its attribute, as of `Batch`; 0 if nobody asked
    """

    features: Keys
    ends: Places
    cuts: NDArray[np.float32]
    dense: NDArray[np.uint8]
    spaces: Keys
    attributes: Keys


class Lookup(NamedTuple):
    """What follows from intervals, for the kernel.

    keys     uint64[2^k]  a hash table of the features' keys; 0 is free
    numbers  int64[2^k]   which feature each is
    starts   int64[n + 1] where the cuts of each feature begin
    made     uint64[c + n]  the keys of the intervals: those of feature i begin at starts[i] + i
    absent   int64[d]     the features that are dense
    zero     uint64[d]    the keys of their intervals of 0
    seen     int64[n]     scratch
    """

    keys: Keys
    numbers: Places
    starts: Places
    made: Keys
    absent: Places
    zero: Keys
    seen: Places


def no_intervals() -> Intervals:
    """Of no feature."""
    kinds = (np.uint64, np.int64, np.float32, np.uint8, np.uint64, np.uint64)
    return Intervals(*(np.zeros(0, kind) for kind in kinds))


def interval_keys(feature: int, cuts: NDArray[np.float32]) -> Keys:
    """uint64[len(cuts) + 1]: the keys of a feature's intervals, ascending; never 0."""
    bits = cuts.view(np.uint32).astype(np.uint64)
    low = np.concatenate([[_END | _SIGN], bits]).astype(np.uint64)
    high = np.concatenate([bits, [_END]]).astype(np.uint64)
    with np.errstate(over="ignore"):
        made = _mix(_mix(np.uint64(feature) + _GOLDEN) ^ (low << np.uint64(32) | high))
    return np.where(made == 0, _GOLDEN, made)


def _mix(words: Keys | np.uint64) -> Keys:
    """The finalizer of splitmix64."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))


def look_up_table(intervals: Intervals) -> Lookup:
    """Made anew of a state that was restored, too."""
    count = len(intervals.features)
    size = 4
    while size < 2 * count:
        size *= 2
    keys, numbers = np.zeros(size, np.uint64), np.zeros(size, np.int64)
    for number, key in enumerate(intervals.features.tolist()):
        at = key % size
        while keys[at]:
            at = (at + 1) % size
        keys[at], numbers[at] = key, number
    starts = np.concatenate([[0], intervals.ends]).astype(np.int64)
    made = [
        interval_keys(int(key), intervals.cuts[start:stop])
        for key, start, stop in zip(intervals.features, starts[:-1], intervals.ends, strict=True)
    ]
    absent = np.flatnonzero(intervals.dense)
    zero = [
        made[number][np.searchsorted(intervals.cuts[starts[number] : starts[number + 1]], 0.0, side="right")]
        for number in absent
    ]
    return Lookup(
        keys,
        numbers,
        starts,
        np.concatenate([np.zeros(0, np.uint64), *made]),
        absent,
        np.array(zero, np.uint64),
        np.full(count, -1, np.int64),
    )


def as_intervals(batch: Batch, intervals: Intervals, lookup: Lookup, *, keep: bool) -> Batch:
    """The batch with features as intervals; `keep`: and as they are."""
    rows = len(batch.labels)
    most = (2 if keep else 1) * int(batch.indptr[-1] - batch.indptr[0]) + rows * len(lookup.absent)
    spaces = np.empty(most if len(batch.spaces) else 0, np.uint64)
    attributes = np.empty(most if len(batch.attributes) else 0, np.uint64)
    made = batch._replace(
        indptr=np.zeros(rows + 1, np.int64),
        keys=np.empty(most, np.uint64),
        values=np.empty(most, np.float32),
        spaces=spaces,
        attributes=attributes,
        roles=np.empty(most, np.uint8),
    )
    lookup.seen[:] = -1
    end = _write_intervals(batch, intervals, lookup, keep, made)
    return made._replace(
        keys=made.keys[:end],
        values=made.values[:end],
        spaces=spaces[:end],
        attributes=attributes[:end],
        roles=made.roles[:end],
    )


@kernel
def _write_intervals(batch: Batch, intervals: Intervals, lookup: Lookup, keep: bool, made: Batch) -> int:  # noqa: FBT001
    """Write all rows; how many features they have."""
    mask = np.uint64(len(lookup.keys) - 1)
    end = 0
    with_spaces, with_attributes, with_roles = len(batch.spaces) > 0, len(batch.attributes) > 0, len(batch.roles) > 0
    for row in range(len(batch.labels)):
        for f in range(batch.indptr[row], batch.indptr[row + 1]):
            key, value = batch.keys[f], batch.values[f]
            number = _number_of(lookup, key, mask)
            if number < 0 or keep:
                made.keys[end], made.values[end] = key, value
                made.roles[end] = batch.roles[f] if with_roles else 0
                if with_spaces:
                    made.spaces[end] = batch.spaces[f]
                if with_attributes:
                    made.attributes[end] = batch.attributes[f]
                end += 1
            if number < 0:
                continue
            lookup.seen[number] = row
            made.keys[end] = lookup.made[_place_of(intervals.cuts, lookup.starts, number, value)]
            made.values[end], made.roles[end] = 1.0, BIN
            if with_spaces:
                made.spaces[end] = batch.spaces[f]
            if with_attributes:
                made.attributes[end] = batch.attributes[f]
            end += 1
        for a in range(len(lookup.absent)):
            number = lookup.absent[a]
            if lookup.seen[number] == row:
                continue
            made.keys[end] = lookup.zero[a]
            made.values[end], made.roles[end] = 1.0, BIN
            if with_spaces:
                made.spaces[end] = intervals.spaces[number]
            if with_attributes:
                made.attributes[end] = intervals.attributes[number]
            end += 1
        made.indptr[row + 1] = end
    return end


@kernel
def _number_of(lookup: Lookup, key: np.uint64, mask: np.uint64) -> int:
    """Which feature has this key, -1 if it is not cut."""
    at = key & mask
    while lookup.keys[at] != 0:
        if lookup.keys[at] == key:
            return int(lookup.numbers[at])
        at = (at + np.uint64(1)) & mask
    return -1


@kernel
def _place_of(cuts: NDArray[np.float32], starts: Places, number: int, value: np.float32) -> int:
    """Where the key of the interval is that the value lies in: a cut belongs to the interval above it."""
    low, high = starts[number], starts[number + 1]
    while low < high:
        middle = (low + high) >> 1
        if value < cuts[middle]:
            high = middle
        else:
            low = middle + 1
    return int(low + number)
