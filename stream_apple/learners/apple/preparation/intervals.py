"""Features as intervals, or as linear splines: which features are cut, where, and how the row of an example changes.

A value of a feature that is cut becomes the indicator of its interval [a, b): value 1, role BIN, and a key made of the
feature's key and of a and b, so that an interval is the same monomial whatever the other cuts are. An example that
lacks a feature means the value 0 (svmlight and JSON leave zeros out). If the feature is *dense*, that is, present in at
least the share PRESENT of the reservoir's examples, the example gets the interval of 0. If it is not dense, absence is
the reference level.

With splines the cuts are points, and a feature has a *hat* for each: a function that is 1 at its point, and falls to 0
at the points beside it; beyond the first and the last point their hats are 1. So a value has one or two hats above 0,
whose sum is 1. A weighted sum of hats is piecewise linear in the value; it has small jumps only, where a small hat is
left out. A hat's key is made of its own point and those beside it.

The value may be kept as well: as it is, or *centred*, (value - centre) / width, and clipped. Products of values far
from 0 are nearly proportional to their factors, and an outlier would set the scale of all other values. Centre and
width are the mean and the standard deviation of the examples, at first of a few, when a feature may have no cuts yet.
The key does not depend on them, so that what was learned stays when they change. In the first version of `auto` (option
`centre` = 0) they follow from the cuts, and are part of the feature's key.

The row of an example has at most three times as many features as before, plus three for each dense feature.

With `centre` a feature that is not cut and has the value 1 has the role BIN as well: its square is itself.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import BIN, Batch
from stream_apple.core.jit import kernel, routine
from stream_apple.core.splitmix64 import GOLDEN, splitmix64_finalizer
from stream_apple.learners.apple.options import Options

PRESENT = 0.1
"""The least share of examples that have a dense feature."""
REACH, FIRST_REACH = np.float32(3.0), np.float32(2.0)
"""Centred values are clipped to +-REACH; with `centre` = 0 to +-FIRST_REACH."""
LEAST_HAT = np.float32(0.1)
"""A smaller hat is left out. A weight is learned in units of the largest value so far: if the first value were next to
0, what it taught would count as if it had been 1."""

KernelCall = tuple[Callable[..., int], tuple[Any, ...]]
_Keys = NDArray[np.uint64]
_Places = NDArray[np.int64]
_END = np.uint64(0x7F800000)  # the bits of infinity
_SIGN = np.uint64(0x80000000)


NOTHING, RAW, CENTRED = np.uint8(0), np.uint8(1), np.uint8(2)


class Form(NamedTuple):
    """What values become.

    spline   they become hats, not intervals
    lasting  the key of a centred value does not depend on centre and width (option `centre` above 0)
    """

    spline: bool
    lasting: bool


class Intervals(NamedTuple):
    """All features that are cut or centred, `n` of them, with `c` cuts, or points of splines, in all.

    features    uint64[n]   their keys, ascending
    ends        int64[n]    where the cuts of each end in `cuts`
    cuts        float32[c]  those of one feature after another's, ascending in each
    dense       uint8[n]    whether absence is an interval too
    kept        uint8[n]    which form of the value is kept besides: NOTHING, RAW, or CENTRED
    spaces      uint64[n]   the key of each feature's namespace, as in `Batch`; 0 if not asked for
    attributes  uint64[n]   the key of each feature's attribute, as in `Batch`; 0 if not asked for
    centres     float32[n]  what is subtracted from a centred value
    widths      float32[n]  what the difference is divided by, above 0
    """

    features: _Keys
    ends: _Places
    cuts: NDArray[np.float32]
    dense: NDArray[np.uint8]
    kept: NDArray[np.uint8]
    spaces: _Keys
    attributes: _Keys
    centres: NDArray[np.float32]
    widths: NDArray[np.float32]

    def cuts_of_each(self) -> list[NDArray[np.float32]]:
        """Return the cuts of each feature, in the order of the features."""
        return [self.cuts[start:stop] for start, stop in pairwise([0, *self.ends.tolist()])]


class Lookup(NamedTuple):
    """The arrays that the kernel needs, which follow from the intervals.

    keys     uint64[2^k]  a hash table of the features' keys; 0 is free
    numbers  int64[2^k]   the number of each feature, its index in `Intervals`
    starts   int64[n + 1] where the cuts of each feature begin
    made     uint64[c + n]  the keys of intervals, those of feature i from starts[i] + i on; or the keys of hats,
                          uint64[c], those of feature i from starts[i] on
    absent   int64[d]     the numbers of the dense features
    moved    uint64[n]    the keys of centred values
    seen     int64[n]     scratch
    reach    what centred values are clipped to
    ones     whether features that are not cut and have the value 1 get the role BIN
    spline   whether values become hats
    """

    keys: _Keys
    numbers: _Places
    starts: _Places
    made: _Keys
    absent: _Places
    moved: _Keys
    seen: _Places
    reach: np.float32
    ones: bool
    spline: bool


def form_of(options: Options) -> Form:
    """Return the form of values that these options ask for."""
    return Form(options.discretise == "spline", bool(options.centre))


def no_intervals() -> Intervals:
    """Return intervals of no feature."""
    nothing, no_flags, no_values = np.zeros(0, np.uint64), np.zeros(0, np.uint8), np.zeros(0, np.float32)
    no_ends = np.zeros(0, np.int64)
    return Intervals(nothing, no_ends, no_values, no_flags, no_flags, nothing, nothing, no_values, no_values)


def interval_keys(feature: int, cuts: NDArray[np.float32]) -> _Keys:
    """Return the keys of a feature's intervals, uint64[len(cuts) + 1], ascending by interval; never 0."""
    bits = cuts.view(np.uint32).astype(np.uint64)
    low = np.concatenate([[_END | _SIGN], bits]).astype(np.uint64)
    high = np.concatenate([bits, [_END]]).astype(np.uint64)
    with np.errstate(over="ignore"):
        made = splitmix64_finalizer(splitmix64_finalizer(np.uint64(feature) + GOLDEN) ^ (low << np.uint64(32) | high))
    return np.where(made == 0, GOLDEN, made)


