"""Plain gradient descent with the steps of Theorem 1 of Agarwal et al. 2014: `steps = "theorem1"`.

It minimizes the mean loss + lambda * |w|^2 / 2 by steps of 1 / (lambda * (t + 1)). Here t counts the learned examples
from 1:

    w[t+1] = w[t] - (slope * x + lambda * w[t]) / (lambda * (t + 1))

that is,

    (t + 1) * w[t+1] = t * w[t] - slope * x / lambda

A slot holds t * w[t], and a score is divided by t. So the regularization shrinks all weights together, and an example
changes the weights of its own features only. The constant is regularized like all others. An importance weight is a
factor of the slope.
"""

import numpy as np

from stream_apple.core.jit import part
from stream_apple.learners.apple.kernels.update import Target, within_bounds
from stream_apple.learners.apple.state.model import EXAMPLES, Counts, Model
from stream_apple.learners.apple.state.table import Index
from stream_apple.learners.apple.state.weights import APPLE, LINEAR
from stream_apple.learners.apple.state.work import ActiveFeatures, Numbers64
from stream_apple.learners.loss_functions import slope_of


@part
def divide_by_time(scores: Numbers64, counts: Counts) -> None:
    """Divide the scores of apple and of the linear predictor by the number t of the example to be learned next."""
    scores[APPLE] /= counts[EXAMPLES] + 1
    scores[LINEAR] /= counts[EXAMPLES] + 1


@part
def descend(model: Model, features: ActiveFeatures, found: Index, target: Target, linear_score: float) -> None:
    """Update apple by its target and the linear predictor by its own score, and clear the active marks."""
    slots, companions, rule = model.table.slots, model.table.companions, model.rule
    scale = target.importance / rule.theorem_1_lambda
    change = scale * slope_of(rule.loss, target.score, target.label)
    linear_change = scale * slope_of(rule.loss, linear_score, target.label) if rule.alongside else 0.0
    for t in range(found):
        owner, x = slots[features.slot[t]], features.x[t]
        owner["weight"] = within_bounds(owner["weight"] - np.float32(change * x))
        owner["scale"] = max(owner["scale"], abs(x))  # the selection of parents needs it; weights do not depend on it
        owner["active"] = 0
        if rule.alongside and owner["degree"] <= 1:
            companion = companions[features.slot[t]]
            companion["linear_weight"] = within_bounds(companion["linear_weight"] - np.float32(linear_change * x))
