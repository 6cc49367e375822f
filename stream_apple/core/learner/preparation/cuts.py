"""Where the values of a feature are cut into intervals: at quantiles, or where labels change.

A cut is the smallest value of the interval above it: intervals are [a, b), and the outer ones have no end.
"""

import math

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float32]


def quantile_cuts(values: Values, bins: int) -> Values:
    """At most `bins` intervals with about as many of the values each, ascending; of few values, one for each.

    The cuts are those of `numpy.quantile` with method "lower" that are above the smallest value. A value that alone
    has more than its share would lie in one interval with those next above it: it gets an end of its own.
    """
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= bins:
        return distinct[1:]
    cuts = np.quantile(values, np.arange(1, bins) / bins, method="lower").astype(np.float32)
    heavy = np.flatnonzero(counts[:-1] * bins > len(values))
    found: Values = np.unique(np.concatenate([cuts, distinct[heavy + 1]]))
    above: Values = found[found > distinct[0]]
    return above


def mdl_cuts(values: Values, positive: NDArray[np.bool_]) -> Values:
    """Cuts by least class entropy, as long as the description gets shorter by them: Fayyad and Irani 1993."""
    distinct, place = np.unique(values, return_inverse=True)
    counts = np.zeros((len(distinct), 2))
    np.add.at(counts, (place, positive.astype(np.int64)), 1.0)
    before = np.concatenate([np.zeros((1, 2)), counts.cumsum(axis=0)])
    cuts: list[int] = []
    left = [(0, len(distinct))]
    while left:
        start, stop = left.pop()
        at = _best_cut(before, start, stop)
        if at > start:
            cuts.append(at)
            left += [(start, at), (at, stop)]
    return distinct[np.sort(np.array(cuts, np.int64))]


def _best_cut(before: NDArray[np.float64], start: int, stop: int) -> int:
    """The first distinct value above the best cut of [start, stop); `start` if none is worth its description."""
    if stop - start < 2:
        return start
    whole = before[stop] - before[start]
    below = before[start + 1 : stop] - before[start]
    above = whole - below
    size = float(whole.sum())
    entropies = np.array([_entropy(below), _entropy(above)])
    shares = np.array([below.sum(axis=1), above.sum(axis=1)]) / size
    weighted = (shares * entropies).sum(axis=0)
    best = int(np.argmin(weighted))
    all_classes = np.count_nonzero(whole)
    classes = np.array([np.count_nonzero(below[best]), np.count_nonzero(above[best])])
    entropy = float(_entropy(whole[None])[0])
    spent = float(classes @ entropies[:, best])
    price = math.log2(size - 1) + math.log2(3.0**all_classes - 2.0) - (all_classes * entropy - spent)
    return start + 1 + best if entropy - float(weighted[best]) > price / size else start


def _entropy(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """float64[n]: in bits, of rows of counts."""
    shares = counts / counts.sum(axis=1, keepdims=True)
    found: NDArray[np.float64] = -(shares * np.log2(np.where(shares > 0, shares, 1.0))).sum(axis=1)
    return found
