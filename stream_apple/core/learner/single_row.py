"""One example at a time: the kernels of a learner with all that does not change from one example to the next.

The bits are those of `Learner.learn` with a batch of one row: the same kernels, in the same order.
"""

from typing import TYPE_CHECKING

import numpy as np

from stream_apple.core.batch import Batch
from stream_apple.core.bound_call import BoundCall
from stream_apple.core.learner.kernels.rows import Scores
from stream_apple.errors import ModelError

if TYPE_CHECKING:
    from stream_apple.core.learner.learner import Learner


class SingleRow:
    """Place for one example: whoever writes to its arrays may have it scored or learned.

    keys, values  uint64[room], float32[room]  the features; `indptr[1]` says how many there are
    label, weight  float64[1]
    scores        of the example, one row
    """

    def __init__(self, learner: "Learner", room: int) -> None:
        self.room = room
        self.keys, self.values = np.zeros(room, np.uint64), np.zeros(room, np.float32)
        self.indptr, self.label, self.weight = np.zeros(2, np.int64), np.full(1, np.nan), np.ones(1)
        self.scores = Scores.empty(1, learner.options.classes)
        self.predictions = self.scores.predictions
        self.generation = learner.generation
        batch = Batch(self.indptr, self.keys, self.values, self.label, self.weight)
        calls = (
            *(learner.kernel_call(batch, self.scores, 0, 1, learn=learn) for learn in (False, True)),
            *learner.progress.kernel_calls(batch, self.scores, 0, 1),
        )
        self._bound = [BoundCall(*each) for each in calls]  # keeps what the calls are on
        self._score, self._learn, *self._count = (each.call for each in self._bound)

    def score(self) -> None:
        """Write the scores of the example; the model does not change. ModelError if they are not finite."""
        if self._score() >= 0:
            _refuse()

    def learn(self) -> None:
        """Score the example, then learn it, if it has a label and a weight. ModelError if scores are not finite."""
        if self._learn() >= 0:
            _refuse()
        for call in self._count:
            call()


def _refuse() -> None:
    raise ModelError("expected a finite score, found infinity or NaN: weights or values overflow", 0)
