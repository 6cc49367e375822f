"""Merging of buckets: which monomials of all models get slots in the merged one, and which are parents.

More than eight monomials may meet in a bucket. Those come first that more models have as a parent, then those of more
use to admission (the larger weight times the scale), then those with the smaller key: nothing depends on which model is
the first. The monomials that get slots are in ascending order of keys, without gaps, and admission filters are empty,
so the same content has one layout.

An earlier parent stays a parent (with votes: unless it retired in more models than kept it). Of the monomials that
became parents since the last merge, all become parents (with union), or those with most votes, see `merge.py`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel, part
from stream_apple.learners.apple.merging.merge_scratch import MergeScratch
from stream_apple.learners.apple.merging.monomials import merge_monomial, write_monomial
from stream_apple.learners.apple.merging.stacks import Stack
from stream_apple.learners.apple.state.table import (
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
from stream_apple.learners.apple.state.weights import usefulness

COUNTED = 8
KEYS, KEPT, EVICTIONS, WON, LOST, RETIRED, PARENT_EVICTIONS, CLASHES = range(COUNTED)  # indices of what is counted


class Election(NamedTuple):
    """The rule by which nominees become parents.

    union   all of them do
    chosen  uint64[k], ascending: without `union`, the keys of those that do
    """

    union: bool
    chosen: Words


class Nominees(NamedTuple):
    """Monomials that became parents since the last merge, and were not parents before, as arrays of equal length.

    votes  how many models nominated each
    use    the `usefulness` of the merged monomial
    """

    keys: Words
    votes: NDArray[np.int64]
    use: Floats


@kernel
def merge_buckets(
    stack: Stack,
    numbers: NDArray[np.int64],
    out: Table,
    election: Election,
    scratch: MergeScratch,
    counted: NDArray[np.int64],
) -> None:
    """Merge the stack's buckets into those of `out` with these numbers, whose slots are free, and add to the counts."""
    tag_bytes = out.tags.view(np.uint8)
    for at in range(np.uint64(len(numbers))):
        count = _collect(stack, at, scratch)
        for which in range(count):
            counted[CLASHES] += np.int64(merge_monomial(stack, scratch, which))
            _elect(stack, scratch, which, election, counted)
        _sort(scratch, count)
        _keep(scratch, count, counted)
        end: Index = np.uint64(numbers[at]) << U3
        for rank in range(count):
            next_one: Index = np.uint64(scratch.order[rank])
            if scratch.kept[next_one]:
                write_monomial(stack, scratch, next_one, out, end)
                tag_bytes[end] = np.uint8(scratch.keys[next_one] & BYTE) | np.uint8(1)
                end += U1


@kernel
def merge_constants(stack: Stack, out: Table, scratch: MergeScratch) -> None:
    """Merge the slots of the constant, the only ones in the stack, into the only slot of `out`."""
    scratch.keys[0] = U0
    for p in range(np.uint64(stack.slots.shape[0])):
        scratch.places[0, p] = 0
    merge_monomial(stack, scratch, U0)
    scratch.merged[0]["parent"] = 0
    write_monomial(stack, scratch, U0, out, U0)


@kernel
def find_nominees(stack: Stack, buckets: int, scratch: MergeScratch, found: Nominees) -> int:
    """Write the nominees of the stack's first `buckets` buckets to `found`, and return how many there are.

    `found` has room for all that are nominated in any model.
    """
    end = U0
    for bucket in range(np.uint64(buckets)):
        count = _collect(stack, bucket, scratch)
        for which in range(count):
            standing, nominated, _, _ = _states_of(stack, scratch, which)
            if nominated > 0 and standing == 0:
                merge_monomial(stack, scratch, which)
                found.keys[end], found.votes[end] = scratch.keys[which], nominated
                found.use[end] = usefulness(scratch.merged, scratch.companions, which)
                end += U1
    return int(end)


