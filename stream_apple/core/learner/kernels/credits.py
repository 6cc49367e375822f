"""Who brought an example its features: each belongs to the node through which it is reached first, see `appraisal.py`.

An expansion that is only looked at credits nodes as it goes, since to find out afterwards would take as long again.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import part
from stream_apple.core.learner.state.table import NOWHERE, U1, Element, Index, Words
from stream_apple.core.learner.state.work import BaseFeatures

SEATS_EACH = 16


class Seats(NamedTuple):
    """Where some slots stand in an array, found by hashing: as many are asked for as examples have features.

    slots    uint64[2^k], most of them NOWHERE
    numbers  uint64[2^k], of those that are NOWHERE one behind the last
    """

    slots: Words
    numbers: Words


class Credits(NamedTuple):
    """What an expansion credits to nodes.

    seats       of all parents
    numbers     uint64[...]  of each node of the example: where its parent stands, one behind the last if it does not
    listed      uint64[1]  how many nodes the example has, those included that did not fit into its budget
    earned      float64[parents + 1]  the sum of |average weight * value| over the features that belong to each, and at
                the end over those that belong to none
    """

    seats: Seats
    numbers: Words
    listed: Words
    earned: NDArray[np.float64]


def empty_seats(count: int) -> Seats:
    """Return seats for so many slots."""
    size = 1 << (SEATS_EACH * count).bit_length()
    return Seats(np.full(size, NOWHERE), np.full(size, count, np.uint64))


@part
def seat_of(seats: Seats, place: Index) -> Index:
    """Return the seat of a slot, or the one that it may take."""
    last = np.uint64(len(seats.slots) - 1)
    at = place & last  # slots are numbered by hashes of what is in them
    while seats.slots[at] != place and seats.slots[at] != NOWHERE:
        at = (at + U1) & last
    return at


@part
def take_seats(seats: Seats, places: NDArray[np.int64]) -> None:
    """Give each slot its seat."""
    for number in range(len(places)):
        at = seat_of(seats, np.uint64(places[number]))
        seats.slots[at], seats.numbers[at] = np.uint64(places[number]), np.uint64(number)


@part
def standing_of(seats: Seats, place: Index) -> Index:
    """Return where the slot stands; one behind the last if it has no seat."""
    return seats.numbers[seat_of(seats, place)]


@part
def credit(
    credited: Credits, owner: Element, node: Element, number: Index, base: BaseFeatures, product: Index, fresh: np.uint8
) -> None:
    """Credit a feature of the example to the node with this number, of which it is this product of the wave.

    fresh  1, or 0 if the feature belongs to another: nothing is added then, without a branch that would be mispredicted
    """
    value = base.values[node["first"] + (product - node["start"])]
    credited.earned[credited.numbers[number]] += abs(owner["average"] * node["x"] * value) * np.float64(fresh)
