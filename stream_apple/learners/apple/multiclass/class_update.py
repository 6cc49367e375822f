"""How one predictor of k classes scores and learns one example: the softmax loss, and its adaptive, normalised update.

With scores s and probabilities p = softmax(s), the loss is -log p[y], and its derivative by score c is p[c] - 1[c = y].
Each class has its own weights and accumulators; scales, and the sums of the normalisation, are common to all classes.

The step is invariant to importance weights along the gradient. With R = the sum of exp(s[c]) over the classes that are
not the label, and q[c] = exp(s[c]) / R, the loss is log(1 + exp(-m)), that of the logistic loss at the margin
m = s[y] - log R. A step of size u along the gradient adds u * a[y] to the label's score and takes u * q[c] * a[c] from
the others, a being their sensitivities, so that m grows at first by a[y] + sum of q[c]^2 * a[c] for each u. With this
sensitivity `margin_step` says how large u is. The step can't overshoot: log R is convex, so m grows by no more than
that, and every change of a score lowers the loss. For two classes at half the rate it is exactly the logistic loss's
step, on the difference of their weights. With more classes, a class is the label of one example in k, so that its
accumulators grow more slowly; the rate is sqrt(k / 8) times the learning rate (`rate_of`), which did best on three data
sets of 10 to 29 classes.
"""

import math

import numpy as np

from stream_apple.core.jit import part
from stream_apple.learners.apple.kernels.update import HORIZON, MOST_SIGHTS, widen, within_bounds
from stream_apple.learners.apple.multiclass.class_lanes import (
    accumulate_classes,
    add_scores,
    average_classes,
    move_classes,
    prefetch_row,
)
from stream_apple.learners.apple.state.classes import (
    BLOCK_OF_AVERAGES,
    BLOCK_OF_LINEAR_WEIGHTS,
    CLASS_AVERAGE,
    CLASS_EXPANDED,
    CLASS_LINEAR,
    ClassWork,
)
from stream_apple.learners.apple.state.model import LearningRule, Model
from stream_apple.learners.apple.state.table import LEAST_SQUARE, MOST, U0, U1, Index
from stream_apple.learners.apple.state.work import ActiveFeatures
from stream_apple.learners.loss_functions import SATURATED_MARGIN, margin_step

_LARGEST = float(MOST)
_PREFETCH_DISTANCE = np.uint64(24)  # features: scoring so many takes as long as a memory access


@part
def rate_of(rule: LearningRule) -> float:
    """Return the rate of the steps: half the learning rate for two classes, more for more."""
    return rule.rate * math.sqrt(rule.classes / 8.0)


@part
def gather_classes(model: Model, features: ActiveFeatures, found: Index, class_work: ClassWork) -> tuple[Index, bool]:
    """Write the predictors' scores to `class_work.scores`.

    Returns the number of the constant and the base features, which come first, and whether a value is beyond its scale.
    """
    slots, rows, rule, scores = model.table.slots, model.table.class_weights, model.rule, class_work.scores
    k, stride = np.uint64(rule.classes), np.uint64(len(class_work.rivals))
    linear, average = k * np.uint64(BLOCK_OF_LINEAR_WEIGHTS), k * np.uint64(BLOCK_OF_AVERAGES)
    linear_scores, average_scores = stride * np.uint64(CLASS_LINEAR), stride * np.uint64(CLASS_AVERAGE)
    base, wider, leading = U0, False, rule.alongside
    for i in range(len(scores)):
        scores[i] = 0.0
    for t in range(found):
        ahead = features.slot[min(t + _PREFETCH_DISTANCE, found - U1)]
        prefetch_row(rows, ahead, U0, k + k)
        place, x = features.slot[t], features.x[t]
        wider |= abs(x) > slots[place]["scale"]
        add_scores(scores, U0, rows, place, U0, k, x)
        if rule.mixed:
            prefetch_row(rows, ahead, average, k)
            add_scores(scores, average_scores, rows, place, average, k, x)
        leading &= slots[place]["degree"] <= 1
        if leading:
            base += U1
            add_scores(scores, linear_scores, rows, place, linear, k, x)
    return base, wider


@part
def admit_classes(model: Model, features: ActiveFeatures, old: Index, found: Index) -> None:
    """Write the first weights and accumulators of the newcomers features[old:found].

    Accumulators start at the newcomer's damping (`admit`), divided among classes in the constant's proportions, so that
    rare classes get small ones.
    """
    slots, rows, k = model.table.slots, model.table.class_weights, np.uint64(model.rule.classes)
    constant = np.uint64(len(slots) - 1)
    mean = np.float64(slots[constant]["gradient"])
    for t in range(old, found):
        place = features.slot[t]
        damping = np.float64(slots[place]["gradient"])
        for c in range(np.uint64(rows.shape[1])):
            rows[place, c] = 0.0
        if mean > 0.0:
            for c in range(k):
                rows[place, k + c] = min(damping * (np.float64(rows[constant, k + c]) / mean), _LARGEST)


