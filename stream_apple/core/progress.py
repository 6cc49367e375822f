"""Progressive loss: the mean loss of scores given before their labels were learned (Blum, Kalai, Langford 1999).

Sums run in the order of the examples, one by one, so they don't depend on how the stream was cut into batches.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.jit import kernel
from stream_apple.core.update import loss_of

RECENT = 10_000  # examples whose weight in the recent mean has fallen to 1/e


# What is summed, each times the importance weight; and the examples counted.
WEIGHT, LOSS, LINEAR_LOSS, LABEL, SQUARED_LABEL, POSITIVE, PREDICTION = range(7)
LABELLED, UNLABELLED = range(2)


class LossReport(NamedTuple):
    """Means per unit of importance weight; NaN before the first labelled example.

    label, prediction  of squared loss as they are; of logistic loss the share of label 1, and its mean probability
    """

    loss: float
    linear_loss: float
    best_constant_loss: float
    label: float
    prediction: float


@kernel
def _add(
    labels: NDArray[np.float64], weights: NDArray[np.float64],
    scores: NDArray[np.float64], linear_scores: NDArray[np.float64], losses: NDArray[np.float64],
    start: int, stop: int, logistic: bool,  # noqa: FBT001
    whole: NDArray[np.float64], epoch: NDArray[np.float64], recent: NDArray[np.float64], examples: NDArray[np.int64],
) -> None:  # fmt: skip
    """Add rows [start, stop) to all three spans."""
    keep = 1.0 - 1.0 / RECENT
    for row in range(start, stop):
        label = labels[row]
        if np.isnan(label):
            examples[UNLABELLED] += 1
            continue
        examples[LABELLED] += 1
        weight = weights[row]
        linear_loss = loss_of(logistic, linear_scores[row], label)
        prediction = 1.0 / (1.0 + math.exp(-scores[row])) if logistic else scores[row]
        for i in range(len(recent)):
            recent[i] *= keep
        for sums in (whole, epoch, recent):
            sums[WEIGHT] += weight
            sums[LOSS] += weight * losses[row]
            sums[LINEAR_LOSS] += weight * linear_loss
            sums[LABEL] += weight * label
            sums[SQUARED_LABEL] += weight * label * label
            sums[POSITIVE] += weight * (label > 0.0)
            sums[PREDICTION] += weight * prediction


class Progress:
    """Running losses since the start, in this epoch, and recently (exponentially forgotten)."""

    def __init__(self, *, logistic: bool) -> None:
        self._logistic = logistic
        self.whole = np.zeros(7)
        self.epoch = np.zeros(7)
        self.last_epoch = np.zeros(7)
        self.recent = np.zeros(7)
        self.examples = np.zeros(2, np.int64)

    def add(
        self,
        batch: Batch,
        scores: NDArray[np.float64],
        linear_scores: NDArray[np.float64],
        losses: NDArray[np.float64],
        start: int,
        stop: int,
    ) -> None:
        """Count rows [start, stop): float64 arrays as long as the batch."""
        _add(
            batch.labels, batch.weights, scores, linear_scores, losses, start, stop, self._logistic,
            self.whole, self.epoch, self.recent, self.examples,
        )  # fmt: skip

    def end_epoch(self) -> None:
        """Begin the next epoch's sums."""
        self.last_epoch[:] = self.epoch
        self.epoch[:] = 0.0

    def report(self, sums: NDArray[np.float64]) -> LossReport:
        """The means of one span: `whole`, `epoch`, `last_epoch` or `recent`."""
        weight = float(sums[WEIGHT])
        if weight <= 0.0:
            return LossReport(*[np.nan] * 5)
        label = float(sums[LABEL]) / weight
        if self._logistic:
            share = float(sums[POSITIVE]) / weight
            constant = -sum(p * np.log(p) for p in (share, 1.0 - share) if p > 0.0)
            label = share
        else:
            constant = max(float(sums[SQUARED_LABEL]) / weight - label * label, 0.0)
        loss, linear_loss, prediction = (float(sums[of]) / weight for of in (LOSS, LINEAR_LOSS, PREDICTION))
        return LossReport(loss, linear_loss, float(constant), label, prediction)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """All state by name: the arrays themselves."""
        return {
            "whole": self.whole,
            "epoch": self.epoch,
            "last_epoch": self.last_epoch,
            "recent": self.recent,
            "examples": self.examples,
        }

    @property
    def progressive_loss(self) -> float:
        """Mean loss since the start."""
        return self.report(self.whole).loss

    @property
    def linear_progressive_loss(self) -> float:
        """Mean loss of the linear predictor since the start."""
        return self.report(self.whole).linear_loss

    @property
    def best_constant_loss(self) -> float:
        """Mean loss of the constant that is best in hindsight."""
        return self.report(self.whole).best_constant_loss
