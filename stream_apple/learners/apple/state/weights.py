"""The weights of each predictor: functions that read and write them by the predictor's number, in whichever array.

The expanded predictors have a weight for every monomial; the linear ones for base features and the constant. The
update of an example names the fields itself, since it changes the fields of one cache line together; code that treats
all predictors alike uses these functions.
"""

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel, part
from stream_apple.learners.apple.state.table import U0, Element, Index, Slots, Table

PREDICTORS = 6
LINEAR, APPLE, AVERAGE, FAST, SLOW_LINEAR, SHRUNK = range(PREDICTORS)
NAMES = ("linear", "expanded", "average", "fast", "slow_linear", "shrunk")
"""The names of a mixture's predictors, in this order."""
STACK = PREDICTORS  # the number of the stack, which is made of their scores
WITH_WEIGHTS = 5  # of a mixture's predictors, the first ones: SHRUNK has no weights of its own
SHRINKAGE = 0.001  # the square at which a weight, at its feature's largest value, counts half in SHRUNK


@part
def is_expanded(which: int) -> bool:
    """Return whether a predictor has weights of products too."""
    return APPLE <= which <= FAST


@part
def has_weight(owner: Element, companions: Slots, which: int) -> bool:
    """Return whether a predictor has a weight of the monomial of a slot."""
    return bool(is_expanded(which) or (owner["degree"] <= 1 and len(companions) > 0))


@part
def read_weight(slots: Slots, companions: Slots, place: Index, which: int) -> Element:
    """Return a predictor's weight of the monomial in a slot, as the table has it; there is one, see `has_weight`."""
    if which == APPLE:
        return slots[place]["weight"]
    if which == AVERAGE:
        return slots[place]["average"]
    if which == FAST:
        return slots[place]["fast"]
    return companions[place]["linear_weight"] if which == LINEAR else companions[place]["slow_linear"]


@part
def write_weight(slots: Slots, companions: Slots, place: Index, which: int, weight: Element) -> None:
    """Set what `read_weight` returns."""
    if which == APPLE:
        slots[place]["weight"] = weight
    elif which == AVERAGE:
        slots[place]["average"] = weight
    elif which == FAST:
        slots[place]["fast"] = weight
    elif which == LINEAR:
        companions[place]["linear_weight"] = weight
    else:
        companions[place]["slow_linear"] = weight


@part
def usefulness(slots: Slots, companions: Slots, place: Index) -> np.float32:
    """Return the most that a monomial adds to a score: a weight times the scale. The least useful makes room.

    The weight is the larger of apple's and a second one: the linear predictor's for a base feature, else the average.
    """
    owner: Element = slots[place]
    second = owner["average"]
    if owner["degree"] <= 1:
        second = companions[place]["linear_weight"] if len(companions) > 0 else np.float32(0.0)
    return np.float32(max(abs(owner["weight"]), abs(second)) * owner["scale"])


@part
def shrunk(average: np.float32, scale: np.float32) -> float:
    """Return the weight of a feature in the shrunk predictor, in float64, where no square overflows."""
    weight = np.float64(average)
    size = weight * np.float64(scale)
    square = size * size
    return weight * (square / (square + SHRINKAGE))


def weights_at(table: Table, places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return each predictor's weights of the monomials in these slots, float64[predictors, n]; 0 where it has none."""
    weights = np.zeros((PREDICTORS, len(places)))
    _copy_weights(table, places.astype(np.uint64), weights)
    return weights


@kernel
def _copy_weights(table: Table, places: NDArray[np.uint64], weights: NDArray[np.float64]) -> None:
    slots, companions = table.slots, table.companions
    for which in range(len(weights)):
        for n in range(U0, np.uint64(len(places))):
            place = places[n]
            if which == SHRUNK:
                average = read_weight(slots, companions, place, AVERAGE)
                weights[which, n] = shrunk(average, slots[place]["scale"])
            elif has_weight(slots[place], companions, which):
                weights[which, n] = read_weight(slots, companions, place, which)
