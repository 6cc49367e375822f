"""Lists of the parents that each recent example has, kept from one growth to the next, see `appraisal.py`.

An expansion finds an example's parents by looking up all of its products. But its parents follow from its base features
and from the set of all parents alone. So a list stays valid until a monomial of the example becomes a parent; then only
the products of this one have to be looked up. When a parent retires, all lists are made again by expansions.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import copy_numbers, kernel, part, unlikely
from stream_apple.learners.apple.state.model import Model, Recent
from stream_apple.learners.apple.state.recent import RECENT_EXAMPLES, recent_example, recent_place
from stream_apple.learners.apple.state.table import FREE, PARENT, U8, Index, Words, find
from stream_apple.learners.apple.state.work import BaseFeatures, Work

ROOM = 1 << 16  # keys: twice what the lists need for examples of eight base features, with the default budget
SIGHTINGS = 1 << 13
FILTER = 1 << 12  # bytes; a power of 2
_REACH = 59.0, -140.0  # exponents of 2, for a whole product: between them it is below TOO_LARGE, and not 0


class ParentLists(NamedTuple):
    """The keys of each recent example's parents, without the constant.

    An example's *place* is its number among those of both halves, see `recent_place`.

    keys         uint64[ROOM]  one list after another
    first, stop  int64[2 * RECENT_EXAMPLES]  by place: the list is keys[first:stop]
    end          int64[1]      where the last list ends; -1 if not all are known
    """

    keys: Words
    first: NDArray[np.int64]
    stop: NDArray[np.int64]
    end: NDArray[np.int64]


class Sightings(NamedTuple):
    """Pairs of a candidate and a recent example that has it.

    keys     uint64[SIGHTINGS]  the candidate's key
    example  int64[SIGHTINGS]   the example's place, ascending
    filled   int64[1]           how many pairs there are; -1 if there is no room for all
    """

    keys: Words
    example: NDArray[np.int64]
    filled: NDArray[np.int64]


def empty_parent_lists() -> ParentLists:
    """Return lists none of which is known."""
    first, stop = (np.zeros(2 * RECENT_EXAMPLES, np.int64) for _ in range(2))
    return ParentLists(np.zeros(ROOM, np.uint64), first, stop, np.full(1, -1, np.int64))


def empty_sightings() -> Sightings:
    """Return room for SIGHTINGS sightings, of which there is none yet."""
    return Sightings(np.zeros(SIGHTINGS, np.uint64), np.zeros(SIGHTINGS, np.int64), np.zeros(1, np.int64))


@part
def list_expanded(
    model: Model, lists: ParentLists, place: int, example: BaseFeatures, work: Work, listed: Index
) -> None:
    """Write the list of an example that was just expanded to the nodes [0, listed), of which the first is the constant.

    All lists become unknown if this example's parents might change while the set of parents does not: if a value may be
    clipped to 0 or become too large, or if the expansion stopped at `max_features`.
    """
    first, count = lists.end[0], np.int64(listed) - 1
    if first < 0:
        return
    products = 1 + (1 + count) * np.int64(example.stop - example.first)
    fits = first + count < len(lists.keys) and products <= model.rule.expansion.max_features
    if not fits or not _is_surely_reached(model, example, work):
        lists.end[0] = -1
        return
    for n in range(count):
        lists.keys[first + n] = work.nodes[n + 1]["key"]
    lists.first[place], lists.stop[place], lists.end[0] = first, first + count, first + count


@part
def _is_surely_reached(model: Model, example: BaseFeatures, work: Work) -> bool:
    """Return whether no product's value is TOO_LARGE, or 0, however values will be clipped later: less than now."""
    degree = np.float64(model.rule.expansion.max_degree)
    most, least = 2.0 ** (_REACH[0] / degree), 2.0 ** (_REACH[1] / degree)
    for f in range(np.int64(example.stop - example.first)):
        given, clipped = example.values[np.int64(example.first) + f], work.own.values[f]
        if abs(given) > most or abs(clipped) < least:
            return False
    return True


@part
def carry_over(
    model: Model, lists: tuple[ParentLists, ParentLists], seen: Sightings, at: int, place: int, example: BaseFeatures
) -> int:
    """Copy the list of an example that has one, and append its candidates that have become parents.

    lists  the old lists, and the new ones, which are written
    at     an index of `seen`, before which all pairs are of earlier examples; returns the first of later examples
    """
    old, new = lists
    first, count = new.end[0], old.stop[place] - old.first[place]
    joined = end = first + count
    if end >= len(new.keys):
        new.end[0] = -1
        return at
    copy_numbers(old.keys, old.first[place], new.keys, first, count)
    while at < seen.filled[0] and seen.example[at] <= place:
        if seen.example[at] == place:
            end = _add_if_parent(model, new.keys, first, end, seen.keys[at])
        at += 1
    while joined < end:
        for f in range(example.first, example.stop):
            end = _add_if_parent(model, new.keys, first, end, new.keys[joined] + example.keys[f])
        joined += 1
    new.first[place], new.stop[place] = first, end
    new.end[0] = end if end < len(new.keys) else -1
    return at


@part
def _add_if_parent(model: Model, keys: Words, first: int, end: int, key: Index) -> int:
    """Append the key to the list that begins at `first`, if it is a parent's and not there yet; return the list's end.

    Without room it is not appended.
    """
    place = find(model.table, key)
    if place >= FREE or end == len(keys):
        return end
    owner = model.table.slots[place]
    if owner["parent"] & PARENT == 0 or owner["degree"] >= model.rule.expansion.max_degree:
        return end
    for n in range(first, end):
        if keys[n] == key:
            return end
    keys[end] = key
    return end + 1


@kernel
def see_candidates(
    recent: Recent, lists: ParentLists, candidates: Words, chosen: NDArray[np.uint8], last: NDArray[np.int64],
    seen: Sightings,
) -> None:  # fmt: skip
    """Find the examples that have a candidate: a product of one of their parents, or a base feature.

    candidates  their keys
    chosen      uint8[FILTER]  1 where one of them has these bits, see `filter_of`
    last        int64[candidates], all -1: scratch
    """
    count = 0
    for half in range(2):
        start = 0
        for e in range(recent.counts[half]):
            end, place = recent.ends[half, e], recent_place(half, e)
            example = recent_example(recent, half, start, end)
            start = end
            for n in range(lists.first[place] - 1, lists.stop[place]):
                constant = n < lists.first[place]
                node = np.uint64(0) if constant else lists.keys[n]
                for f in range(example.first, example.stop):
                    key = node + example.keys[f]
                    if unlikely(chosen[(key >> U8) & np.uint64(FILTER - 1)] != 0):
                        for c in range(len(candidates)):
                            if candidates[c] == key and last[c] != place:
                                if count == len(seen.keys):
                                    seen.filled[0] = -1
                                    return
                                last[c] = place
                                seen.keys[count], seen.example[count] = key, place
                                count += 1
    seen.filled[0] = count


def filter_of(candidates: Words) -> NDArray[np.uint8]:
    """Return uint8[FILTER], 1 at the hash of each candidate's key, by which most other products are ruled out."""
    chosen = np.zeros(FILTER, np.uint8)
    chosen[(candidates >> U8) & np.uint64(FILTER - 1)] = 1
    return chosen
