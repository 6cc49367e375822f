"""Admission and eviction: which monomials are given slots, and which make room in a table that is full.

While an example is expanded, each of its monomials without a slot either passes the admission filter or is deferred.
Those that pass are nominated, and after the example has been scored they are admitted.

If predictors are mixed, a product has to show that it is frequent before it gets a slot. Each bucket has two bytes: a
mark of the product that leads, and by how many votes it leads all others that asked (the majority vote of Boyer and
Moore, 1981). When the leader asks, its lead grows by OWN_VOTE; when another product asks, the lead shrinks by one, and
at 0 the other takes over. A product passes when it leads by VOTES_TO_PASS. So products that were seen a few times,
whose weights would be noise, never get a slot: that takes a tenth off the loss on the planted benchmark. A leader's
vote counts for more, so that equally frequent products pass one after the other. A base feature is admitted at once if
its bucket has a free slot.

Where most products of an example have no slot, their votes take a fifth of the time. After ALL_VOTE_BEFORE examples,
products ask in one example of VOTES_EVERY, and each vote counts SAMPLED_VOTES times as much. Eight products vote
together (`vote_lanes.py`).

Without a mixture, and for base features whose bucket is full, one byte of each bucket is a mark of the last key that
found it full. A key passes if it was the last to ask, so that keys seen once do not wear the table out (like the
doorkeeper of TinyLFU).
"""

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import TOO_LARGE
from stream_apple.core.jit import part, prefetch, unlikely
from stream_apple.core.splitmix64 import GOLDEN
from stream_apple.learners.apple.kernels.residuals import begin_residuals
from stream_apple.learners.apple.kernels.vote_lanes import IN_TURN, OWN_VOTE, VOTES_TO_PASS, vote_at_once
from stream_apple.learners.apple.state.model import EVICTED, EXAMPLES, OCCUPIED, REFUSED, Model
from stream_apple.learners.apple.state.table import (
    BUCKET,
    BYTE,
    FREE,
    INFINITE,
    MOST,
    NOWHERE,
    PARENT,
    U0,
    U1,
    U3,
    U7,
    U56,
    Element,
    Index,
    Table,
    bucket_of,
    find,
    first_of,
    free_tags,
)
from stream_apple.learners.apple.state.weights import usefulness
from stream_apple.learners.apple.state.work import LANES, Products, Work