def hat_keys(feature: int, points: NDArray[np.float32]) -> _Keys:
    """Return the keys of a feature's hats, uint64[len(points)], ascending by point; never 0."""
    bits = points.view(np.uint32).astype(np.uint64)
    before = np.concatenate([[_END | _SIGN], bits[:-1]]).astype(np.uint64)
    behind = np.concatenate([bits[1:], [_END]]).astype(np.uint64)
    with np.errstate(over="ignore"):
        salt = splitmix64_finalizer(np.uint64(feature) + GOLDEN + GOLDEN + GOLDEN)
        made = splitmix64_finalizer(splitmix64_finalizer(salt ^ (before << np.uint64(32) | bits)) ^ behind)
    return np.where(made == 0, GOLDEN, made)


def keys_of_values(feature: int, cuts: NDArray[np.float32], form: Form) -> _Keys:
    """Return the keys of a feature's hats, or of its intervals, ascending by value."""
    return hat_keys(feature, cuts) if form.spline else interval_keys(feature, cuts)


def keys_of_centred(intervals: Intervals, form: Form) -> _Keys:
    """Return the keys, uint64[n], of the features' centred values; never 0."""
    centres, widths = intervals.centres, intervals.widths
    if form.lasting:
        centres, widths = np.zeros_like(centres), np.ones_like(widths)
    bits, low = (each.view(np.uint32).astype(np.uint64) for each in (centres, widths))
    with np.errstate(over="ignore"):
        salt = splitmix64_finalizer(intervals.features + GOLDEN + GOLDEN)
    made = splitmix64_finalizer(salt ^ (bits << np.uint64(32) | low))
    return np.where(made == 0, GOLDEN, made)


