"""Progressive loss of k classes: as that of one score, with the share of right answers in the label's place.

`LossReport.label` is the share of examples whose class was the prediction, one minus the error; `prediction` is the
mean probability of the predictions. What is published is calibrated if the two agree.
"""

import math

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.jit import kernel
from stream_apple.core.learner.kernels.apple import Scores
from stream_apple.core.learner.predictor_quality import RECENT, UNKNOWN, PredictorQuality, QualityReport, Span
from stream_apple.core.learner.progressive_loss import LossReport, ProgressiveLoss, add_example, has_label

_SPANS: tuple[Span, ...] = ("whole", "epoch", "recent", "last_epoch")
_PRESENT = 3  # of them, those that examples are added to
_ROW_OF_RECENT = _SPANS.index("recent")


@kernel
def _add(
    batch: Batch, scores: Scores, start: int, stop: int, spans: tuple[NDArray[np.float64], ...],
    classes: NDArray[np.float64], losses: NDArray[np.float64], examples: NDArray[np.int64],
) -> None:  # fmt: skip
    """Add rows [start, stop) to the whole, the epoch and the recent; of `classes` and `losses` rows are spans."""
    keep = 1.0 - 1.0 / RECENT
    for row in range(start, stop):
        label, weight = batch.labels[row], batch.weights[row]
        if not has_label(examples, label):
            continue
        y = np.int64(label)
        right = np.float64(scores.predictions[row] == label)
        add_example(spans, weight, (scores.losses[row], scores.linear_losses[row]), (right, scores.probabilities[row]))
        for c in range(classes.shape[1]):
            classes[_ROW_OF_RECENT, c] *= keep
        for i in range(losses.shape[1]):
            losses[_ROW_OF_RECENT, i] *= keep
        for span in range(_PRESENT):
            classes[span, y] += weight
            losses[span, 0] += weight
            losses[span, 1] += weight * scores.losses[row]
            losses[span, 2] += weight * scores.linear_losses[row]
            losses[span, 3] += weight * scores.apple_losses[row]


class ClassQuality(PredictorQuality):
    """Mean losses of the predictors. Of more than two labels there is no AUC, and no calibration of one score."""

    def __init__(self) -> None:
        self.losses = np.zeros((len(_SPANS), 4))  # weight, and weighted loss of what is published, linear, apple

    def end_epoch(self) -> None:
        """Begin the next epoch's sums."""
        self.losses[_SPANS.index("last_epoch")] = self.losses[_SPANS.index("epoch")]
        self.losses[_SPANS.index("epoch")] = 0.0

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """All state by name: a one-dimensional view of it."""
        return {"quality_losses": self.losses.reshape(-1)}

    def loss(self, span: Span, predictor: int) -> float:
        """The mean loss of the predictor with this number."""
        sums = self.losses[_SPANS.index(span)]
        return float(sums[1 + predictor]) / float(sums[0]) if sums[0] > 0.0 else math.nan

    def report(self, span: Span, predictor: int) -> QualityReport:
        """What is known of the predictor with this number."""
        return UNKNOWN._replace(loss=self.loss(span, predictor))


class ClassProgress(ProgressiveLoss):
    """Running losses of k classes."""

    def __init__(self, *, classes: int, mixed: bool) -> None:
        super().__init__(logistic=False, mixed=mixed)
        self._classes = np.zeros((len(_SPANS), classes))  # weight of the examples of each

    def add(self, batch: Batch, scores: Scores, start: int, stop: int) -> None:
        """Count rows [start, stop)."""
        spans = (self.whole, self.epoch, self.recent)
        losses = self._quality.losses if isinstance(self._quality, ClassQuality) else np.zeros((len(_SPANS), 4))
        _add(batch, scores, start, stop, spans, self._classes, losses, self.examples)

    def end_epoch(self) -> None:
        """Begin the next epoch's sums."""
        super().end_epoch()
        self._classes[_SPANS.index("last_epoch")] = self._classes[_SPANS.index("epoch")]
        self._classes[_SPANS.index("epoch")] = 0.0

    def report(self, span: Span) -> LossReport:
        """The means of one span; the best constant says how probable each class is."""
        found = super().report(span)
        weights = self._classes[_SPANS.index(span)]
        if (total := float(weights.sum())) <= 0.0:
            return found
        shares = weights[weights > 0.0] / total
        return found._replace(best_constant_loss=-float((shares * np.log(shares)).sum()))

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """All state by name that digests cover."""
        return {**super().arrays(), "class_examples": self._classes.reshape(-1)}

    def _new_quality(self) -> PredictorQuality:
        return ClassQuality()
