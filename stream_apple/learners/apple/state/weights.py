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
NAMES = ("linear", "apple", "average", "fast", "slow_linear", "shrunk")
"""The names of a mixture's predictors, in this order."""
WITH_WEIGHTS = 5  # of a mixture's predictors, the first ones: SHRUNK has no weights of its own
SHRINKAGE = 0.001  # the square at which a weight, at its feature's largest value, counts half in SHRUNK
_UNMIXED = 2  # LINEAR and APPLE


@part
def predictors_of(companions: Slots) -> int:
    """Return how many predictors have weights in a table; without companions, those of a model that does not mix."""
    return WITH_WEIGHTS if len(companions) > 0 else _UNMIXED


@part
def is_expanded(which: int) -> bool:
    """Return whether a predictor has weights of products too."""
    return APPLE <= which <= FAST


@part
def has_weight(owner: Element, which: int) -> bool:
    """Return whether a predictor has a weight of the monomial of a slot."""
    return bool(is_expanded(which) or owner["degree"] <= 1)


@part
def read_weight(slots: Slots, companions: Slots, place: Index, which: int) -> Element:
    """Return a predictor's weight of the monomial in a slot, as the table has it; there is one, see `has_weight`."""
    if which == APPLE:
        return slots[place]["weight"]
    if which == LINEAR:
        return slots[place]["linear_weight"]
    if which == AVERAGE:
        return slots[place]["average"] if slots[place]["degree"] > 1 else companions[place]["average"]
    if which == FAST:
        return slots[place]["fast"] if slots[place]["degree"] > 1 else companions[place]["fast"]
    return companions[place]["slow_linear"]


@part
def write_weight(slots: Slots, companions: Slots, place: Index, which: int, weight: Element) -> None:
    """Set what `read_weight` returns."""
    if which == APPLE:
        slots[place]["weight"] = weight
    elif which == LINEAR:
        slots[place]["linear_weight"] = weight
    elif which == SLOW_LINEAR:
        companions[place]["slow_linear"] = weight
    elif slots[place]["degree"] > 1:
        if which == AVERAGE:
            slots[place]["average"] = weight
        else:
            slots[place]["fast"] = weight
    elif which == AVERAGE:
        companions[place]["average"] = weight
    else:
        companions[place]["fast"] = weight


@part
def shrunk(average: np.float32, scale: np.float32) -> float:
    """Return the weight of a feature in the shrunk predictor, in float64, where no square overflows."""
    weight = np.float64(average)
    size = weight * np.float64(scale)
    square = size * size
    return weight * (square / (square + SHRINKAGE))


def weights_at(table: Table, places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return each predictor's weights of the monomials in these slots, float64[predictors, n]; 0 where it has none."""
    weights = np.zeros((PREDICTORS if len(table.companions) else _UNMIXED, len(places)))
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
            elif has_weight(slots[place], which):
                weights[which, n] = read_weight(slots, companions, place, which)