def centre_of(cuts: NDArray[np.float32]) -> tuple[np.float32, np.float32]:
    """Return centre and width, above 0, of a feature with these cuts, of which there is at least one."""
    centre = cuts[len(cuts) // 2]
    # Each is halved first, as their difference may overflow.
    width = cuts[-1] / np.float32(2) - cuts[0] / np.float32(2)
    return centre, width or abs(centre) or np.float32(1)


def made_keys(intervals: Intervals, lookup: Lookup) -> _Keys:
    """Return the keys, ascending, of all features that are made of others: intervals or hats, and centred values."""
    return np.unique(np.concatenate([lookup.made, lookup.moved[intervals.kept == CENTRED]]))


def look_up_table(intervals: Intervals, form: Form) -> Lookup:
    """Return the lookup arrays of these intervals; they are not part of the state, and a restore makes them again."""
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
    pairs = zip(intervals.features.tolist(), intervals.cuts_of_each(), strict=True)
    made = [keys_of_values(key, cuts, form) for key, cuts in pairs]
    absent = np.flatnonzero(intervals.dense)
    return Lookup(
        keys,
        numbers,
        starts,
        np.concatenate([np.zeros(0, np.uint64), *made]),
        absent,
        keys_of_centred(intervals, form),
        np.full(count, -1, np.int64),
        REACH if form.lasting else FIRST_REACH,
        form.lasting,
        form.spline,
    )


def as_intervals(batch: Batch, intervals: Intervals, lookup: Lookup, columns: frozenset[str] = frozenset()) -> Batch:
    """Return the batch with values as intervals or hats, and with the values that are kept besides.

    columns  as in `Batch.with_room`: rows without features get those of numbers that are 0
    """
    made = _room_for(batch, int(batch.indptr[-1] - batch.indptr[0]), intervals, lookup, columns)
    return made.up_to(_write_rows(batch, intervals, lookup, made))


def call_for_one_row(batch: Batch, room: int, intervals: Intervals, lookup: Lookup) -> tuple[Batch, KernelCall]:
    """Return a batch of one row, and the kernel with its arguments that writes to it what `as_intervals` returns.

    room  how many features the only row of `batch` has at most
    """
    made = _room_for(batch, room, intervals, lookup, frozenset())
    return made, (_write_rows, (batch, intervals, lookup, made))


def _room_for(batch: Batch, features: int, intervals: Intervals, lookup: Lookup, columns: frozenset[str]) -> Batch:
    """Return a batch with room for the prepared rows of `batch`, which have at most `features` features so far."""
    each = (2 if lookup.spline else 1) + int(intervals.kept.any())
    return batch.with_room(each * (features + len(batch.labels) * len(lookup.absent)), roles=True, columns=columns)


@kernel
def _write_rows(batch: Batch, intervals: Intervals, lookup: Lookup, made: Batch) -> int:
    """Write all rows to `made`; return how many features they have."""
    mask = np.uint64(len(lookup.keys) - 1)
    end = 0
    for number in range(len(lookup.seen)):
        lookup.seen[number] = -1
    with_spaces, with_attributes, with_roles = len(made.spaces) > 0, len(made.attributes) > 0, len(batch.roles) > 0
    for row in range(len(batch.labels)):
        for f in range(batch.indptr[row], batch.indptr[row + 1]):
            key, value, first = batch.keys[f], batch.values[f], end
            number = _number_of(lookup, key, mask)
            if number < 0 or intervals.kept[number] == RAW:
                made.keys[end], made.values[end] = key, value
                if with_roles:
                    made.roles[end] = batch.roles[f]
                else:
                    made.roles[end] = BIN if lookup.ones and number < 0 and value == 1.0 else 0
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
    """Write a feature's centred value, if kept and not 0, and interval or hats, if it is cut; return the new end."""
    if intervals.kept[number] == CENTRED:
        moved = (value - intervals.centres[number]) / intervals.widths[number]
        moved = min(max(moved, -lookup.reach), lookup.reach)
        if moved != 0.0:
            made.keys[end], made.values[end], made.roles[end] = lookup.moved[number], moved, 0
            end += 1
    start, stop = lookup.starts[number], lookup.starts[number + 1]
    if start == stop:
        return end
    above = _first_above(intervals.cuts, start, stop, value)
    if not lookup.spline:
        return _write_bin(made, end, lookup.made[above + number], np.float32(1.0))
    if above in (start, stop):
        return _write_bin(made, end, lookup.made[min(above, stop - 1)], np.float32(1.0))
    # In float64, as the difference of two points may overflow float32.
    low, high = np.float64(intervals.cuts[above - 1]), np.float64(intervals.cuts[above])
    share = np.float32((np.float64(value) - low) / (high - low))
    rest = np.float32(1.0) - share
    if rest >= LEAST_HAT:
        end = _write_bin(made, end, lookup.made[above - 1], rest)
    return _write_bin(made, end, lookup.made[above], share) if share >= LEAST_HAT else end


@routine
def _write_bin(made: Batch, end: int, key: np.uint64, value: np.float32) -> int:
    """Write a feature that is not multiplied with itself; return the new end."""
    made.keys[end], made.values[end], made.roles[end] = key, value, BIN
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
def _first_above(cuts: NDArray[np.float32], low: int, high: int, value: np.float32) -> int:
    """Return the index of the first of cuts[low:high] above the value, `high` if none is."""
    while low < high:
        middle = (low + high) >> 1
        if value < cuts[middle]:
            high = middle
        else:
            low = middle + 1
    return low
