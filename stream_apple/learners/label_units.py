"""Label units: labels that are amounts are standardised before they are learned.

The adaptive update moves a score by about the learning rate with each example, whatever the labels' unit is: a score of
0 would take hundreds of thousands of examples to reach a price of 200,000. So kernels learn (label - mean) / deviation,
where mean and deviation are those of the first labels, and their scores are converted back to the labels' own unit.
During these first labels the prediction is the mean of the labels so far, and kernels see labels of 0.

Labels of two classes, all of them 0 or 1, or all -1 or 1, need no such wait: kernels learn -1 and 1 from the first
label on. The exception is zeros before the first 1, from which they learn nothing, as these may be the zeros of rare
amounts. A label of neither class, among the first ones, makes all labels amounts.
"""

import math

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.learners.scores import Scores

LABEL_UNITS = "label_units"
"""The name of the state among a learner's sums."""
FIRST_LABELS = 10
"""How many first labels give their mean and deviation."""
_LARGEST = 1e300  # of the sum of squares, so that the deviation of enormous labels stays finite
_COUNT, _MEAN, _SQUARES, _KIND = range(4)
_AMOUNTS, _FINAL, _ONES, _ZEROS, _SIGNS, _BITS = range(6)
"""What the labels so far are: amounts whose mean and deviation are not final; labels of any kind whose units are final;
or labels of two classes: only 1, or none at all; only 0; -1 and 1; 0 and 1."""
_SCALES = {_ONES: (0.0, 1.0), _SIGNS: (0.0, 1.0), _BITS: (0.5, 0.5)}
"""Centre and width of labels of two classes, where they are learned before they are final."""
_NEXT = {
    (_ONES, 1.0): _ONES, (_ONES, -1.0): _SIGNS, (_ONES, 0.0): _BITS,
    (_ZEROS, 0.0): _ZEROS, (_ZEROS, 1.0): _BITS,
    (_SIGNS, 1.0): _SIGNS, (_SIGNS, -1.0): _SIGNS,
    (_BITS, 1.0): _BITS, (_BITS, 0.0): _BITS,
}  # fmt: skip
"""(kind so far, next label) -> the new kind; in all other cases labels are amounts."""


class LabelUnits:
    """Mean and deviation of the first labels; for two classes, their middle and half their distance.

    If the first FIRST_LABELS labels are all equal, those up to the first that differs are used.
    """

    def __init__(self, *, standardized: bool) -> None:
        """Learn labels in units if they are `standardized`, else as they are."""
        self.standardized = standardized
        # Number of labels, their mean, the sum of squared deviations from it (Welford 1962), and what they are.
        self._state: NDArray[np.float64] = np.array([0.0, 0.0, 0.0, float(_ONES if standardized else _FINAL)])

    @property
    def fixed(self) -> bool:
        """Whether mean and deviation are final."""
        return self._state.item(_KIND) == _FINAL

    @property
    def scale(self) -> tuple[float, float]:
        """The mean of the labels, and their standard deviation, or 1 if that is 0: their centre and width.

        Before the first label, and where labels are learned as they are, these are 0 and 1.
        """
        count, mean, squares, kind = self._state.tolist()
        if kind in _SCALES:
            return _SCALES[kind]
        return mean, (math.sqrt(min(squares, _LARGEST) / count) if count else 0.0) or 1.0

    def include(self, labels: NDArray[np.float64]) -> None:
        """Add labels that were learned to mean and deviation, unless these are final."""
        for label in labels.tolist() if not self.fixed else ():
            count, mean, squares, _ = self._state.tolist()
            count += 1.0
            before, mean = label - mean, mean + (label - mean) / count
            squares += before * (label - mean)
            kind = self._with(label)
            if count >= FIRST_LABELS and squares > 0.0:
                if kind in _SCALES:  # all models of such labels get the same units, whichever label came first
                    mean, width = _SCALES[kind]
                    count, squares = 2.0, 2.0 * width * width
                kind = _FINAL
            self._state[:] = count, mean, squares, kind

    def equal(self, labels: NDArray[np.float64]) -> int:
        """Return how many of the first of these labels equal all labels so far; 0 before FIRST_LABELS have come."""
        count, mean, squares, _ = self._state.tolist()
        if squares > 0.0 or count < FIRST_LABELS:
            return 0
        others = np.flatnonzero(labels != mean)
        return int(others[0]) if len(others) else len(labels)

    def to_units(self, batch: Batch) -> Batch:
        """Return the batch with labels in these units; before they are final, amounts are 0."""
        if not self.standardized:
            return batch
        if self.fixed:
            centre, width = self.scale
            return batch._replace(labels=(batch.labels - centre) / width)
        labels = np.where(np.isnan(batch.labels), np.nan, 0.0)
        for label in (1.0, 0.0, -1.0):
            if self._with(label) in _SCALES:
                labels[batch.labels == label] = 1.0 if label == 1.0 else -1.0
        return batch._replace(labels=labels)

    def _with(self, label: float) -> int:
        """Return the kind of the labels so far and this one."""
        count, _, _, kind = self._state.tolist()
        return _ZEROS if label == count == 0.0 else _NEXT.get((int(kind), label), _AMOUNTS)

    def from_units(self, batch: Batch, scores: Scores, start: int, stop: int, of_scores: tuple[float, float]) -> None:
        """Convert rows [start, stop) of scores, in place, back to the labels' own unit.

        of_scores  centre and width at the time when the scores were given
        """
        if not self.standardized:
            return
        centre, width = of_scores
        for column in (scores.predictions, scores.expanded, scores.linear):
            column[start:stop] = centre + width * column[start:stop]
        scores.losses[start:stop] = np.square(scores.predictions[start:stop] - batch.labels[start:stop])

    @property
    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """The state by name: the array itself; nothing where labels are learned as they are."""
        return {LABEL_UNITS: self._state} if self.standardized else {}
