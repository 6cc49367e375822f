"""The features of an example with method tuples: its base features, and products over the tuples that may have any.

A tuple is a set of n attributes; its features are the products of n base features of the example, one of each attribute
(Zaidi et al.: ALR^n, whose features have exactly order n; they span the lower orders if no attribute is ever absent).
The base features are features too: the linear predictor needs them, and so does an example with fewer than n
attributes. Level by level (hsALR^n), the tuples selected at each level have features, and a tuple of one attribute more
may have features only if all smaller tuples were selected.

The search is breadth first, in the waves of `expansion.py`, whose functions it uses. Products are made one by one,
since each has to be checked for whether its tuple may have features.
"""

import numpy as np

from stream_apple.core.batch import TOO_LARGE
from stream_apple.core.jit import part
from stream_apple.learners.apple.kernels.admission import filter_misses, nominate
from stream_apple.learners.apple.kernels.expansion import Ends, Queue, collect, fetch, put_node
from stream_apple.learners.apple.state.model import DEFERRED, LEVEL, TRUNCATED, Model
from stream_apple.learners.apple.state.table import (
    FREE,
    U0,
    U1,
    Index,
    Words,
    bucket_of,
    first_of,
    fitting_tags,
    insertion_point,
)
from stream_apple.learners.apple.state.work import WAVE, BaseFeatures, Origins, Products, Work

_PLACE_BITS = np.uint64(21)  # of the number of a base feature in a node's path
_PLACE_MASK = (U1 << _PLACE_BITS) - U1


@part
def expand_tuples(
    model: Model, base: BaseFeatures, attributes: Words, learning: bool, work: Work,
    origins: Origins | None,
) -> tuple[Index, Index]:  # fmt: skip
    """Collect the features of the example, as `expand` does for the other methods, and return the same numbers.

    `attributes` are those of the batch.
    """
    table, features = model.table, work.features
    note_attributes(model, base, attributes, work)
    unbarred = BaseFeatures(base.keys, base.values, base.roles, base.first, base.stop, FREE)  # nothing becomes a parent
    constant = np.uint64(len(table.slots) - 1)
    features.slot[0], features.x[0] = constant, 1.0
    table.slots[constant]["active"] = 1
    put_node(work.nodes[0], U0, base.first, np.float32(1.0), np.float32(0.0), np.uint8(0))
    put_path(work, U0, U0, U0, np.uint8(0))
    found, wanted, queue = U1, U0, Queue(U0, U1, U1)
    while queue.head < queue.tail:
        queue, ends = multiply_attributes(model, base, work, queue)
        if queue.visited > np.uint64(model.rule.expansion.max_features):
            model.scalars.counts[TRUNCATED] += np.int64(learning)
        fetch(table.slots, work.products, U0, ends.hits)
        found, queue, misses = collect(model, base, work, queue, found, ends, origins, np.uint8(1), None)
        if learning:
            passed = filter_misses(model, work, U0, misses, np.uint8(1))
            model.scalars.counts[DEFERRED] += np.int64(misses - passed)
            if origins is not None:
                note_tuples(work, passed, wanted)
            wanted = nominate(table, unbarred, work, passed, wanted)
    return found, wanted


@part
def note_attributes(model: Model, base: BaseFeatures, attributes: Words, work: Work) -> None:
    """Write each base feature's attribute, and whether it came after tuples were selected, to `work.tuples`.

    A feature whose attribute is not known, such as one of a packed example, is an attribute of its own.
    """
    given = len(attributes) > 0
    decided = model.rule.tuples.selecting and model.tuples.state[LEVEL] > model.rule.tuples.order
    for f in range(base.first, base.stop):
        attribute = attributes[f] if given else U0
        if attribute == U0:
            attribute = base.keys[f]
        at = f - base.first
        work.tuples.attributes[at] = attribute
        work.tuples.late[at] = np.uint8(decided and not holds(model.tuples.known, attribute))


