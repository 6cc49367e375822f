"""Plain stochastic gradient descent with L2 regularisation, as in Theorem 1 of Agarwal et al. 2014.

It minimises the mean loss + l2 * |w|^2 / 2 by steps of 1 / (l2 * (t + 1)), where t counts the learned examples from 1:

    w[t+1] = w[t] - (slope * x + l2 * w[t]) / (l2 * (t + 1)), that is, (t + 1) * w[t+1] = t * w[t] - slope * x / l2

A slot holds t * w[t], also for the linear weight. So the regularisation shrinks all weights at once, and an example
changes only those of its own features. Scores are divided by t, which is the number of learned examples plus 1. The
constant is regularised like all others. An importance weight is a factor of the slope.
"""

import numpy as np

from stream_apple.core.jit import part
from stream_apple.learners.apple.kernels.update import Target, within_bounds
from stream_apple.learners.apple.state.model import Model
from stream_apple.learners.apple.state.table import Index
from stream_apple.learners.apple.state.work import ActiveFeatures
from stream_apple.learners.losses import LOGISTIC, slope_of


@part
def learn_by_plain_descent(
    model: Model, features: ActiveFeatures, found: Index, target: Target, linear_score: float
) -> None:
    """Update apple by its target and the linear predictor by its own score, and clear the active marks."""
    slots, l2 = model.table.slots, model.rule.plain_l2
    scale = target.importance / l2
    change = scale * slope_of(LOGISTIC, target.score, target.label)
    linear_change = scale * slope_of(LOGISTIC, linear_score, target.label) if model.rule.alongside else 0.0
    for t in range(found):
        owner, x = slots[features.slot[t]], features.x[t]
        owner["weight"] = within_bounds(owner["weight"] - np.float32(change * x))
        owner["scale"] = max(owner["scale"], abs(x))  # the selection of parents needs it; weights do not depend on it
        owner["active"] = 0
        if owner["degree"] <= 1:
            owner["linear_weight"] = within_bounds(owner["linear_weight"] - np.float32(linear_change * x))
