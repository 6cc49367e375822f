"""Progressive loss of k classes: like that of one score, with the accuracy in place of the label.

`LossReport.label` is the accuracy, the share of examples whose class was predicted; `prediction` is the mean
probability of the predicted classes. The predictions are calibrated if the two agree.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.jit import kernel
from stream_apple.learners.losses import SOFTMAX, loss_number
from stream_apple.learners.progress.predictor_quality import RECENT, UNKNOWN, PredictorQuality, QualityReport, Span
from stream_apple.learners.progress.progressive_loss import ProgressiveLoss
from stream_apple.learners.scores import Scores

_SPANS: tuple[Span, ...] = ("whole", "epoch", "recent", "last_epoch")
_PRESENT = 3  # of them, those that examples are added to
_ROW_OF_RECENT = _SPANS.index("recent")


@kernel
def _add_classes(
    batch: Batch, scores: Scores, start: int, stop: int, classes: NDArray[np.float64],
    quality: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> None:  # fmt: skip
    """Add rows [start, stop) to the sums of the whole, the epoch and the recent, which are rows of the arrays."""
    losses, wrong = quality
    keep = 1.0 - 1.0 / RECENT
    for row in range(start, stop):
        label, weight = batch.labels[row], batch.weights[row]
        if math.isnan(label):
            continue
        y = np.int64(label)
        for c in range(classes.shape[1]):
            classes[_ROW_OF_RECENT, c] *= keep
            wrong[_ROW_OF_RECENT, 0, c] *= keep
            wrong[_ROW_OF_RECENT, 1, c] *= keep
        for i in range(losses.shape[1]):
            losses[_ROW_OF_RECENT, i] *= keep
        for span in range(_PRESENT):
            classes[span, y] += weight
            losses[span, 0] += weight
            losses[span, 1] += weight * scores.losses[row]
            losses[span, 2] += weight * scores.linear_losses[row]
            losses[span, 3] += weight * scores.apple_losses[row]
            losses[span, 4] += weight * (scores.predictions[row] != label)
            losses[span, 5] += weight * (scores.linear[row] != label)
            losses[span, 6] += weight * (scores.apple[row] != label)
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


class ClassQuality(PredictorQuality):
    """Mean losses and errors of the predictors, and how much of each class was predicted wrongly.

    With more than two labels there is no AUC, and no calibration of one score. It has no kernel of its own: that of
    `ClassProgress` adds to its sums too.
    """

    def __init__(self, classes: int) -> None:
        # Weight; and weighted loss, then error, of what is published, linear, apple.
        self.losses = np.zeros((len(_SPANS), 7))
        self.wrong = np.zeros((len(_SPANS), 2, classes))  # weight of each class, and of what was wrong of it

    def end_epoch(self) -> None:
        """Make the epoch's sums those of the last epoch, and begin new ones."""
        for sums in (self.losses, self.wrong):
            sums[_SPANS.index("last_epoch")] = sums[_SPANS.index("epoch")]
            sums[_SPANS.index("epoch")] = 0.0

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return all state by name: one-dimensional views of the arrays."""
        return {"quality_losses": self.losses.reshape(-1), "quality_wrong": self.wrong.reshape(-1)}

    def loss(self, span: Span, predictor: int) -> float:
        """Return the mean loss of the predictor with this number, NaN before the first example."""
        return self._mean(span, 1 + predictor)

    def report(self, span: Span, predictor: int) -> QualityReport:
        """Return loss and error of the predictor with this number; the other fields are NaN."""
        return UNKNOWN._replace(loss=self.loss(span, predictor), error=self._mean(span, 4 + predictor))

    def _mean(self, span: Span, column: int) -> float:
        """Return a column of `losses` over the examples' weight, NaN before the first example."""
        sums = self.losses[_SPANS.index(span)].tolist()  # read once: another thread may end the epoch meanwhile
        return float(sums[column] / sums[0]) if sums[0] > 0.0 else math.nan


class ClassProgress(ProgressiveLoss):
    """The progressive loss of a model of k classes, in all and for each class."""

    _quality: ClassQuality

    def __init__(self, *, classes: int, mixed: bool) -> None:
        self._count = classes
        super().__init__(loss=SOFTMAX, mixed=mixed)
        self._classes = np.zeros((len(_SPANS), classes))  # weight of the examples of each

    def kernel_calls(
        self, batch: Batch, scores: Scores, start: int, stop: int
    ) -> list[tuple[Callable[..., None], tuple[Any, ...]]]:
        """Return what `add` calls, in order: each kernel with its arguments."""
        quality = (self._quality.losses, self._quality.wrong)
        arguments = (batch, scores, start, stop, self._classes, quality)
        return [self._call_of_sums(batch, scores, start, stop), (_add_classes, arguments)]

    def end_epoch(self) -> None:
        """Make the epoch's sums those of the last epoch, and begin new ones."""
        super().end_epoch()
        self._classes[_SPANS.index("last_epoch")] = self._classes[_SPANS.index("epoch")]
        self._classes[_SPANS.index("epoch")] = 0.0

    def class_reports(self, span: Span) -> list[ClassReport]:
        """Return a report on each class, in the order of their numbers."""
        weights = self._classes[_SPANS.index(span)]
        seen, wrong = self._quality.wrong[_SPANS.index(span)].tolist()
        total = float(weights.sum())
        return [
            ClassReport(weight, weight / total if total > 0.0 else math.nan, miss / of if of > 0.0 else math.nan)
            for weight, of, miss in zip(weights.tolist(), seen, wrong, strict=True)
        ]

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return all state that digests cover, by name."""
        return {**super().arrays(), "class_examples": self._classes.reshape(-1)}

    def _best_constant_loss(self, span: Span, label: float, squared: float, positive: float) -> float:
        """Return the loss of predicting the classes' shares."""
        weights = self._classes[_SPANS.index(span)]
        if (total := float(weights.sum())) <= 0.0:
            return super()._best_constant_loss(span, label, squared, positive)
        shares = weights / total
        shares = shares[shares > 0.0]  # which a weight above 0 may not have in 64 bits
        return -float((shares * np.log(shares)).sum())

    def _new_quality(self) -> ClassQuality:
        return ClassQuality(self._count)


class _Judged(Protocol):
    """The part of a learner's options that says what its scores are judged by."""

    @property
    def loss(self) -> str: ...

    @property
    def classes(self) -> int: ...

    @property
    def mixed(self) -> bool: ...


def progress_of(options: _Judged) -> ProgressiveLoss:
    """Return the progressive loss of a model with these options, before its first example."""
    if options.classes:
        return ClassProgress(classes=options.classes, mixed=options.mixed)
    return ProgressiveLoss(loss=loss_number(options.loss), mixed=options.mixed)
