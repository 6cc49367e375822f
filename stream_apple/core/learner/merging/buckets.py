"""How buckets are merged: which monomials of all models get slots in the one that they become, and which are parents.

More than eight may meet. Parents come first, that is, those that more models have as one, then what admission goes by
(the larger weight times the scale), then the smaller key: nothing depends on which model is the first. Those that get
slots stand by ascending key, without gaps, and nobody waits at the door: the same content has one layout.

A parent is what some model has as one since earlier merges (unless, by votes, more models had it cease to be one), and
of those that have become one since, all (union) or those with most votes, see `merge.py`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel, part
from stream_apple.core.learner.merging.monomials import merge_monomial, write_monomial
from stream_apple.core.learner.merging.room import Room
from stream_apple.core.learner.merging.stacks import Stack
from stream_apple.core.learner.state.table import (
    BARRED,
    BUCKET,
    BYTE,
    NOMINATED,
    PARENT,
    U0,
    U1,
    U3,
    Floats,
    Index,
    Table,
    Words,
)

COUNTED = 8
KEYS, KEPT, EVICTIONS, WON, LOST, RETIRED, PARENT_EVICTIONS, CLASHES = range(COUNTED)  # indices of what is counted


class Election(NamedTuple):
    """Who becomes a parent.

    union   whoever is one anywhere
    chosen  uint64[k], ascending: else those of the nominees
    """

    union: bool
    chosen: Words


class Nominees(NamedTuple):
    """Monomials that became parents since the last merge, and were none before: arrays of equal length."""

    keys: Words
    votes: NDArray[np.int64]
    use: Floats


@kernel
def merge_buckets(stack: Stack, out: Table, election: Election, room: Room, counted: NDArray[np.int64]) -> None:
    """Merge all buckets of the stack into those of `out`, whose slots are free, and count."""
    tag_bytes = out.tags.view(np.uint8)
    for bucket in range(np.uint64(len(out.tags))):
        first = bucket << U3
        count = _collect(stack, first, room)
        for which in range(count):
            counted[CLASHES] += np.int64(merge_monomial(stack, room, which))
            _elect(stack, room, which, election, counted)
        _sort(room, count)
        _keep(room, count, counted)
        end = first
        for rank in range(count):
            next_one: Index = np.uint64(room.order[rank])
            if room.kept[next_one]:
                write_monomial(stack, room, next_one, out, end)
                tag_bytes[end] = np.uint8(room.keys[next_one] & BYTE) | np.uint8(1)
                end += U1


@kernel
def merge_constants(stack: Stack, out: Table, room: Room) -> None:
    """Merge the only slots of the stack into that of `out`."""
    room.keys[0] = U0
    for p in range(np.uint64(stack.slots.shape[0])):
        room.places[0, p] = 0
    merge_monomial(stack, room, U0)
    room.merged[0]["parent"] = 0
    write_monomial(stack, room, U0, out, U0)


@kernel
def find_nominees(stack: Stack, room: Room, found: Nominees) -> int:
    """Write the nominees of all buckets; how many there are. There is room for all that are nominated anywhere."""
    end = U0
    for bucket in range(np.uint64((stack.slots.shape[1] - 1) // BUCKET)):
        if not _any_nominated(stack, bucket << U3):
            continue
        count = _collect(stack, bucket << U3, room)
        for which in range(count):
            standing, nominated, _, _ = _states_of(stack, room, which)
            if nominated > 0 and standing == 0:
                merge_monomial(stack, room, which)
                found.keys[end], found.votes[end] = room.keys[which], nominated
                found.use[end] = _use_of(room, which)
                end += U1
    return int(end)


@part
def _any_nominated(stack: Stack, first: Index) -> bool:
    found = np.uint8(0)
    for p in range(np.uint64(stack.slots.shape[0])):
        for place in range(first, first + np.uint64(BUCKET)):
            found |= stack.slots[p, place]["parent"] & NOMINATED
    return bool(found)


@part
def _collect(stack: Stack, first: Index, room: Room) -> Index:
    """Write the distinct keys of a bucket, and where each model has them; how many there are."""
    count, models = U0, np.uint64(stack.slots.shape[0])
    for p in range(models):
        for place in range(first, first + np.uint64(BUCKET)):
            key = stack.slots[p, place]["key"]
            if key == U0:
                continue
            which = U0
            while which < count and room.keys[which] != key:
                which += U1
            if which == count:
                room.keys[which] = key
                for q in range(models):
                    room.places[which, q] = -1
                count += U1
            room.places[which, p] = np.int64(place)
    return count


@part
def _states_of(stack: Stack, room: Room, which: Index) -> tuple[np.int64, np.int64, np.int64, np.uint8]:
    """How many models have the monomial as a parent since earlier, since the last merge, and as one that rests.

    And the largest `parent` of those that are none: for how long it rests, or that it is BARRED.
    """
    standing, nominated, resting, rest = np.int64(0), np.int64(0), np.int64(0), np.uint8(0)
    for p in range(np.uint64(stack.slots.shape[0])):
        if room.places[which, p] < 0:
            continue
        parent = stack.slots[p, np.uint64(room.places[which, p])]["parent"]
        if parent & PARENT:
            fresh = parent & NOMINATED != 0
            nominated += np.int64(fresh)
            standing += np.int64(not fresh)
        else:
            rest = max(rest, parent)
            resting += np.int64(parent != 0)
    return standing, nominated, resting, rest


@part
def _elect(stack: Stack, room: Room, which: Index, election: Election, counted: NDArray[np.int64]) -> None:
    """Write `parent` of the merged monomial, and what decides whether it gets a slot."""
    standing, nominated, resting, rest = _states_of(stack, room, which)
    parent = rest
    if rest != BARRED and standing > 0:
        stays = election.union or standing + nominated >= resting
        parent = PARENT if stays else rest
        counted[RETIRED] += np.int64(not stays)
    elif rest != BARRED and nominated > 0:
        wins = election.union or _is_chosen(election.chosen, room.keys[which])
        parent = PARENT if wins else rest
        counted[WON if wins else LOST] += 1
    room.merged[which]["parent"] = parent
    room.votes[which] = standing + nominated if parent & PARENT else 0
    room.use[which] = _use_of(room, which)


@part
def _use_of(room: Room, which: Index) -> np.float32:
    """The larger of a monomial's weights times its scale, as in `least_useful`."""
    owner = room.merged[which]
    return np.float32(max(abs(owner["weight"]), abs(owner["linear_weight"])) * owner["scale"])


