"""Progressive loss: the mean loss of scores given before their labels were learned (Blum, Kalai, Langford 1999).

Sums run in the order of the examples, one by one, so they don't depend on how the stream was cut into batches.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.jit import kernel
from stream_apple.learners.loss_functions import judged
from stream_apple.learners.losses import Loss
from stream_apple.learners.progress.class_quality import ClassQuality, ClassReport
from stream_apple.learners.progress.predictor_quality import RECENT, PredictorQuality, QualityReport, Span
from stream_apple.learners.scores import Scores

PREDICTORS = ("published", "linear", "expanded")
"""The predictors whose quality is kept, in the order of their numbers; expanded only where predictors are mixed."""
_EXPANDED = PREDICTORS.index("expanded")

# Indices of the sums, each weighted by importance; and of the counts of examples.
WEIGHT, LOSS, LINEAR_LOSS, LABEL, SQUARED_LABEL, POSITIVE, PREDICTION = range(7)
LABELLED, UNLABELLED = range(2)


class LossReport(NamedTuple):
    """Means per unit of importance weight; NaN before the first labelled example.

    loss, linear_loss   of the published score, and of the linear predictor
    best_constant_loss  of the constant that is best for the span, in hindsight
    label, prediction   with the squared loss the means of both; with the logistic loss the share of label 1, and its
                        mean probability; with classes the accuracy, which is the share of examples whose class was
                        predicted, and the mean probability of the predicted classes. The predictions are calibrated if
                        the two agree
    expanded_loss          of the score of all features, which equals `loss` unless predictors are mixed
    """

    loss: float
    linear_loss: float
    best_constant_loss: float
    label: float
    prediction: float
    expanded_loss: float


@kernel
def _add(
    batch: Batch, scores: Scores, start: int, stop: int, loss: int, spans: tuple[NDArray[np.float64], ...],
    examples: NDArray[np.int64],
) -> None:  # fmt: skip
    """Add rows [start, stop) to the whole, the epoch, and the recent, whose old sums are discounted first."""
    recent, keep = spans[2], 1.0 - 1.0 / RECENT
    for row in range(start, stop):
        label, weight = batch.labels[row], batch.weights[row]
        labelled = not math.isnan(label)
        examples[LABELLED if labelled else UNLABELLED] += 1
        if not labelled:
            continue
        linear_loss, prediction, shown, number = judged(loss, scores, row, label)
        for i in range(len(recent)):
            recent[i] *= keep
        for sums in spans:
            sums[WEIGHT] += weight
            sums[LOSS] += weight * scores.losses[row]
            sums[LINEAR_LOSS] += weight * linear_loss
            sums[LABEL] += weight * shown
            sums[PREDICTION] += weight * prediction
            sums[SQUARED_LABEL] += weight * number * number
            sums[POSITIVE] += weight * (number > 0.0)


class ProgressiveLoss:
    """Running losses since the start, in this epoch, and recently (exponentially forgotten).

    mixed       whether the published score is a mixture, so that the score of all features is a different one
    classes     the number of classes; 0 if this is not the loss of classes
    predictors  the names of the predictors whose quality is kept
    """

    def __init__(self, *, loss: Loss, classes: int = 0, mixed: bool = False) -> None:
        self._loss = loss
        self._mixed = mixed
        self.whole = np.zeros(7)
        self.epoch = np.zeros(7)
        self.last_epoch = np.zeros(7)
        self.recent = np.zeros(7)
        self.examples = np.zeros(2, np.int64)
        self.predictors = PREDICTORS if mixed else PREDICTORS[:_EXPANDED]
        self._quality: PredictorQuality | ClassQuality = (
            ClassQuality(classes) if loss.multiclass else PredictorQuality(loss=loss, predictors=len(self.predictors))
        )

    def add(self, batch: Batch, scores: Scores, start: int, stop: int) -> None:
        """Add rows [start, stop) of the batch, and their scores, to all sums."""
        for call, arguments in self.kernel_calls(batch, scores, start, stop):
            call(*arguments)

    def kernel_calls(
        self, batch: Batch, scores: Scores, start: int, stop: int
    ) -> list[tuple[Callable[..., None], tuple[Any, ...]]]:
        """Return what `add` calls, in order: each kernel with its arguments."""
        spans = (self.whole, self.epoch, self.recent)
        return [
            (_add, (batch, scores, start, stop, self._loss.number, spans, self.examples)),
            self._quality.kernel_call(batch, scores, start, stop),
        ]

    def end_epoch(self) -> None:
        """Make the epoch's sums those of the last epoch, and begin new ones."""
        self.last_epoch[:] = self.epoch
        self.epoch[:] = 0.0
        self._quality.end_epoch()

    def report(self, span: Span) -> LossReport:
        """Return the means of one span."""
        sums = self._sums(span)
        weight = float(sums[WEIGHT])
        if weight <= 0.0:
            return LossReport(*[np.nan] * len(LossReport._fields))
        loss, linear_loss, label, squared, positive, prediction = (
            float(sums[of]) / weight for of in (LOSS, LINEAR_LOSS, LABEL, SQUARED_LABEL, POSITIVE, PREDICTION)
        )
        constant = self._best_constant_loss(span, label, squared, positive)
        if self._loss.binary:
            label = positive
        expanded_loss = loss
        if self._mixed:
            expanded_loss = self._quality.loss(span, _EXPANDED)
        return LossReport(loss, linear_loss, constant, label, prediction, expanded_loss)

    def quality(self, span: Span) -> dict[str, QualityReport]:
        """Return the quality of each of `predictors`, by name."""
        return {name: self._quality.report(span, number) for number, name in enumerate(self.predictors)}

    def class_reports(self, span: Span) -> list[ClassReport]:
        """Return a report on each class, in the order of their numbers; none if labels are not classes."""
        return self._quality.class_reports(span) if isinstance(self._quality, ClassQuality) else []

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return all state that digests cover, by name: the arrays themselves."""
        return {
            "whole": self.whole,
            "epoch": self.epoch,
            "last_epoch": self.last_epoch,
            "recent": self.recent,
            "examples": self.examples,
        }

    def observed(self) -> dict[str, NDArray[np.generic]]:
        """Return the counts for display only, by name: the arrays themselves."""
        return self._quality.arrays()

    def _best_constant_loss(self, span: Span, label: float, squared: float, positive: float) -> float:
        """Return the loss of the best constant: the variance of labels that are numbers, else their entropy."""
        if self._loss.real_valued:
            return max(squared - label * label, 0.0)
        of_classes = [each.share for each in self.class_reports(span)]
        return float(-sum(p * np.log(p) for p in of_classes or (positive, 1.0 - positive) if p > 0.0))

    def _sums(self, span: Span) -> NDArray[np.float64]:
        return {"whole": self.whole, "epoch": self.epoch, "last_epoch": self.last_epoch, "recent": self.recent}[span]


class _Judged(Protocol):
    """The part of a learner's options that says what its scores are judged by."""

    @property
    def objective(self) -> Loss: ...

    @property
    def classes(self) -> int: ...

    @property
    def mixed(self) -> bool: ...


def progress_of(options: _Judged) -> ProgressiveLoss:
    """Return the progressive loss of a model with these options, before its first example."""
    return ProgressiveLoss(loss=options.objective, classes=options.classes, mixed=options.mixed)
