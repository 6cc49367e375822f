"""The mixture of predictors that is published: never noticeably worse than the linear one, whatever the stream.

Six predictors learn from each example, each from its own score. Those of all features share apple's accumulators, and
those of base features share the linear predictor's, so that a further predictor costs a few operations a feature:

    LINEAR       base features alone, at the learning rate
    APPLE        all features, at the learning rate
    AVERAGE      the mean of apple's latest weights (Polyak, Juditsky 1992, forgetting): less noise at any rate
    FAST         all features, at FAST_RATE times the rate
    SLOW_LINEAR  base features alone, at SLOW_LINEAR_RATE times the rate
    SHRUNK       the average's weights, of which small ones are made smaller, see `update.py`

They are mixed in two steps. The *stack* is a linear predictor on their six scores, learned by Newton's method with
forgetting (for the squared loss: recursive least squares, with a ridge that is not forgotten). With the squared loss it
learns from the loss of its clipped score: a score beyond the largest label is no error if the label is the largest, and
so at the other end. Where labels are one of two, it would otherwise have to keep its scores near both of them, and
would be less sure than it could. As a rule the stack beats the best predictor, but nothing bounds its
loss. So the published score is a mixture of linear, average and stack, by the aggregating algorithm (Vovk 1990; with a
fixed share for each, Herbster, Warmuth 1998). If the first shares are p, the mixture's loss exceeds linear's by at most
log(1 / p[linear]) for the logistic loss; for the squared loss by half of that, times the squared range of the labels.
SHARE adds a little to this bound with each example, and DEALT with each restart (`drift.py`). The bound holds for any
labels, and is multiplied by the largest importance weight. The algorithm's rate is one over the unit of this bound.
When the unit grows (a label beyond the range, a heavier example) the shares are tempered, so that earlier losses count
in the new unit; otherwise the shares would be far too sure. A weight counts only after its example was scored, by
shares that may have become as small as SHARE * p[linear]. So an example that is heavier than all before it may add up
to log(1 / (SHARE * p[linear])) = 11.6 times its weight.

Where labels come late, the score that counts is the one that was given when the prediction was asked for (the *early*
score). With the first label of such an example two more predictors get shares: the constant, and SLOW_LINEAR. Shares
and stack then learn from early scores. The models that gave them had not seen the labels that came during the delay, so
the shares learn at a rate that is smaller the longer the delay is (a label that is d examples late divides the rate of
an aggregating algorithm by d in the bounds of Joulani, Gyorgy, Szepesvari 2013).
"""

import math

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import part
from stream_apple.learners.apple.kernels.update import Target
from stream_apple.learners.apple.state.model import Mixture
from stream_apple.learners.apple.state.weights import AVERAGE, LINEAR, PREDICTORS, SLOW_LINEAR, STACK
from stream_apple.learners.apple.state.work import Mixing, Numbers64
from stream_apple.learners.loss_functions import (
    best_constant,
    bounded_descent,
    clip_score,
    counted_label,
    evidence_of,
    first_counts,
    have_range,
    loss_of,
    mixing_rate,
    score_of_evidence,
    unit_of,
)
from stream_apple.learners.scores import CYCLE, EARLY_CONSTANT, EARLY_LEARNED, EARLY_PUBLISHED, EARLY_STRIDE

SHARED = ("linear", "average", "stack")  # the names of `Mixture.shares`, in this order
LATE_SHARED = ("constant", "slow_linear")  # of `Mixture.late`
KEEP = 0.9998  # of the stack's matrix after each example: the matrix is that of the latest 5,000 or so
RIDGE = 0.5  # times the squared range of scores (log-odds: times 1)
FIRST_SHARES = (0.9, 0.05, 0.05)  # of linear, average and stack
LIGHTEST = 1e-100  # importance weight: the square of a smaller one is next to nothing in float64
SHARE = 1e-5  # part of all shares that goes back to the first shares after each example, so that none is ever lost
DEALT = 0.1  # part of all shares that is dealt evenly where losses have risen

LATE_SHARES = (0.05, 0.05)  # the first shares of constant and slow linear
NOT_LATE = 1.0 - sum(LATE_SHARES)  # what is left to the others
PATIENCE = 10.0  # examples: with a longer delay shares learn at a smaller rate
OF_CONSTANT, OF_SLOW = range(2)  # in `Mixture.late`
LABELS, WEIGHTS = range(2)  # in `Mixture.label_sums`


def empty_mixture(*, mixed: bool) -> Mixture:
    """Return the mixture of a model that has learned nothing: it publishes the linear score."""
    size = PREDICTORS if mixed else 0
    stack, curvature = np.zeros(size), np.zeros((size, size))
    stack[LINEAR : LINEAR + 1] = 1.0
    first_shares, nothing = FIRST_SHARES if mixed else (), 2 if mixed else 0
    heaviest = np.zeros(1 if mixed else 0)
    return Mixture(stack, np.array(first_shares), curvature, heaviest, np.zeros(nothing), np.zeros(nothing))


