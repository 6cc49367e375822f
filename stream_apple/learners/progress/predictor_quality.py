"""The quality of predictors, side by side: mean loss; and, if there are just two labels, AUC and calibration.

The area under the ROC curve (AUC) is the share of pairs of a positive and a negative example in which the positive one
has the higher score; equal scores count one half (Hanley, McNeil 1982). Unlike a loss, it is informative on a stream in
which one example in a thousand is positive. Calibration asks whether, of the examples predicted as p, the share p is
positive. Its expected error is that of Naeini, Cooper, Hauskrecht 2015, with the bins of CALIBRATION_EDGES.

Both need the scores of all examples. Histograms of fixed size stand in for them: the weights of each label by the
*place* of the score. A place is the probability (logistic loss), or where the score lies between the smaller label, 0,
and the larger one, 1 (squared loss). Sums run in the order of the examples, one by one, as in `progressive_loss.py`.
"""

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.jit import kernel, part, routine
from stream_apple.learners.loss_functions import follows_labels, place_and_loss
from stream_apple.learners.losses import Loss
from stream_apple.learners.scores import Scores

_Index: TypeAlias = Any  # np.uint64 once compiled
_U0, _U1 = np.uint64(0), np.uint64(1)
RECENT = 10_000  # examples whose weight in recent sums has fallen to 1/e

Span = Literal["whole", "epoch", "last_epoch", "recent"]

# Bins are equally wide within an octave, [2^-n-1, 2^-n), of the distance to 0 or to 1, whichever is nearer; octaves
# where balanced streams have their scores have more bins. 0, 1/2 and 1 have bins of their own; one more bin at either
# end holds places that are nearer to it than 2^-24. So many bins keep the AUC within 1e-3 of the exact one, as was
# measured: within 4e-4 for calibrated scores of streams with one positive in 2,000 (2e-3 if their log-odds are 1.5
# times too large), and within 6e-4 for this learner's scores on ten data sets, with both losses. With fewer than a
# hundred examples of a label chance matters more: 1.3e-3.
_PER_OCTAVE = (16, 16, *[8] * 10, *[4] * 11)  # from [1/4, 1/2) outwards
_FINEST = 16
_BITS = np.uint64(48)  # of a float64, behind its exponent and the 4 bits of its fraction that tell 16 bins apart
_MIDDLE = 2 + sum(_PER_OCTAVE)  # the bin of 1/2
_BASE = np.uint64((1023 - 1 - len(_PER_OCTAVE)) * _FINEST)  # exponent and fraction of the smallest octave's start
BINS = 2 * _MIDDLE + 1
_LAST = np.uint64(BINS - 1)

_LOW_EDGES = (0.0, 2.0**-13, 2.0**-10, 2.0**-8, 2.0**-6, 2.0**-4, 0.125, 0.1875, 0.25, 0.375)
CALIBRATION_EDGES = np.array([*_LOW_EDGES, 0.5, *(1.0 - edge for edge in _LOW_EDGES[::-1])])
"""The edges of the calibration bins, which narrow towards 0 and 1: if they were equally wide, all predictions of an
imbalanced stream would fall into the first. An edge up to 1/2 belongs to the bin above it, any other edge to the bin
below it."""
CALIBRATION_BINS = len(CALIBRATION_EDGES) - 1


