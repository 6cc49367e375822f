"""Numbers become a few values each: cuts are found on examples that are learned, and are applied to all."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.study.tuples.attributes import AttributeTable, Codes

Discretisation = Literal["quantile", "mdl"]
BINS = 12


class DiscreteTable(NamedTuple):
    """`n` examples with `a` attributes of few values.

    names          of the attributes
    codes          int32[n, a]: values, below their attribute's cardinality
    cardinalities  int64[a]
    labels         int32[n]: classes
    classes        how many there are
    """

    names: tuple[str, ...]
    codes: Codes
    cardinalities: NDArray[np.int64]
    labels: Codes
    classes: int


def discretised(
    table: AttributeTable, learned: NDArray[np.int64], how: Discretisation, bins: int = BINS
) -> DiscreteTable:
    """All examples of the table, by cuts that are found on the rows `learned`.

    Attributes that have one value there are left out: they say nothing, and log θ of their only value is 0. If that is
    all of them, the last is left in, for there to be one.
    """
    made: list[Codes] = []
    cardinalities, names = [], []
    for place, name in enumerate(table.names):
        values = table.values[:, place]
        if table.is_category[place]:
            codes = values.astype(np.int32)
        else:
            seen = values[learned]
            cuts = equal_frequency_cuts(seen, bins) if how == "quantile" else mdl_cuts(seen, table.labels[learned])
            codes = np.searchsorted(cuts, values, side="right").astype(np.int32)
        if len(np.unique(codes[learned])) > 1 or (not made and place == len(table.names) - 1):
            made.append(codes)
            names.append(name)
            cardinalities.append(int(codes.max()) + 1)
    return DiscreteTable(
        tuple(names), np.column_stack(made), np.array(cardinalities, np.int64), table.labels, len(table.classes)
    )


def equal_frequency_cuts(values: NDArray[np.float64], bins: int) -> NDArray[np.float64]:
    """At most `bins` - 1 cuts, ascending, between which about equally many of the values lie.

    A value is in the bin after the last cut that is not above it. Where a value has several bins' share, they are one.
    """
    quantiles = np.quantile(values, np.arange(1, bins) / bins, method="inverted_cdf")
    cuts = np.unique(quantiles)
    inside: NDArray[np.float64] = cuts[cuts > values.min()]
    return inside


def mdl_cuts(values: NDArray[np.float64], labels: Codes) -> NDArray[np.float64]:
    """Cuts by class entropy, ascending: Fayyad and Irani 1993, recursive, accepted by minimum description length."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    classes = int(labels.max()) + 1
    one_hot = np.zeros((len(values) + 1, classes), np.int64)
    one_hot[np.arange(1, len(values) + 1), labels[order]] = 1
    before = one_hot.cumsum(axis=0)  # [i, c]: how many of the first i are of class c
    steps = np.flatnonzero(ordered[1:] > ordered[:-1]) + 1
    cuts, waiting = [], [(0, len(values))]
    while waiting:
        first, stop = waiting.pop()
        inside = steps[np.searchsorted(steps, first, side="right") : np.searchsorted(steps, stop)]
        best = _best_cut(before, first, stop, inside)
        if best is not None:
            cuts.append(_between(ordered[best - 1], ordered[best]))
            waiting += [(first, best), (best, stop)]
    return np.array(sorted(cuts), np.float64)


def _best_cut(before: NDArray[np.int64], first: int, stop: int, inside: NDArray[np.int64]) -> int | None:
    """Where [first, stop) is best cut; None if that is not worth its description."""
    if not len(inside):
        return None
    whole = before[stop] - before[first]
    left, right = before[inside] - before[first], before[stop] - before[inside]
    size = stop - first
    of_left, of_right = _entropy(left), _entropy(right)
    weighted = (left.sum(axis=1) * of_left + right.sum(axis=1) * of_right) / size
    at = int(np.argmin(weighted))
    entropy = float(_entropy(whole[None])[0])
    k, k_left, k_right = (int((counts > 0).sum()) for counts in (whole, left[at], right[at]))
    described = np.log2(3.0**k - 2.0) - (k * entropy - k_left * of_left[at] - k_right * of_right[at])
    gain = entropy - weighted[at]
    return int(inside[at]) if gain > (np.log2(size - 1.0) + described) / size else None


def _entropy(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """In bits, of each row of counts, none of which is empty."""
    shares = counts / counts.sum(axis=1, keepdims=True)
    logs = np.log2(shares, out=np.zeros_like(shares), where=shares > 0)
    entropies: NDArray[np.float64] = -(shares * logs).sum(axis=1)
    return entropies


def _between(low: float, high: float) -> float:
    """Above `low`, and not above `high`: in the middle, if a number is there."""
    middle = low + (high - low) / 2
    return float(middle if low < middle <= high else high)
