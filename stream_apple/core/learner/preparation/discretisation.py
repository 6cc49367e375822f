"""The stage that makes intervals of values: first a reservoir, then cuts that stay."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.learner.options import Options
from stream_apple.core.learner.preparation.intervals import Intervals, as_intervals, look_up_table, no_intervals
from stream_apple.core.learner.preparation.namespaces import space_key
from stream_apple.core.learner.preparation.reservoir import empty_reservoir, fill, fit

_Arrays = dict[str, NDArray[Any]]
_FITTED, _RESERVOIR, _INTERVALS = "fitted", "reservoir_", "intervals_"


class Discretiser:
    """Its state is a function of the examples learned.

    intervals  the features that are cut; none before cuts are fitted
    """

    def __init__(self, options: Options) -> None:
        self.intervals = no_intervals()
        self._options = options
        names = [name for name in options.namespaces_to_discretise if name]
        self._spaces = np.array([space_key(name) for name in names], np.uint64)
        self._fitted: NDArray[np.uint8] = np.zeros(1, np.uint8)
        self._reservoir = empty_reservoir()
        self._lookup = look_up_table(self.intervals)

    def warm_up(self, batch: Batch) -> None:
        """Compile."""
        as_intervals(batch, self.intervals, self._lookup)

    def prepare(self, batch: Batch) -> Batch:
        """All rows, by the cuts that there are."""
        if not len(self.intervals.features):
            return batch
        return as_intervals(batch, self.intervals, self._lookup)

    def learn(self, batch: Batch) -> int:
        """Take the examples into the reservoir; from which row on they are to be prepared, by the cuts there are."""
        if self._fitted[0]:
            return 0
        reservoir, stop, full = fill(self._reservoir, batch, int(self._options.reservoir or 0))
        self._reservoir = reservoir
        if full:
            self._take(fit(reservoir, self._options, self._spaces))
            self._fitted = np.ones(1, np.uint8)
            self._reservoir = empty_reservoir()
        return stop

    def _take(self, intervals: Intervals) -> None:
        self.intervals = intervals
        self._lookup = look_up_table(intervals)

    @property
    def arrays(self) -> _Arrays:
        """The state by name."""
        found: _Arrays = {_FITTED: self._fitted}
        found |= {_RESERVOIR + name: array for name, array in self._reservoir._asdict().items()}
        return found | {_INTERVALS + name: array for name, array in self.intervals._asdict().items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a state whose names and types are these; ValueError if its lengths contradict each other."""
        reservoir = empty_reservoir()._replace(**{n: _own(arrays[_RESERVOIR + n]) for n in self._reservoir._fields})
        intervals = no_intervals()._replace(**{n: _own(arrays[_INTERVALS + n]) for n in self.intervals._fields})
        features, cuts = len(intervals.features), len(intervals.cuts)
        if {len(array) for name, array in intervals._asdict().items() if name != "cuts"} - {features}:
            raise ValueError(f"expected intervals of {features} features, found other lengths")
        ends = np.concatenate([[0], intervals.ends, [cuts]])
        if (np.diff(ends) < 0).any() or (features and ends[-2] != cuts):
            raise ValueError(f"expected ends of {cuts} cuts, found {intervals.ends.tolist()[:10]}")
        entries = int(reservoir.sizes.sum())
        if {len(array) for array in reservoir[2:]} != {entries} or len(reservoir.labels) != len(reservoir.sizes):
            raise ValueError(f"expected a reservoir of {entries} features, found other lengths")
        self._fitted = _own(arrays[_FITTED])
        self._reservoir = reservoir
        self._take(intervals)


def _own(array: NDArray[Any]) -> NDArray[Any]:
    return array.copy()