def calibration_bins(places: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the calibration bin, int64[n], of each place, float64[n] within [0, 1]."""
    above = np.searchsorted(CALIBRATION_EDGES, places, "right") - 1
    below = np.searchsorted(CALIBRATION_EDGES, places, "left") - 1
    return np.where(places < 0.5, above, np.maximum(below, CALIBRATION_BINS // 2))


def _levels() -> NDArray[np.uint64]:
    """Return the bin of each sixteenth of each octave, from the smallest to [1/4, 1/2), and of 1/2."""
    found, first = [], 2
    for count in reversed(_PER_OCTAVE):
        found += [first + sixteenth * count // _FINEST for sixteenth in range(_FINEST)]
        first += count
    return np.array([*found, _MIDDLE], np.uint64)


def _centres() -> NDArray[np.float64]:
    """Return the middle of each bin, float64[BINS]."""
    edges = [0.0, 0.0]
    for octave, count in enumerate(reversed(_PER_OCTAVE)):
        start = 2.0 ** (octave - 1 - len(_PER_OCTAVE))
        edges += [start * (1.0 + n / count) for n in range(count)]
    low = (np.array(edges) + np.array([*edges[1:], 0.5])) / 2.0
    return np.array([*low, 0.5, *(1.0 - low[::-1])])


_LEVELS, _CENTRES = _levels(), _centres()
_COARSE = calibration_bins(_CENTRES).astype(np.uint64)

# Columns of the sums: all epochs that have ended, the last of them, the present epoch, and the recent examples. An
# example adds to the last two, which are neighbours. The span "whole" is the first and the third together.
_ENDED, _LAST_EPOCH, _EPOCH, _RECENT = range(4)
SPANS = 4
_GROW = 1.0 / (1.0 - 1.0 / RECENT)
_MOST = 2.0**64  # recent sums are divided by it now and then; a power of two changes no digit of them


class ReliabilityPoint(NamedTuple):
    """One bin of calibration with examples in it: their mean prediction, share of positives, and weight."""

    prediction: float
    share: float
    weight: float


class QualityReport(NamedTuple):
    """The quality of one predictor in one span; weighted by importance.

    loss                the mean loss, for any labels; NaN before the first labelled example. All other fields are NaN
                        (and `reliability` is empty) while there are fewer than two different labels, or more
    auc                 area under the ROC curve; NaN unless the span has examples of both labels
    calibration_error   mean distance of a calibration bin's mean prediction from its share of positives
    calibration_ratio   mean prediction over share of positives: above 1, it predicts too many; NaN without positives
    positives           weight of the examples with the larger label
    negatives           weight of the examples with the smaller label
    reliability         the calibration bins that are not empty, from 0 to 1: at most CALIBRATION_BINS
    error               with the softmax loss the share of examples whose class was not predicted, else NaN
    """

    loss: float
    auc: float
    calibration_error: float
    calibration_ratio: float
    positives: float
    negatives: float
    reliability: tuple[ReliabilityPoint, ...]
    error: float = math.nan


UNKNOWN = QualityReport(math.nan, math.nan, math.nan, math.nan, math.nan, math.nan, ())


class _State(NamedTuple):
    """The arrays of sums, for `k` predictors.

    weights      float64[k, 2, BINS, 4]           by label, in the order of `labels`, bin of the place, and span
    predictions  float64[k, CALIBRATION_BINS, 4]  sums of weight * place
    losses       float64[k + 1, 4]                sums of weight * loss; the last are those of the weights
    labels       float64[2]                       the first two labels seen; NaN before
    scale        float64[2]                       low, high: the scores that have place 0 and place 1
    growth       float64[1]                       the weight in recent sums of an example of importance 1 that comes now
    kinds        int64[1]                         how many different labels were seen, up to 3
    """

    weights: NDArray[np.float64]
    predictions: NDArray[np.float64]
    losses: NDArray[np.float64]
    labels: NDArray[np.float64]
    scale: NDArray[np.float64]
    growth: NDArray[np.float64]
    kinds: NDArray[np.int64]


@part
def _bin_of(tail: float, upper: bool) -> _Index:  # noqa: FBT001
    """Return the bin of a place; `tail` is its distance to the nearer end, `upper` whether that is 1 (or it is 1/2)."""
    level = _U0
    if tail > 0.0:
        sixteenth = np.float64(tail).view(np.uint64) >> _BITS
        level = _LEVELS[sixteenth - _BASE] if sixteenth >= _BASE else _U1
    return _LAST - level if upper else level


@routine
def _rescale(state: _State, low: float, high: float) -> None:
    """Give scores `low` and `high` the places 0 and 1, and move the sums so far to their bins' new places."""
    weights, predictions, scale = state.weights, state.predictions, state.scale
    before, width = scale[0], scale[1] - scale[0]
    scale[0], scale[1] = low, high
    if before == low and width == high - low:
        return
    predictions[:] = 0.0
    for which in range(len(weights)):
        of, moved = weights[which]  # there was one label only, so the sums of the other label are free
        for i in range(BINS):
            place = min(max((before + _CENTRES[i] * width - low) / (high - low), 0.0), 1.0)
            upper = place >= 0.5
            to = _bin_of(1.0 - place if upper else place, upper)
            for span in range(SPANS):
                moved[to, span] += of[i, span]
                predictions[which, _COARSE[to], span] += of[i, span] * place
        for i in range(BINS):
            for span in range(SPANS):
                of[i, span], moved[i, span] = moved[i, span], 0.0


@routine
def _add_label(state: _State, label: float, loss: int) -> None:
    """Note a label that was not seen before; a third label ends AUC and calibration."""
    labels, kinds = state.labels, state.kinds
    if kinds[0] < 2:
        labels[kinds[0]] = label
        if follows_labels(loss):
            # With one label the range is from 0 to it, as the learner clips its scores.
            other = labels[0] if kinds[0] == 1 else 0.0
            _rescale(state, min(label, other), max(label, other) if label != other else 1.0)
    else:
        state.weights[:] = 0.0
        state.predictions[:] = 0.0
    kinds[0] += 1


@routine
def _rescale_recent(state: _State) -> None:
    """Divide all recent sums by _MOST, before they grow beyond all bounds."""
    for sums in (state.weights.reshape(-1), state.predictions.reshape(-1), state.losses.reshape(-1)):
        for i in range(_RECENT, len(sums), SPANS):
            sums[i] /= _MOST


@kernel
def _add(
    labels: NDArray[np.float64], weights: NDArray[np.float64], scores: tuple[NDArray[np.float64], ...],
    start: int, stop: int, loss: int, state: _State,
) -> None:  # fmt: skip
    """Add rows [start, stop) to the sums of the epoch and to the recent ones."""
    losses, kinds, size = state.losses, state.kinds, len(scores)
    growth = state.growth[0]
    for row in range(start, stop):
        label, weight = labels[row], weights[row]
        if math.isnan(label):
            continue
        growth *= _GROW  # new examples weigh more, which saves the decay of all older sums
        if growth >= _MOST:
            growth /= _MOST
            _rescale_recent(state)
        if weight <= 0.0:
            continue
        if kinds[0] <= 2 and label != state.labels[0] and label != state.labels[1]:
            _add_label(state, label, loss)
        binary, second = kinds[0] <= 2, _U1 if label == state.labels[1] else _U0
        recent = weight * growth
        low, width = state.scale[0], state.scale[1] - state.scale[0]
        for which in range(size):
            place, tail, upper, lost = place_and_loss(loss, scores[which][row], label, low, width)
            losses[which, _EPOCH] += weight * lost
            losses[which, _RECENT] += recent * lost
            if binary:
                i = _bin_of(tail, upper)
                state.weights[which, second, i, _EPOCH] += weight
                state.weights[which, second, i, _RECENT] += recent
                state.predictions[which, _COARSE[i], _EPOCH] += weight * place
                state.predictions[which, _COARSE[i], _RECENT] += recent * place
        losses[size, _EPOCH] += weight
        losses[size, _RECENT] += recent
    state.growth[0] = growth


class PredictorQuality:
    """The quality of several predictors: since the start, in this epoch, in the last one, and recently.

    predictors  how many there are, 1 to 3

    Recent sums are exponentially forgotten, like those of ProgressiveLoss: an example RECENT labelled examples ago
    weighs 1/e.
    """

    def __init__(self, *, loss: Loss, predictors: int) -> None:
        self._loss = loss.number
        self._predictors = predictors
        self._state = _State(
            np.zeros((predictors, 2, BINS, SPANS)),
            np.zeros((predictors, CALIBRATION_BINS, SPANS)),
            np.zeros((predictors + 1, SPANS)),
            np.full(2, np.nan),
            np.array([0.0, 1.0]),
            np.ones(1),
            np.zeros(1, np.int64),
        )

    def kernel_call(
        self, batch: Batch, scores: Scores, start: int, stop: int
    ) -> tuple[Callable[..., None], tuple[Any, ...]]:
        """Return the kernel, and its arguments, that adds rows [start, stop) to the sums.

        The predictors are the first of what is published, linear, and expanded. Scores are finite, and logistic ones
        log-odds of the label 1 against -1. Rows without a label, or of weight zero, are left out.
        """
        of_each = (scores.predictions, scores.linear, scores.expanded)[: self._predictors]
        return _add, (batch.labels, batch.weights, of_each, start, stop, self._loss, self._state)

    def end_epoch(self) -> None:
        """Make the epoch's sums those of the last epoch, and begin new ones."""
        for sums in (self._state.weights, self._state.predictions, self._state.losses):
            sums[..., _ENDED] += sums[..., _EPOCH]
            sums[..., _LAST_EPOCH] = sums[..., _EPOCH]
            sums[..., _EPOCH] = 0.0

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return all state by name: one-dimensional views of the arrays."""
        return {f"quality_{name}": array.reshape(-1) for name, array in self._state._asdict().items()}

    def loss(self, span: Span, predictor: int) -> float:
        """Return the mean loss of the predictor with this number, NaN before the first example."""
        losses = self._sums(self._state.losses, span)
        loss, total = float(losses[predictor]), float(losses[-1])
        return loss / total if total > 0.0 else math.nan

    def report(self, span: Span, predictor: int) -> QualityReport:
        """Return the quality of the predictor with this number in the span.

        Another thread may learn meanwhile. If an epoch ends just then, some sums may be of the old epoch and others of
        the new one; so a metric may be wrong, or NaN, until it is read again.
        """
        state = self._state
        weights, predictions, losses = (self._sums(of, span) for of in (state.weights, state.predictions, state.losses))
        total, loss = float(losses[-1]), self.loss(span, predictor)
        if state.kinds[0] != 2:
            return UNKNOWN._replace(loss=loss)
        negative, positive = weights[predictor] if state.labels[0] < state.labels[1] else weights[predictor][::-1]
        positives, negatives = float(positive.sum()), float(negative.sum())
        points = _reliability(positive, negative, predictions[predictor])
        predicted = float(predictions[predictor].sum())
        return QualityReport(
            loss,
            _auc(positive, negative),
            sum(abs(p.prediction - p.share) * p.weight for p in points) / total if points and total > 0.0 else math.nan,
            predicted / positives if positives > 0.0 else math.nan,
            positives,
            negatives,
            points,
        )

    def _sums(self, of: NDArray[np.float64], span: Span) -> NDArray[np.float64]:
        """Return the part of these sums that belongs to the span."""
        sums: NDArray[np.float64] = of[..., _LAST_EPOCH if span == "last_epoch" else _EPOCH]
        if span == "whole":
            sums = sums + of[..., _ENDED]
        elif span == "recent":
            sums = of[..., _RECENT] / self._state.growth[0]
        return sums


def _auc(positive: NDArray[np.float64], negative: NDArray[np.float64]) -> float:
    """Return the area under the ROC curve, of weights by bin in the order of scores; scores in one bin are ties."""
    pairs = float(positive.sum()) * float(negative.sum())
    return pairs_won(positive, negative) / pairs if pairs > 0.0 else math.nan


def pairs_won(positive: NDArray[np.float64], negative: NDArray[np.float64]) -> float:
    """Return the weight of the pairs in which the positive has the higher score, and half of that of ties.

    Both are weights, one for each score, or bin of scores, in ascending order.
    """
    below = np.cumsum(negative) - negative / 2.0
    return float((positive * below).sum())


def _reliability(
    positive: NDArray[np.float64], negative: NDArray[np.float64], predicted: NDArray[np.float64]
) -> tuple[ReliabilityPoint, ...]:
    """Return a point for each calibration bin that has any weight."""
    shares = np.bincount(_COARSE.astype(np.int64), positive, CALIBRATION_BINS)
    weights = shares + np.bincount(_COARSE.astype(np.int64), negative, CALIBRATION_BINS)
    return tuple(
        ReliabilityPoint(float(predicted[i] / weights[i]), float(shares[i] / weights[i]), float(weights[i]))
        for i in np.flatnonzero(weights)
    )
