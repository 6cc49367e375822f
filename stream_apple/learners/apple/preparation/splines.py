"""Numbers as linear splines: which features have one, and how the row of an example changes.

A feature with a spline has *points*, and a *hat* for each point: a function that is 1 at its point, and falls to 0 at
the neighbouring points; beyond the first and the last point their hats are 1. So a value has one or two hats above 0,
whose sum is 1. A weighted sum of hats is piecewise linear in the value; it has small jumps only, where a small hat is
left out. A hat's key is made of the feature's key, its own point, and the neighbouring points.

A feature is *dense* if at least the share PRESENT of the first examples has it. An example that lacks a dense feature
means the value 0, as svmlight and JSON leave zeros out, so it has the hats of 0. An example that lacks another feature
means nothing by it.

A dense feature is also learned as its *centered* value, (value - center) / width, which is clipped. Products of values
far from 0 are nearly proportional to their factors, and an outlier would set the scale of all other values. Center and
width are the mean and the standard deviation of the first examples; at first of a few, when the feature has no points
yet. The key does not depend on them, so what was learned stays when they change. A feature that is not dense is also
learned as its value.

All other features stay as they are. Those of value 1 become a BIN, as their square is themselves.

The row of an example has at most three times as many features as before, plus three for each dense feature.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import BIN, Batch
from stream_apple.core.jit import kernel, routine
from stream_apple.core.splitmix64 import GOLDEN, splitmix64_finalizer

REACH = np.float32(3.0)
"""Centered values are clipped to +-REACH."""
LEAST_HAT = np.float32(0.1)
"""A smaller hat is left out. A weight is learned in units of the largest value so far: if the first value were next to
0, what it taught would count as if it had been 1."""

KernelCall = tuple[Callable[..., int], tuple[Any, ...]]
_Keys = NDArray[np.uint64]
_Places = NDArray[np.int64]
_END = np.uint64(0x7F800000)  # the bits of infinity
_SIGN = np.uint64(0x80000000)
_CENTERED_SALT = np.uint64(0x3F800000)  # the bits of 1


class Splines(NamedTuple):
    """All features that have a spline or are centered, `n` of them, with `p` points in all.

    features  uint64[n]   their keys, ascending
    ends      int64[n]    where the points of each end in `points`; a feature that is only centered has none
    points    float32[p]  those of one feature after another's, ascending in each
    dense     uint8[n]    whether the feature is dense
    centers   float32[n]  what is subtracted from a value
    widths    float32[n]  what the difference is divided by, above 0
    """

    features: _Keys
    ends: _Places
    points: NDArray[np.float32]
    dense: NDArray[np.uint8]
    centers: NDArray[np.float32]
    widths: NDArray[np.float32]

    def points_of_each(self) -> list[NDArray[np.float32]]:
        """Return the points of each feature, in the order of the features."""
        return [self.points[start:stop] for start, stop in pairwise([0, *self.ends.tolist()])]


NO_SPLINES = Splines(
    np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0, np.float32), np.zeros(0, np.uint8),
    np.zeros(0, np.float32), np.zeros(0, np.float32),
)  # fmt: skip


class Lookup(NamedTuple):
    """The arrays that the kernel needs, which follow from the splines.

    keys      uint64[2^k]   a hash table of the features' keys; 0 is free
    numbers   int64[2^k]    the number of each feature, its index in `Splines`
    starts    int64[n + 1]  where the points, and the hats, of each feature begin
    hats      uint64[p]     the keys of the hats, in the order of the points
    centered  uint64[n]     the keys of the centered values
    absent    int64[d]      the numbers of the dense features
    seen      int64[n]      scratch
    """

    keys: _Keys
    numbers: _Places
    starts: _Places
    hats: _Keys
    centered: _Keys
    absent: _Places
    seen: _Places


def hat_keys(feature: int, points: NDArray[np.float32]) -> _Keys:
    """Return the keys of a feature's hats, uint64[len(points)], ascending by point; never 0."""
    bits = points.view(np.uint32).astype(np.uint64)
    before = np.concatenate([[_END | _SIGN], bits[:-1]]).astype(np.uint64)
    after = np.concatenate([bits[1:], [_END]]).astype(np.uint64)
    with np.errstate(over="ignore"):
        salt = splitmix64_finalizer(np.uint64(feature) + GOLDEN + GOLDEN + GOLDEN)
        made = splitmix64_finalizer(splitmix64_finalizer(salt ^ (before << np.uint64(32) | bits)) ^ after)
    return np.where(made == 0, GOLDEN, made)


def centered_keys(features: _Keys) -> _Keys:
    """Return the keys of the features' centered values, uint64[n]; never 0."""
    with np.errstate(over="ignore"):
        made = splitmix64_finalizer(splitmix64_finalizer(features + GOLDEN + GOLDEN) ^ _CENTERED_SALT)
    return np.where(made == 0, GOLDEN, made)


