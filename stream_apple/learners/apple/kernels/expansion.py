"""Polynomial expansion: which monomials an example has, and their slots.

The monomials are the products of the example's parents with its base features.

A monomial's key is the sum mod 2^64 of its base features' keys, so x_i x_j is one monomial whichever parent reaches it
(Agarwal et al. 2014, section 2.1: the support is a set). The constant's key is 0.

The search is breadth first, in waves of lookups that overlap in memory. A *node* is a parent of the example that waits
to be multiplied. The phases of a wave:

    multiply       Multiply nodes with base features. A product is a hit if a tag fits, and its slot is prefetched.
                   Otherwise, when learning, it asks the admission filter; if it passes, it becomes a newcomer.
    clip outliers  In a mixture, in the first wave, whose products are the base features: clip the hits' values.
    collect        Append the hits to the example's features, each once; parents become nodes of a later wave. A hit
                   whose tag is another key's has no slot, and asks the admission filter as well.
"""

from typing import NamedTuple

import numpy as np

from stream_apple.core.batch import BIN, TOO_LARGE
from stream_apple.core.jit import copy_numbers, part
from stream_apple.core.prefetch import prefetch
from stream_apple.learners.apple.kernels.admission import nominate, passes, votes_of
from stream_apple.learners.apple.kernels.credits import Credits, credit, position_of
from stream_apple.learners.apple.state.model import DEFERRED, TRUNCATED, LearningRule, Model
from stream_apple.learners.apple.state.table import (
    FREE,
    PARENT,
    U0,
    U1,
    Element,
    Index,
    Slots,
    Table,
    Words,
    bucket_of,
    find,
    first_of,
    fitting_tags,
)
from stream_apple.learners.apple.state.work import LEFT_OUT, WAVE, BaseFeatures, Hits, Lookups, Work

REACH = np.float32(1.25)  # times the largest value so far
ESTABLISHED = np.uint8(20)  # sights
DAMPING = np.float32(0.1)  # of the parent's accumulator, see `admit`


class Queue(NamedTuple):
    """The queue of nodes: nodes[head:tail] wait; `visited` counts the products so far, and the constant as one more."""

    head: Index
    tail: Index
    visited: Index


class Newcomers(NamedTuple):
    """How many products have passed the admission filter in this example, and how many have not."""

    wanted: Index
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
    features, nodes = work.features, work.nodes
    if rule.mixed:
        base = own_copy(base, work)
    constant = np.uint64(len(table.slots) - 1)
    features.slot[0], features.x[0] = constant, 1.0
    table.slots[constant]["active"] = 1  # so it is not appended again, even if keys should sum to 0
    put_node(nodes[0], U0, base.first, np.float32(1.0), np.float32(0.0), np.uint8(0))
    if credited is not None:
        credited.numbers[0], credited.listed[0] = np.uint64(len(credited.earned) - 1), U1
    found, queue, newcomers = U1, Queue(U0, U1, U1), Newcomers(U0, U0)
    votes = votes_of(model) if learning else np.uint8(0)
    while queue.head < queue.tail:
        queue, hits, newcomers = multiply(table, rule, base, work, queue, newcomers, learning, votes)
        if queue.visited > np.uint64(rule.expansion.max_features):
            scalars.counts[TRUNCATED] += np.int64(learning)
        if rule.mixed and queue.head == U1:  # the constant's products: the base features themselves
            clip_outliers(table, base, work.hits, hits)
        found, queue, newcomers = collect(model, base, work, queue, found, hits, newcomers, learning, votes, credited)
        if credited is not None:
            credited.listed[0] = max(credited.listed[0], queue.tail)
    scalars.occupancy[DEFERRED] += np.int64(newcomers.deferred)
    return found, newcomers.wanted


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
def clip_outliers(table: Table, base: BaseFeatures, hits: Hits, count: Index) -> None:
    """Clip values to REACH times the largest value before, for features that are ESTABLISHED.

    Otherwise one outlier, which its products multiply, would undo all that their weights have learned. If values stay
    large, each example widens the scale by REACH: after 31 of them values may be a thousand times as large.
    """
    for h in range(count):
        place = hits.place[h]
        if table.slots[place]["key"] != hits.key[h]:
            place = find(table, hits.key[h])
            if place >= FREE:
                continue
        owner, x = table.slots[place], hits.x[h]
        reach = REACH * owner["scale"]
        if abs(x) > reach and owner["sights"] >= ESTABLISHED:
            hits.x[h] = base.values[hits.feature[h]] = reach if x > 0.0 else -reach


