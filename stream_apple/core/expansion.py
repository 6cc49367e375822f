"""Which monomials an example has, and their slots: the products of its parents with its base features.

Identity: a monomial's key is the sum mod 2^64 of its base features' keys, so x_i x_j is one monomial by whichever
parent it is reached (Agarwal et al. 2014, section 2.1: the support is a set). The constant's key is 0.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel, prefetch
from stream_apple.core.table import (
    BUCKET,
    BYTE,
    FREE,
    HIGHS,
    NOWHERE,
    ONES,
    PLACES,
    U0,
    U1,
    U3,
    U7,
    U8,
    U56,
    Floats,
    Index,
    Record,
    Slots,
    Words,
    find,
    knock,
)

WAVE = 8192  # products looked up at once, while memory fetches their slots
MAX_DEGREE = 250  # degrees are kept in a byte
DAMPING = np.float32(0.1)  # of the parent's accumulator, see `admit`
EXAMPLES, NONZEROS, FEATURES, TRUNCATED, OCCUPIED, EVICTED, DEFERRED, REFUSED = range(8)  # indices of counts

NODE = np.dtype(  # a parent present in the example, to be multiplied with base features first, first + 1, ...
    [
        ("key", np.uint64),
        ("first", np.uint64),
        ("x", np.float32),
        ("damping", np.float32),
        ("degree", np.uint8),
    ],
    align=True,
)
PRODUCT = np.dtype(  # a node times a base feature, and the slot that may be its own
    [("key", np.uint64), ("slot", np.uint64), ("x", np.float32), ("node", np.uint32)], align=True
)
NEWCOMER = np.dtype(  # a monomial that is to be given a slot
    [("key", np.uint64), ("x", np.float32), ("damping", np.float32), ("degree", np.uint8)], align=True
)


class Rule(NamedTuple):
    """What does not change during a run. Exhaustive: every monomial below `max_degree` is a parent."""

    logistic: bool
    rate: float
    exhaustive: bool
    max_degree: int
    max_features: int
    alongside: bool  # learn the linear predictor too


class Work(NamedTuple):
    """Scratch for one example. Kernels that run once an example take its arrays one by one: handing over a tuple
    counts references to all of them, which costs as much as learning a short example.

    slot, x, weight, gradient, scale, step   the example's features, one after another
    newcomers  NEWCOMER   monomials that are to be given slots
    nodes      NODE       a queue
    products   PRODUCT    of one wave; `hits` and `misses` are places therein, by whether a tag fits
    """

    slot: Words
    x: Floats
    weight: Floats
    gradient: Floats
    scale: Floats
    step: Floats
    newcomers: Slots
    nodes: Slots
    products: Slots
    hits: Words
    misses: Words


def empty_work(max_features: int, longest: int) -> Work:
    """Scratch for examples of up to `longest` base features."""
    size, wave = max_features + longest + 1, WAVE + longest
    slot = np.zeros(size, np.uint64)
    x, weight, gradient, scale, step = (np.zeros(size, np.float32) for _ in range(5))
    return Work(
        slot, x, weight, gradient, scale, step, np.zeros(size, NEWCOMER), np.zeros(size, NODE),
        np.zeros(wave, PRODUCT), np.zeros(wave, np.uint64), np.zeros(wave, np.uint64),
    )  # fmt: skip


@kernel
def put_node(node: Record, key: Index, first: Index, x: np.float32, damping: np.float32, degree: np.uint8) -> None:
    """Write one NODE."""
    node["key"] = key
    node["first"] = first
    node["x"] = x
    node["damping"] = damping
    node["degree"] = degree


@kernel
def multiply(
    slots: Slots, tags: Words, nodes: Slots, at: Index, keys: Words, values: Floats, stop: Index,
    products: Slots, hits: Words, hit: Index, misses: Words, miss: Index,
) -> tuple[Index, Index]:  # fmt: skip
    """Append node `at`'s products, and their places to `hits` where a tag fits (the slot is fetched) or to `misses`."""
    mask = np.uint64(len(tags) - 1)
    above, above_x = nodes[at]["key"], nodes[at]["x"]
    count = hit + miss
    for f in range(nodes[at]["first"], stop):
        key = above + keys[f]
        bucket = (key >> U8) & mask
        fits = tags[bucket] ^ (((key & BYTE) | U1) * ONES)
        fits = (fits - ONES) & ~fits & HIGHS
        place = (bucket << U3) + ((((fits & (~fits + U1)) >> U7) * PLACES) >> U56)
        prefetch(slots, place)
        product = products[count]
        product["key"] = key
        product["slot"] = place
        product["x"] = above_x * values[f]
        product["node"] = at
        # Written to both lists and kept in one: a branch would be mispredicted half the time.
        hits[hit] = count
        misses[miss] = count
        kept = np.uint64(fits != U0)
        hit += kept
        miss += U1 - kept
        count += U1
    return hit, miss


@kernel
def ask_for_slot(newcomer: Record, product: Record, node: Record) -> None:
    """Write one NEWCOMER."""
    factor = product["x"] / node["x"]
    newcomer["key"] = product["key"]
    newcomer["x"] = product["x"]
    newcomer["damping"] = node["damping"] * factor * factor
    newcomer["degree"] = node["degree"] + 1


