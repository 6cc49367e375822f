"""Who brought an example its features: each belongs to the node through which it is reached first, see `appraisal.py`.

An expansion that is only looked at credits nodes as it goes, since to find out afterwards would take as long again.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import part
from stream_apple.core.learner.state.table import NOWHERE, U1, Element, Index, Words
from stream_apple.core.learner.state.work import BaseFeatures

ENTRIES_EACH = 16


class SlotIndex(NamedTuple):
    """A hash table from slots to positions: of parents or candidates in the arrays that have something of each.

    slots      uint64[2^k], NOWHERE where an entry is free
    positions  uint64[2^k], where the slot stands in its array; of a free entry, one behind the last
    """

    slots: Words
    positions: Words


class Credits(NamedTuple):
    """What an expansion credits to nodes.

    parents     where each parent stands in `earned`
    numbers     uint64[...]  of each node of the example: where its parent stands, one behind the last if it does not
    listed      uint64[1]  how many nodes the example has, those included that did not fit into its budget
    earned      float64[parents + 1]  the sum of |average weight * value| over the features that belong to each, and at
                the end over those that belong to none
    """

    parents: SlotIndex
    numbers: Words
    listed: Words
    earned: NDArray[np.float64]


def empty_slot_index(count: int) -> SlotIndex:
    """Return an index with room for so many slots."""
    size = 1 << (ENTRIES_EACH * count).bit_length()
    return SlotIndex(np.full(size, NOWHERE), np.full(size, count, np.uint64))


@part
def entry_of(index: SlotIndex, place: Index) -> Index:
    """Return the entry of a slot, or the free one that is for it."""
    last = np.uint64(len(index.slots) - 1)
    at = place & last  # slots are numbered by hashes of what is in them
    while index.slots[at] != place and index.slots[at] != NOWHERE:
        at = (at + U1) & last
    return at


@part
def index_slots(index: SlotIndex, places: NDArray[np.int64]) -> None:
    """Write each slot and its position in `places` into the index, which is empty."""
    for number in range(len(places)):
        at = entry_of(index, np.uint64(places[number]))
        index.slots[at], index.positions[at] = np.uint64(places[number]), np.uint64(number)


@part
def position_of(index: SlotIndex, place: Index) -> Index:
    """Return the position of a slot; one behind the last if the index does not have it."""
    return index.positions[entry_of(index, place)]


@part
def credit(
    credited: Credits, owner: Element, node: Element, number: Index, base: BaseFeatures, product: Index, fresh: np.uint8
) -> None:
    """Credit a feature of the example to the node with this number, of which it is this product of the wave.

    fresh  1, or 0 if the feature belongs to another: nothing is added then, without a branch that would be mispredicted
    """
    value = base.values[node["first"] + (product - node["start"])]
    credited.earned[credited.numbers[number]] += abs(owner["average"] * node["x"] * value) * np.float64(fresh)
