"""Polynomial expansion: which monomials an example has, and their slots.

The monomials are the products of the example's parents with its base features.

A monomial's key is the sum mod 2^64 of its base features' keys, so x_i x_j is one monomial whichever parent reaches it
(Agarwal et al. 2014, section 2.1: the support is a set). The constant's key is 0.

The search is breadth first, in waves of lookups that overlap in memory. A *node* is a parent of the example that waits
to be multiplied. The phases of a wave:

    multiply       Multiply nodes with base features. A product is a hit if a tag fits, and its slot is prefetched; else
                   it is a miss. In a mixture, when learning, misses that are no base features vote.
    clip outliers  In a mixture, in the first wave, whose products are the base features: clip the hits' values.
    collect        Append the hits to the example's features, each once; parents become nodes of a later wave.
    filter         When learning: keep the misses that may get a slot.
    nominate       When learning: append these misses to the newcomers.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import BIN, TOO_LARGE
from stream_apple.core.jit import copy_numbers, part, prefetch, unlikely
from stream_apple.learners.apple.kernels.admission import filter_misses, nominate, vote, votes_of
from stream_apple.learners.apple.kernels.credits import Credits, credit, position_of
from stream_apple.learners.apple.kernels.lanes import Multiplier, append, bits_in, copy_words, look_up
from stream_apple.learners.apple.state.model import DEFERRED, TRUNCATED, LearningRule, Model
from stream_apple.learners.apple.state.table import (
    BYTE,
    FREE,
    PARENT,
    U0,
    U1,
    U3,
    U7,
    Element,
    Index,
    Slots,
    Table,
    Words,
    bucket_of,
    find,
    insertion_point,
)
from stream_apple.learners.apple.state.work import LANES, WAVE, BaseFeatures, Products, Work

REACH = np.float32(1.25)  # times the largest value so far
ESTABLISHED = np.uint8(20)  # sights
DAMPING = np.float32(0.1)  # of the parent's accumulator, see `admit`
MANY_TAGS = 1 << 17  # words of tags: more do not fit into a core's own cache
_LANES = np.uint64(LANES)


class Queue(NamedTuple):
    """The queue of nodes: nodes[head:tail] wait; `visited` counts the products so far, and the constant as one more."""

    head: Index
    tail: Index
    visited: Index


class Ends(NamedTuple):
    """How many hits and misses a wave has.

    passed    how many of the misses have passed the filter already; they come first
    deferred  how many products did not pass; they are not among the misses any more
    """

    hits: Index
    misses: Index
    passed: Index
    deferred: Index


@part
def expand(
    model: Model, base: BaseFeatures, learning: bool, work: Work, credited: Credits | None
) -> tuple[Index, Index]:
    """Collect the monomials of the example; return how many have slots, and how many are newcomers.

    Those with slots are in `work.features` (slot and x), the constant first, then the base features; the newcomers are
    in `work.newcomers`. Expansion stops before the parent whose products would exceed `max_features`, so time and
    scratch are bounded. Of the model only the admission filter and counts change, and only when learning.

    credited  where what the nodes earn is added; None if nobody asks
    """
    table, scalars, rule = model.table, model.scalars, model.rule
    features, products, nodes = work.features, work.products, work.nodes
    if rule.mixed:
        base = own_copy(base, work)
    constant = np.uint64(len(table.slots) - 1)
    features.slot[0], features.x[0] = constant, 1.0
    table.slots[constant]["active"] = 1  # so it is not appended again, even if keys should sum to 0
    put_node(nodes[0], U0, base.first, np.float32(1.0), np.float32(0.0), np.uint8(0))
    if credited is not None:
        credited.numbers[0], credited.listed[0] = np.uint64(len(credited.earned) - 1), U1
    found, wanted, queue = U1, U0, Queue(U0, U1, U1)
    votes = votes_of(model) if learning else np.uint8(0)
    while queue.head < queue.tail:
        queue, ends = multiply(table, rule, base, work, queue, votes)
        if queue.visited > np.uint64(rule.expansion.max_features):
            scalars.counts[TRUNCATED] += np.int64(learning)
        if rule.mixed and queue.head == U1:  # the constant's products: the base features themselves
            clip_outliers(table, base, products, ends.hits)
        found, queue, misses = collect(model, base, work, queue, found, ends, votes, credited)
        if credited is not None:
            credited.listed[0] = max(credited.listed[0], queue.tail)
        if learning:
            passed = filter_misses(model, work, ends.passed, misses, votes)
            scalars.occupancy[DEFERRED] += np.int64(ends.deferred + misses - passed)
            wanted = nominate(table, work, passed, wanted)
    return found, wanted


@part
def own_copy(base: BaseFeatures, work: Work) -> BaseFeatures:
    """Copy the base features to the scratch, where values may be changed."""
    size = base.stop - base.first
    copy_numbers(base.keys, base.first, work.own.keys, U0, size)
    copy_numbers(base.values, base.first, work.own.values, U0, size)
    roles = base.roles
    if len(roles) > 0:
        copy_numbers(base.roles, base.first, work.own.roles, U0, size)
        roles = work.own.roles
    return BaseFeatures(work.own.keys, work.own.values, roles, U0, size)


@part
def clip_outliers(table: Table, base: BaseFeatures, products: Products, hits: Index) -> None:
    """Clip values to REACH times the largest value before, for features that are ESTABLISHED.

    Otherwise one outlier, which its products multiply, would undo all that their weights have learned. If values stay
    large, each example widens the scale by REACH: after 31 of them values may be a thousand times as large.
    """
    for h in range(hits):
        at = products.hits[h]
        place = products.place[at]
        if unlikely(table.slots[place]["key"] != products.key[at]):
            place = find(table, products.key[at])
            if place >= FREE:
                continue
        owner, x = table.slots[place], products.x[at]
        reach = REACH * owner["scale"]
        if unlikely(abs(x) > reach) and owner["sights"] >= ESTABLISHED:
            products.x[at] = base.values[at] = reach if x > 0.0 else -reach


@part
def multiply(
    table: Table, rule: LearningRule, base: BaseFeatures, work: Work, queue: Queue, votes: np.uint8
) -> tuple[Queue, Ends]:
    """Look up the products of the next nodes, about WAVE of them, and list them as hits or misses.

    votes  how many votes a product without a slot casts; 0: only base features become misses
    """
    products, nodes, lookups = work.products, work.nodes, work.lookups
    head, tail, visited = queue
    hits, misses, passed, deferred, end = U0, U0, U0, U0, U0
    with_roles = len(base.roles) > 0
    while head < tail and end <= np.uint64(WAVE):
        node = nodes[head]
        first, key, x = node["first"], node["key"], node["x"]
        visited += base.stop - first
        if visited > np.uint64(rule.expansion.max_features):
            tail = head
            break
        node["start"] = end
        if rule.expansion.exhaustive and node["degree"] + 1 < rule.expansion.max_degree:
            for f in range(first, base.stop):
                # Each product comes once, as its factors ascend; a BIN is never multiplied with itself.
                after = f + np.uint64(with_roles and base.roles[f] == BIN)
                put_node(
                    nodes[tail], key + base.keys[f], after, x * base.values[f], np.float32(0.0),
                    node["degree"] + np.uint8(1),
                )  # fmt: skip
                tail += U1
        if len(table.tags) > MANY_TAGS and head + U1 < tail:
            fetch_tags(table.tags, base, nodes[head + U1])  # memory fetches them while this node's are looked up
        multiplier = Multiplier(key, x, head)
        size, before = base.stop - first, hits
        for at in range(U0, size, _LANES):
            copy_words(table.tags, base, first + at, key, lookups.words, at)
        apart = with_roles and not rule.expansion.exhaustive
        if apart:
            note_own_bins(base, nodes, head, size, lookups.left)
        for at in range(U0, size, _LANES):
            count = min(size - at, _LANES)
            fit = look_up(table.tags, lookups.words, base, first + at, multiplier, products, end + at, at)
            lanes = BYTE >> (_LANES - count)
            if apart:
                lanes &= ~np.uint64(lookups.left[at >> U3])
                fit &= lanes
            hits = append(products.hits, hits, end + at, fit)
            absent = ~fit & lanes
            lookups.absent[at >> U3] = np.uint8(absent)
            if head == U0 or (votes > 0 and not rule.mixed):
                misses = append(products.misses, misses, end + at, absent)
        if rule.mixed and head > U0 and votes > 0:
            for at in range(U0, size, _LANES):
                absent = np.uint64(lookups.absent[at >> U3])
                passing = vote(table.admission_filter, products, end + at, absent, votes)
                deferred += bits_in(absent & ~passing)
                if unlikely(passing != U0):
                    passed = misses = append(products.misses, misses, end + at, passing)
        fetch(table.slots, products, before, hits)  # memory fetches them while the next nodes' are looked up
        end += size
        head += U1
    return Queue(head, tail, visited), Ends(hits, misses, passed, deferred)


@part
def note_own_bins(base: BaseFeatures, nodes: Slots, number: Index, size: Index, left: NDArray[np.uint8]) -> None:
    """Write to `left` which of the node's `size` products are left out: those with a BIN that is its factor already."""
    for group in range(U0, size, _LANES):
        left[group >> U3] = 0
    first = nodes[number]["first"]
    while number > U0:
        node = nodes[number]
        by = np.uint64(node["by"])
        if base.roles[by] == BIN:
            left[(by - first) >> U3] |= np.uint8(U1 << ((by - first) & U7))
        number = np.uint64(node["origin"])


