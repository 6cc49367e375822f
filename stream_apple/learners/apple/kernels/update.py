"""How the predictors score and learn one example: the adaptive, normalised update, by importance-invariant steps.

Adaptive: Duchi, Hazan, Singer 2011. Normalised: Ross, Mineiro, Langford 2013. Invariant to importance weights:
Karampatziakis, Langford 2011. Without a mixture there are two predictors, apple and the linear one alongside, and term
for term the update is Vowpal Wabbit's default.

A mixture has six (`mixture.py`). Those of all features share one step for each feature, and each multiplies it by a
factor of its own, by its score and its rate; so do the linear ones. A feature's average is the running mean of apple's
weight over the first HORIZON examples that have the feature, and an exponential mean from then on.

Most products mean nothing: their weights are small, and only noise. The *shrunk* predictor has the average weights with
less of such noise: each is multiplied by a^2 / (a^2 + SHRINKAGE), where a is the weight times the feature's largest
value. This factor is nearly 0 for a small weight and nearly 1 for a large one, as in the nonnegative garrote (Breiman
1995). The predictor has no weights of its own, and costs a division for each feature.
"""

import math
from typing import NamedTuple

import numpy as np

from stream_apple.core.jit import part
from stream_apple.learners.apple.state.model import LearningRule, Model, ModelScalars
from stream_apple.learners.apple.state.table import (
    LEAST_SQUARE,
    MOST,
    MOST_WEIGHT,
    U0,
    U1,
    Element,
    Index,
    Slots,
    Table,
)
from stream_apple.learners.apple.state.weights import APPLE, AVERAGE, FAST, LINEAR, SHRUNK, SLOW_LINEAR, shrunk
from stream_apple.learners.apple.state.work import ActiveFeatures, Numbers64
from stream_apple.learners.loss_functions import invariant_step, squared_slope

FAST_RATE = 6.0  # times the learning rate
SLOW_LINEAR_RATE = 0.125
HORIZON = np.uint8(100)  # examples
MOST_SIGHTS = np.uint8(255)  # what `sights` counts up to
_LARGEST = float(MOST)


class Target(NamedTuple):
    """What a predictor learns from: the score that it gave, the label, and the importance weight."""

    score: float
    label: float
    importance: float


@part
def gather(model: Model, features: ActiveFeatures, found: Index, scores: Numbers64) -> tuple[Index, bool]:
    """Write the score of each predictor, by its number, and copy what the update needs of each slot.

    Returns the number of the constant and the base features, which come first, and whether a value is beyond its scale.
    Without a linear predictor alongside that number is 0, and the linear score is apple's.
    """
    slots, companions, rule = model.table.slots, model.table.companions, model.rule
    # In float64, as interpreted code would sum float32 if it began at 0.0.
    apple, average, fast = np.float64(0.0), np.float64(0.0), np.float64(0.0)
    linear, slow_linear, less_noise = np.float64(0.0), np.float64(0.0), np.float64(0.0)
    wider, base = False, U0
    if rule.alongside:
        while base < found and slots[features.slot[base]]["degree"] <= 1:
            companion, x = companions[features.slot[base]], features.x[base]
            linear += companion["linear_weight"] * x
            slow_linear += companion["slow_linear"] * x
            base += U1
    for t in range(found):
        owner, x = slots[features.slot[t]], features.x[t]
        weight, gradient, scale = owner["weight"], owner["gradient"], owner["scale"]  # read before anything is written
        if rule.mixed:
            average += owner["average"] * x
            fast += owner["fast"] * x
            less_noise += shrunk(owner["average"], scale) * x
        features.weight[t], features.gradient[t], features.scale[t] = weight, gradient, scale
        wider |= abs(x) > scale
        apple += weight * x
    scores[LINEAR], scores[APPLE] = linear if rule.alongside else apple, apple
    scores[AVERAGE], scores[FAST], scores[SLOW_LINEAR], scores[SHRUNK] = average, fast, slow_linear, less_noise
    return base, wider


