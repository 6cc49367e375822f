"""Lazy regularisation (Cohen, "Efficient logistic regression with stochastic gradient descent").

A step of gradient descent on the regularised loss shrinks every weight w except the constant, and then adds the step:

    w  <-  sign(w) * max(0, |w| * (1 - l2 * rate) - l1 * rate / scale)

`scale` is the feature's largest value, so shrinkage does not depend on the feature's unit; with plain steps it is 1.
Two numbers of the model hold the shrinkage of all weights, so an example writes only the slots of its own features:

    FACTOR  the product of (1 - l2 * rate) over all steps. A weight is FACTOR times what its slot holds.
    DRAWN   the sum of l1 * rate / FACTOR over all steps. The slot's `stamp` is DRAWN as of the slot's last change;
            (DRAWN - stamp) / scale is the pending shrinkage of what the slot holds.

Readers apply the pending shrinkage and write nothing. When FACTOR becomes small, all slots are *settled*: they receive
the weights themselves. This depends on the examples only, so recovery repeats it to the bit.
"""

import math

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel, part, routine
from stream_apple.learners.hashed.table import DRAWN, FACTOR, HashedModel

_LEAST_SHRINKAGE = 2.0**-10  # of one step; without this bound a large l2 * rate would change the sign
_LEAST_FACTOR = 2.0**-30  # slots are float32


@part
def towards_zero(weight: float, distance: float) -> float:
    """Return the weight moved towards 0 by `distance`, at most to 0."""
    return math.copysign(max(abs(weight) - distance, 0.0), weight)


@part
def caught_up(model: HashedModel, slot: int) -> float:
    """Return what the slot holds, less its pending shrinkage; FACTOR is not applied."""
    owner = model.slots[slot]
    pending = (model.sums.shrinkage[DRAWN] - owner["stamp"]) / np.float64(owner["scale"])
    return towards_zero(np.float64(owner["weight"]), pending)


@part
def shrink_all(model: HashedModel, rate: float) -> None:
    """Shrink all weights by a step of this rate."""
    shrinkage, rule = model.sums.shrinkage, model.rule
    shrinkage[FACTOR] *= max(1.0 - rule.l2 * rate, _LEAST_SHRINKAGE)
    shrinkage[DRAWN] += rule.l1 * rate / shrinkage[FACTOR]


@routine
def settle_if_small(model: HashedModel) -> None:
    """Settle all slots if FACTOR is so small that float32 might not hold their numbers."""
    shrinkage = model.sums.shrinkage
    if shrinkage[FACTOR] >= _LEAST_FACTOR:
        return
    for slot in range(len(model.slots) - 1):
        weight = caught_up(model, slot) * shrinkage[FACTOR]
        owner = model.slots[slot]
        owner["weight"] = weight
        owner["stamp"] = 0.0
    shrinkage[FACTOR] = 1.0
    shrinkage[DRAWN] = 0.0


@kernel
def write_weights(model: HashedModel, weights: NDArray[np.float64]) -> None:
    """Write the weight of each slot, float64[2^bits + 1]; the model does not change."""
    constant = len(weights) - 1
    for slot in range(constant):
        weights[slot] = caught_up(model, slot) * model.sums.shrinkage[FACTOR]
    weights[constant] = model.slots[constant]["weight"]
