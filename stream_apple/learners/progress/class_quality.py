"""The quality of predictors of k classes: mean losses and errors, and how much of each class was predicted wrongly."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.jit import kernel
from stream_apple.learners.progress.predictor_quality import RECENT, UNKNOWN, QualityReport, Span
from stream_apple.learners.scores import Scores

_SPANS: tuple[Span, ...] = ("whole", "epoch", "recent", "last_epoch")
_PRESENT = 3  # of them, those that examples are added to
_ROW_OF_RECENT = _SPANS.index("recent")


@kernel
def _add_classes(
    batch: Batch, scores: Scores, start: int, stop: int, losses: NDArray[np.float64],
    wrong: NDArray[np.float64],
) -> None:  # fmt: skip
    """Add rows [start, stop) to the sums of the whole, the epoch and the recent, which are rows of the arrays."""
    keep = 1.0 - 1.0 / RECENT
    for row in range(start, stop):
        label, weight = batch.labels[row], batch.weights[row]
        if math.isnan(label):
            continue
        y = np.int64(label)
        for c in range(wrong.shape[2]):
            wrong[_ROW_OF_RECENT, 0, c] *= keep
            wrong[_ROW_OF_RECENT, 1, c] *= keep
        for i in range(losses.shape[1]):
            losses[_ROW_OF_RECENT, i] *= keep
        for span in range(_PRESENT):
            losses[span, 0] += weight
            losses[span, 1] += weight * scores.losses[row]
            losses[span, 2] += weight * scores.linear_losses[row]
            losses[span, 3] += weight * scores.expanded_losses[row]
            losses[span, 4] += weight * (scores.predictions[row] != label)
            losses[span, 5] += weight * (scores.linear[row] != label)
            losses[span, 6] += weight * (scores.expanded[row] != label)
            wrong[span, 0, y] += weight
            wrong[span, 1, y] += weight * (scores.predictions[row] != label)


class ClassReport(NamedTuple):
    """One class in one span.

    weight  importance weight of the class's examples
    share   of the class in the weight of all examples; NaN before the first
    error   share of the class's examples for which another class was predicted; NaN if there are none
    """

    weight: float
    share: float
    error: float


class ClassQuality:
    """Losses and errors of the predictors of `classes` classes, and of each class.

    With more than two labels there is no AUC, and no calibration of one score.
    """

    def __init__(self, classes: int) -> None:
        # Weight; and weighted loss, then error, of what is published, linear, expanded.
        self._losses = np.zeros((len(_SPANS), 7))
        self._wrong = np.zeros((len(_SPANS), 2, classes))  # weight of each class, and of what was wrong of it

    def kernel_call(
        self, batch: Batch, scores: Scores, start: int, stop: int
    ) -> tuple[Callable[..., None], tuple[Any, ...]]:
        """Return the kernel, and its arguments, that adds rows [start, stop) to the sums."""
        return _add_classes, (batch, scores, start, stop, self._losses, self._wrong)

    def end_epoch(self) -> None:
        """Make the epoch's sums those of the last epoch, and begin new ones."""
        for sums in (self._losses, self._wrong):
            sums[_SPANS.index("last_epoch")] = sums[_SPANS.index("epoch")]
            sums[_SPANS.index("epoch")] = 0.0

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return all state by name: one-dimensional views of the arrays."""
        return {"quality_losses": self._losses.reshape(-1), "quality_wrong": self._wrong.reshape(-1)}

    def loss(self, span: Span, predictor: int) -> float:
        """Return the mean loss of the predictor with this number, NaN before the first example."""
        return self._mean(span, 1 + predictor)

    def report(self, span: Span, predictor: int) -> QualityReport:
        """Return loss and error of the predictor with this number; the other fields are NaN."""
        return UNKNOWN._replace(loss=self.loss(span, predictor), error=self._mean(span, 4 + predictor))

    def class_reports(self, span: Span) -> list[ClassReport]:
        """Return a report on each class, in the order of their numbers."""
        weights, wrong = self._wrong[_SPANS.index(span)].tolist()
        total = math.fsum(weights)
        return [
            ClassReport(
                weight, weight / total if total > 0.0 else math.nan, miss / weight if weight > 0.0 else math.nan
            )
            for weight, miss in zip(weights, wrong, strict=True)
        ]

    def _mean(self, span: Span, column: int) -> float:
        """Return a column of the sums of losses over the examples' weight, NaN before the first example."""
        sums = self._losses[_SPANS.index(span)].tolist()  # read once: another thread may end the epoch meanwhile
        return float(sums[column] / sums[0]) if sums[0] > 0.0 else math.nan
