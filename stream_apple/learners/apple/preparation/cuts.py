"""Cuts that divide a feature's values into intervals, at quantiles or where labels change; and points of splines.

A cut is the smallest value of the interval above it: intervals are [a, b), and the outer ones are unbounded.
"""

import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float32]
_Float = TypeVar("_Float", np.float32, np.float64)
_MANY = 600  # classes: 3.0**647 overflows


def quantile_cuts(values: Values, bins: int) -> Values:
    """Return the cuts, ascending, of about `bins` intervals with equally many values; few values get an interval each.

    The cuts are those of `numpy.quantile` with method "lower" that are above the smallest value. A value that alone has
    more than an interval's share would share an interval with the values above it: so a further cut is made after it.
    """
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) <= bins:
        return distinct[1:]
    cuts = np.quantile(values, np.arange(1, bins) / bins, method="lower").astype(np.float32)
    heavy = np.flatnonzero(counts[:-1] * bins > len(values))
    found: Values = np.unique(np.concatenate([cuts, distinct[heavy + 1]]))
    above: Values = found[found > distinct[0]]
    return above


def spline_points(values: Values, most: int) -> Values:
    """Return the points of a linear spline, ascending: the least and the largest value, and quantiles between.

    If there are at most `most` values, each is a point. Otherwise there are about `most` points, with equally many
    values between neighbours; a value that alone has more than such a share, and the next value, are points as well.
    """
    distinct: Values = np.unique(values)
    if len(distinct) <= most:
        return distinct
    found: Values = np.unique(np.concatenate([distinct[[0, -1]], quantile_cuts(values, most - 1)]))
    return found


def mdl_cuts(values: NDArray[_Float], classes: NDArray[np.generic]) -> NDArray[_Float]:
    """Return the cuts of least class entropy, as long as they shorten the description: Fayyad and Irani 1993.

    classes  the class of each value: a number, or a boolean
    """
    distinct, place = np.unique(values, return_inverse=True)
    names, number = np.unique(classes, return_inverse=True)
    counts = np.zeros((len(distinct), len(names)))
    np.add.at(counts, (place, number), 1.0)
    before = np.concatenate([np.zeros((1, len(names))), counts.cumsum(axis=0)])
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
    """Return the index of the distinct value above the best cut of [start, stop); `start` if none is worth its bits."""
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
    all_classes = int(np.count_nonzero(whole))
    classes = np.array([np.count_nonzero(below[best]), np.count_nonzero(above[best])])
    entropy = float(_entropy(whole[None])[0])
    spent = float(classes @ entropies[:, best])
    price = math.log2(size - 1) + _bits_of_classes(all_classes) - (all_classes * entropy - spent)
    return start + 1 + best if entropy - float(weighted[best]) > price / size else start


def _bits_of_classes(count: int) -> float:
    """Return log2(3^k - 2); for many classes 3^k overflows, and the 2 makes no difference."""
    return math.log2(3.0**count - 2.0) if count < _MANY else count * math.log2(3.0)


def information_bits(numbers: NDArray[np.int64], classes: NDArray[np.generic] | None) -> float:
    """Return the mutual information, in bits, of a value's interval and its class; without classes, the entropy.

    numbers  int64[n], the number of each value's interval
    classes  [n], the class of each value, or None
    """
    _, of_interval = np.unique(numbers, return_counts=True)
    of_all = _entropy(of_interval[None].astype(np.float64))[0]
    if classes is None:
        return float(of_all)
    _, number = np.unique(classes, return_inverse=True)
    kinds = int(number.max()) + 1
    _, of_class = np.unique(number, return_counts=True)
    _, of_both = np.unique(numbers * kinds + number, return_counts=True)
    alone, together = (_entropy(each[None].astype(np.float64))[0] for each in (of_class, of_both))
    return float(of_all + alone - together)


def _entropy(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the entropy of each row of counts, float64[n], in bits."""
    shares = counts / counts.sum(axis=1, keepdims=True)
    found: NDArray[np.float64] = -(shares * np.log2(np.where(shares > 0, shares, 1.0))).sum(axis=1)
    return found