ALL_VOTE_BEFORE = 1 << 14  # examples: a young model has most to find
VOTES_EVERY = 4  # examples
SAMPLED_VOTES = np.uint8(2)
_ONE_OF_VOTES_EVERY = np.uint64(2**64 // VOTES_EVERY)
_SLOTS_OF_A_CACHE_LINE = np.uint64(2)


@part
def votes_of(model: Model) -> np.uint8:
    """Return how many votes a product of the next example has; 0 if products do not vote in it.

    Examples are chosen by the multiples of the golden ratio modulo 1, so that no period of a stream is left out.
    """
    number = np.uint64(model.scalars.counts[EXAMPLES])
    if not model.rule.mixed or number < ALL_VOTE_BEFORE:
        return np.uint8(1)
    return SAMPLED_VOTES if number * GOLDEN < _ONE_OF_VOTES_EVERY else np.uint8(0)


@part
def filter_misses(model: Model, work: Work, passed: Index, misses: Index, votes: np.uint8) -> Index:
    """Move those of misses[passed:misses] that pass the admission filter to the front; return where they end.

    misses[:passed] have passed already.
    """
    table, products = model.table, work.products
    mixed = model.rule.mixed
    for m in range(passed, misses):
        at = products.misses[m]
        products.misses[passed] = at
        key, insertion = products.key[at], products.place[at]
        if not mixed:
            passed += np.uint64(is_last_or_has_room(table.admission_filter, insertion >> U3, key, insertion))
        elif products.node[at] == U0:
            passed += np.uint64(is_last_or_has_room(table.admission_filter, (insertion >> U3) << U1, key, insertion))
        else:
            passed += np.uint64(is_ahead(table.admission_filter, (insertion >> U3) << U1, key, votes))
    return passed


@part
def vote(
    admission_filter: NDArray[np.uint8], products: Products, first: Index, asking: Index, votes: np.uint8
) -> Index:
    """Let those products of [first, first + 8) vote whose bits are set in the byte `asking`.

    Returns a byte that has the bits of the products that pass.
    """
    passing = vote_at_once(admission_filter, products, first, asking, votes)
    if unlikely(passing == IN_TURN):
        passing = U0
        for lane in range(U0, np.uint64(LANES)):
            if (asking >> lane) & U1:
                at = first + lane
                ahead = is_ahead(admission_filter, (products.place[at] >> U3) << U1, products.key[at], votes)
                passing |= np.uint64(ahead) << lane
    return passing


@part
def is_last_or_has_room(admission_filter: NDArray[np.uint8], at: Index, key: Index, insertion: Index) -> bool:
    """Return whether the bucket has a free slot, or this key was the last to find none.

    If the bucket is full, the byte `at` gets the mark of the key.
    """
    full = insertion & U1
    mark, last = np.uint8(key >> U56), admission_filter[at]
    admission_filter[at] = mark if full else last  # a branch would be mispredicted half the time
    return bool((full == U0) | (mark == last))


@part
def is_ahead(admission_filter: NDArray[np.uint8], at: Index, key: Index, votes: np.uint8) -> bool:
    """Let a product vote; return whether it leads its bucket by VOTES_TO_PASS, which ends the vote.

    at     the index of the bucket's two bytes
    votes  how much the product's vote counts
    """
    mark, count = np.uint8(key >> U56), admission_filter[at + U1]
    same = (mark == admission_filter[at]) & (count > 0)
    count = np.uint8(count + OWN_VOTE * votes) if same else np.uint8(count - min(count, votes))
    taken_over = count == 0
    admission_filter[at] = mark if taken_over else admission_filter[at]
    passes = count >= VOTES_TO_PASS
    count = np.uint8(OWN_VOTE * votes) if taken_over else count
    admission_filter[at + U1] = np.uint8(0) if passes else count
    return bool(passes)


@part
def nominate(table: Table, work: Work, misses: Index, wanted: Index) -> Index:
    """Append misses[:misses] to the newcomers, and prefetch the slots that they may get; return where they end."""
    products = work.products
    for m in range(misses):
        at = products.misses[m]
        key, x = products.key[at], products.x[at]
        newcomer, node = work.newcomers[wanted], work.nodes[products.node[at]]
        factor = x / node["x"]
        newcomer["key"] = key
        newcomer["x"] = x
        damping = node["damping"] * factor * factor
        # Infinite or NaN if the product's value, or its parent's, is next to zero.
        newcomer["damping"] = MOST if damping > MOST else damping if damping >= 0.0 else np.float32(0.0)
        newcomer["degree"] = node["degree"] + 1
        bucket = bucket_of(table.tags, key)
        free = free_tags(table.tags[bucket])
        if free != U0:
            prefetch(table.slots, first_of(bucket, free))
        else:
            first = bucket << U3
            for place in range(first, first + np.uint64(BUCKET), _SLOTS_OF_A_CACHE_LINE):
                prefetch(table.slots, place)
        wanted += U1
    return wanted


@part
def admit(model: Model, work: Work, found: Index, wanted: Index) -> Index:
    """Give newcomers[:wanted] slots: free ones, else the least useful of the bucket. Return the new `found`.

    A newcomer's accumulator starts at DAMPING times its parent's, in units of its own x. If it started at 0, the first
    step would be as large as a new model's, and the loss would jump after every expansion.
    """
    table, occupancy, features = model.table, model.scalars.occupancy, work.features
    tag_bytes = table.tags.view(np.uint8)
    for m in range(wanted):
        newcomer = work.newcomers[m]
        key, x = newcomer["key"], newcomer["x"]
        place = find(table, key)
        if place < FREE or key == U0 or not 0.0 < abs(x) < TOO_LARGE:
            # It got a slot already, as it was reached through two parents; or its keys sum to 0, the constant's key,
            # which also marks a free slot; or its value underflows, or is too large.
            continue
        if place != NOWHERE:
            place -= FREE
            occupancy[OCCUPIED] += 1
        else:
            first = bucket_of(table.tags, key) << U3
            place = least_useful(table, first)
            if place == NOWHERE:
                occupancy[REFUSED] += 1
                continue
            occupancy[EVICTED] += 1
        tag_bytes[place] = np.uint8(key & BYTE) | np.uint8(1)
        if len(table.companions) > 0 and (newcomer["degree"] == 1 or table.slots[place]["degree"] == 1):
            put_companion(table.companions[place])  # that of a product is all zeros
        put_monomial(table.slots[place], newcomer)
        if len(table.residuals) > 0:
            begin_residuals(table.residuals[place])
        features.slot[found] = place
        features.x[found] = x
        features.weight[found] = 0.0
        features.gradient[found] = newcomer["damping"]
        features.scale[found] = 0.0
        found += U1
    return found


@part
def least_useful(table: Table, first: Index) -> Index:
    """Return the least useful slot of a full bucket, the first of equals; NOWHERE if none may go.

    Parents and monomials of the current example stay. Each slot's use and place are compared as one whole number,
    because a branch would be mispredicted half the time.
    """
    least = NOWHERE
    for within in range(U0, np.uint64(BUCKET)):
        candidate = table.slots[first + within]
        use = usefulness(table.slots, table.companions, first + within)
        kept = np.uint64((candidate["parent"] & PARENT) | candidate["active"]) * INFINITE
        least = min(least, ((np.uint64(np.float32(use).view(np.uint32)) | kept) << U3) | within)
    return first + (least & U7) if least >> U3 < INFINITE else NOWHERE


@part
def put_monomial(owner: Element, newcomer: Element) -> None:
    """Write the SLOT of a newcomer, and mark it as active, as it is a feature of the current example."""
    owner["key"] = newcomer["key"]
    owner["weight"] = 0.0
    owner["gradient"] = newcomer["damping"]
    owner["scale"] = 0.0
    owner["average"] = 0.0
    owner["fast"] = 0.0
    owner["degree"] = newcomer["degree"]
    owner["parent"] = 0
    owner["active"] = 1
    owner["sights"] = 0


@part
def put_companion(owner: Element) -> None:
    """Set all fields of a newcomer's COMPANION to 0."""
    owner["linear_weight"] = 0.0
    owner["linear_gradient"] = 0.0
    owner["slow_linear"] = 0.0
