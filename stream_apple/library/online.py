"""One learner that ends its epochs itself, by the number of examples or by their event times; all estimators use it.

An epoch ends before the first example of the next one is scored, as in `evaluate` and in a worker. So it does not
matter how examples are cut into calls.
"""

import threading
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.event_time import NO_EPOCH, EpochClock
from stream_apple.learners.loss_functions import write_probabilities
from stream_apple.learners.port import LearnerOptions
from stream_apple.learners.scores import Scores
from stream_apple.learners.systems import new_learner

FIRST_EPOCH = 100
"""Examples of the first epoch, if the length of epochs is not given; each further end comes at twice the number."""
MAX_AHEAD_MS = 7 * 86_400_000
"""How far ahead of the others an example's time may lie: the default of a worker's `epochs.max_ahead`."""
BOUND = "max_features_per_example"
"""The option that says how many features a row may have."""
BEGINNING = threading.Lock()
"""Has to be held by code that makes a model when it is first needed: threads that need it at once get the same one."""
_NEVER = 1 << 62


class OnlineLearner:
    """A learner that ends its epochs by itself.

    epoch_examples   examples of an epoch; None: epochs end after 100, 200, 400 ... examples; 0: only by `end_epoch`
    epoch_length_ms  epochs are spans of event time of this length, as in a worker; then each example has a time

    far_ahead  how many examples were not learned, as their times lay too far ahead: a worker makes dead letters of them
    seen       how many examples were given to the learner
    lock       has to be held by code that uses the learner itself

    Several threads may use it; they take turns, because scoring writes to the learner's scratch, too.
    """

    def __init__(
        self, options: LearnerOptions, epoch_examples: int | None = None, epoch_length_ms: int | None = None
    ) -> None:
        self.options = options
        self.far_ahead = 0
        self._clock = None if epoch_length_ms is None else EpochClock(epoch_length_ms, MAX_AHEAD_MS)
        self._epoch = NO_EPOCH
        self.learner = new_learner(options)
        self.lock = threading.RLock()
        self.seen = 0
        self._epoch_examples = epoch_examples
        self._next_end = self._end_after(0)

    def learn(self, batch: Batch, times_ms: NDArray[np.int64] | None = None) -> Scores:
        """Score, then learn, all rows in order; return their scores. Rows without a label or a weight are scored.

        times_ms  int64[n], the rows' times since 1970 if epochs are spans of time, else None; ValueError otherwise.
                  Rows whose times lie too far ahead are left out, and their scores are NaN

        ValueError for a row of more than `most_features`, before any is learned.
        """
        check_lengths(batch, self.most_features, BOUND)
        size = len(batch.labels)
        scores, at = Scores.empty(size, self.options.classes), 0
        with self.lock:
            if times_ms is not None or self._clock is not None:
                self._learn_by_time(batch, times_ms, scores)
                return scores
            while at < size:
                self.end_if_due()
                stop = min(size, at + self._next_end - self.seen)
                self.learner.learn(batch, at, stop, scores)
                self.seen += stop - at
                at = stop
        return scores

    @property
    def most_features(self) -> int:
        """How many features a row may have: with its n-grams and the constant, those that an example may have."""
        return (self.options.max_features_per_example - 1) // self.options.longest_ngram

    def begin_example(self, times_ms: NDArray[np.int64] | None) -> bool:
        """End the epoch, if it is over before the next example; return whether that example may be learned.

        times_ms  int64[1], as in `learn`
        """
        if times_ms is None and self._clock is None:
            self.end_if_due()
            return True
        epoch = int(self._epochs_of(times_ms, 1)[0])
        if epoch == NO_EPOCH:
            self.far_ahead += 1
            return False
        if epoch > self._epoch != NO_EPOCH:
            self.learner.end_epoch()
        self._epoch = epoch
        return True

    def learn_begun(self, batch: Batch) -> float:
        """Score, then learn, the only row of a batch, after `begin_example`; return its score.

        The row has at most `most_features` features.
        """
        scores = Scores.empty(1, self.options.classes)
        self.learner.learn(batch, 0, 1, scores)
        self.seen += 1
        return float(scores.predictions[0])

    def _learn_by_time(self, batch: Batch, times_ms: NDArray[np.int64] | None, scores: Scores) -> None:
        """Learn rows by their times; those whose times are refused are left out, and their scores stay NaN."""
        epochs = self._epochs_of(times_ms, len(batch.labels))
        rows = np.flatnonzero(epochs != NO_EPOCH)
        batch, found = batch.select(rows), Scores.empty(len(rows), self.options.classes)
        before = np.concatenate([[self._epoch], epochs[rows]])
        ended = np.flatnonzero((before[1:] > before[:-1]) & (before[:-1] != NO_EPOCH)).tolist()
        for start, stop in pairwise(sorted({0, *ended, len(rows)})):
            if start in ended:
                self.learner.end_epoch()
            self.learner.learn(batch, start, stop, found)
        for name in scores._fields:
            if len(learned := getattr(found, name)):
                getattr(scores, name)[rows] = learned
        self._epoch = int(before[-1])
        self.seen += len(rows)
        self.far_ahead += len(epochs) - len(rows)

    def _epochs_of(self, times_ms: NDArray[np.int64] | None, count: int) -> NDArray[np.int64]:
        """Move the clock, and return each example's epoch, int64[n]; ValueError without a clock, or without times."""
        if self._clock is None:
            raise ValueError("time: expected none, as epochs end by the number of examples; epoch_length sets a span")
        if times_ms is None or len(times_ms) != count:
            raise ValueError(
                f"time: expected one for each of {count} examples, as epochs are spans of time, found "
                f"{'none' if times_ms is None else len(times_ms)}"
            )
        return self._clock.advance(times_ms)

    def score(self, batch: Batch) -> Scores:
        """Return the scores of all rows; the model does not change."""
        check_lengths(batch, self.most_features, BOUND)
        size = len(batch.labels)
        scores = Scores.empty(size, self.options.classes)
        with self.lock:
            self.learner.score_rows(batch, 0, size, scores)
        return scores

    def end_epoch(self) -> None:
        """End the epoch at once: features that matter are multiplied from now on."""
        with self.lock:
            self.learner.end_epoch()

    def end_if_due(self) -> None:
        """End the epoch before the next example is scored, if the epoch has all its examples."""
        if self.seen >= self._next_end:
            self.learner.end_epoch()
            self._next_end = self._end_after(self.seen)

    def _end_after(self, seen: int) -> int:
        """Return the number of examples, above `seen`, at which the next epoch ends."""
        length = self._epoch_examples
        if length == 0:
            return _NEVER
        if length is not None:
            return (seen // length + 1) * length
        end = FIRST_EPOCH
        while end <= seen:
            end *= 2
        return end

    def __getstate__(self) -> dict[str, Any]:
        with self.lock:
            state = self.learner.state
            return {
                "options": self.options,
                "epoch_examples": self._epoch_examples,
                "seen": self.seen,
                "next_end": self._next_end,
                "time": None
                if self._clock is None
                else (self._clock.length_ms, self._clock.state.copy(), self._epoch, self.far_ahead),
                "rows": {name: _used_rows(array) for name, array in state.rows.items()},
                "sums": {name: array.copy() for name, array in state.sums.items()},
                "observed": {name: array.copy() for name, array in self.learner.observed.items()},
            }

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.options = state["options"]
        self._epoch_examples, self.seen, self._next_end = state["epoch_examples"], state["seen"], state["next_end"]
        self._clock, self._epoch, self.far_ahead = None, NO_EPOCH, 0
        if state["time"] is not None:
            length_ms, clock, self._epoch, self.far_ahead = state["time"]
            self._clock = EpochClock(length_ms, MAX_AHEAD_MS)
            self._clock.state[:] = clock
        self.learner = new_learner(self.options)
        self.lock = threading.RLock()
        own = self.learner.state.rows
        for name, (rows, content) in state["rows"].items():
            _as_bytes(own[name])[rows] = content
        self.learner.restore(state["sums"])
        self.learner.restore_observed(state["observed"])


def _as_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return a view of the array's rows as bytes, uint8[n, bytes of a row]."""
    return array.reshape(-1).view(np.uint8).reshape(len(array), -1)


def _used_rows(array: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return which rows are not all zeros, int64[k], and their bytes; most slots of a model are free."""
    rows = _as_bytes(array)
    used = np.flatnonzero(rows.any(axis=1))
    return used, rows[used]


def check_lengths(batch: Batch, most: int, bound: str) -> None:
    """Raise ValueError for the first row of more than `most` features; `bound` is the setting that says how many."""
    check_counts(np.diff(batch.indptr), most, bound)


def check_counts(counts: NDArray[np.int64], most: int, bound: str, first: int = 0) -> None:
    """Raise ValueError as `check_lengths` does, for rows of so many features, of which the first has this number."""
    if counts.max(initial=0) > most:
        row = int(np.flatnonzero(counts > most)[0])
        raise ValueError(f"row {first + row}: expected at most {most:,} features ({bound}), found {counts[row]:,}")


def probabilities_of(scores: Scores, options: LearnerOptions) -> NDArray[np.float64]:
    """Return the probability of each label of a model of classes: of two float64[n, 2], of k classes float64[n, k]."""
    if options.classes:
        return scores.all_probabilities
    second = np.empty(len(scores.predictions))
    write_probabilities(scores.predictions, second)
    return np.column_stack([1.0 - second, second])
