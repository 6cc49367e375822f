"""A warm start for scores, before anything is learned: naive Bayes by the examples counted so far.

This is the averaged n-join estimator (AnJE of Zaidi et al.), which is naive Bayes for n = 1. Each tuple of n different
features of the example that has a slot votes by how much more frequent it is in one class than in the other:

    odds = log(P(1) / P(-1)) + w0 * sum over tuples F of log(theta(F, 1) / theta(F, -1)),    w0 = 1 / C(A - 1, n - 1),

so that each of the example's A features counts once. theta(F, y) = (N(F, y) + m * P(F)) / (N(y) + m) with m = PRIOR: an
estimate that is shrunk towards the frequency of F in both classes. (The paper shrinks it towards 1 / |F|, but on a
stream the number of values is unknown. The frequencies of a tuple's values sum to 1, too, so the thetas do.)

Only presence is counted, so only features whose value is 1 vote: a number has no frequency. A tuple without a slot does
not vote, nor does an absent one. The example itself is counted after it was scored.

Features are not independent, as naive Bayes assumes, so the odds are too extreme, the more so the fewer examples were
counted. And where only few of many tuples have votes, w0 makes the odds too small. So scores start from

    trust * odds,

where trust is learned from the loss of this starting score alone, by Newton's method with forgetting, as in
`mixture.py`. The starting score is an offset, for which the predictors have no weight: they learn the correction. Their
first steps are smaller than without it, as if each weight had met WARM_START_DAMPING squared gradients before.
"""

import math

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import part
from stream_apple.learners.apple.kernels.update import Target
from stream_apple.learners.apple.state.model import LearningRule, Model
from stream_apple.learners.apple.state.table import BARRED, U1, U3, Index
from stream_apple.learners.apple.state.weights import APPLE, AVERAGE, FAST, SHRUNK
from stream_apple.learners.apple.state.work import ActiveFeatures, Numbers64
from stream_apple.learners.losses import LOGISTIC, descent_of

PRIOR = 0.1
MOST_ODDS = 50.0  # as scores
FIRST_TRUST = 0.0  # nothing is known of the odds yet
MOST_TRUST = 100.0
KEEP = 0.99  # of the curvature after each example: trust depends on the latest hundred or so
U2 = np.uint64(2)
WARM_START_DAMPING = np.float32(1.0)  # in squares of the feature's value
TRUST, CURVATURE = range(2)


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
def start_expanded(rule: LearningRule, mixing: Numbers64, score: float) -> None:
    """Add the starting score to the expanded predictors of a mixture; the linear ones, the baseline, start from 0."""
    mixing[APPLE] += score
    mixing[AVERAGE] += score
    mixing[FAST] += score
    if rule.shrinkage > 0.0:
        mixing[SHRUNK] += score


@part
def learn_trust(trust: NDArray[np.float64], odds: float, target: Target) -> None:
    """Move trust by a Newton step on the loss of the starting score alone; call it before the example is counted."""
    slope, curvature = descent_of(LOGISTIC, starting_score(trust, odds), target.label)
    trust[CURVATURE] = KEEP * trust[CURVATURE] + target.importance * curvature * odds * odds
    moved = trust[TRUST] + target.importance * slope * odds / (trust[CURVATURE] + 1.0)
    trust[TRUST] = min(max(moved, 0.0), MOST_TRUST)
