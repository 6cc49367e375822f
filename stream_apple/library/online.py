"""One learner with its epochs, which end by the number of examples: what all estimators of the library are made of.

An epoch ends before the first example of the next one is scored, as in `evaluate` and in a worker. So it does not
matter how examples are cut into calls.
"""

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.learner.learner import Learner, Scores
from stream_apple.core.learner.options import Options

FIRST_EPOCH = 100
"""Examples of the first epoch, where the length of epochs is not said; each further end comes at twice the number."""
_NEVER = 1 << 62


class OnlineLearner:
    """A learner that ends its epochs by itself.

    epoch_examples  examples of an epoch; None: epochs end after 100, 200, 400, 800 ... examples; 0: only by hand

    Several threads may use it at once, one of which works at a time: scoring writes to the learner's scratch, too.

    lock  is held by whoever works with the learner itself
    """

    def __init__(self, options: Options, epoch_examples: int | None = None) -> None:
        self.options = options
        self.learner = Learner(options)
        self.lock = threading.RLock()
        self.seen = 0
        self._epoch_examples = epoch_examples
        self._next_end = self._end_after(0)

    def learn(self, batch: Batch) -> Scores:
        """Score, then learn, all rows in order; return their scores. Rows without a label or a weight are scored."""
        size = len(batch.labels)
        scores, at = Scores.empty(size, self.options.classes), 0
        with self.lock:
            while at < size:
                self.end_if_due()
                stop = min(size, at + self._next_end - self.seen)
                self.learner.learn(batch, at, stop, scores)
                self.seen += stop - at
                at = stop
        return scores

    def score(self, batch: Batch) -> Scores:
        """Return the scores of all rows; nothing of the model changes."""
        size = len(batch.labels)
        scores = Scores.empty(size, self.options.classes)
        with self.lock:
            self.learner.score_rows(batch, 0, size, scores)
        return scores

    def end_epoch(self) -> None:
        """End the epoch at once: products that matter become features."""
        with self.lock:
            self.learner.end_epoch()

    def end_if_due(self) -> None:
        """End the epoch before the next example is scored, if it has its examples."""
        if self.seen >= self._next_end:
            self.learner.end_epoch()
            self._next_end = self._end_after(self.seen)

    def _end_after(self, seen: int) -> int:
        """Return after how many examples the first epoch ends that ends after more than `seen`."""
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
            table = self.learner.table
            return {
                "options": self.options,
                "epoch_examples": self._epoch_examples,
                "seen": self.seen,
                "next_end": self._next_end,
                "table": {name: _used_rows(array) for name, array in table._asdict().items()},
                "sums": {name: array.copy() for name, array in self.learner.sums.items()},
                "observed": {name: array.copy() for name, array in self.learner.observed.items()},
            }

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.options = state["options"]
        self._epoch_examples, self.seen, self._next_end = state["epoch_examples"], state["seen"], state["next_end"]
        self.learner = Learner(self.options)
        self.lock = threading.RLock()
        for name, (rows, content) in state["table"].items():
            _as_bytes(getattr(self.learner.table, name))[rows] = content
        self.learner.restore(state["sums"])
        self.learner.restore_observed(state["observed"])


def _as_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return a view of the array's rows as bytes, uint8[n, bytes of a row]."""
    return array.view(np.uint8).reshape(len(array), -1) if array.size else np.empty((0, 0), np.uint8)


def _used_rows(array: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return which rows are not all zeros, and their bytes: most slots of a model are free."""
    rows = _as_bytes(array)
    used = np.flatnonzero(rows.any(axis=1)) if rows.size else np.empty(0, np.int64)
    return used, rows[used]