def deal_shares(mixture: Mixture) -> None:
    """Take the part DEALT of all shares, and deal it evenly: the worst so far may be the best from now on."""
    late = mixture.late if is_late(mixture) else mixture.late[:0]
    even = DEALT / (len(mixture.shares) + len(late))
    for shares in (mixture.shares, late):
        shares[:] = (1.0 - DEALT) * shares + even


def effective_weights(mixture: Mixture) -> Numbers64:
    """Return the weight of each predictor's score in the published one, to first order, as float64[6]."""
    linear, average, stack = mixture.shares
    weights: Numbers64 = stack * mixture.stack
    weights[LINEAR] += linear
    weights[AVERAGE] += average
    if is_late(mixture):
        weights[SLOW_LINEAR] += mixture.late[OF_SLOW]
    return weights


def is_late(mixture: Mixture) -> bool:
    """Return whether the mixture has learned from early scores; before that `Mixture.late` is all zeros."""
    return len(mixture.late) > 0 and bool(mixture.late[OF_CONSTANT] > 0.0)


@part
def blend(mixture: Mixture, mixing: Mixing, loss: int, low: float, high: float) -> float:
    """Clip the predictors' scores to [low, high], add the stack's, and return the published score."""
    scores, stacked = mixing.scores, 0.0
    for k in range(PREDICTORS):
        scores[k] = clip_score(scores[k], low, high)
        stacked += mixture.stack[k] * scores[k]
    mixing.unbounded[0] = stacked
    scores[STACK] = clip_score(stacked, low, high)
    if not have_range(loss, low, high):
        return low
    at_high, at_low = 0.0, 0.0
    for which in range(3):
        score, share = scores[_predictor_of_share(which)], mixture.shares[which]
        for_high, for_low = evidence_of(loss, score, share, low, high)
        at_high, at_low = at_high + for_high, at_low + for_low
    if mixture.late[OF_CONSTANT] > 0.0:
        for which in range(2):
            score, share = _late_score(mixture, mixing, which, loss, low, high), mixture.late[which]
            for_high, for_low = evidence_of(loss, score, share, low, high)
            at_high, at_low = at_high + for_high, at_low + for_low
    return score_of_evidence(loss, at_high, at_low, low, high)


@part
def constant_score(mixture: Mixture, loss: int, low: float, high: float) -> float:
    """Return the score of the constant: the mean of the labels (or its log-odds) since the first late one, else 0."""
    labels, weights = mixture.label_sums[LABELS], mixture.label_sums[WEIGHTS]
    if weights <= 0.0:
        return 0.0
    return clip_score(best_constant(loss, labels, weights), low, high)


@part
def _late_score(mixture: Mixture, mixing: Mixing, which: int, loss: int, low: float, high: float) -> float:
    """Return the score that the share late[which] belongs to."""
    return constant_score(mixture, loss, low, high) if which == OF_CONSTANT else mixing.scores[SLOW_LINEAR]


@part
def keep_early(early: NDArray[np.float32], mixing: Mixing, constant: float, published: float, learned: int) -> None:
    """Write to `early`, float32[EARLY], what the mixture needs of an example when its label comes."""
    for k in range(STACK + 1):
        early[k] = np.float32(mixing.scores[k])
    early[EARLY_CONSTANT], early[EARLY_PUBLISHED] = np.float32(constant), np.float32(published)
    early[EARLY_LEARNED], early[EARLY_STRIDE] = np.float32(learned % CYCLE), np.float32(1.0)


@part
def take_early(mixture: Mixture, mixing: Mixing, loss: int, early: NDArray[np.float32]) -> None:
    """Replace the scores in `mixing` by early ones; give constant and slow linear their first shares if they have none.

    The stack's score without bounds is computed by its present weights, because these learn from it.
    """
    if mixture.late[OF_CONSTANT] <= 0.0:
        for which in range(3):
            mixture.shares[which] *= NOT_LATE
        for which in range(2):
            mixture.late[which] = LATE_SHARES[which]
        mixture.label_sums[LABELS], mixture.label_sums[WEIGHTS] = first_counts(loss)
    stacked = 0.0
    for k in range(PREDICTORS):
        mixing.scores[k] = np.float64(early[k])
        stacked += mixture.stack[k] * mixing.scores[k]
    mixing.scores[STACK], mixing.unbounded[0] = np.float64(early[STACK]), stacked


@part
def count_label(mixture: Mixture, loss: int, target: Target) -> None:
    """Add a label to the sums of the constant, once a label has been late."""
    if mixture.late[OF_CONSTANT] > 0.0:
        mixture.label_sums[LABELS] += target.importance * counted_label(loss, target.label)
        mixture.label_sums[WEIGHTS] += target.importance


@part
def _predictor_of_share(which: int) -> int:
    """Return the number of the score that shares[which] belongs to."""
    return LINEAR if which == 0 else AVERAGE if which == 1 else STACK


