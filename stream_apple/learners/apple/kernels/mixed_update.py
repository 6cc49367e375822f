"""How the six predictors of a mixture score and learn one example, see `mixture.py`.

The predictors of all features share one step for each feature, and each multiplies it by a factor of its own, by its
score and its rate; so do the linear ones. A feature's average is the running mean of apple's weight over the first
HORIZON examples that have the feature, and an exponential mean from then on.

Most products mean nothing: their weights are small, and only noise. The *shrunk* predictor has the average weights with
less of such noise: each is multiplied by a^2 / (a^2 + SHRINKAGE), where a is the weight times the feature's largest
value. This factor is nearly 0 for a small weight and nearly 1 for a large one, as in the nonnegative garrote (Breiman
1995). The predictor has no weights of its own, and costs a division for each feature.
"""

import math

import numpy as np

from stream_apple.core.jit import part
from stream_apple.learners.apple.kernels.mixture import FAST_RATE, SLOW_LINEAR_RATE
from stream_apple.learners.apple.kernels.update import (
    Target,
    change_of,
    gather_base,
    gather_linear,
    norm_and_sensitivity,
    normalise,
    widen,
    within_bounds,
)
from stream_apple.learners.apple.state.model import LearningRule, Model, ModelScalars
from stream_apple.learners.apple.state.table import LEAST_SQUARE, U0, U1, Element, Index
from stream_apple.learners.apple.state.weights import APPLE, AVERAGE, FAST, LINEAR, SHRUNK, SLOW_LINEAR, shrunk
from stream_apple.learners.apple.state.work import ActiveFeatures, Numbers64
from stream_apple.learners.loss_functions import squared_slope

HORIZON = np.uint8(100)  # examples
MOST_SIGHTS = np.uint8(255)  # what `sights` counts up to


@part
def gather_mixed(model: Model, features: ActiveFeatures, found: Index, scores: Numbers64) -> tuple[Index, bool]:
    """Write the predictors' scores to `scores`, and copy what the updates need of each slot.

    Returns the number of the constant and the base features, which come first, and whether a value is beyond its scale.
    """
    slots, companions = model.table.slots, model.table.companions
    apple, average, fast = np.float64(0.0), np.float64(0.0), np.float64(0.0)
    linear, slow_linear, less_noise = np.float64(0.0), np.float64(0.0), np.float64(0.0)
    wider, base = False, U0
    while base < found and slots[features.slot[base]]["degree"] <= 1:
        owner, companion = slots[features.slot[base]], companions[features.slot[base]]
        x = features.x[base]
        wider |= copy_slot(features, base, owner)
        apple += owner["weight"] * x
        average += owner["average"] * x
        fast += owner["fast"] * x
        less_noise += shrunk(owner["average"], owner["scale"]) * x
        linear += companion["linear_weight"] * x
        slow_linear += companion["slow_linear"] * x
        base += U1
    for t in range(base, found):
        owner, x = slots[features.slot[t]], features.x[t]
        wider |= copy_slot(features, t, owner)
        apple += owner["weight"] * x
        average += owner["average"] * x
        fast += owner["fast"] * x
        less_noise += shrunk(owner["average"], owner["scale"]) * x
    scores[LINEAR], scores[APPLE], scores[AVERAGE], scores[FAST] = linear, apple, average, fast
    scores[SLOW_LINEAR], scores[SHRUNK] = slow_linear, less_noise
    return base, wider


@part
def copy_slot(features: ActiveFeatures, t: Index, owner: Element) -> bool:
    """Copy what the update needs of feature t's slot; return whether the value is beyond its scale."""
    weight, gradient, scale = owner["weight"], owner["gradient"], owner["scale"]
    features.weight[t], features.gradient[t], features.scale[t] = weight, gradient, scale
    return bool(abs(features.x[t]) > scale)


