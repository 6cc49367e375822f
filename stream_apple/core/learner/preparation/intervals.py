"""Features as intervals: which features are cut, where, and how a row of an example changes.

A value of a feature that is cut becomes the indicator of its interval [a, b): value 1, role BIN, and a key made of the
feature's key and of a and b, so that an interval is the same monomial whatever the neighbouring cuts are. A feature
that an example lacks has the value 0 there (svmlight and JSON leave zeros out): of the *dense* ones, present in at
least PRESENT of the reservoir's examples, it gets the interval of 0. Of the others absence is the reference level. That
bounds an example's row: twice its features, and twice the dense ones.

The value may be kept as well: as it is, or *centred*, (value - centre) / width within [-REACH, REACH], where the centre
is the median cut and the width is half the distance from the first to the last. Products of values far from 0 are
nearly proportional to their factors, and an outlier would set the scale of all other values.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import BIN, Batch
from stream_apple.core.jit import kernel, routine

PRESENT = 0.1
"""Share of examples."""
REACH = np.float32(2.0)
"""Of centred values."""

_Keys = NDArray[np.uint64]
_Places = NDArray[np.int64]
_END = np.uint64(0x7F800000)  # the bits of infinity
_SIGN = np.uint64(0x80000000)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


NOTHING, RAW, CENTRED = np.uint8(0), np.uint8(1), np.uint8(2)


class Intervals(NamedTuple):
    """All features that are cut, `n` of them, with `c` cuts in all.

    features    uint64[n]   their keys, ascending
    ends        int64[n]    where the cuts of each end
    cuts        float32[c]  of one after another, ascending
    dense       uint8[n]    whether absence is an interval too
    kept        uint8[n]    what of the value is kept besides: NOTHING, IT, or CENTRED
    spaces      uint64[n]   the key of each one's namespace, and
    attributes  uint64[n]   that of its attribute, as of `Batch`; 0 if nobody asked
    """

    features: _Keys
    ends: _Places
    cuts: NDArray[np.float32]
    dense: NDArray[np.uint8]
    kept: NDArray[np.uint8]
    spaces: _Keys
    attributes: _Keys


class Lookup(NamedTuple):
    """The arrays that the kernel needs, which follow from the intervals.

    keys     uint64[2^k]  a hash table of the features' keys; 0 is free
    numbers  int64[2^k]   which feature each is
    starts   int64[n + 1] where the cuts of each feature begin
    made     uint64[c + n]  the keys of the intervals: those of feature i begin at starts[i] + i
    absent   int64[d]     the features that are dense
    centres  float32[n]
    widths   float32[n]   above 0
    moved    uint64[n]    the keys of centred values
    seen     int64[n]     scratch
    """

    keys: _Keys
    numbers: _Places
    starts: _Places
    made: _Keys
    absent: _Places
    centres: NDArray[np.float32]
    widths: NDArray[np.float32]
    moved: _Keys
    seen: _Places


def no_intervals() -> Intervals:
    """Return intervals of no feature."""
    nothing, no_flags = np.zeros(0, np.uint64), np.zeros(0, np.uint8)
    return Intervals(nothing, np.zeros(0, np.int64), np.zeros(0, np.float32), no_flags, no_flags, nothing, nothing)


def interval_keys(feature: int, cuts: NDArray[np.float32]) -> _Keys:
    """Return the keys of a feature's intervals, uint64[len(cuts) + 1], ascending by interval; never 0."""
    bits = cuts.view(np.uint32).astype(np.uint64)
    low = np.concatenate([[_END | _SIGN], bits]).astype(np.uint64)
    high = np.concatenate([bits, [_END]]).astype(np.uint64)
    with np.errstate(over="ignore"):
        made = splitmix64_finalizer(splitmix64_finalizer(np.uint64(feature) + _GOLDEN) ^ (low << np.uint64(32) | high))
    return np.where(made == 0, _GOLDEN, made)


def centred_key(feature: int, centre: np.float32, width: np.float32) -> int:
    """Return the key of a feature's centred value; never 0."""
    bits = np.array([centre, width], np.float32).view(np.uint32).astype(np.uint64)
    with np.errstate(over="ignore"):
        made = int(
            splitmix64_finalizer(
                splitmix64_finalizer(np.uint64(feature) + _GOLDEN + _GOLDEN) ^ (bits[0] << np.uint64(32) | bits[1])
            )
        )
    return made or int(_GOLDEN)


