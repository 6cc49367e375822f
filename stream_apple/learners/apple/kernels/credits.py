"""Credits: which node brought an example each of its features. A feature belongs to the node that reaches it first.

`appraisal.py` runs expansions that credit nodes as they go: finding out afterwards would take as long again.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import part
from stream_apple.learners.apple.state.table import NOWHERE, U1, Element, Index, Words
from stream_apple.learners.apple.state.work import BaseFeatures

ENTRIES_EACH = 16


class SlotIndex(NamedTuple):
    """A hash table from slots to positions in an array of parents or candidates.

    slots      uint64[2^k], NOWHERE where an entry is free
    positions  uint64[2^k], the slot's index in the array; in free entries the array's length
    """

    slots: Words
    positions: Words


class Credits(NamedTuple):
    """What an expansion credits to nodes.

    parents     the index of each parent in `earned`
    numbers     uint64[...]  the index in `earned` of each node's parent; the last index if it is not among `parents`
    listed      uint64[1]  how many nodes the example has, including those that exceeded `max_features`
    earned      float64[parents + 1]  the sum of |average weight * value| over each parent's features; in the last
                element over the features of all other nodes
    """

    parents: SlotIndex
    numbers: Words
    listed: Words
    earned: NDArray[np.float64]


def empty_slot_index(count: int) -> SlotIndex:
    """Return an empty index with room for `count` slots."""
    size = 1 << (ENTRIES_EACH * count).bit_length()
    return SlotIndex(np.full(size, NOWHERE), np.full(size, count, np.uint64))


@part
def entry_of(index: SlotIndex, place: Index) -> Index:
    """Return the number of the slot's entry, or of the free entry where it belongs."""
    last = np.uint64(len(index.slots) - 1)
    at = place & last  # a slot's number follows from the hash of its key, so it needs no further hash
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
    """Return the position of a slot; the array's length if the index does not have it."""
    return index.positions[entry_of(index, place)]


@part
def credit(
    credited: Credits, owner: Element, node: Element, number: Index, base: BaseFeatures, product: Index, fresh: np.uint8
) -> None:
    """Credit a feature of the example to a node.

    number   the node's number
    product  the feature's number among the products of the wave
    fresh    1, or 0 if the feature belongs to another node: adding 0 saves a branch that would be mispredicted
    """
    value = base.values[node["first"] + (product - node["start"])]
    credited.earned[credited.numbers[number]] += abs(owner["average"] * node["x"] * value) * np.float64(fresh)