@part
def learn_expanded(
    model: Model, features: ActiveFeatures, within: Index, found: Index, scores: Numbers64, target: Target
) -> None:
    """Update the weights of apple, average and fast for features[:found], which `gather_mixed` has copied.

    within  the values of features[:within] are within their scale
    target  label and importance weight; the scores are those in `scores`
    """
    slots, rule = model.table.slots, model.rule
    slot, x, weight, gradient, scale, step = features
    for t in range(within, found):
        if abs(x[t]) > scale[t]:
            widen(model.table, slot[t], abs(x[t]))
            weight[t], scale[t] = slots[slot[t]]["weight"], slots[slot[t]]["scale"]
    apple = Target(scores[APPLE], target.label, target.importance)
    step_scale = step_scale_of(model.scalars, 0, rule, features, found, apple)
    change = change_at(rule, rule.rate, step_scale, apple)
    fast = Target(scores[FAST], target.label, target.importance)
    fast_change = change_at(rule, FAST_RATE * rule.rate, step_scale, fast)
    for t in range(found):
        advance(slots[slot[t]], weight[t] + change * step[t], gradient[t], fast_change * step[t])


@part
def change_at(rule: LearningRule, rate: float, step_scale: tuple[float, float], target: Target) -> np.float32:
    """Return what `change_of` does; 0 if the loss has no slope at the score."""
    if squared_slope(rule.loss, target.score, target.label) <= 0.0:
        return np.float32(0.0)
    return change_of(rule, rate, step_scale[0], step_scale[1], target)


@part
def advance(owner: Element, learned: np.float32, gradient: np.float32, fast_step: np.float32) -> None:
    """Write what was learned of a feature."""
    sights = min(owner["sights"], np.uint8(MOST_SIGHTS - 1)) + np.uint8(1)
    learned = within_bounds(learned)
    owner["weight"] = learned
    owner["gradient"] = gradient
    owner["active"] = 0
    owner["sights"] = sights
    owner["average"] += (learned - owner["average"]) / np.float32(min(sights, HORIZON))
    owner["fast"] = within_bounds(owner["fast"] + fast_step)


@part
def learn_base(
    model: Model, features: ActiveFeatures, base: Index, old: Index, found: Index, scores: Numbers64, target: Target
) -> None:
    """Update the linear predictors' weights of features [0, base), and of the newcomers [old, found) of degree 1.

    It moves these together in `slot` and `x`, so it has to be called after `learn_expanded`.
    """
    slots, rule = model.table.slots, model.rule
    slot, _, weight, gradient, _, step = features
    base = gather_base(slots, features, base, old, found)
    gather_linear(model.table, features, base)
    linear = Target(scores[LINEAR], target.label, target.importance)
    step_scale = step_scale_of(model.scalars, 1, rule, features, base, linear)
    change = change_at(rule, rule.rate, step_scale, linear)
    slow = Target(scores[SLOW_LINEAR], target.label, target.importance)
    slow_change = change_at(rule, SLOW_LINEAR_RATE * rule.rate, step_scale, slow)
    for t in range(base):
        advance_base(model, slot[t], weight[t] + change * step[t], gradient[t], slow_change * step[t])


@part
def advance_base(model: Model, place: Index, learned: np.float32, gradient: np.float32, slow_step: np.float32) -> None:
    """Write what the linear predictors have learned of a base feature, or of the constant."""
    companion: Element = model.table.companions[place]
    companion["linear_weight"] = within_bounds(learned)
    companion["linear_gradient"] = gradient
    companion["slow_linear"] = within_bounds(companion["slow_linear"] + slow_step)


@part
def step_scale_of(
    scalars: ModelScalars, which: int, rule: LearningRule, features: ActiveFeatures, size: Index, target: Target
) -> tuple[float, float]:
    """Return what `normalise` does, also where the loss has no slope at this predictor's own score."""
    if squared_slope(rule.loss, target.score, target.label) > 0.0:
        return normalise(scalars, which, rule, features, size, target)
    accumulate_nothing(features, size)
    _, sensitivity = norm_and_sensitivity(features, size)
    seen = scalars.norm[which]
    return math.sqrt(scalars.weight[which] / seen) if seen > 0.0 else 0.0, sensitivity


@part
def accumulate_nothing(features: ActiveFeatures, size: Index) -> None:
    """Do what `accumulate` does for a slope of zero; a feature whose accumulator is still 0 gets a step of 0."""
    _, x, _, gradient, scale, step = features
    for t in range(size):
        ratio = x[t] / scale[t]
        scale[t] = ratio
        step[t] = ratio / np.sqrt(max(gradient[t], LEAST_SQUARE)) if gradient[t] > 0.0 else np.float32(0.0)