@part
def temper(mixture: Mixture, ratio: float) -> None:
    """Adapt the shares to a larger unit of losses: `ratio` is the old unit over the new one."""
    shares, late, total = mixture.shares, mixture.late, 0.0
    for which in range(3):
        shares[which] = FIRST_SHARES[which] * (shares[which] / FIRST_SHARES[which]) ** ratio
        total += shares[which]
    if len(late) and late[OF_CONSTANT] > 0.0:
        for which in range(2):
            first = LATE_SHARES[which] / NOT_LATE  # relative to the others' first shares, which sum to 1 here
            late[which] = first * (late[which] / first) ** ratio
            total += late[which]
        for which in range(2):
            late[which] /= total
    for which in range(3):
        shares[which] /= total


@part
def learn_mixture(
    mixture: Mixture, mixing: Mixing, constant: float, loss: int, target: Target, bounds: tuple[float, float],
    delay: float,
) -> None:  # fmt: skip
    """Update shares and stack from an example whose scores `blend` or `take_early` has left in `mixing`.

    constant  the score of the constant at the time of the other scores
    bounds    the lowest and the highest score
    delay     how many examples that the mixture learns from were learned since then
    """
    low, high = bounds
    if not have_range(loss, low, high):
        return
    unit = unit_of(loss, high - low)
    rate = mixing_rate(loss, unit) / heaviest_of(mixture, target.importance)
    if delay > PATIENCE:
        rate *= PATIENCE / delay
    for which in range(3):
        mixing.losses[which] = loss_of(loss, mixing.scores[_predictor_of_share(which)], target.label)
    mixing.losses[3 + OF_CONSTANT] = loss_of(loss, constant, target.label)
    mixing.losses[3 + OF_SLOW] = loss_of(loss, mixing.scores[SLOW_LINEAR], target.label)
    learn_shares(mixture, mixing.losses, rate * target.importance)
    slope, curvature = bounded_descent(loss, mixing.unbounded[0], target.label, low, high)
    slope, curvature = target.importance * slope, target.importance * curvature
    scores = mixing.scores
    for i in range(PREDICTORS):
        mixing.vector[i] = scores[i] * slope
        for j in range(i + 1):
            mixture.curvature[i, j] = mixture.curvature[i, j] * KEEP + curvature * scores[i] * scores[j]
    newton_step(mixture, mixing, RIDGE * unit)


@part
def heaviest_of(mixture: Mixture, importance: float) -> float:
    """Return the largest importance weight learned, this one included; the shares are adapted to it as their unit."""
    if importance > mixture.heaviest[0]:
        temper(mixture, mixture.heaviest[0] / importance)
        mixture.heaviest[0] = max(importance, LIGHTEST)
    return float(mixture.heaviest[0])


@part
def learn_shares(mixture: Mixture, losses: Numbers64, rate: float) -> None:
    """Multiply each share by exp(-rate * loss), and return the part SHARE of all shares to the first shares.

    losses  float64[5]  of linear, average and stack; and of constant and slow linear, which count once a label was late
    """
    shares, late, least, total, first = mixture.shares, mixture.late, math.inf, 0.0, 1.0
    late_too = late[OF_CONSTANT] > 0.0
    if late_too:
        first = NOT_LATE
    for which in range(5 if late_too else 3):
        least = min(least, losses[which])
    for which in range(3):
        shares[which] *= math.exp(-rate * (losses[which] - least))
        total += shares[which]
    if late_too:
        for which in range(2):
            late[which] *= math.exp(-rate * (losses[3 + which] - least))
        total += late[OF_CONSTANT] + late[OF_SLOW]
        for which in range(2):
            late[which] = (1.0 - SHARE) * late[which] / total + SHARE * LATE_SHARES[which]
    for which in range(3):
        shares[which] = (1.0 - SHARE) * shares[which] / total + SHARE * (first * FIRST_SHARES[which])


@part
def newton_step(mixture: Mixture, mixing: Mixing, ridge: float) -> None:
    """Add (curvature + ridge)^-1 * vector to the stack's weights, by a Cholesky decomposition L D L'.

    The vector is that of `mixing`, which this overwrites.
    """
    matrix, vector = mixing.matrix, mixing.vector
    for i in range(PREDICTORS):
        for j in range(i + 1):
            matrix[i, j] = mixture.curvature[i, j]
        matrix[i, i] += ridge
    for j in range(PREDICTORS):
        diagonal = matrix[j, j]
        for k in range(j):
            factor = matrix[j, k]
            diagonal -= factor * factor * matrix[k, k]
        diagonal = max(diagonal, ridge)
        matrix[j, j] = diagonal
        inverse = 1.0 / diagonal
        for i in range(j + 1, PREDICTORS):
            entry = matrix[i, j]
            for k in range(j):
                entry -= matrix[i, k] * matrix[j, k] * matrix[k, k]
            matrix[i, j] = entry * inverse
    for i in range(PREDICTORS):
        entry = vector[i]
        for k in range(i):
            entry -= matrix[i, k] * vector[k]
        vector[i] = entry
    for back in range(PREDICTORS):
        i = PREDICTORS - 1 - back
        entry = vector[i] / matrix[i, i]
        for k in range(i + 1, PREDICTORS):
            entry -= matrix[k, i] * vector[k]
        vector[i] = entry
        mixture.stack[i] += entry