@part
def put_node(node: Element, key: Index, first: Index, x: np.float32, damping: np.float32, degree: Index) -> None:
    """Write the fields of one NODE."""
    node["key"] = key
    node["first"] = first
    node["x"] = x
    node["damping"] = damping
    node["degree"] = degree


@part
def fetch_tags(tags: Words, base: BaseFeatures, node: Element) -> None:
    """Prefetch the words of tags in which a node's products are looked up."""
    key = node["key"]
    for f in range(node["first"], base.stop):
        prefetch(tags, bucket_of(tags, key + base.keys[f]))


@part
def fetch(slots: Slots, products: Products, first: Index, stop: Index) -> None:
    """Prefetch the slots of the wave's hits [first, stop)."""
    for h in range(first, stop):
        prefetch(slots, products.place[products.hits[h]])


@part
def collect(
    model: Model, base: BaseFeatures, work: Work, queue: Queue, found: Index, ends: Ends, votes: np.uint8,
    credited: Credits | None,
) -> tuple[Index, Queue, Index]:  # fmt: skip
    """Append the hits that are monomials in the table to the features, each once.

    Parents join the queue. Hits that have no slot, as their tag was another key's, are appended to the misses. Returns
    the new number of features, the queue, and the new number of misses.
    """
    table, features, products = model.table, work.features, work.products
    tail, misses, with_roles = queue.tail, ends.misses, len(base.roles) > 0
    for h in range(ends.hits):
        at = products.hits[h]
        key, place, x = products.key[at], products.place[at], products.x[at]
        if unlikely(table.slots[place]["key"] != key):
            place = find(table, key)
            if place >= FREE:
                products.place[at] = insertion_point(table.tags, key)
                products.misses[misses] = at
                misses += np.uint64(votes > 0 or products.node[at] == 0)
                continue
            if not 0.0 < abs(x) < TOO_LARGE:
                continue
        owner = table.slots[place]
        fresh = owner["active"] ^ np.uint8(1)
        owner["active"] = 1
        # It is always written, and kept if fresh: a branch would be mispredicted often.
        features.slot[found] = place
        features.x[found] = x
        found += np.uint64(fresh)
        if credited is not None:
            number = products.node[at]
            credit(credited, owner, work.nodes[number], number, base, at, fresh)
        if unlikely((fresh & owner["parent"] & PARENT) != 0) and owner["degree"] < model.rule.expansion.max_degree:
            if with_roles:
                origin = work.nodes[products.node[at]]
                work.nodes[tail]["origin"] = products.node[at]
                work.nodes[tail]["by"] = origin["first"] + (at - origin["start"])
            put_node(work.nodes[tail], key, base.first, x, DAMPING * owner["gradient"], owner["degree"])
            if credited is not None:
                credited.numbers[tail] = position_of(credited.parents, place)
            tail += U1
    return found, Queue(queue.head, tail, queue.visited), misses
