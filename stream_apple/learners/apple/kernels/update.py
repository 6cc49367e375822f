"""How one predictor learns one example: the adaptive, normalised update, by an importance-invariant step.

Adaptive: Duchi, Hazan, Singer 2011. Normalised: Ross, Mineiro, Langford 2013. Invariant to importance weights:
Karampatziakis, Langford 2011. Term for term it is Vowpal Wabbit's default. `mixed_update.py` has what the predictors of
a mixture add to it.
"""

import math
from typing import NamedTuple

import numpy as np

from stream_apple.core.jit import part
from stream_apple.learners.apple.state.model import LearningRule, Model, ModelScalars
from stream_apple.learners.apple.state.table import LEAST_SQUARE, MOST, MOST_WEIGHT, U1, Element, Index, Slots, Table
from stream_apple.learners.apple.state.work import ActiveFeatures
from stream_apple.learners.loss_functions import invariant_step, squared_slope

_LARGEST = float(MOST)


class Target(NamedTuple):
    """What a predictor learns from: the score that it gave, the label, and the importance weight."""

    score: float
    label: float
    importance: float


@part
def gather(slots: Slots, features: ActiveFeatures, found: Index) -> tuple[float, bool]:
    """Copy what the update needs of each slot; return the score, and whether a value is beyond its scale."""
    score, wider = np.float64(0.0), False  # float64, as interpreted code would sum float32 if it began at 0.0
    for t in range(found):
        owner, x = slots[features.slot[t]], features.x[t]
        weight, gradient, scale = owner["weight"], owner["gradient"], owner["scale"]  # read before anything is written
        features.weight[t], features.gradient[t], features.scale[t] = weight, gradient, scale
        wider |= abs(x) > scale
        score += weight * x
    return score, wider


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
def learn_apple(model: Model, features: ActiveFeatures, within: Index, found: Index, target: Target) -> None:
    """Update apple's weights of features[:found], which `gather` has copied, and clear their active marks.

    within  the values of features[:within] are within their scale
    """
    slots, rule = model.table.slots, model.rule
    slot, x, weight, gradient, scale, step = features
    if squared_slope(rule.loss, target.score, target.label) <= 0.0:
        clear_active(slots, features, found)
        return
    for t in range(within, found):
        if abs(x[t]) > scale[t]:
            widen(model.table, slot[t], abs(x[t]))
            weight[t], scale[t] = slots[slot[t]]["weight"], slots[slot[t]]["scale"]
    normaliser, sensitivity = normalise(model.scalars, 0, rule, features, found, target)
    change = change_of(rule, rule.rate, normaliser, sensitivity, target)
    for t in range(found):
        owner, learned, total = slots[slot[t]], within_bounds(weight[t] + change * step[t]), gradient[t]
        owner["weight"] = learned
        owner["gradient"] = total
        owner["active"] = 0


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
def learn_linear(model: Model, features: ActiveFeatures, base: Index, old: Index, found: Index, target: Target) -> None:
    """Update the linear predictor's weights of features [0, base), and of the newcomers [old, found) of degree 1.

    It moves these together in `slot` and `x`, so it has to be called after `learn_apple`.
    """
    slots, companions, rule = model.table.slots, model.table.companions, model.rule
    slot, _, weight, gradient, _, step = features
    if squared_slope(rule.loss, target.score, target.label) <= 0.0:
        return
    base = gather_base(slots, features, base, old, found)
    gather_linear(model.table, features, base)
    normaliser, sensitivity = normalise(model.scalars, 1, rule, features, base, target)
    change = change_of(rule, rule.rate, normaliser, sensitivity, target)
    for t in range(base):
        companion, learned, total = companions[slot[t]], within_bounds(weight[t] + change * step[t]), gradient[t]
        companion["linear_weight"] = learned
        companion["linear_gradient"] = total


@part
def clear_active(slots: Slots, features: ActiveFeatures, found: Index) -> None:
    """Clear the active marks of features[:found]: the example ends here, learned or not."""
    for t in range(found):
        slots[features.slot[t]]["active"] = 0
