"""Labels that persist: the published score of a mixture also follows the latest label, as far as that has helped.

In many streams an example's label is like the one before, whatever its features: a price is above its mean for hours, a
machine fails and keeps failing (Zliobaite, Bifet, Read, Pfahringer, Holmes 2015, who call it temporal dependence). One
more predictor therefore combines three numbers: the score of the mixture (`mixture.py`), the latest label, and the
latest misses of that score, of which each weighs KEPT times as much as the next. It learns their weights as the stack
does, by Newton's method. What is published is a mixture of this predictor and of the score, again by the aggregating
algorithm, so that its loss exceeds that of the score by at most log(1 / (1 - FIRST_SHARE)) = .05 in the units that
`mixture.py` gives, plus SHARE * FIRST_SHARE for each example.

The latest label has to be known when the next example is scored, so this is asked for by an option, and rests once a
label has come late. Neither the predictors nor the watch for drift see any of it: they learn the same without it.
"""

import math

import numpy as np

from stream_apple.core.jit import part
from stream_apple.learners.apple.kernels.mixture import (
    KEEP,
    LEAST_SPREAD,
    NEWTON_VECTOR,
    RIDGE,
    SHARE,
    evidence_of,
    newton_step,
    score_of_evidence,
)
from stream_apple.learners.apple.kernels.update import Target
from stream_apple.learners.apple.state.model import Persistence
from stream_apple.learners.apple.state.weights import PREDICTORS
from stream_apple.learners.apple.state.work import Numbers64
from stream_apple.learners.losses import (
    LOG_ODDS_BOUND,
    LOGISTIC,
    SQUARED,
    clip_score,
    descent_of,
    expected_label,
    loss_of,
    unit_of,
)

PERSISTENT = "persistent"  # the name of this predictor's share
INPUTS = 3  # the score of the mixture, the latest label, the latest misses
FIRST_SHARE = 0.05
KEPT = 0.8
LABEL, MISSES = range(2)  # in `Persistence.latest`; classes have a miss each
NO_CLASS = -1.0  # the latest label of classes before the first one
MIXED = NEWTON_VECTOR + PREDICTORS  # index in `mixing` of the mixture's score
FOLLOWING, UNCLIPPED = MIXED + 1, MIXED + 2  # indices there of this predictor's score, within the bounds and without


def no_persistence(classes: int, *, wanted: bool) -> Persistence:
    """Return the state before the first label; empty arrays if it is not wanted.

    classes  how many classes there are; 0 if labels are not classes
    """
    if not wanted:
        return Persistence(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0))
    weights = np.zeros(INPUTS)
    weights[0] = 1.0
    latest = np.zeros(1 + max(classes, 1))
    latest[LABEL] = NO_CLASS if classes else 0.0
    return Persistence(np.full(1, FIRST_SHARE), weights, np.zeros(INPUTS * INPUTS), latest)


@part
def follow_latest(
    persistence: Persistence, mixing: Numbers64, loss: int, score: float, low: float, high: float
) -> float:
    """Return the score to publish, given that of the mixture; `mixing` keeps both predictors' scores."""
    weights, latest, share = persistence.weights, persistence.latest, persistence.share[0]
    following = weights[0] * score + weights[1] * latest[LABEL] + weights[2] * latest[MISSES]
    mixing[MIXED], mixing[UNCLIPPED] = score, following
    mixing[FOLLOWING] = following = clip_score(following, low, high)
    if loss == SQUARED and high - low <= LEAST_SPREAD:
        return score
    for_high, for_low = evidence_of(loss, score, 1.0 - share, low, high)
    more_for_high, more_for_low = evidence_of(loss, following, share, low, high)
    return score_of_evidence(loss, for_high + more_for_high, for_low + more_for_low, low, high)


@part
def temper_persistence(persistence: Persistence, before: float, now: float) -> None:
    """Adapt the share to the unit of losses if that has grown, see `temper`."""
    if now <= before:
        return
    share, ratio = persistence.share[0], before / now
    following = FIRST_SHARE * (share / FIRST_SHARE) ** ratio
    other = (1.0 - FIRST_SHARE) * ((1.0 - share) / (1.0 - FIRST_SHARE)) ** ratio
    persistence.share[0] = following / (following + other)


@part
def learn_share(persistence: Persistence, beyond: float) -> None:
    """Update the share; `beyond` is the rate times what the loss of this predictor has beyond that of the mixture."""
    share = persistence.share[0]
    gained, other = share * math.exp(-max(beyond, 0.0)), (1.0 - share) * math.exp(min(beyond, 0.0))
    persistence.share[0] = (1.0 - SHARE) * gained / (gained + other) + SHARE * FIRST_SHARE


@part
def learn_persistence(
    persistence: Persistence, mixing: Numbers64, loss: int, target: Target, bounds: tuple[float, float],
    heaviest: float, clipped: bool,
) -> None:  # fmt: skip
    """Update share and weights from an example whose scores `follow_latest` has left in `mixing`; keep its label.

    heaviest  the largest importance weight so far
    clipped   as for `learn_mixture`
    """
    low, high = bounds
    spread, label = high - low, target.label
    if loss == LOGISTIC or spread > LEAST_SPREAD:
        unit = unit_of(loss, spread)
        rate = (2.0 / unit if loss == SQUARED else 1.0) * (target.importance / heaviest)
        beyond = loss_of(loss, mixing[FOLLOWING], label) - loss_of(loss, mixing[MIXED], label)
        learn_share(persistence, rate * beyond)
        following = mixing[UNCLIPPED]
        if loss == LOGISTIC:
            following = clip_score(following, -LOG_ODDS_BOUND, LOG_ODDS_BOUND)
        slope, curvature = descent_of(loss, following, label)
        if clipped and (following >= high == label or following <= low == label):
            slope, curvature = 0.0, 0.0
        slope, curvature = target.importance * slope, target.importance * curvature
        for i in range(INPUTS):
            given = _input(persistence, mixing, i)
            mixing[NEWTON_VECTOR + i] = given * slope
            for j in range(i + 1):
                at = i * INPUTS + j
                persistence.curvature[at] = persistence.curvature[at] * KEEP + curvature * given * _input(
                    persistence, mixing, j
                )
        newton_step(persistence.weights, persistence.curvature, mixing, INPUTS, RIDGE * unit)
    latest = persistence.latest
    miss = (0.5 * (label + 1.0) if loss == LOGISTIC else label) - expected_label(loss, mixing[MIXED])
    latest[LABEL], latest[MISSES] = label, KEPT * latest[MISSES] + (1.0 - KEPT) * miss


@part
def _input(persistence: Persistence, mixing: Numbers64, which: int) -> float:
    return float(mixing[MIXED] if which == 0 else persistence.latest[which - 1])
