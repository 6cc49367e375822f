"""One step of gradient descent on the loss of one example.

Plain steps have the direction x, for all features the same rate, as in Cohen's lecture. Adaptive steps have, for each
feature, the direction

    x / (scale * sqrt(sum of (slope * x)^2 over the slot's examples)) * sqrt(IMPORTANCE / NORM)

where `scale` is the feature's largest value, NORM is the sum of (x / scale)^2 over all features of all examples, and
IMPORTANCE counts the examples (adaptive: Duchi, Hazan, Singer 2011; normalised: Ross, Mineiro, Langford 2013). Both
sums are weighted by importance. When a feature's scale grows, its weight is rescaled: weight * scale stays as it was.

The length of a step is that of many small steps whose rates sum to `learning_rate` times the importance: the score
never moves beyond the label (Karampatziakis, Langford 2011). So a step's rate, its length over minus the slope, is at
most that product; with small plain steps it equals it.
"""

import math

import numpy as np

from stream_apple.core.jit import part
from stream_apple.learners.hashed.regularisation import caught_up, settle_if_small, shrink_all, towards_zero
from stream_apple.learners.hashed.table import (
    DRAWN,
    FACTOR,
    IMPORTANCE,
    LEAST,
    MOST,
    MOST_WEIGHT,
    NORM,
    HashedModel,
    HashedWork,
)
from stream_apple.learners.loss_functions import exact_step, slope_of, squared_slope


@part
def score_features(model: HashedModel, work: HashedWork, found: int) -> float:
    """Return the score of the features in `work`, not clipped; write their weights, in the table's units."""
    score = 0.0
    for t in range(1, found):
        work.weight[t] = caught_up(model, work.slot[t])
        score += work.weight[t] * work.x[t]
    constant = np.float64(model.slots[work.slot[0]]["weight"])
    total: float = constant + model.sums.shrinkage[FACTOR] * score
    return total


@part
def learn_features(
    model: HashedModel, work: HashedWork, found: int, score: float, label: float, importance: float
) -> None:
    """Learn the features in `work`, for which `score_features` was called; `score` is clipped."""
    loss, shrinkage = model.rule.loss, model.sums.shrinkage
    square = squared_slope(loss, score, label)
    if square <= 0.0:
        return
    if model.rule.adaptive:
        _write_adaptive_directions(model, work, found, importance, square)
    else:
        for t in range(found):
            work.step[t] = work.x[t]
    sensitivity = 0.0
    for t in range(found):
        sensitivity += work.x[t] * work.step[t]
    length = exact_step(loss, score, label, model.rule.rate * importance, sensitivity)
    before = shrinkage[DRAWN]
    shrink_all(model, -length / slope_of(loss, score, label))
    factor, drawn = shrinkage[FACTOR], shrinkage[DRAWN]
    constant = model.slots[work.slot[0]]
    constant["weight"] = _within_bounds(np.float64(constant["weight"]) + length * work.step[0])
    for t in range(1, found):
        owner = model.slots[work.slot[t]]
        weight = towards_zero(work.weight[t], (drawn - before) / np.float64(owner["scale"]))
        owner["weight"] = _within_bounds(weight + length * work.step[t] / factor)
        owner["stamp"] = drawn
    settle_if_small(model)


@part
def _write_adaptive_directions(
    model: HashedModel, work: HashedWork, found: int, importance: float, square: float
) -> None:
    """Write the directions to `work.step`, after adding the example to the sums and scales; square: of the slope."""
    norm, normaliser = 0.0, model.sums.normaliser
    for t in range(found):
        owner, x = model.slots[work.slot[t]], work.x[t]
        if abs(x) > owner["scale"]:
            work.weight[t] *= owner["scale"] / abs(x)
            owner["scale"] = abs(x)
        squares = owner["squares"] + importance * square * max(x * x, np.float64(LEAST))
        owner["squares"] = min(max(squares, np.float64(LEAST)), np.float64(MOST))
        ratio = x / np.float64(owner["scale"])
        norm += ratio * ratio
        work.step[t] = ratio / math.sqrt(owner["squares"])
    normaliser[IMPORTANCE] += importance
    normaliser[NORM] += importance * norm
    rescale = math.sqrt(normaliser[IMPORTANCE] / normaliser[NORM])
    for t in range(found):
        work.step[t] *= rescale


@part
def _within_bounds(weight: float) -> float:
    """Return the weight, at most MOST_WEIGHT in size: it would grow indefinitely if all values are next to 0."""
    return min(max(weight, -MOST_WEIGHT), MOST_WEIGHT)
