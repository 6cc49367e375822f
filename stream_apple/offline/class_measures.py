"""The shares of wrong classes, with each predictor and with the best constant."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.learner.kernels.rows import Scores


class ClassErrors(NamedTuple):
    """Shares of wrong classes, weighted by importance; None if there is nothing to average.

    The predictors are the published one, the linear one alongside, and apple (without a mixture, the published one).
    The best constant always predicts the most frequent class of the training examples.
    """

    progressive_error: float | None
    linear_progressive_error: float | None
    apple_progressive_error: float | None
    best_constant_error: float | None
    test_error: float | None
    linear_test_error: float | None
    apple_test_error: float | None


def class_errors(trained: tuple[Batch, Scores], tested: tuple[Batch, Scores]) -> ClassErrors:
    """Return the errors on the training examples before they were learned, and on the test examples."""
    labels, weights, _ = _labelled(trained[0], trained[0].labels)
    constant = None
    if (total := float(weights.sum())) > 0:
        constant = 1.0 - float(np.bincount(labels.astype(np.int64), weights).max()) / total
    learned, kept = (
        [_error(part, each) for each in (scores.predictions, scores.linear, scores.apple)]
        for part, scores in (trained, tested)
    )
    return ClassErrors(learned[0], learned[1], learned[2], constant, kept[0], kept[1], kept[2])


def _error(part: Batch, predictions: NDArray[np.float64]) -> float | None:
    labels, weights, found = _labelled(part, predictions)
    total = float(weights.sum())
    return float(((found != labels) * weights).sum()) / total if total > 0 else None


def _labelled(
    part: Batch, values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the labels, weights and values of the examples that have labels."""
    known = ~np.isnan(part.labels)
    return part.labels[known], part.weights[known], values[known]