def centre_of(cuts: NDArray[np.float32]) -> tuple[np.float32, np.float32]:
    """Return centre and width, above 0, of a feature with these cuts, of which there is at least one."""
    centre = cuts[len(cuts) // 2]
    # Each halved before they are added: their difference may be beyond all numbers.
    width = cuts[-1] / np.float32(2) - cuts[0] / np.float32(2)
    return centre, width or abs(centre) or np.float32(1)


def splitmix64_finalizer(words: _Keys | np.uint64) -> _Keys:
    """Return a hash of each word, by the finalizer of splitmix64, which is one-to-one."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))


def made_keys(intervals: Intervals, lookup: Lookup) -> _Keys:
    """Return the keys, ascending, of all features that are made of cut ones: intervals, and centred values."""
    return np.unique(np.concatenate([lookup.made, lookup.moved[intervals.kept == CENTRED]]))


def look_up_table(intervals: Intervals) -> Lookup:
    """Return the lookup arrays of these intervals; they are no part of the state, and made anew by a restore."""
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
    centred = [centre_of(intervals.cuts[starts[n] : starts[n + 1]]) for n in range(count)]
    moved = [centred_key(int(key), *pair) for key, pair in zip(intervals.features, centred, strict=True)]
    return Lookup(
        keys,
        numbers,
        starts,
        np.concatenate([np.zeros(0, np.uint64), *made]),
        absent,
        np.array([centre for centre, _ in centred], np.float32),
        np.array([width for _, width in centred], np.float32),
        np.array(moved, np.uint64),
        np.full(count, -1, np.int64),
    )


def as_intervals(batch: Batch, intervals: Intervals, lookup: Lookup) -> Batch:
    """Return the batch with values as intervals, and values that are kept besides."""
    rows = len(batch.labels)
    each = 2 if intervals.kept.any() else 1
    most = each * (int(batch.indptr[-1] - batch.indptr[0]) + rows * len(lookup.absent))
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
    end = _write_rows(batch, intervals, lookup, made)
    return made._replace(
        keys=made.keys[:end],
        values=made.values[:end],
        spaces=spaces[:end],
        attributes=attributes[:end],
        roles=made.roles[:end],
    )


@kernel
def _write_rows(batch: Batch, intervals: Intervals, lookup: Lookup, made: Batch) -> int:
    """Write all rows to `made`; return how many features they have."""
    mask = np.uint64(len(lookup.keys) - 1)
    end = 0
    with_spaces, with_attributes, with_roles = len(batch.spaces) > 0, len(batch.attributes) > 0, len(batch.roles) > 0
    for row in range(len(batch.labels)):
        for f in range(batch.indptr[row], batch.indptr[row + 1]):
            key, value, first = batch.keys[f], batch.values[f], end
            number = _number_of(lookup, key, mask)
            if number < 0 or intervals.kept[number] == RAW:
                made.keys[end], made.values[end] = key, value
                made.roles[end] = batch.roles[f] if with_roles else 0
                end += 1
            if number >= 0:
                lookup.seen[number] = row
                end = _write_value(intervals, lookup, number, value, made, end)
            for at in range(first, end):
                if with_spaces:
                    made.spaces[at] = batch.spaces[f]
                if with_attributes:
                    made.attributes[at] = batch.attributes[f]
        for a in range(len(lookup.absent)):
            number, first = lookup.absent[a], end
            if lookup.seen[number] == row:
                continue
            end = _write_value(intervals, lookup, number, np.float32(0.0), made, end)
            for at in range(first, end):
                if with_spaces:
                    made.spaces[at] = intervals.spaces[number]
                if with_attributes:
                    made.attributes[at] = intervals.attributes[number]
        made.indptr[row + 1] = end
    return end


@routine
def _write_value(intervals: Intervals, lookup: Lookup, number: int, value: np.float32, made: Batch, end: int) -> int:
    """Write a feature's centred value, if it is kept and not 0, and its interval; return the new end."""
    if intervals.kept[number] == CENTRED:
        moved = (value - lookup.centres[number]) / lookup.widths[number]
        moved = min(max(moved, -REACH), REACH)
        if moved != 0.0:
            made.keys[end], made.values[end], made.roles[end] = lookup.moved[number], moved, 0
            end += 1
    made.keys[end] = lookup.made[_place_of(intervals.cuts, lookup.starts, number, value)]
    made.values[end], made.roles[end] = 1.0, BIN
    return end + 1


@routine
def _number_of(lookup: Lookup, key: np.uint64, mask: np.uint64) -> int:
    """Return the number of the feature with this key, -1 if it is not cut."""
    at = key & mask
    while lookup.keys[at] != 0:
        if lookup.keys[at] == key:
            return int(lookup.numbers[at])
        at = (at + np.uint64(1)) & mask
    return -1


@routine
def _place_of(cuts: NDArray[np.float32], starts: _Places, number: int, value: np.float32) -> int:
    """Return the index in `Lookup.made` of the value's interval: a cut belongs to the interval above it."""
    low, high = starts[number], starts[number + 1]
    while low < high:
        middle = (low + high) >> 1
        if value < cuts[middle]:
            high = middle
        else:
            low = middle + 1
    return int(low + number)
