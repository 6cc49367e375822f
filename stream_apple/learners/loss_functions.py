"""What kernels compute of a loss: its value, slope, and step, the bounds of scores, and how scores are mixed.

The functions take the number of the loss, see `losses.py`.

The softmax loss equals the logistic loss of label 1 at a margin that `multiclass/class_update.py` derives. So its slope
and its step are those of the logistic loss; only its bounds and the meaning of its scores are its own.
"""

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel, part, routine
from stream_apple.learners.losses import LOGISTIC, SOFTMAX, SQUARED, Loss
from stream_apple.learners.scores import Scores

_Numbers: TypeAlias = NDArray[np.float64]
_Index: TypeAlias = Any  # np.uint64 once compiled

_SQUARED, _LOGISTIC, _SOFTMAX = SQUARED.number, LOGISTIC.number, SOFTMAX.number
LOG_ODDS_BOUND = 50.0  # as in Vowpal Wabbit; a class's score is at most so far below the largest
LEAST_SPREAD = 1e-100  # of labels: the square of a smaller range is next to nothing in float64
SATURATED_MARGIN = 24 * math.log(2)  # above it the logistic loss is 0 in float32: no update (as in Vowpal Wabbit)


@routine
def loss_of(loss: int, score: float, label: float) -> float:
    """Return the loss of a score."""
    if loss == _SQUARED:
        miss = score - label
        return miss * miss
    margin = score * label
    return math.log1p(math.exp(-abs(margin))) - min(margin, 0.0)


@kernel
def write_losses(loss: int, scores: _Numbers, labels: _Numbers, losses: _Numbers) -> None:
    """Write the loss of each score, float64[n] each; NaN without a label."""
    for k in range(len(scores)):
        losses[k] = loss_of(loss, scores[k], labels[k])


@kernel
def write_probabilities(scores: _Numbers, probabilities: _Numbers) -> None:
    """Write the probability of label 1, float64[n], by scores that are log-odds, float64[n]."""
    for k in range(len(scores)):
        probabilities[k] = expected_label(_LOGISTIC, scores[k])


@routine
def slope_of(loss: int, score: float, label: float) -> float:
    """Return the loss's derivative by the score."""
    return 2.0 * (score - label) if loss == _SQUARED else -label / (1.0 + math.exp(score * label))


@routine
def squared_slope(loss: int, score: float, label: float) -> float:
    """Return the square of the loss's derivative by the score; 0 above SATURATED_MARGIN."""
    if loss == _SQUARED:
        miss = score - label
        return 4.0 * (miss * miss)
    margin = score * label
    slope = 1.0 / (1.0 + math.exp(margin))
    return 0.0 if margin > SATURATED_MARGIN else slope * slope


@part
def squared_residual(loss: int, score: float, label: float) -> float:
    """Return the square of the residual: label - score (squared loss), or the loss's derivative (logistic)."""
    squared = squared_slope(loss, score, label)
    return 0.25 * squared if loss == _SQUARED else squared  # the derivative is twice the residual


@part
def agreement_of(loss: int, lost: float, score: float, label: float) -> tuple[float, float]:
    """Return the label times the expected label, and the square of the expected label; `lost` is the score's loss.

    With log-odds the expected label lies between -1 and 1, and the product follows from the loss alone.
    """
    if loss == _SQUARED:
        return score * label, score * score
    agreement = 2.0 * math.exp(-lost) - 1.0
    return agreement, agreement * agreement


@part
def class_agreement(probabilities: _Numbers, label: int) -> tuple[float, float]:
    """Return what `agreement_of` does, of k classes; `probabilities` are those that were published, float64[k].

    A label is 1 - 1/k for its class and -1/k for each other one. The expected label has each class's probability less
    1/k. The product of the two, and the square of the expected label, are sums over the classes, times k / (k - 1). So
    they are at most 1, and for two classes they are those of the logistic loss. The ratio of the two is -1 where two
    classes have been swapped, and next to 0 where each of many classes has become another one.
    """
    k = len(probabilities)
    even, unit, squares = 1.0 / k, k / (k - 1.0), 0.0
    for c in range(k):
        beyond = probabilities[c] - even
        squares += beyond * beyond
    return unit * (probabilities[label] - even), unit * squares


@part
def descent_of(loss: int, score: float, label: float) -> tuple[float, float]:
    """Return minus the slope of the loss, and its curvature, for Newton's method; of half the loss if it is squared.

    A logistic curvature is never below the squared slope: where the score is far from 0 it would be next to nothing.
    """
    return (label - score, 1.0) if loss == _SQUARED else logistic_descent(score, label)


@part
def logistic_descent(score: float, label: float) -> tuple[float, float]:
    """Return what `descent_of` does, of the logistic loss."""
    slope = label / (1.0 + math.exp(score * label))
    return slope, max(slope * slope, abs(slope) * (1.0 - abs(slope)))