@kernel
def expand(
    slots: Slots, tags: Words, visitor: NDArray[np.uint8], counts: NDArray[np.int64], rule: Rule,
    keys: Words, values: Floats, first: Index, stop: Index, learning: bool,  # noqa: FBT001
    slot: Words, x: Floats, newcomers: Slots, nodes: Slots, products: Slots, hits: Words, misses: Words,
) -> tuple[Index, Index]:  # fmt: skip
    """Collect the features of the example [first, stop): how many have slots, how many shall be given one.

    The former stand in `slot` and `x`, the constant first, then the base features; the latter in `newcomers`; the
    other arrays are scratch (`Work`). Expansion stops before the parent whose products no longer fit into the budget,
    so time and scratch are bounded. Breadth first: low degrees come first, and a wave of lookups overlaps in memory.
    Only the visitors of full buckets change, and only when learning.
    """
    slot[0], x[0] = len(slots) - 1, 1.0
    found, wanted = U1, U0
    put_node(nodes[0], U0, first, np.float32(1.0), np.float32(0.0), np.uint8(0))
    head, tail, visited = U0, U1, U1
    while head < tail:
        hit, miss = U0, U0
        while head < tail and hit + miss <= np.uint64(WAVE):
            node = nodes[head]
            visited += stop - node["first"]
            if visited > np.uint64(rule.max_features):
                counts[TRUNCATED] += np.int64(learning)
                tail = head
                break
            hit, miss = multiply(slots, tags, nodes, head, keys, values, stop, products, hits, hit, misses, miss)
            if rule.exhaustive and node["degree"] + 1 < rule.max_degree:
                for f in range(node["first"], stop):
                    put_node(
                        nodes[tail], node["key"] + keys[f], f, node["x"] * values[f], np.float32(0.0),
                        node["degree"] + np.uint8(1),
                    )  # fmt: skip
                    tail += U1
            head += U1
        for h in range(hit):
            product = products[hits[h]]
            place = product["slot"]
            if slots[place]["key"] != product["key"]:
                place = find(slots, tags, product["key"])
                if place >= FREE:
                    misses[miss] = hits[h]
                    miss += U1
                    continue
            owner = slots[place]
            value = product["x"]
            fresh = (owner["active"] == 0) & (abs(value) > 0.0) & (abs(value) < np.inf)
            owner["active"] |= np.uint8(fresh)
            slot[found] = place
            x[found] = value
            found += np.uint64(fresh)
            if fresh and owner["parent"] and owner["degree"] < rule.max_degree:
                put_node(nodes[tail], product["key"], first, value, DAMPING * owner["gradient"], owner["degree"])
                tail += U1
        if learning:
            for m in range(miss):
                product = products[misses[m]]
                if knock(tags, visitor, product["key"]):
                    ask_for_slot(newcomers[wanted], product, nodes[product["node"]])
                    wanted += U1
                else:
                    counts[DEFERRED] += 1
    return found, wanted


@kernel
def admit(
    slots: Slots,
    tags: Words,
    counts: NDArray[np.int64],
    slot: Words,
    x: Floats,
    newcomers: Slots,
    found: Index,
    wanted: Index,
) -> Index:
    """Give newcomers[:wanted] slots: free ones, else the least useful of the bucket. Returns the new `found`.

    A newcomer's accumulator starts at DAMPING times its parent's, in units of its own x: with an empty one its
    first step would be as large as the first of all, and the loss would jump after every expansion.
    """
    tag_bytes = tags.view(np.uint8)
    for m in range(U0, wanted):
        newcomer = newcomers[m]
        key, value = newcomer["key"], newcomer["x"]
        place = find(slots, tags, key)
        if place < FREE or not 0.0 < abs(value) < np.inf:
            continue  # by now it has a slot, being reached through two parents; or it underflows or overflows
        if place != NOWHERE:
            place -= FREE
            counts[OCCUPIED] += 1
        else:
            first = ((key >> U8) & np.uint64(len(tags) - 1)) << U3
            least = np.inf
            for candidate in range(first, first + np.uint64(BUCKET)):
                tenant = slots[candidate]
                if tenant["parent"] or tenant["active"]:
                    continue
                use = max(abs(tenant["weight"]), abs(tenant["linear_weight"])) * tenant["scale"]
                if use < least:
                    least = use
                    place = candidate
            if place == NOWHERE:
                counts[REFUSED] += 1
                continue
            counts[EVICTED] += 1
        tag_bytes[place] = np.uint8(key & BYTE) | np.uint8(1)
        owner = slots[place]
        owner["key"] = key
        owner["weight"] = 0.0
        owner["gradient"] = newcomer["damping"]
        owner["scale"] = 0.0
        owner["linear_weight"] = 0.0
        owner["linear_gradient"] = 0.0
        owner["degree"] = newcomer["degree"]
        owner["parent"] = 0
        owner["active"] = 1
        slot[found] = place
        x[found] = value
        found += U1
    return found