@part
def _is_chosen(chosen: Words, key: Index) -> bool:
    """Whether a key stands in an ascending array."""
    low: Index = U0
    high: Index = np.uint64(len(chosen))
    while low < high:
        middle = (low + high) >> U1
        if chosen[middle] < key:
            low = middle + U1
        else:
            high = middle
    return bool(low < np.uint64(len(chosen)) and chosen[low] == key)


@part
def _sort(room: Room, count: Index) -> None:
    """Write the numbers of the keys in ascending order."""
    for which in range(count):
        rank: Index = which
        while rank > U0 and room.keys[np.uint64(room.order[rank - U1])] > room.keys[which]:
            room.order[rank] = room.order[rank - U1]
            rank -= U1
        room.order[rank] = np.int64(which)


@part
def _keep(room: Room, count: Index, counted: NDArray[np.int64]) -> None:
    """Mark those that get slots, and count those that don't."""
    few = count <= np.uint64(BUCKET)
    for which in range(count):
        room.kept[which] = few
    if not few:
        for _ in range(BUCKET):
            best = np.int64(-1)
            for rank in range(count):  # by ascending key, so that of equals the smaller is the first
                which = room.order[rank]
                if room.kept[np.uint64(which)] == 0 and (best < 0 or _comes_before(room, which, best)):
                    best = which
            room.kept[np.uint64(best)] = 1
    for which in range(count):
        counted[KEYS] += 1
        counted[KEPT] += np.int64(room.kept[which])
        if room.kept[which] == 0:
            counted[EVICTIONS] += 1
            counted[PARENT_EVICTIONS] += np.int64(room.merged[which]["parent"] & PARENT)


@part
def _comes_before(room: Room, one: Index, other: Index) -> bool:
    """Whether it has a better claim to a slot: more votes as a parent (others have none), then more use."""
    mine, theirs = room.votes[np.uint64(one)], room.votes[np.uint64(other)]
    return bool(mine > theirs or (mine == theirs and room.use[np.uint64(one)] > room.use[np.uint64(other)]))