def look_up_table(splines: Splines) -> Lookup:
    """Return the lookup arrays of these splines; they are not part of the state, and a restore makes them again."""
    count = len(splines.features)
    size = 4
    while size < 2 * count:
        size *= 2
    keys, numbers = np.zeros(size, np.uint64), np.zeros(size, np.int64)
    for number, key in enumerate(splines.features.tolist()):
        at = key % size
        while keys[at]:
            at = (at + 1) % size
        keys[at], numbers[at] = key, number
    pairs = zip(splines.features.tolist(), splines.points_of_each(), strict=True)
    return Lookup(
        keys,
        numbers,
        np.concatenate([[0], splines.ends]).astype(np.int64),
        np.concatenate([np.zeros(0, np.uint64), *(hat_keys(key, points) for key, points in pairs)]),
        centered_keys(splines.features),
        np.flatnonzero(splines.dense),
        np.full(count, -1, np.int64),
    )


def with_splines(batch: Batch, splines: Splines, lookup: Lookup) -> Batch:
    """Return the rows of the batch with their numbers as hats and as values, and with roles."""
    made = _room_for(batch, int(batch.indptr[-1] - batch.indptr[0]), lookup)
    return made.up_to(_write_rows(batch, splines, lookup, made))


def call_for_one_row(batch: Batch, room: int, splines: Splines, lookup: Lookup) -> tuple[Batch, KernelCall]:
    """Return a batch of one row, and the kernel with its arguments that writes to it what `with_splines` returns.

    room  how many features the only row of `batch` has at most
    """
    made = _room_for(batch, room, lookup)
    return made, (_write_rows, (batch, splines, lookup, made))


def _room_for(batch: Batch, features: int, lookup: Lookup) -> Batch:
    """Return a batch with room for the prepared rows of `batch`, which have at most `features` features so far."""
    most_of_each = 3 if len(lookup.centered) else 1
    return batch.with_room(most_of_each * (features + len(batch.labels) * len(lookup.absent)), roles=True)


@kernel
def _write_rows(batch: Batch, splines: Splines, lookup: Lookup, made: Batch) -> int:
    """Write all rows to `made`; return how many features they have."""
    mask = np.uint64(len(lookup.keys) - 1)
    end = 0
    for number in range(len(lookup.seen)):
        lookup.seen[number] = -1
    for row in range(len(batch.labels)):
        for f in range(batch.indptr[row], batch.indptr[row + 1]):
            key, value = batch.keys[f], batch.values[f]
            number = _number_of(lookup, key, mask)
            if number < 0:
                made.keys[end], made.values[end], made.roles[end] = key, value, BIN if value == 1.0 else 0
                end += 1
            else:
                lookup.seen[number] = row
                end = _write_number(splines, lookup, number, value, made, end)
        for a in range(len(lookup.absent)):
            number = lookup.absent[a]
            if lookup.seen[number] != row:
                end = _write_number(splines, lookup, number, np.float32(0.0), made, end)
        made.indptr[row + 1] = end
    return end


@routine
def _write_number(splines: Splines, lookup: Lookup, number: int, value: np.float32, made: Batch, end: int) -> int:
    """Write a feature's value, centered if it is dense and unless that is 0, and its hats; return the new end."""
    if not splines.dense[number]:
        made.keys[end], made.values[end], made.roles[end] = splines.features[number], value, 0
        end += 1
    else:
        centered = (value - splines.centers[number]) / splines.widths[number]
        centered = min(max(centered, -REACH), REACH)
        if centered != 0.0:
            made.keys[end], made.values[end], made.roles[end] = lookup.centered[number], centered, 0
            end += 1
    start, stop = lookup.starts[number], lookup.starts[number + 1]
    if start == stop:
        return end
    above = _first_above(splines.points, start, stop, value)
    if above in (start, stop):
        return _write_hat(made, end, lookup.hats[min(above, stop - 1)], np.float32(1.0))
    # In float64, as the difference of two points may overflow float32.
    low, high = np.float64(splines.points[above - 1]), np.float64(splines.points[above])
    share = np.float32((np.float64(value) - low) / (high - low))
    rest = np.float32(1.0) - share
    if rest >= LEAST_HAT:
        end = _write_hat(made, end, lookup.hats[above - 1], rest)
    return _write_hat(made, end, lookup.hats[above], share) if share >= LEAST_HAT else end


@routine
def _write_hat(made: Batch, end: int, key: np.uint64, value: np.float32) -> int:
    """Write a feature that is not multiplied with itself; return the new end."""
    made.keys[end], made.values[end], made.roles[end] = key, value, BIN
    return end + 1


@routine
def _number_of(lookup: Lookup, key: np.uint64, mask: np.uint64) -> int:
    """Return the number of the feature with this key, -1 if it is not among the splines."""
    at = key & mask
    while lookup.keys[at] != 0:
        if lookup.keys[at] == key:
            return int(lookup.numbers[at])
        at = (at + np.uint64(1)) & mask
    return -1


@routine
def _first_above(points: NDArray[np.float32], low: int, high: int, value: np.float32) -> int:
    """Return the index of the first of points[low:high] above the value, `high` if none is."""
    while low < high:
        middle = (low + high) >> 1
        if value < points[middle]:
            high = middle
        else:
            low = middle + 1
    return low