@part
def bounded_descent(loss: int, score: float, label: float, low: float, high: float) -> tuple[float, float]:
    """Return what `descent_of` does, of a score that is clipped to [low, high] where it is used."""
    if loss == _SQUARED:
        clipped_to_label = score >= high == label or score <= low == label
        return (0.0, 0.0) if clipped_to_label else descent_of(loss, score, label)
    return logistic_descent(clip_score(score, low, high), label)


@routine
def invariant_step(loss: int, score: float, label: float, rate: float, sensitivity: float) -> float:
    """Return the length of the step along the gradient: the limit of many small steps whose rates sum to `rate`.

    `sensitivity` is the score's change per unit of step. Karampatziakis and Langford 2011, table 1. For the logistic
    loss the new margin m' solves m' + e^m' = m + e^m + rate * sensitivity = z, so e^m' = W(e^z), Lambert's W. One
    iteration of Fritsch, Shafer and Crowley 1973 from Vowpal Wabbit's first guess comes within 9e-5 of W, and lets runs
    of both be compared to 1e-5.
    """
    span = rate * sensitivity
    if loss == _SQUARED:
        if span < 1e-6:
            return 2.0 * (label - score) * rate
        return -(label - score) * math.expm1(-2.0 * span) / sensitivity
    return label * margin_step(score * label, rate, sensitivity)


@routine
def margin_step(margin: float, rate: float, sensitivity: float) -> float:
    """Return the step of the logistic loss that increases the margin, which is the score times the label."""
    span, grown = rate * sensitivity, math.exp(margin)
    if span < 1e-6:
        return rate / (1.0 + grown)
    z = span + margin + grown
    guess = 0.86 * z + 0.01 if z >= 1.0 else math.exp(0.8 * z - 0.65)
    residual = z - guess - math.log(guess)
    scale = 1.0 + guess
    quadratic = 2.0 * scale * (scale + 2.0 * residual / 3.0)
    lambert = guess * (1.0 + residual / scale * (quadratic - residual) / (quadratic - 2.0 * residual))
    return max(z - lambert - margin, 0.0) / sensitivity  # never backwards, whatever the approximation's error


@routine
def exact_step(loss: int, score: float, label: float, rate: float, sensitivity: float) -> float:
    """Return the step that `invariant_step` approximates, to 1e-8 of its length.

    Small steps need it: if the margin changes by less than 0.01, the approximation is wrong by a percent or more. For
    the logistic loss the change d of the margin m solves d + e^m (e^d - 1) = rate * sensitivity. The left side is
    convex, so Newton's method converges from any bound above d; six iterations reach 1e-8 for all margins and steps.
    """
    if loss == _SQUARED:
        return invariant_step(loss, score, label, rate, sensitivity)
    grown, span = math.exp(score * label), rate * sensitivity
    move = min(span / (1.0 + grown), math.log1p(span / grown))
    for _ in range(6):
        excess = move + grown * math.expm1(move) - span
        move -= excess / (1.0 + grown * math.exp(move))
    return label * move / sensitivity


@part
def bounds_of(loss: int, labels: _Numbers) -> tuple[float, float]:
    """Return the lowest and the highest score; `labels` holds the smallest and largest of 0 and the labels learned."""
    return (labels[0], labels[1]) if loss == _SQUARED else (-LOG_ODDS_BOUND, LOG_ODDS_BOUND)


@part
def follows_labels(loss: int) -> bool:
    """Return whether the bounds of scores follow the labels; otherwise they are fixed."""
    return loss == _SQUARED


@part
def clip_score(score: float, low: float, high: float) -> float:
    """Return the score within the bounds of `bounds_of`; probabilities are made of scores that are clipped so."""
    return min(max(score, low), high)


@part
def include_label(loss: int, labels: _Numbers, label: float) -> float:
    """Extend the bounds of scores to include a label; return the old width over the new one, at most 1.

    The squared loss extends its bounds before the score is clipped, as Vowpal Wabbit does; others have fixed bounds.
    """
    if loss != _SQUARED:
        return 1.0
    before = labels[1] - labels[0]
    labels[0] = min(labels[0], label)
    labels[1] = max(labels[1], label)
    after = labels[1] - labels[0]
    return before / after if after > before else 1.0


@part
def unit_of(loss: int, spread: float) -> float:
    """Return the unit in which losses and their curvatures are compared; `spread` is the range of scores."""
    return spread * spread if loss == _SQUARED else 1.0


@part
def expected_label(loss: int, score: float) -> float:
    """Return what a score predicts: the expected label (squared loss), or the probability of label 1 (logistic)."""
    return score if loss == _SQUARED else 1.0 / (1.0 + math.exp(-score))


