"""The history of a partition: losses, offset and lag over the time of day, in a bounded list of points.

The points are kept with the model's snapshots, so that they go with the partition to its next owner. No digest covers
them, as the clock decides when points are taken.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.stream.partitions.partition import Partition

MOST_POINTS = 600
"""How many points a partition has; when there are more, every other one is dropped, and later ones are taken at twice
the distance."""
MOST_KEPT = 300
"""How many points are kept with a snapshot: 31 kB before compression."""
SAMPLE_POINT_S = 1.0
ATTACHMENT = "history"
"""Name of a model's attachment that has the points."""
_UNKNOWN_LAG = -1.0


KeptHistory = NDArray[np.float64]
"""Points as they are kept: `History.to_array` writes them, `points_of` reads them."""


class HistoryPoint(NamedTuple):
    """Says where a partition stood at one moment; mean losses are NaN before the first example.

    at_ms   time of day
    recent, linear, constant, expanded   losses of recent examples
    whole, whole_linear, whole_constant, whole_expanded   losses since the start
    offset  the first record that had not been answered
    lag     records behind the end of the log, -1 if that was not known
    """

    at_ms: int
    examples: int
    epoch: int
    recent: float
    linear: float
    constant: float
    whole: float
    whole_linear: float
    whole_constant: float
    expanded: float
    whole_expanded: float
    offset: int
    lag: float


class History:
    """Keeps points in the order of time, evenly spread from the first to the last, at most `most`."""

    def __init__(self, most: int = MOST_POINTS) -> None:
        self._most = most
        self._step_ms = int(SAMPLE_POINT_S * 1000)
        self._points: list[HistoryPoint] = []

    def add(self, point: HistoryPoint) -> None:
        """Keep the point, unless it is too close to the last one; forget what is later, if the clock was set back."""
        if self._points and point.at_ms < self._points[-1].at_ms:
            self._points = [each for each in self._points if each.at_ms <= point.at_ms]
        if self._points and point.at_ms - self._points[-1].at_ms < self._step_ms:
            return
        points = [*self._points, point]
        if len(points) > self._most:
            points = points[::2]
            self._step_ms *= 2
        self._points = points  # replaced whole: readers have the list as it was

    def insert(self, points: Sequence[HistoryPoint], now_ms: int) -> None:
        """Take in another history's points, one for each moment, except those after `now_ms`."""
        known = {point.at_ms: point for point in (*points, *self._points) if point.at_ms <= now_ms}
        merged = [known[at_ms] for at_ms in sorted(known)]
        while merged and merged[-1].at_ms - merged[0].at_ms > self._most * self._step_ms:
            self._step_ms *= 2
        while len(merged) > self._most:
            merged = merged[::2]
        self._points = merged

    def since(self, at_ms: int) -> list[HistoryPoint]:
        """Return the points that are later than `at_ms`."""
        return [point for point in self._points if point.at_ms > at_ms]

    def to_array(self) -> KeptHistory:
        """Return float64[n * columns] with at most MOST_KEPT points, evenly spread, including the last one."""
        points = self._points
        chosen = points[:: -max(1, -(-len(points) // MOST_KEPT))][::-1]
        return np.array(chosen, np.float64).reshape(-1)


def points_of(array: NDArray[Any]) -> list[HistoryPoint]:
    """Return the points that `to_array` has written; none if the array is damaged."""
    columns = len(HistoryPoint._fields)
    if array.dtype != np.float64 or array.size % columns:
        return []
    rows = array.reshape(-1, columns)
    if not np.isfinite(rows[:, [0, 1, 2, -2, -1]]).all():
        return []
    return [HistoryPoint._make([*map(int, row[:3]), *row[3:-2], int(row[-2]), row[-1]]) for row in rows.tolist()]


def point_of(at_ms: int, partition: Partition, lag: float | None) -> HistoryPoint:
    """Return a point for where the partition stands now; `lag` is None while it is not known."""
    model = partition.model
    progress = model.learner.progress
    recent, whole = progress.report("recent"), progress.report("whole")
    return HistoryPoint(
        at_ms=at_ms,
        examples=model.learner.examples,
        epoch=model.clock.epoch,
        recent=recent.loss,
        linear=recent.linear_loss,
        constant=recent.best_constant_loss,
        whole=whole.loss,
        whole_linear=whole.linear_loss,
        whole_constant=whole.best_constant_loss,
        expanded=recent.expanded_loss,
        whole_expanded=whole.expanded_loss,
        offset=partition.sent_offset,
        lag=_UNKNOWN_LAG if lag is None else float(lag),
    )
