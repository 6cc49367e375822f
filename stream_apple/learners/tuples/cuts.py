"""Where the intervals of numbers begin: cuts at quantiles, or where labels change (Fayyad and Irani 1993).

A cut is the smallest value of the interval above it: intervals are [a, b), and the outer ones are unbounded. A feature
is a number if it has several values in the examples on which cuts are made. If enough of these examples have it, its
absence means the number 0, because sparse formats omit zeros; otherwise absence has no interval.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch

INTERVALS = 16
"""The most intervals between quantiles: enough for the ranks of cards to have one each."""
FEWEST = 16
"""The number of values below which a feature is not cut: intervals of fewer values would be noise."""
PRESENT = 0.1
"""The least share of examples that must have a number for its absence to mean 0."""


class NumberCuts(NamedTuple):
    """The features that are cut, `n` of them, with `c` cuts in all.

    features    uint64[n]   their keys, ascending
    ends        int64[n]    where the cuts of each end in `cuts`
    cuts        float32[c]  those of one feature after another's, ascending in each
    dense       uint8[n]    whether absence means the number 0
    attributes  uint64[n]   their attributes, as in `Batch`, or their keys
    """

    features: NDArray[np.uint64]
    ends: NDArray[np.int64]
    cuts: NDArray[np.float32]
    dense: NDArray[np.uint8]
    attributes: NDArray[np.uint64]


def no_cuts() -> NumberCuts:
    """Return the cuts of no feature."""
    return cuts_of({})


def cuts_of(found: dict[int, tuple[NDArray[np.float32], bool, int]]) -> NumberCuts:
    """Return the cuts of these features by key: the cuts of each, whether it is dense, and its attribute."""
    keys = sorted(found)
    return NumberCuts(
        np.array(keys, np.uint64),
        np.cumsum([len(found[key][0]) for key in keys]).astype(np.int64),
        np.concatenate([np.zeros(0, np.float32), *(found[key][0] for key in keys)]),
        np.array([found[key][1] for key in keys], np.uint8),
        np.array([found[key][2] for key in keys], np.uint64),
    )


def are_consistent(cuts: NumberCuts) -> bool:
    """Return whether the arrays fit together, so that kernels, which check no bounds, may read them."""
    features, ends = cuts.features, np.concatenate([[0], cuts.ends])
    return (
        len(features) == len(cuts.ends) == len(cuts.dense) == len(cuts.attributes)
        and bool((np.diff(ends) > 0).all())
        and int(ends[-1]) == len(cuts.cuts)
    )


def fit_cuts(examples: Batch, *, mdl: bool) -> NumberCuts:
    """Return the cuts of all numbers among the features of these examples, which have labels."""
    rows = np.repeat(np.arange(len(examples.labels)), np.diff(examples.indptr))
    attributes = examples.attributes if len(examples.attributes) else examples.keys
    positive = _are_large(examples.labels)
    order = np.argsort(examples.keys, kind="stable")
    keys, starts, counts = np.unique(examples.keys[order], return_index=True, return_counts=True)
    found = {}
    for at in np.flatnonzero(counts >= FEWEST).tolist():
        entries = order[starts[at] : starts[at] + counts[at]]
        values = examples.values[entries]
        if values.min() == values.max():
            continue
        classes = positive[rows[entries]]
        absent = np.ones(len(positive), np.bool_)
        absent[rows[entries]] = False
        dense = bool(absent.mean() <= 1.0 - PRESENT)
        if dense:
            values = np.concatenate([values, np.zeros(int(absent.sum()), np.float32)])
            classes = np.concatenate([classes, positive[absent]])
        cuts = informative_cuts(values, classes) if mdl else equal_cuts(values, INTERVALS)
        if len(cuts):
            key = int(keys[at])
            found[key] = cuts, dense, int(attributes[entries[0]]) or key
    return cuts_of(found)


def _are_large(labels: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return whether each label is the larger of two, or, if there are more labels, above their median."""
    distinct = np.unique(labels)
    middle = distinct.mean() if len(distinct) == 2 else np.median(labels)
    large: NDArray[np.bool_] = labels > middle
    return large


def equal_cuts(values: NDArray[np.float32], intervals: int) -> NDArray[np.float32]:
    """Return the cuts, ascending, of about `intervals` intervals with equally many values.

    If there are at most `intervals` values, each has its own interval. A value that is more frequent than an interval's
    share would share its interval with the values above it, so another cut follows it.
    """
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= intervals:
        return distinct[1:]
    quantiles = np.quantile(values, np.arange(1, intervals) / intervals, method="lower").astype(np.float32)
    frequent = np.flatnonzero(counts[:-1] * intervals > len(values))
    cuts: NDArray[np.float32] = np.unique(np.concatenate([quantiles, distinct[frequent + 1]]))
    above: NDArray[np.float32] = cuts[cuts > distinct[0]]
    return above


def informative_cuts(values: NDArray[np.float32], positive: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return the cuts, ascending, that shorten the description of whether labels are positive.

    Each interval is cut where the entropy of the labels becomes least, as long as the cut saves more bits than it costs
    to state it: Fayyad and Irani 1993, "Multi-interval discretization of continuous-valued attributes", section 5.
    """
    distinct, places = np.unique(values, return_inverse=True)
    counts = np.zeros((len(distinct), 2))
    np.add.at(counts, (places, positive.astype(np.int64)), 1.0)
    cuts: NDArray[np.float32] = distinct[_divisions(counts, 0)]
    return cuts


def _divisions(counts: NDArray[np.float64], first: int) -> list[int]:
    """Return the indices of the values at which to cut, ascending.

    counts  float64[v, 2], the number of negative and positive labels of each value
    first   the index of the first of these values
    """
    if len(counts) < 2:
        return []
    total, below = counts.sum(axis=0), counts.cumsum(axis=0)[:-1]
    above = total - below
    size = total.sum()
    entropies = (below.sum(axis=1) * _entropy(below) + above.sum(axis=1) * _entropy(above)) / size
    best = int(np.argmin(entropies))
    parts = np.array([total, below[best], above[best]])
    bits, classes = _entropy(parts), (parts > 0.0).sum(axis=1)
    described = math.log2(3.0 ** classes[0] - 2.0) - float(classes * bits @ [1.0, -1.0, -1.0])
    if bits[0] - entropies[best] <= (math.log2(size - 1.0) + described) / size:
        return []
    at = best + 1
    return [*_divisions(counts[:at], first), first + at, *_divisions(counts[at:], first + at)]


def _entropy(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the entropy of each row of counts, float64[n], in bits."""
    shares = counts / counts.sum(axis=1, keepdims=True)
    entropies: NDArray[np.float64] = -(shares * np.log2(np.where(shares > 0.0, shares, 1.0))).sum(axis=1)
    return entropies
