"""AUC and calibration, computed exactly from all scores; a worker's are computed from histograms.

`stream_apple.learners.progress.predictor_quality` defines both measures and the bins of calibration.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.learners.loss_functions import places_of
from stream_apple.learners.losses import Loss
from stream_apple.learners.progress.predictor_quality import CALIBRATION_BINS, calibration_bins, pairs_won
from stream_apple.learners.scores import Scores


class BinaryMeasures(NamedTuple):
    """How good scores are for examples with two labels, weighted by importance; None if it can't be measured.

    auc                area under the ROC curve; None unless there are examples of both labels
    calibration_error  mean distance of a bin's mean prediction from its share of the larger label
    """

    auc: float | None
    calibration_error: float | None


def quality_of(
    labels: NDArray[np.float64], trained: tuple[Batch, Scores], tested: tuple[Batch, Scores], loss: Loss, *, mixed: bool
) -> dict[str, float | None]:
    """Measure each predictor's scores of both parts; return the measures under names such as `linear_test_auc`.

    labels  float64[n], of all examples; all measures are None unless there are just two different ones
    mixed   whether a mixture is published; measures of the expanded predictor are None if not
    """
    pair = np.unique(labels[~np.isnan(labels)])
    found: dict[str, float | None] = {}
    for name, (part, scores) in (("progressive", trained), ("test", tested)):
        for prefix, each in (("", scores.predictions), ("linear_", scores.linear), ("expanded_", scores.expanded)):
            measures = BinaryMeasures(None, None)
            if not loss.multiclass and len(pair) == 2 and (mixed or prefix != "expanded_"):
                places = places_of(loss, each, pair)
                measures = binary_measures(part.labels, part.weights, places, float(pair[1]))
            found |= {f"{prefix}{name}_{measure}": value for measure, value in measures._asdict().items()}
    return found


def binary_measures(
    labels: NDArray[np.float64], weights: NDArray[np.float64], places: NDArray[np.float64], positive: float
) -> BinaryMeasures:
    """Return the measures of places, float64[n], for examples with these labels (NaN: none) and weights.

    positive  the larger label
    """
    counted = ~np.isnan(labels) & (weights > 0.0)
    weights, places, labels = weights[counted], places[counted], labels[counted]
    positives = np.where(labels == positive, weights, 0.0)
    return BinaryMeasures(_auc(positives, weights - positives, places), _calibration_error(positives, weights, places))


def _auc(positives: NDArray[np.float64], negatives: NDArray[np.float64], places: NDArray[np.float64]) -> float | None:
    """Return the weighted share of pairs in which the positive has the higher place; equal places count one half."""
    pairs = float(positives.sum()) * float(negatives.sum())
    if pairs == 0.0:
        return None
    _, rank = np.unique(places, return_inverse=True)
    won, lost = (np.bincount(rank, weights).astype(np.float64, copy=False) for weights in (positives, negatives))
    return pairs_won(won, lost) / pairs


def _calibration_error(
    positives: NDArray[np.float64], weights: NDArray[np.float64], places: NDArray[np.float64]
) -> float | None:
    """Return the sum over bins of |sum of weight * (place - is positive)|, divided by the sum of all weights.

    That is the weighted mean of the bins' errors, as the weight of a bin cancels out.
    """
    if not len(places):
        return None
    excess = np.bincount(calibration_bins(places), weights * places - positives, CALIBRATION_BINS)
    return float(np.abs(excess).sum() / weights.sum())
