"""The reservoir of examples on which cuts are fitted (the first of the stream, or a sample), and the fit."""

import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.options import RESERVOIR_ENTRIES, Options
from stream_apple.learners.apple.preparation.cuts import information_bits, mdl_cuts, quantile_cuts, spline_points
from stream_apple.learners.apple.preparation.intervals import (
    CENTRED,
    NOTHING,
    PRESENT,
    RAW,
    Intervals,
    centre_of,
    no_intervals,
)

FEWEST, FEWEST_TO_CENTRE = 16, 2
FEWEST_OF_BOTH: Mapping[str, int] = MappingProxyType({"auto": 5, "spline": 3})
"""How often a feature must have been seen to be cut, or to be centred: intervals of fewer values would be noise. With
`auto` and `spline` fewer will do, as the value is learned beside its interval or its hats, and a bad cut costs little.
"""
COMMON, TABLE = 0.5, 0.2
"""A feature is common if this share of examples has it; and numeric features are cut only if this share of them is
common. In tables a third or more are common, in text a fortieth or less."""
SUFFICIENT_INFORMATION, SUFFICIENT_CLASS_INFORMATION = 0.9, 0.6
"""Cuts stay if they carry this share of the bits that fresh cuts would: bits of a value's interval, or, with mdl, bits
of the label. As was measured with two samples of 500 of the same stream, the quantiles of one carry 0.98 of the bits
that the other's own do; 0.81 if its values have moved by their standard deviation. With mdl these shares are 0.94 (less
where labels are noise) and 0.30."""


class Reservoir(NamedTuple):
    """`r` examples with `m` features in all.

    sizes       int64[r]    how many features each example has
    labels      float64[r]
    weights     float64[r]  importance
    keys        uint64[m]   as in `Batch`, like the next three
    values      float32[m]
    spaces      uint64[m]   0 if not asked for
    attributes  uint64[m]   0 if not asked for
    """

    sizes: NDArray[np.int64]
    labels: NDArray[np.float64]
    weights: NDArray[np.float64]
    keys: NDArray[np.uint64]
    values: NDArray[np.float32]
    spaces: NDArray[np.uint64]
    attributes: NDArray[np.uint64]

    def with_rows(self, batch: Batch, rows: NDArray[np.int64]) -> "Reservoir":
        """Return the examples, and behind them these rows of the batch."""
        pairs: Any = zip(self, reservoir_of(batch, rows), strict=True)
        return Reservoir(*(np.concatenate(pair) for pair in pairs))

    @property
    def examples(self) -> Batch:
        """The examples as rows."""
        indptr = np.concatenate([[0], self.sizes.cumsum()])
        return Batch(indptr, self.keys, self.values, self.labels, self.weights, self.spaces, self.attributes)


def empty_reservoir() -> Reservoir:
    """Return a reservoir of no examples."""
    nothing = np.zeros(0, np.uint64)
    none = np.zeros(0)
    return Reservoir(np.zeros(0, np.int64), none, none, nothing, np.zeros(0, np.float32), nothing, nothing)


def reservoir_of(batch: Batch, rows: NDArray[np.int64]) -> Reservoir:
    """Return a reservoir of these rows of the batch."""
    part = batch.select(rows)
    nothing = np.zeros(len(part.keys), np.uint64)
    return Reservoir(
        np.diff(part.indptr),
        part.labels,
        part.weights,
        part.keys,
        part.values,
        part.spaces if len(part.spaces) else nothing,
        part.attributes if len(part.attributes) else nothing,
    )


def fill(reservoir: Reservoir, batch: Batch, most: int) -> tuple[Reservoir, int, bool]:
    """Add the examples that are learned, in order, until there are `most`, or the next one does not fit.

    Returns the new reservoir, the first row after the last one added, and whether the reservoir is full.
    """
    learned = batch.learned(0, len(batch.labels))
    sizes = np.diff(batch.indptr)[learned]
    room = min(
        most - len(reservoir.sizes),
        int(np.searchsorted(sizes.cumsum(), RESERVOIR_ENTRIES - len(reservoir.keys), side="right")),
    )
    full = len(learned) > room or len(reservoir.sizes) + len(learned) == most
    taken = learned[:room]
    if not full:
        stop = len(batch.labels)
    elif len(reservoir.sizes) + len(taken) == most:
        stop = int(taken[-1]) + 1 if len(taken) else 0
    else:
        stop = int(learned[room])
    return reservoir.with_rows(batch, taken), stop, full