@part
def judged(loss: int, scores: Scores, row: int, label: float) -> tuple[float, float, float, float]:
    """Return what is summed of a labelled row besides its own loss.

    These are the linear predictor's loss; what is predicted; the label; and the label again, if it is a number. With
    classes they are the linear predictor's loss, the probability of the predicted class, 1 if it is the label and else
    0, and 0.
    """
    if loss == _SOFTMAX:
        is_right = np.float64(scores.predictions[row] == label)
        return scores.linear_losses[row], scores.probabilities[row], is_right, 0.0
    return loss_of(loss, scores.linear[row], label), expected_label(loss, scores.predictions[row]), label, label


@part
def place_and_loss(loss: int, score: float, label: float, low: float, width: float) -> tuple[float, float, bool, float]:
    """Return a score's place from 0 to 1, its distance to the nearer end, whether that end is 1, and its loss.

    A place is the probability of label 1; with the squared loss it is (score - low) / width, clipped to [0, 1].
    """
    if loss == _SQUARED:
        place = min(max((score - low) / width, 0.0), 1.0)
        upper = place >= 0.5
        miss = score - label
        return place, 1.0 - place if upper else place, upper, miss * miss
    odds = math.exp(-abs(score))
    tail, upper = odds / (1.0 + odds), score >= 0.0
    return 1.0 - tail if upper else tail, tail, upper, math.log1p(odds) - min(score * label, 0.0)


@part
def have_range(loss: int, low: float, high: float) -> bool:
    """Return whether scores between these bounds differ by enough to be mixed and compared."""
    return bool(loss != _SQUARED or high - low > LEAST_SPREAD)


@part
def mixing_rate(loss: int, unit: float) -> float:
    """Return the largest rate at which the aggregating algorithm mixes such scores; `unit` is that of losses."""
    return 2.0 / unit if loss == _SQUARED else 1.0


@part
def evidence_of(loss: int, score: float, share: float, low: float, high: float) -> tuple[float, float]:
    """Return share * exp(-rate * loss) of a score, for the highest and for the lowest label, to be added up."""
    if loss == _LOGISTIC:
        return share / (1.0 + math.exp(-score)), share / (1.0 + math.exp(score))
    # Products, not powers: interpreted code would round a power differently.
    from_low, from_high = (score - low) / (high - low), (score - high) / (high - low)
    return share * math.exp(-2.0 * (from_high * from_high)), share * math.exp(-2.0 * (from_low * from_low))


@part
def score_of_evidence(loss: int, at_high: float, at_low: float, low: float, high: float) -> float:
    """Return the score whose loss is at most that of the mixture, given the sums of evidence for either label.

    With the logistic loss these are probabilities; with the squared loss this is the algorithm's substitution function.
    """
    evidence = math.log(at_high / at_low)
    return clip_score(evidence if loss == _LOGISTIC else low + (high - low) * (0.5 + 0.25 * evidence), low, high)


@part
def counted_label(loss: int, label: float) -> float:
    """Return what a label adds to the sum that `best_constant` is given: 1 or 0 of binary labels."""
    if loss == _LOGISTIC:
        return 1.0 if label > 0.0 else 0.0
    return label


@part
def first_counts(loss: int) -> tuple[float, float]:
    """Return the sum of labels and of weights before the first: half a binary label of each kind, else nothing."""
    return (0.5, 1.0) if loss == _LOGISTIC else (0.0, 0.0)


@part
def best_constant(loss: int, labels: float, weights: float) -> float:
    """Return the constant score of the least loss, given the sum of `counted_label` and that of importance weights."""
    return math.log(labels / (weights - labels)) if loss == _LOGISTIC else labels / weights


@part
def softmax(scores: _Numbers, probabilities: _Numbers, first: _Index, stop: _Index) -> bool:
    """Write the probabilities of scores[first:stop]; return False, and write none, if a score is not finite.

    The scores are shifted so that the largest is 0, and clipped to at least -LOG_ODDS_BOUND.
    """
    finite, largest, total = True, scores[first], 0.0
    for i in range(first, stop):
        finite &= math.isfinite(scores[i])
        largest = max(largest, scores[i])
    if not finite:
        return False
    for i in range(first, stop):
        scores[i] = max(scores[i] - largest, -LOG_ODDS_BOUND)
        probabilities[i] = math.exp(scores[i])
        total += probabilities[i]
    for i in range(first, stop):
        probabilities[i] /= total
    return True


def places_of(loss: Loss, scores: _Numbers, pair: _Numbers) -> _Numbers:
    """Return the place of each score, float64[n], as of `place_and_loss`; `pair` holds the two labels that occur."""
    if loss.real_valued:
        low, high = float(pair.min()), float(pair.max())
        return np.clip((scores - low) / (high - low), 0.0, 1.0)
    odds = np.exp(-np.abs(scores))
    places: _Numbers = np.divide(np.where(scores < 0.0, odds, 1.0), 1.0 + odds)
    return places