@part
def accumulate(features: ActiveFeatures, size: Index, slope: np.float32) -> None:
    """Add this example's squared gradients; write x / scale to `scale`, and that over sqrt(gradient) to `step`."""
    _, x, _, gradient, scale, step = features
    for t in range(size):
        total = gradient[t] + slope * max(x[t] * x[t], LEAST_SQUARE)
        total = max(min(total, MOST), LEAST_SQUARE)
        ratio = x[t] / scale[t]
        gradient[t] = total
        scale[t] = ratio
        step[t] = ratio / np.sqrt(total)  # in this order nothing overflows


@part
def norm_and_sensitivity(features: ActiveFeatures, size: Index) -> tuple[float, float]:
    """Return the sum of (x / scale)^2, and the score's change per unit of step, of features[:size]."""
    norm, sensitivity, ratio = np.float64(0.0), np.float64(0.0), features.scale
    for t in range(size):
        norm += ratio[t] * ratio[t]
        sensitivity += features.x[t] * features.step[t]
    return norm, sensitivity


@part
def normalise(
    scalars: ModelScalars, which: int, rule: LearningRule, features: ActiveFeatures, size: Index, target: Target
) -> tuple[float, float]:
    """Accumulate features[:size] of one predictor (which: 0 apple, 1 linear); return its normaliser and sensitivity."""
    slope = squared_slope(rule.loss, target.score, target.label)
    accumulate(features, size, np.float32(min(target.importance * slope, _LARGEST)))
    norm, sensitivity = norm_and_sensitivity(features, size)
    scalars.norm[which] += target.importance * norm
    scalars.weight[which] += target.importance
    normaliser = math.sqrt(scalars.weight[which] / scalars.norm[which])
    return normaliser, sensitivity


@part
def change_of(rule: LearningRule, rate: float, normaliser: float, sensitivity: float, target: Target) -> np.float32:
    """Return the factor that turns each feature's `step` into the change of its weight, at this learning rate."""
    by = invariant_step(rule.loss, target.score, target.label, rate * target.importance, sensitivity * normaliser)
    return np.float32(min(max(by * normaliser, -_LARGEST), _LARGEST))


@part
def within_bounds(weight: np.float32) -> np.float32:
    """Clip a weight to +-MOST_WEIGHT: it would grow for ever on a stream whose values are next to zero."""
    return min(max(weight, -MOST_WEIGHT), MOST_WEIGHT)


@part
def widen(table: Table, place: Index, size: np.float32) -> None:
    """Widen a feature's scale to `size`, and rescale all its weights, so that weight * scale stays as it was."""
    owner: Element = table.slots[place]
    if owner["scale"] > 0.0:
        ratio = owner["scale"] / size
        owner["weight"] *= ratio
        owner["average"] *= ratio
        owner["fast"] *= ratio
        if owner["degree"] <= 1 and len(table.companions) > 0:
            companion = table.companions[place]
            companion["linear_weight"] *= ratio
            companion["slow_linear"] *= ratio
    owner["scale"] = size


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


@part
def change_at(rule: LearningRule, rate: float, step_scale: tuple[float, float], target: Target) -> np.float32:
    """Return what `change_of` does; 0 if the loss has no slope at the score."""
    if squared_slope(rule.loss, target.score, target.label) <= 0.0:
        return np.float32(0.0)
    return change_of(rule, rate, step_scale[0], step_scale[1], target)