def fit(
    reservoir: Reservoir,
    options: Options,
    spaces: NDArray[np.uint64],
    before: Intervals | None = None,
    *,
    cut: bool = True,
) -> Intervals:
    """Cut the numeric features: those that were seen with at least two values besides 0, and often enough (FEWEST).

    None is cut if less than the share TABLE of them is COMMON: such features are words, whose presence says more than
    any interval.

    spaces  keys of the namespaces whose features may be cut; empty: all
    before  the current intervals: the cuts of a feature stay if they still fit
    cut     False: numbers are centred only
    """
    rows = np.repeat(np.arange(len(reservoir.sizes)), reservoir.sizes)
    fewest = FEWEST_OF_BOTH.get(str(options.discretise), FEWEST) if cut else FEWEST_TO_CENTRE
    numeric = list(_numeric_features(reservoir, rows, spaces, fewest))
    common = sum(bool(each.present.mean() >= COMMON) for each in numeric)
    if common < TABLE * len(numeric):
        return no_intervals()
    earlier = {} if before is None else _features_of(before)
    classes = _classes(reservoir.labels, several=options.classes > 0)
    cuts_of_feature = ((each, _fitted(reservoir, rows, classes, options, each, earlier, cut=cut)) for each in numeric)
    found = [(each, made) for each, made in cuts_of_feature if made is not None]
    if not found:
        return no_intervals()
    first = np.array([each.entries[0] for each, _ in found])
    return Intervals(
        reservoir.keys[first],
        np.cumsum([len(made.cuts) for _, made in found]),
        np.concatenate([made.cuts for _, made in found]),
        np.array([made.dense for _, made in found], np.uint8),
        np.array([made.kept for _, made in found], np.uint8),
        reservoir.spaces[first],
        reservoir.attributes[first],
        np.array([made.centre for _, made in found], np.float32),
        np.array([made.width for _, made in found], np.float32),
    )


class _NumericFeature(NamedTuple):
    """A feature that has several values.

    entries  int64[k], its indices among the reservoir's features
    present  bool[r], whether each example has it
    """

    entries: NDArray[np.int64]
    present: NDArray[np.bool_]


class _FeatureCuts(NamedTuple):
    """The cuts of one feature, float32[c], and its other fields of `Intervals`."""

    cuts: NDArray[np.float32]
    kept: np.uint8
    dense: bool
    centre: np.float32
    width: np.float32


def _numeric_features(
    reservoir: Reservoir, rows: NDArray[np.int64], spaces: NDArray[np.uint64], fewest: int
) -> Iterator[_NumericFeature]:
    """Yield the numeric features that were seen at least `fewest` times, in the order of their keys.

    rows  int64[m], the number of each entry's example
    """
    order = np.argsort(reservoir.keys, kind="stable")
    _, starts, counts = np.unique(reservoir.keys[order], return_index=True, return_counts=True)
    for at in np.flatnonzero(counts >= fewest).tolist():
        entries = order[starts[at] : starts[at] + counts[at]]
        values = reservoir.values[entries]
        if values.min() == values.max() or (len(spaces) and reservoir.spaces[entries[0]] not in spaces):
            continue
        present = np.zeros(len(reservoir.sizes), np.bool_)
        present[rows[entries]] = True
        yield _NumericFeature(entries, present)