@part
def _collect(stack: Stack, bucket: Index, scratch: MergeScratch) -> Index:
    """Write the distinct keys of a bucket, and each model's slot of each key; return how many keys there are."""
    count, models = U0, np.uint64(stack.slots.shape[0])
    for p in range(models):
        for place in range(stack.starts[p, bucket], stack.starts[p, bucket + U1]):
            key = stack.slots[p, place]["key"]
            which = U0
            while which < count and scratch.keys[which] != key:
                which += U1
            if which == count:
                scratch.keys[which] = key
                for q in range(models):
                    scratch.places[which, q] = -1
                count += U1
            scratch.places[which, p] = np.int64(place)
    return count


@part
def _states_of(stack: Stack, scratch: MergeScratch, which: Index) -> tuple[np.int64, np.int64, np.int64, np.uint8]:
    """Count the models by the monomial's state: earlier parent, nominee, resting.

    Also returns the largest `parent` where it is not a parent: for how long it rests.
    """
    standing, nominated, resting, rest = np.int64(0), np.int64(0), np.int64(0), np.uint8(0)
    for p in range(np.uint64(stack.slots.shape[0])):
        if scratch.places[which, p] < 0:
            continue
        parent = stack.slots[p, np.uint64(scratch.places[which, p])]["parent"]
        if parent & PARENT:
            fresh = parent & NOMINATED != 0
            nominated += np.int64(fresh)
            standing += np.int64(not fresh)
        else:
            rest = max(rest, parent)
            resting += np.int64(parent != 0)
    return standing, nominated, resting, rest


@part
def _elect(stack: Stack, scratch: MergeScratch, which: Index, election: Election, counted: NDArray[np.int64]) -> None:
    """Write `parent` of the merged monomial, and its votes and usefulness, by which slots are given."""
    standing, nominated, resting, rest = _states_of(stack, scratch, which)
    parent = rest
    if standing > 0:
        stays = election.union or standing + nominated >= resting
        parent = PARENT if stays else rest
        counted[RETIRED] += np.int64(not stays)
    elif nominated > 0:
        wins = election.union or _is_chosen(election.chosen, scratch.keys[which])
        parent = PARENT if wins else rest
        counted[WON if wins else LOST] += 1
    scratch.merged[which]["parent"] = parent
    scratch.votes[which] = standing + nominated if parent & PARENT else 0
    scratch.use[which] = usefulness(scratch.merged, scratch.companions, which)


@part
def _is_chosen(chosen: Words, key: Index) -> bool:
    """Return whether a key is in an ascending array."""
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
def _sort(scratch: MergeScratch, count: Index) -> None:
    """Write the numbers of the keys to `order`, in ascending order of keys."""
    for which in range(count):
        rank: Index = which
        while rank > U0 and scratch.keys[np.uint64(scratch.order[rank - U1])] > scratch.keys[which]:
            scratch.order[rank] = scratch.order[rank - U1]
            rank -= U1
        scratch.order[rank] = np.int64(which)


@part
def _keep(scratch: MergeScratch, count: Index, counted: NDArray[np.int64]) -> None:
    """Mark the at most eight monomials that get slots, and count the others as evicted."""
    few = count <= np.uint64(BUCKET)
    for which in range(count):
        scratch.kept[which] = few
    if not few:
        for _ in range(BUCKET):
            best = np.int64(-1)
            for rank in range(count):  # by ascending key, so that of equals the smaller is the first
                which = scratch.order[rank]
                if scratch.kept[np.uint64(which)] == 0 and (best < 0 or _comes_before(scratch, which, best)):
                    best = which
            scratch.kept[np.uint64(best)] = 1
    for which in range(count):
        counted[KEYS] += 1
        counted[KEPT] += np.int64(scratch.kept[which])
        if scratch.kept[which] == 0:
            counted[EVICTIONS] += 1
            counted[PARENT_EVICTIONS] += np.int64(scratch.merged[which]["parent"] & PARENT)


@part
def _comes_before(scratch: MergeScratch, one: Index, other: Index) -> bool:
    """Return whether `one` has a better claim to a slot: more votes as a parent, or as many and more usefulness."""
    mine, theirs = scratch.votes[np.uint64(one)], scratch.votes[np.uint64(other)]
    return bool(mine > theirs or (mine == theirs and scratch.use[np.uint64(one)] > scratch.use[np.uint64(other)]))
