"""One example at a time: a learner's kernels with arguments that are laid out once and used for each example.

The results equal those of `Learner.learn` with a batch of one row, bit for bit: the same kernels run in the same order.
"""

from typing import TYPE_CHECKING

import numpy as np

from stream_apple.core.batch import Batch
from stream_apple.core.bound_call import BoundCall
from stream_apple.errors import ModelError
from stream_apple.learners.apple.kernels.rows import LOSSES_ROSE, NOT_FINITE
from stream_apple.learners.apple.preparation.splines import KernelCall
from stream_apple.learners.scores import Scores

if TYPE_CHECKING:
    from stream_apple.learners.apple.learner import Learner


def empty_row(room: int) -> Batch:
    """Return a batch of one row with room for `room` features, without a label and with the weight 1."""
    return Batch(
        np.zeros(2, np.int64), np.zeros(room, np.uint64), np.zeros(room, np.float32), np.full(1, np.nan), np.ones(1)
    )


class SingleRow:
    """Room for one example: the caller writes it to these arrays, and then calls `score` or `learn`.

    keys, values  uint64[room], float32[room]  the features; `indptr[1]` says how many there are
    label, weight  float64[1]
    scores        of the example, one row
    generation    the learner's; once that differs, this room must not be used any more
    """

    def __init__(self, learner: "Learner", row: Batch, prepared: Batch, prepare: KernelCall | None) -> None:
        """Bind the calls for the only row of `row`; `prepare`, if any, writes the prepared row to `prepared`."""
        self.room = len(row.keys)
        self.indptr, self.keys, self.values, self.label, self.weight = row[:5]
        self.scores = Scores.empty(1, learner.options.classes)
        self.predictions = self.scores.predictions
        self.generation = learner.generation
        self._learner, self._row, self._units = learner, row, learner.units if learner.units.standardized else None
        if self._units is not None:
            prepared = prepared._replace(labels=np.full(1, np.nan))
        self._label = prepared.labels
        calls = (
            *(learner.kernel_call(prepared, self.scores, 0, 1, learn=learn) for learn in (False, True)),
            *learner.progress.kernel_calls(row, self.scores, 0, 1),
            *(() if prepare is None else (prepare,)),
        )
        self._bound = [BoundCall(*each) for each in calls]  # keeps the arguments alive
        self._score, self._learn, *rest = (each.call for each in self._bound)
        self._prepare = _nothing if prepare is None else rest.pop()
        self._count = rest

    def score(self) -> None:
        """Write the scores of the example; the model does not change. ModelError if they are not finite."""
        self._prepare()
        if self._score() == NOT_FINITE:
            _refuse()
        if self._units is not None:
            self._units.from_units(self._row, self.scores, 0, 1, self._units.scale)

    def learn(self) -> None:
        """Score the example, then learn it, if it has a label and a weight. ModelError if scores are not finite."""
        learner = self._learner
        before = learner.examples
        self._prepare()
        if self._units is not None:
            centre, width = self._units.scale
            self._label[0] = (self.label.item() - centre) / width
        outcome = self._learn()
        if outcome == NOT_FINITE:
            _refuse()
        if outcome == LOSSES_ROSE:
            learner.restart()
        if self._units is not None:
            self._units.from_units(self._row, self.scores, 0, 1, self._units.scale)
        learner.grow_if_due(before)
        for call in self._count:
            call()


def _nothing() -> int:
    return 0


def _refuse() -> None:
    raise ModelError("expected a finite score, found infinity or NaN: weights or values overflow", 0)