def _fitted(
    reservoir: Reservoir,
    rows: NDArray[np.int64],
    classes: NDArray[np.generic],
    options: Options,
    feature: _NumericFeature,
    earlier_cuts: Mapping[int, _FeatureCuts],
    *,
    cut: bool,
) -> _FeatureCuts | None:
    """Return the cuts of a feature, its earlier ones if they still fit; None if it is neither cut nor centred.

    classes  [r], the class of each example
    """
    entries, present = feature
    earlier = earlier_cuts.get(int(reservoir.keys[entries[0]]))
    dense = _is_dense(float(present.mean()), earlier)
    kept = _kept(options, reservoir.labels, dense=dense)
    if not cut and kept != CENTRED:
        return None
    values, their_classes = reservoir.values[entries], classes[rows[entries]]
    if dense:
        values = np.concatenate([values, np.zeros(int((~present).sum()), np.float32)])
        their_classes = np.concatenate([their_classes, classes[~present]])
    mdl = options.discretise == "mdl"
    between = spline_points if options.discretise == "spline" else quantile_cuts
    cuts = values[:0]
    if cut:
        cuts = mdl_cuts(values, their_classes) if mdl else between(values, int(options.bins or 0))
    made = _FeatureCuts(cuts + np.float32(0.0), kept, dense, *_centred(options, values, cuts))
    if earlier is not None and _still_fits(earlier, made, values, their_classes if mdl else None):
        made = earlier
    return made if len(made.cuts) or not cut else None


def _features_of(intervals: Intervals) -> dict[int, _FeatureCuts]:
    """Return the cuts of each feature, by its key."""
    fields = intervals.cuts_of_each(), intervals.kept, intervals.dense.tolist(), intervals.centres, intervals.widths
    return {
        key: _FeatureCuts(cuts, kept, bool(dense), centre, width)
        for key, cuts, kept, dense, centre, width in zip(intervals.features.tolist(), *fields, strict=True)
    }


def _is_dense(share: float, earlier: _FeatureCuts | None) -> bool:
    """Return whether absence is an interval too; with earlier cuts it stays as it was if the share is near PRESENT."""
    if earlier is not None and PRESENT / 2.0 <= share <= PRESENT * 2.0:
        return earlier.dense
    return share >= PRESENT


def _still_fits(
    earlier: _FeatureCuts, fresh: _FeatureCuts, values: NDArray[np.float32], classes: NDArray[np.generic] | None
) -> bool:
    """Return whether earlier cuts stay: if they say about as much of the values, or of their classes, as fresh cuts.

    They never stay if there are more cuts than values, so that what a reservoir holds bounds the number of cuts.
    """
    if earlier.dense != fresh.dense or len(earlier.cuts) > len(values):
        return False
    old, new = (
        information_bits(np.searchsorted(each.cuts, values, side="right"), classes) for each in (earlier, fresh)
    )
    if classes is None:
        return old >= SUFFICIENT_INFORMATION * new
    # Cuts made by chance go: for each cut they have to save the bits that a parameter costs (Schwarz 1978).
    return (
        old >= SUFFICIENT_CLASS_INFORMATION * new
        and len(values) * old >= len(earlier.cuts) * math.log2(len(values)) / 2.0
    )


def _kept(options: Options, labels: NDArray[np.float64], *, dense: bool) -> np.uint8:
    """Return which form of a feature's value is learned besides its interval, or its hats.

    That is the centred value if the feature is dense; otherwise the raw value, because an absent feature then means
    nothing rather than the number 0. In the first version (`centre` = 0) there also have to be just two labels.
    """
    if not options.keeps_values:
        return NOTHING
    return CENTRED if dense and (options.centre or len(np.unique(labels)) == 2) else RAW


def _centred(options: Options, values: NDArray[np.float32], cuts: NDArray[np.float32]) -> tuple[np.float32, np.float32]:
    """Return centre and width, above 0, of a feature: by its values, or, in the first version, by its cuts."""
    if not options.centre:
        return centre_of(cuts) if len(cuts) else (np.float32(0.0), np.float32(1.0))
    exact = values.astype(np.float64)
    return np.float32(exact.mean()), np.float32(exact.std()) or np.float32(1.0)


def _classes(labels: NDArray[np.float64], *, several: bool) -> NDArray[np.generic]:
    """Return the class of each example: its label, if there are `several` classes.

    Otherwise it is whether the label is the larger of two, or, if there are more labels, above their median.
    """
    if several:
        return labels
    distinct = np.unique(labels)
    middle = distinct.mean() if len(distinct) == 2 else np.median(labels)
    found: NDArray[np.bool_] = labels > middle
    return found