@part
def multiply_attributes(model: Model, base: BaseFeatures, work: Work, queue: Queue) -> tuple[Queue, Ends]:
    """Look up the products of the next nodes, about WAVE of them, and list them as hits or misses."""
    table, products, nodes, scratch = model.table, work.products, work.nodes, work.tuples
    order, by_level = np.uint8(model.rule.tuples.order), model.rule.tuples.by_level
    deepest = min(order, np.uint8(model.tuples.state[LEVEL])) if by_level else order
    head, tail, visited = queue
    hits, misses = U0, U0
    while head < tail and hits + misses <= np.uint64(WAVE):
        node, origin = nodes[head], scratch.nodes[head]
        first, key, x, degree = node["first"], node["key"], node["x"], node["degree"] + np.uint8(1)
        stop = base.stop if degree == 1 else base.paired  # features of role ALONE are products already
        visited += stop - min(first, stop)
        if visited > np.uint64(model.rule.expansion.max_features):
            tail = head
            break
        sum_so_far, path, late_so_far = origin["attributes"], origin["path"], origin["late"]
        for f in range(first, stop):
            at = f - base.first
            attribute = scratch.attributes[at]
            if at > _PLACE_MASK or is_on_path(work, path, degree, attribute):
                continue
            tuple_key, late = sum_so_far + attribute, late_so_far | scratch.late[at]
            if degree > 1 or by_level:
                may_be = may_have_features(model, work, (path, degree), attribute, tuple_key, late)
            else:
                may_be = True
            product, value = key + base.keys[f], x * base.values[f]
            if may_be and degree < deepest and f < base.paired:
                put_node(nodes[tail], product, f + U1, value, np.float32(0.0), degree)
                put_path(work, tail, tuple_key, (path << _PLACE_BITS) | at, late)
                tail += U1
            if degree == 1 or (may_be and (by_level or degree == order)):
                if not 0.0 < abs(value) < TOO_LARGE:
                    continue
                end = hits + misses
                products.key[end], products.x[end], products.node[end] = product, value, head
                scratch.products[end] = tuple_key
                if look_up_tag(table.tags, products, end, product):
                    products.hits[hits] = end
                    hits += U1
                else:
                    products.misses[misses] = end
                    misses += U1
        head += U1
    return Queue(head, tail, visited), Ends(hits, misses, U0, U0)


@part
def look_up_tag(tags: Words, products: Products, at: Index, key: Index) -> bool:
    """Write the place of product `at`, as `look_up` does, and return whether a tag fits."""
    bucket = bucket_of(tags, key)
    fits = fitting_tags(tags[bucket], key)
    products.place[at] = insertion_point(tags, key) if fits == U0 else first_of(bucket, fits)
    return bool(fits != U0)


@part
def is_on_path(work: Work, path: Index, degree: Index, attribute: Index) -> bool:
    """Return whether the product's node, whose degree is one less, already has a base feature of this attribute."""
    found = False
    for _ in range(np.uint8(1), degree):
        found |= work.tuples.attributes[path & _PLACE_MASK] == attribute
        path >>= _PLACE_BITS
    return found


@part
def may_have_features(
    model: Model, work: Work, node: tuple[Index, Index], attribute: Index, tuple_key: Index, late: np.uint8
) -> bool:
    """Return whether the tuple of a product, or tuples with one more attribute, may have features.

    node  the node's path, and the degree of the product

    After the selection, selected tuples and tuples with a later attribute may have features. Before, all may; level by
    level, only those whose smaller tuples were all selected.
    """
    chosen, level = model.tuples.chosen, model.tuples.state[LEVEL]
    path, degree = node
    if not model.rule.tuples.by_level:
        exploring = level <= model.rule.tuples.order or degree < model.rule.tuples.order
        return bool(exploring or late > 0 or holds(chosen, tuple_key))
    if degree < level:
        return holds(chosen, tuple_key)
    if degree == 1:
        return True
    whole = holds(chosen, tuple_key - attribute)
    for _ in range(np.uint8(1), degree):
        whole &= holds(chosen, tuple_key - work.tuples.attributes[path & _PLACE_MASK])
        path >>= _PLACE_BITS
    return whole


@part
def put_path(work: Work, at: Index, attributes: Index, path: Index, late: np.uint8) -> None:
    """Write a node's TUPLE_NODE: the sum of its attributes' keys, its base features, and whether one came late."""
    node = work.tuples.nodes[at]
    node["attributes"] = attributes
    node["path"] = path
    node["late"] = late
    work.nodes[at]["start"] = 0  # products are not in the order of base features: see `nominate`


@part
def note_tuples(work: Work, passed: Index, wanted: Index) -> None:
    """Write the origins of newcomers[wanted:wanted + passed], which are products.misses[:passed]."""
    for m in range(passed):
        at = work.products.misses[m]
        noted = work.origins.newcomers[wanted + np.uint64(m)]
        noted["attributes"] = work.tuples.products[at]
        noted["order"] = work.nodes[work.products.node[at]]["degree"] + np.uint8(1)


def set_of(keys: Words) -> Words:
    """Return the keys as a hash set for `holds`, uint64[2^k], at most half full."""
    size = 1 << max(2 * len(keys) - 1, 1).bit_length()
    table = np.zeros(size, np.uint64)
    for key in np.maximum(keys, U1).tolist():
        at = key & (size - 1)
        while table[at]:
            at = (at + 1) & (size - 1)
        table[at] = key
    return table


@part
def holds(chosen: Words, key: Index) -> bool:
    """Return whether the key is in the hash set that `set_of` made."""
    mask = np.uint64(len(chosen) - 1)
    key = max(key, U1)  # 0 says that a place is free
    at = key & mask
    while chosen[at] != U0 and chosen[at] != key:
        at = (at + U1) & mask
    return bool(chosen[at] != U0)
