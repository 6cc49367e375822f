"""A warm start for scores, before anything is learned: naive Bayes by the examples counted so far.

The averaged n-join estimator (AnJE of Zaidi et al.), naive Bayes for n = 1. The model's tuples of n different
features that are in the example vote with the logarithm of how much more frequent they are in one class,

    odds = log(P(1) / P(-1)) + w0 * sum over tuples F of log(theta(F, 1) / theta(F, -1)),    w0 = 1 / C(A - 1, n - 1),

so that each of the example's A features counts once. theta(F, y) = (N(F, y) + m * P(F)) / (N(y) + m) with m = PRIOR: an
estimate drawn to the frequency of F in both classes. (The paper draws it to 1 / |F|, but how many values there will be
nobody knows on a stream. The frequencies of a tuple's values sum to 1, too, so the thetas do.)

Only presence is counted, so only features whose value is 1 vote: a number has no frequency. Nothing is said by a tuple
without a slot, nor by the absence of one. The example itself is counted after it was scored.

The features are not independent, as naive Bayes has it, so the odds are too sure of themselves, the more the fewer
examples were counted; and where few of many tuples say anything, w0 has them say too little. So scores start from

    trust * odds,

and trust is learned from the loss of this alone, by Newton's method with forgetting, as in `mixture.py`. The
predictors that start from it learn the correction: it is an offset, and has no weight of theirs. Their first steps are
smaller than those of weights that have to learn all, as if each had met WARM_START_DAMPING squared gradients before.
"""

import math

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import part
from stream_apple.core.learner.kernels.losses import LOGISTIC, descent_of
from stream_apple.core.learner.kernels.update import Target
from stream_apple.core.learner.state.model import Model
from stream_apple.core.learner.state.table import BARRED, U1, U3, Index
from stream_apple.core.learner.state.weights import APPLE, AVERAGE, FAST
from stream_apple.core.learner.state.work import ActiveFeatures, Numbers64

PRIOR = 0.1
MOST_ODDS = 50.0  # as scores
FIRST_TRUST = 0.0  # it is earned
MOST_TRUST = 100.0
KEEP = 0.99  # of the curvature, an example: trust goes by the latest hundred
U2 = np.uint64(2)
WARM_START_DAMPING = np.float32(1.0)  # in squares of the feature's value
TRUST, CURVATURE = range(2)


def empty_start(*, warm: bool) -> NDArray[np.float64]:
    """Return trust and curvature of a model that has learned nothing, float64[2]; float64[0] if not `warm`."""
    return np.array([FIRST_TRUST, 0.0] if warm else [])


@part
def odds_of(model: Model, features: ActiveFeatures, found: Index) -> float:
    """Return the log-odds of label 1 by naive Bayes, over the tuples of `warm_start` features in features[:found]."""
    counts, n = model.table.counts, np.uint64(model.rule.warm_start)
    totals = counts[len(counts) - 1]
    all_positive, all_negative = totals["positive"], totals["negative"]
    if not all_positive + all_negative > 0.0:
        return 0.0
    of_all = PRIOR / (all_positive + all_negative)
    base = (all_negative + PRIOR) / (all_positive + PRIOR)
    votes, present = np.float64(0.0), np.float64(0.0)
    for t in range(U1, found):
        if features.x[t] != np.float32(1.0):
            continue
        counted = counts[features.slot[t]]
        if counted["order"] == U1 and model.table.slots[features.slot[t]]["parent"] != BARRED:
            present += 1.0
        if counted["order"] == n:
            drawn = of_all * (counted["positive"] + counted["negative"])
            if drawn > 0.0:
                votes += math.log((counted["positive"] + drawn) / (counted["negative"] + drawn) * base)
    if n > U1:
        votes /= max(present - 1.0, 1.0)
    if n > U2:
        votes *= 2.0 / max(present - 2.0, 1.0)
    if n > U3:
        votes *= 3.0 / max(present - 3.0, 1.0)
    odds = math.log((all_positive + 1.0) / (all_negative + 1.0)) + votes
    return float(min(max(odds, -MOST_ODDS), MOST_ODDS))


@part
def starting_score(trust: NDArray[np.float64], odds: float) -> float:
    """Return the score that predictors start from: trust times the log-odds, within +-MOST_ODDS."""
    return float(min(max(trust[TRUST] * odds, -MOST_ODDS), MOST_ODDS))


@part
def start_expanded(mixing: Numbers64, score: float) -> None:
    """Add the starting score to the expanded predictors of a mixture; the linear ones, the baseline, have none."""
    mixing[APPLE] += score
    mixing[AVERAGE] += score
    mixing[FAST] += score


@part
def learn_trust(trust: NDArray[np.float64], odds: float, target: Target) -> None:
    """Move trust along the loss of the starting score alone, by a Newton step; before the example is counted."""
    slope, curvature = descent_of(LOGISTIC, starting_score(trust, odds), target.label)
    trust[CURVATURE] = KEEP * trust[CURVATURE] + target.importance * curvature * odds * odds
    moved = trust[TRUST] + target.importance * slope * odds / (trust[CURVATURE] + 1.0)
    trust[TRUST] = min(max(moved, 0.0), MOST_TRUST)