@part
def learn_expanded(
    model: Model, features: ActiveFeatures, within: Index, found: Index, scores: Numbers64, target: Target
) -> None:
    """Update the weights of all features[:found], which `gather` has copied, and clear their active marks.

    These are apple's, and in a mixture those of average and fast, too.

    within  the values of features[:within] are within their scale
    scores  of the predictors, from which they learn; `target` has the label and the importance weight
    """
    slots, rule = model.table.slots, model.rule
    slot, x, weight, gradient, scale, step = features
    apple = Target(scores[APPLE], target.label, target.importance)
    if not rule.mixed and squared_slope(rule.loss, apple.score, apple.label) <= 0.0:
        clear_active(slots, features, found)
        return
    for t in range(within, found):
        if abs(x[t]) > scale[t]:
            widen(model.table, slot[t], abs(x[t]))
            weight[t], scale[t] = slots[slot[t]]["weight"], slots[slot[t]]["scale"]
    step_scale = step_scale_of(model.scalars, 0, rule, features, found, apple)
    change = change_at(rule, rule.rate, step_scale, apple)
    fast_change = np.float32(0.0)
    if rule.mixed:
        fast = Target(scores[FAST], target.label, target.importance)
        fast_change = change_at(rule, FAST_RATE * rule.rate, step_scale, fast)
    for t in range(found):
        owner, learned, total = slots[slot[t]], within_bounds(weight[t] + change * step[t]), gradient[t]
        fast_step = fast_change * step[t]
        owner["weight"] = learned
        owner["gradient"] = total
        owner["active"] = 0
        if rule.mixed:
            sights = min(owner["sights"], np.uint8(MOST_SIGHTS - 1)) + np.uint8(1)
            owner["sights"] = sights
            owner["average"] += (learned - owner["average"]) / np.float32(min(sights, HORIZON))
            owner["fast"] = within_bounds(owner["fast"] + fast_step)


@part
def gather_base(slots: Slots, features: ActiveFeatures, base: Index, old: Index, found: Index) -> Index:
    """Move the newcomers [old, found) of degree 1 behind the base features; return the new number of base features."""
    for t in range(old, found):
        if slots[features.slot[t]]["degree"] == 1:
            features.slot[base], features.x[base] = features.slot[t], features.x[t]
            base += U1
    return base


@part
def gather_linear(table: Table, features: ActiveFeatures, base: Index) -> None:
    """Copy what a linear predictor's update needs of the slots of features[:base]; apple has learned the example."""
    slot, x, weight, gradient, scale, _ = features
    for t in range(base):
        companion = table.companions[slot[t]]
        weight[t], gradient[t] = companion["linear_weight"], companion["linear_gradient"]
        scale[t] = max(table.slots[slot[t]]["scale"], abs(x[t]))  # apple writes the slot's scale


@part
def learn_linear(
    model: Model, features: ActiveFeatures, base: Index, old: Index, found: Index, scores: Numbers64, target: Target
) -> None:
    """Update the linear predictors' weights of features [0, base), and of the newcomers [old, found) of degree 1.

    It moves these together in `slot` and `x`, so it has to be called after `learn_expanded`.
    """
    companions, rule = model.table.companions, model.rule
    slot, _, weight, gradient, _, step = features
    linear = Target(scores[LINEAR], target.label, target.importance)
    if not rule.mixed and squared_slope(rule.loss, linear.score, linear.label) <= 0.0:
        return
    base = gather_base(model.table.slots, features, base, old, found)
    gather_linear(model.table, features, base)
    step_scale = step_scale_of(model.scalars, 1, rule, features, base, linear)
    change = change_at(rule, rule.rate, step_scale, linear)
    slow_change = np.float32(0.0)
    if rule.mixed:
        slow = Target(scores[SLOW_LINEAR], target.label, target.importance)
        slow_change = change_at(rule, SLOW_LINEAR_RATE * rule.rate, step_scale, slow)
    for t in range(base):
        companion, learned, total = companions[slot[t]], within_bounds(weight[t] + change * step[t]), gradient[t]
        slow_step = slow_change * step[t]
        companion["linear_weight"] = learned
        companion["linear_gradient"] = total
        if rule.mixed:
            companion["slow_linear"] = within_bounds(companion["slow_linear"] + slow_step)


@part
def clear_active(slots: Slots, features: ActiveFeatures, found: Index) -> None:
    """Clear the active marks of features[:found]: the example ends here, learned or not."""
    for t in range(found):
        slots[features.slot[t]]["active"] = 0