@part
def widen_classes(model: Model, features: ActiveFeatures, within: Index, found: Index) -> None:
    """Widen the scales of features[within:found] to their values; weight * scale stays as it was for all weights."""
    slots, rows, k = model.table.slots, model.table.class_weights, np.uint64(model.rule.classes)
    for t in range(within, found):
        owner, size = slots[features.slot[t]], abs(features.x[t])
        before = owner["scale"]
        if size > before:
            widen(model.table, features.slot[t], size)
            if before > 0.0:
                ratio = before / size
                for c in range(np.uint64(rows.shape[1])):
                    weights = c < k or k + k <= c < k + k + k or c >= k * np.uint64(BLOCK_OF_AVERAGES)
                    rows[features.slot[t], c] *= ratio if weights else np.float32(1.0)


@part
def prepare_step(
    model: Model,
    features: ActiveFeatures,
    size: Index,
    which: int,
    class_work: ClassWork,
    label: int,
    importance: float,
) -> None:
    """Accumulate the squared gradients of features[:size] for predictor `which`, and write `class_work.changes`.

    `features.scale` becomes x / scale. All changes are 0 where the loss is 0 in float32.
    """
    slots, rows, scalars, rule = model.table.slots, model.table.class_weights, model.scalars, model.rule
    k, y = np.uint64(rule.classes), np.uint64(label)
    scores, first = class_work.scores, np.uint64(which) * np.uint64(len(class_work.rivals))
    weights = U0 if which == CLASS_EXPANDED else k * np.uint64(BLOCK_OF_LINEAR_WEIGHTS)
    rest = 0.0
    for c in range(k):
        class_work.rivals[c] = math.exp(scores[first + c]) if c != y else 0.0
        rest += class_work.rivals[c]
    margin = scores[first + y] - math.log(rest)
    for t in range(size):
        # Apple, which learns first, writes the slot's scale.
        features.scale[t] = features.x[t] / max(slots[features.slot[t]]["scale"], abs(features.x[t]))
    if margin > SATURATED_MARGIN:
        for c in range(k):
            class_work.changes[c] = 0.0
        return
    doubt, total = 1.0 / (1.0 + math.exp(margin)), 0.0
    for c in range(k):
        class_work.rivals[c] /= rest
        slope = doubt * (1.0 if c == y else class_work.rivals[c])
        squared = min(importance * (slope * slope), _LARGEST)
        class_work.slopes[c] = squared
        class_work.sensitivity[c] = 0.0
        total += squared
    mean, norm = np.float32(min(total / rule.classes, _LARGEST)), 0.0
    for t in range(size):
        place, x, ratio = features.slot[t], features.x[t], features.scale[t]
        square = max(x * x, LEAST_SQUARE)
        norm += np.float64(ratio * ratio)
        accumulate_classes(rows, place, weights + k, k, class_work.slopes, class_work.sensitivity, x, ratio)
        if which == CLASS_EXPANDED:
            owner = slots[place]
            owner["gradient"] = min(owner["gradient"] + mean * square, MOST)
    scalars.norm[which] += importance * norm
    scalars.weight[which] += importance
    normaliser = math.sqrt(scalars.weight[which] / scalars.norm[which])
    sensitivity = class_work.sensitivity[y]
    for c in range(k):
        sensitivity += class_work.rivals[c] * class_work.rivals[c] * class_work.sensitivity[c]
    rate = rate_of(rule) * importance
    by = normaliser * margin_step(margin, rate, sensitivity * normaliser)
    for c in range(k):
        change = by if c == y else -by * class_work.rivals[c]
        class_work.changes[c] = min(max(change, -_LARGEST), _LARGEST)


@part
def step_all(model: Model, features: ActiveFeatures, found: Index, class_work: ClassWork) -> None:
    """Move apple's weights of all features by `class_work.changes`, then their averages; clear the active marks."""
    slots, rows, rule = model.table.slots, model.table.class_weights, model.rule
    k = np.uint64(rule.classes)
    average = k * np.uint64(BLOCK_OF_AVERAGES)
    for t in range(found):
        place, ratio = features.slot[t], features.scale[t]
        spread = within_bounds(move_classes(rows, place, U0, k, class_work.changes, ratio))
        owner = slots[place]
        sights = min(owner["sights"], np.uint8(MOST_SIGHTS - 1)) + np.uint8(1)
        owner["weight"], owner["active"], owner["sights"] = spread, 0, sights
        if rule.mixed:
            share = np.float32(1.0) / np.float32(min(sights, HORIZON))
            average_classes(rows, place, average, k, share)
            owner["average"] += (spread - owner["average"]) * share  # the appraisal of parents reads it


@part
def step_linear(model: Model, features: ActiveFeatures, size: Index, class_work: ClassWork) -> None:
    """Move the linear predictor's weights of features[:size], which are base features, by `class_work.changes`."""
    k = np.uint64(model.rule.classes)
    first = k * np.uint64(BLOCK_OF_LINEAR_WEIGHTS)
    for t in range(size):
        place, ratio = features.slot[t], features.scale[t]
        spread = move_classes(model.table.class_weights, place, first, k, class_work.changes, ratio)
        model.table.companions[place]["linear_weight"] = within_bounds(spread)