@part
def multiply(
    table: Table, rule: LearningRule, base: BaseFeatures, work: Work, queue: Queue, newcomers: Newcomers,
    learning: bool, votes: np.uint8,
) -> tuple[Queue, Index, Newcomers]:  # fmt: skip
    """Look up the products of the next nodes, about WAVE of them; list the hits, and nominate newcomers.

    votes  how many votes a product without a slot casts; 0: only base features ask the admission filter

    Returns the queue, the number of hits, and the newcomers so far.
    """
    nodes, lookups, listed = work.nodes, work.lookups, work.lookups.listed
    head, tail, visited = queue
    wanted, deferred = newcomers
    hits, looked_up = U0, U0
    with_roles = len(base.roles) > 0
    while head < tail and looked_up <= np.uint64(WAVE):
        node: Element = nodes[head]
        first, key, x = node["first"], node["key"], node["x"]
        size = base.stop - first
        visited += size
        if visited > np.uint64(rule.expansion.max_features):
            tail = head
            break
        if rule.expansion.exhaustive and node["degree"] + 1 < rule.expansion.max_degree:
            for f in range(first, base.stop):
                # Each product comes once, as its factors ascend; a BIN is never multiplied with itself.
                after = f + np.uint64(with_roles and base.roles[f] == BIN)
                put_node(
                    nodes[tail], key + base.keys[f], after, x * base.values[f], np.float32(0.0),
                    node["degree"] + np.uint8(1),
                )  # fmt: skip
                tail += U1
        look_up(table.tags, lookups, base, first, key)
        if with_roles and not rule.expansion.exhaustive:
            leave_out_own_bins(base, nodes, head, lookups.fits)
        fitting = list_fitting(lookups, size)
        for n in range(fitting):
            put_hit(table, work.hits, hits + n, lookups, listed[n], base, first, x, head)
        hits += fitting
        if learning and (votes > 0 or head == U0) and fitting < size:
            asking, before = list_absent(lookups, size), wanted
            for n in range(asking):
                product = lookups.keys[listed[n]]
                if passes(table, rule.mixed, product, head, votes):
                    nominate(table, work, wanted, product, x * base.values[first + listed[n]], head)
                    wanted += U1
            deferred += asking - (wanted - before)
        looked_up += size
        head += U1
    return Queue(head, tail, visited), hits, Newcomers(wanted, deferred)


@part
def look_up(tags: Words, lookups: Lookups, base: BaseFeatures, first: Index, key: Index) -> None:
    """Write the keys of a node's products with base features from `first` on, and which tags fit them.

    There are three loops, because the compiler makes SIMD instructions of the first and the last, and because memory
    fetches the words of many products at once in the second.
    """
    keys, fits, size = lookups.keys, lookups.fits, base.stop - first
    for p in range(size):
        keys[p] = key + base.keys[first + p]
    for p in range(size):
        fits[p] = tags[bucket_of(tags, keys[p])]
    for p in range(size):
        fits[p] = fitting_tags(fits[p], keys[p])


@part
def list_fitting(lookups: Lookups, size: Index) -> Index:
    """List the products for which a tag fits; return how many there are.

    Each number is written, and kept if it counts: a branch would be mispredicted half the time.
    """
    end = U0
    for p in range(size):
        lookups.listed[end] = p
        end += np.uint64(lookups.fits[p] > LEFT_OUT)
    return end


@part
def list_absent(lookups: Lookups, size: Index) -> Index:
    """List the products for which no tag fits; return how many there are."""
    end = U0
    for p in range(size):
        lookups.listed[end] = p
        end += np.uint64(lookups.fits[p] == U0)
    return end


@part
def put_hit(
    table: Table, hits: Hits, end: Index, lookups: Lookups, product: Index, base: BaseFeatures, first: Index,
    x: np.float32, number: Index,
) -> None:  # fmt: skip
    """Write a product for which a tag fits to hits[end], and prefetch its slot."""
    key, value = lookups.keys[product], x * base.values[first + product]
    place = first_of(bucket_of(table.tags, key), lookups.fits[product])
    hits.key[end], hits.x[end], hits.node[end], hits.feature[end] = key, value, number, first + product
    hits.place[end] = place if 0.0 < abs(value) < TOO_LARGE else np.uint64(len(table.slots) - 1)
    prefetch(table.slots, place)


@part
def leave_out_own_bins(base: BaseFeatures, nodes: Slots, number: Index, fits: Words) -> None:
    """Leave out the products of a node with a BIN that is its factor already."""
    first = nodes[number]["first"]
    while number > U0:
        node = nodes[number]
        by = np.uint64(node["by"])
        if base.roles[by] == BIN:
            fits[by - first] = LEFT_OUT
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
def collect(
    model: Model, base: BaseFeatures, work: Work, queue: Queue, found: Index, count: Index, newcomers: Newcomers,
    learning: bool, votes: np.uint8, credited: Credits | None,
) -> tuple[Index, Queue, Newcomers]:  # fmt: skip
    """Append those of hits[:count] that are monomials in the table to the features, each once.

    Parents join the queue. Returns the new number of features, the queue, and the newcomers so far.
    """
    table, features, hits = model.table, work.features, work.hits
    tail, with_roles = queue.tail, len(base.roles) > 0
    wanted, deferred = newcomers
    for h in range(count):
        key, place, x, number = hits.key[h], hits.place[h], hits.x[h], hits.node[h]
        if table.slots[place]["key"] != key:
            place = find(table, key)
            if place >= FREE:
                if learning and (votes > 0 or number == U0):
                    if passes(table, model.rule.mixed, key, number, votes):
                        nominate(table, work, wanted, key, x, number)
                        wanted += U1
                    else:
                        deferred += U1
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
            credit(credited, owner, work.nodes[number], number, base.values[hits.feature[h]], fresh)
        if (fresh & owner["parent"] & PARENT) != 0 and owner["degree"] < model.rule.expansion.max_degree:
            if with_roles:
                work.nodes[tail]["origin"] = number
                work.nodes[tail]["by"] = hits.feature[h]
            put_node(work.nodes[tail], key, base.first, x, DAMPING * owner["gradient"], owner["degree"])
            if credited is not None:
                credited.numbers[tail] = position_of(credited.parents, place)
            tail += U1
    return found, Queue(queue.head, tail, queue.visited), Newcomers(wanted, deferred)
