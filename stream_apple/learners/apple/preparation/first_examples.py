"""The first examples of a stream, and the splines that are fitted to them.

Features are centered when CENTERED_AFTER examples were learned, and again each time that there are a quarter more.
They get their points, once and for all, when FITTED_AFTER examples were learned.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.options import MOST_FIRST_FEATURES
from stream_apple.learners.apple.preparation.splines import NO_SPLINES, Splines

CENTERED_AFTER, FITTED_AFTER = 5, 40
"""Examples."""
MOST_POINTS = 6
"""About how many points a spline has at most, see `spline_points`."""
FEWEST, FEWEST_TO_CENTER = 3, 2
"""How many of the first examples must have a feature so that it gets points, or is centered."""
PRESENT = 0.1
"""The least share of the first examples that have a dense feature."""
COMMON, TABLE = 0.5, 0.2
"""A feature is common if this share of the examples has it; and numbers are fitted only if this share of them is
common. In tables a third or more are common, in text a fortieth or less, whose presence says more than its count."""

_Values = NDArray[np.float32]


class FirstExamples(NamedTuple):
    """`r` examples with `m` features in all, at most FITTED_AFTER and MOST_FIRST_FEATURES.

    sizes    int64[r]    how many features each example has
    labels   float64[r]
    weights  float64[r]  importance
    keys     uint64[m]   as in `Batch`, like the next one
    values   float32[m]
    """

    sizes: NDArray[np.int64]
    labels: NDArray[np.float64]
    weights: NDArray[np.float64]
    keys: NDArray[np.uint64]
    values: _Values

    @property
    def rows(self) -> Batch:
        """The examples as a batch."""
        return Batch(np.concatenate([[0], self.sizes.cumsum()]), self.keys, self.values, self.labels, self.weights)


NO_EXAMPLES = FirstExamples(
    np.zeros(0, np.int64), np.zeros(0), np.zeros(0), np.zeros(0, np.uint64), np.zeros(0, np.float32)
)


class Filled(NamedTuple):
    """What `fill` has done.

    first  the examples so far
    stop   the first row of the batch after the last one added
    due    whether splines are to be fitted to the examples before that row is learned
    full   whether they get their points then, and no example will be added any more
    """

    first: FirstExamples
    stop: int
    due: bool
    full: bool


def fill(first: FirstExamples, batch: Batch) -> Filled:
    """Add the examples of the batch that are learned, in order, until splines are due or the next one does not fit."""
    most = _next_size(len(first.sizes))
    learned = batch.learned(0, len(batch.labels))
    sizes = np.diff(batch.indptr)[learned]
    fitting = int(np.searchsorted(sizes.cumsum(), MOST_FIRST_FEATURES - len(first.keys), side="right"))
    room = min(most - len(first.sizes), fitting)
    found = _with_rows(first, batch, learned[:room])
    if len(found.sizes) == most:
        return Filled(found, int(learned[room - 1]) + 1, due=True, full=most == FITTED_AFTER)
    if len(learned) > room:
        return Filled(found, int(learned[room]), due=True, full=True)
    return Filled(found, len(batch.labels), due=False, full=False)


def _next_size(count: int) -> int:
    """Return the next number of examples, above `count`, at which splines are fitted."""
    due = CENTERED_AFTER
    while due <= count:
        due += max(due // 4, 1)
    return min(due, FITTED_AFTER)


def _with_rows(first: FirstExamples, batch: Batch, rows: NDArray[np.int64]) -> FirstExamples:
    part = batch.select(rows)
    added = (np.diff(part.indptr), part.labels, part.weights, part.keys, part.values)
    pairs: Any = zip(first, added, strict=True)
    return FirstExamples._make(np.concatenate(pair) for pair in pairs)


def fit(first: FirstExamples, *, points: bool) -> Splines:
    """Return the splines of the numbers: features that FEWEST of the examples have, with at least two values.

    None has a spline if less than the share TABLE of the numbers is COMMON.

    points  False: numbers are only centered, those that are dense
    """
    numbers = list(_numbers(first, FEWEST if points else FEWEST_TO_CENTER))
    common = sum(each.share >= COMMON for each in numbers)
    kept = [each for each in numbers if points or each.is_dense]
    if not kept or common < TABLE * len(numbers):
        return NO_SPLINES
    of_each = [spline_points(each.values, MOST_POINTS) if points else each.values[:0] for each in kept]
    exact = [each.values.astype(np.float64) for each in kept]
    return Splines(
        np.array([each.feature for each in kept], np.uint64),
        np.cumsum([len(each) for each in of_each]),
        np.concatenate(of_each),
        np.array([each.is_dense for each in kept], np.uint8),
        np.array([values.mean() for values in exact], np.float32),
        np.array([np.float32(values.std()) or 1.0 for values in exact], np.float32),
    )


class _Number(NamedTuple):
    """A feature with several values: of the examples that have it, and, if it is dense, a 0 for each of the others.

    share  of the examples that have it
    """

    feature: int
    values: _Values
    share: float

    @property
    def is_dense(self) -> bool:
        return self.share >= PRESENT


def _numbers(first: FirstExamples, fewest: int) -> Iterator[_Number]:
    """Yield the numbers that occur at least `fewest` times, in the order of their keys."""
    examples = len(first.sizes)
    rows = np.repeat(np.arange(examples), first.sizes)
    order = np.argsort(first.keys, kind="stable")
    keys, starts, counts = np.unique(first.keys[order], return_index=True, return_counts=True)
    for at in np.flatnonzero(counts >= fewest).tolist():
        entries = order[starts[at] : starts[at] + counts[at]]
        values = first.values[entries]
        if values.min() == values.max():
            continue
        present = len(np.unique(rows[entries]))
        number = _Number(int(keys[at]), values, present / examples)
        if number.is_dense:
            number = number._replace(values=np.concatenate([values, np.zeros(examples - present, np.float32)]))
        yield number


def spline_points(values: _Values, most: int) -> _Values:
    """Return the points of a linear spline, ascending: the least and the largest value, and quantiles between.

    If there are at most `most` values, each is a point. Otherwise there are about `most` points, with equally many
    values between neighbors; a value that has more than such a share by itself, and the next value, are points as well.
    """
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) > most:
        parts = most - 1
        quantiles = np.quantile(values, np.arange(1, parts) / parts, method="lower")
        after_heavy = distinct[1:][counts[:-1] * parts > len(values)]
        distinct = np.unique(np.concatenate([distinct[[0, -1]], quantiles, after_heavy]))
    found: _Values = distinct.astype(np.float32) + np.float32(0.0)  # -0.0 becomes 0.0
    return found
