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

from stream_apple.core.batch import Batch
from stream_apple.core.jit import kernel, part
from stream_apple.learners.apple.kernels.admission import admit
from stream_apple.learners.apple.kernels.expansion import expand
from stream_apple.learners.apple.kernels.plain import score_linear
from stream_apple.learners.apple.kernels.residuals import add_residuals
from stream_apple.learners.apple.kernels.rows import (
    DONE,
    NOT_FINITE,
    are_finite,
    count_learned,
    is_learned,
    publish_clipped,
    row_features,
)
from stream_apple.learners.apple.kernels.update import Target, clear_active, gather, within_bounds
from stream_apple.learners.apple.state.model import EXAMPLES, Model
from stream_apple.learners.apple.state.table import Index
from stream_apple.learners.apple.state.weights import APPLE, LINEAR
from stream_apple.learners.apple.state.work import ActiveFeatures, Work
from stream_apple.learners.loss_functions import slope_of
from stream_apple.learners.scores import Scores


@kernel
def process_theorem_1(
    model: Model, work: Work, batch: Batch, scores: Scores, start: int, stop: int, learn: bool
) -> int:
    """Score each row of [start, stop) in order, then, if `learn`, learn it, as `process_plain` does."""
    slots, rule, features, mixing = model.table.slots, model.rule, work.features, work.mixing
    counts = model.scalars.counts
    for row in range(start, stop):
        label, learning, example = batch.labels[row], is_learned(batch, row, learn), row_features(batch, row)
        old, wanted = expand(model, example, learning, work, None)
        mixing[APPLE], _ = gather(slots, features, old)
        mixing[LINEAR], _ = score_linear(slots, rule, features, old, mixing[APPLE])
        mixing[APPLE] /= counts[EXAMPLES] + 1
        mixing[LINEAR] /= counts[EXAMPLES] + 1
        if not are_finite(mixing, APPLE + 1):
            clear_active(slots, features, old)
            work.next_row[0] = row
            return NOT_FINITE
        publish_clipped(scores, row, model, mixing, label, learning)
        if not learning:
            clear_active(slots, features, old)
            continue
        target = Target(mixing[APPLE], label, batch.weights[row])
        found = admit(model, work, old, wanted)
        count_learned(counts, example, found)
        if len(model.table.residuals) > 0:
            add_residuals(model, features, found, target)
        descend(model, features, found, target, mixing[LINEAR])
    work.next_row[0] = stop
    return DONE


@part
def descend(model: Model, features: ActiveFeatures, found: Index, target: Target, linear_score: float) -> None:
    """Update apple by its target and the linear predictor by its own score, and clear the active marks."""
    slots, rule = model.table.slots, model.rule
    scale = target.importance / rule.theorem_1_lambda
    change = scale * slope_of(rule.loss, target.score, target.label)
    linear_change = scale * slope_of(rule.loss, linear_score, target.label) if rule.alongside else 0.0
    for t in range(found):
        owner, x = slots[features.slot[t]], features.x[t]
        owner["weight"] = within_bounds(owner["weight"] - np.float32(change * x))
        owner["scale"] = max(owner["scale"], abs(x))  # the selection of parents needs it; weights do not depend on it
        owner["active"] = 0
        if owner["degree"] <= 1:
            owner["linear_weight"] = within_bounds(owner["linear_weight"] - np.float32(linear_change * x))
