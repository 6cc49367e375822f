"""One example at a time: a map is scored and learned without making a batch of it, where that is possible.

Most streams have the same names in each example, and only numbers. Then keys are looked up once, and an example costs
little more than its kernel.
"""

import math
import reprlib
from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.learners.loss_functions import write_probabilities
from stream_apple.learners.port import RowInPlace
from stream_apple.learners.scores import Scores
from stream_apple.library.cells import UnreadableCellError, field_name
from stream_apple.library.event_times import Time, milliseconds_of
from stream_apple.library.featurizer import Featurizer
from stream_apple.library.online import BOUND, OnlineLearner, check_lengths
from stream_apple.library.row_mapper import EXACT

_ROOM = 64  # features for which there is room at first
_MOST_PLANS = 64  # how many sets of names are remembered
_NUMBERS = frozenset({float, int})
_TEXT = frozenset({str})


class _Plan(NamedTuple):
    """What is done with maps of the same names.

    order  the names, in the order in which their features are taken
    take   returns the values of a map in this order
    keys   the keys of numbers, uint64[k]; None if some numbers are no features with their own values
    """

    order: tuple[Any, ...]
    take: Callable[[Mapping[Any, Any]], tuple[Any, ...]]
    keys: NDArray[np.uint64] | None


class OneRow:
    """A learner and the featurizer of its rows.

    sort_names  features are taken in the order of their names, not in that of the map
    """

    def __init__(self, online: OnlineLearner, featurizer: Featurizer, *, sort_names: bool) -> None:
        self.online = online
        self.featurizer = featurizer
        self.sort_names = sort_names
        self._forget()

    def _forget(self) -> None:
        self._row: RowInPlace | None = None
        self._plans: dict[tuple[Any, ...], _Plan] = {}
        self._written: _Plan | None = None
        self._probability = np.empty(1)

    def __getstate__(self) -> dict[str, Any]:
        return {"online": self.online, "featurizer": self.featurizer, "sort_names": self.sort_names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def learn(self, x: Mapping[Any, Any], label: float, weight: float, time: Time | None = None) -> float:
        """Learn one example, whose label and weight are checked already; return its score before that.

        time  the example's time, if epochs are spans of time
        """
        online, times = self.online, None if time is None else milliseconds_of([time])
        with online.lock:
            row = self._with(x)
            batch = self.batch_of(x) if row is None else None
            # What can't be learned has been refused by now: it ends no epoch, and moves no clock, as in a worker.
            if not online.begin_example(times):
                return self.score(x)
            if row is not None and row.generation != online.learner.generation:  # an epoch has ended
                row = self._with(x)
            if row is not None:
                row.label[0], row.weight[0] = label, weight
                row.learn()
                online.seen += 1
                return row.predictions.item()
            batch = self.batch_of(x) if batch is None else batch
            batch.labels[0], batch.weights[0] = label, weight
            return online.learn_begun(batch)

    def score(self, x: Mapping[Any, Any]) -> float:
        """Return the published score of a row: the expected label, the log-odds, or the number of a class."""
        with self.online.lock:
            return self._scored(x).predictions.item()

    def probability(self, x: Mapping[Any, Any]) -> float:
        """Return the probability of label 1; the model has the logistic loss."""
        with self.online.lock:
            write_probabilities(self._scored(x).predictions, self._probability)
            return self._probability.item()

    def probabilities(self, x: Mapping[Any, Any]) -> NDArray[np.float64]:
        """Return the probability of each class, float64[k]; the model has the softmax loss."""
        with self.online.lock:
            copied: NDArray[np.float64] = self._scored(x).all_probabilities[0].copy()
            return copied

    def _scored(self, x: Mapping[Any, Any]) -> Scores:
        """Return the scores of a row, which the next row overwrites; the caller holds the lock."""
        row = self._with(x)
        if row is None:
            return self.online.score(self.batch_of(x))
        row.score()
        return row.scores

    def batch_of(self, x: Mapping[Any, Any]) -> Batch:
        """Return a batch of one row, without a label; ValueError for a row of more than `most_features`."""
        _check_map(x)
        if self.sort_names:
            x = {name: x[name] for name in _in_order(x)}
        batch = self.featurizer.maps([x])
        check_lengths(batch, self.online.most_features, BOUND)
        return batch

    def _with(self, x: Mapping[Any, Any]) -> RowInPlace | None:
        """Write the features of `x` to the single row, and return it; None if they need a batch."""
        if type(x) is not dict:
            _check_map(x)
        row = self._row
        if row is None or row.generation != self.online.learner.generation or len(x) > row.room:
            row = self._new_row(len(x))
            if row is None:
                return None
        names = tuple(x)
        plan = self._plans.get(names)
        if plan is None:
            plan = self._new_plan(names)
        order, take, keys = plan
        taken = take(x)
        # If a value is NaN, as the sum shows, or large, or no number, each value is checked by `_by_cell`.
        if (
            keys is not None
            and _NUMBERS.issuperset(map(type, taken))
            and min(taken, default=0) > -EXACT
            and max(taken, default=0) < EXACT
            and not math.isnan(sum(taken))
        ):
            size = len(taken)
            values = row.values[:size]
            values[:] = taken
            if values.all():
                if self._written is not plan:
                    row.keys[:size] = keys
                    row.indptr[1] = size
                    self._written = plan
                return row
        return self._by_cell(row, dict(zip(order, taken, strict=True)))

    def _by_cell(self, row: RowInPlace, x: Mapping[Any, Any]) -> RowInPlace | None:
        """Do what `_with` does, with a check of each cell."""
        keys: list[int] = []
        numbers: list[Any] = []
        if not self.featurizer.rows.flat(x, keys, numbers):
            return None
        size = len(keys)
        if size > row.room:  # a time is several features
            return None
        self._written = None
        values = row.values[:size]
        values[:] = numbers
        row.keys[:size] = keys
        if not values.all():
            kept = np.flatnonzero(values)
            size = len(kept)
            row.keys[:size], row.values[:size] = row.keys[kept], row.values[kept]
        row.indptr[1] = size
        return row

    def _new_row(self, features: int) -> RowInPlace | None:
        most = self.online.most_features
        # A map of more fields may have fewer features, as some may be missing; what it has is known once it is a batch.
        if not self.featurizer.plain or features > most:
            return None
        known = 0 if self._row is None else self._row.room
        room = known if known and features <= known else min(most, max(_ROOM, 2 * features))
        self._row = self.online.learner.single_row(room)
        self._written = None
        return self._row

    def _new_plan(self, names: tuple[Any, ...]) -> _Plan:
        """Return the plan for these names."""
        order = tuple(_in_order(names)) if self.sort_names else names
        take = itemgetter(*order) if len(order) > 1 else lambda x: tuple(x[name] for name in order)
        if len(self._plans) >= _MOST_PLANS:
            self._plans.clear()
        plan = self._plans[names] = _Plan(order, take, self.featurizer.rows.keys_of(order))
        return plan


def _in_order(names: Iterable[Any]) -> list[Any]:
    """Return names in the order of their texts."""
    found = list(names)
    return sorted(found, key=None if _TEXT.issuperset(map(type, found)) else field_name)


def _check_map(x: object) -> None:
    """Raise UnreadableCellError for a row that is no map, such as a list of values without names."""
    if not isinstance(x, Mapping):
        raise UnreadableCellError(f"x: expected a map of names to values, found {reprlib.repr(x)}")
