"""Which features an example has: its base features, and their products over the tuples of attributes that are learned.

The products of degree d + 1 are made of those of degree d, by one more base feature of another attribute that comes
later in the example, so each is made once. All products are kept in one array, where each refers to the one that it was
made of.

    all tuples (ALR^n)           the products of exactly n base features; they span the lower orders (Zaidi et al.)
    after a selection (sALR^n)   those of the selected tuples
    level by level (hsALR^n)     those of the selected tuples of each lower level; at the level that is explored, those
                                 of the tuples whose smaller tuples were all selected

The base features have weights as well, because an example may have fewer than n attributes.
"""

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import TOO_LARGE, Batch
from stream_apple.core.jit import part, routine
from stream_apple.core.splitmix64 import GOLDEN, finalize
from stream_apple.learners.tuples.cuts import NumberCuts
from stream_apple.learners.tuples.model import LEVEL, Key, TupleModel, TupleScratch, place_of

U1 = np.uint64(1)


@part
def write_base(cuts: NumberCuts, batch: Batch, row: int, products: NDArray[np.void]) -> tuple[int, bool, bool]:
    """Write the base features of a row to `products`: the features of the batch, and intervals in place of numbers.

    Returns how many there are, whether some found no room, and whether all values are finite and below TOO_LARGE.
    """
    size, room, sound = 0, len(products) - 1, True  # the constant is a feature too
    first, stop = batch.indptr[row], batch.indptr[row + 1]
    for f in range(first, stop):
        if not abs(batch.values[f]) < TOO_LARGE:
            sound = False
        if size == room:
            return size, True, sound
        key = batch.keys[f]
        attribute = batch.attributes[f] if len(batch.attributes) > 0 else key
        number = index_of(cuts.features, key)
        if number >= 0:
            write_product(products, size, interval_of(cuts, number, batch.values[f]), cuts.attributes[number], 1.0)
        else:
            write_product(products, size, key, attribute if attribute != 0 else key, batch.values[f])
        size += 1
    for number in range(len(cuts.features)):
        if cuts.dense[number] == 0 or is_among(batch.keys, first, stop, cuts.features[number]):
            continue
        if size == room:
            return size, True, sound
        write_product(products, size, interval_of(cuts, number, 0.0), cuts.attributes[number], 1.0)
        size += 1
    return size, False, sound


@part
def write_product(products: NDArray[np.void], at: int, key: Key, attribute: Key, value: float) -> None:
    """Write a base feature."""
    product = products[at]
    product["key"] = max(key, U1)  # 0 marks a free slot
    product["attributes"] = attribute
    product["value"] = value
    product["degree"] = 1
    product["last"] = at
    product["rest"] = -1


@part
def interval_of(cuts: NumberCuts, number: int, value: float) -> Key:
    """Return the key of the interval in which the value of a number lies."""
    first = cuts.ends[number - 1] if number > 0 else np.int64(0)
    low, high = first, cuts.ends[number]
    while low < high:
        middle = (low + high) // 2
        if value < cuts.cuts[middle]:
            high = middle
        else:
            low = middle + 1
    return finalize(cuts.features[number] + GOLDEN * np.uint64(low - first + 1))


@part
def is_among(keys: NDArray[np.uint64], first: int, stop: int, key: Key) -> bool:
    """Return whether one of keys[first:stop] is this one."""
    for f in range(first, stop):  # noqa: SIM110  kernels have no generators
        if keys[f] == key:
            return True
    return False


@routine
def index_of(keys: NDArray[np.uint64], key: Key) -> int:
    """Return the index of a key in an ascending array; -1 if it is not there."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low if low < len(keys) and keys[low] == key else -1


@part
def write_products(model: TupleModel, products: NDArray[np.void], base: int) -> tuple[int, bool]:
    """Write the products of products[:base], the base features, behind them.

    Returns the number of products, the base features among them, and whether some found no room. A product whose value
    is 0 or too large, after rounding, is left out.
    """
    settings, room = model.settings, len(products) - 1
    deepest = min(settings.order, model.counts[LEVEL]) if settings.by_level else settings.order
    first, end = 0, base
    for degree in range(2, deepest + 1):
        stop = end
        for at in range(first, stop):
            if settings.by_level and degree == 2 and not is_learned_tuple(model, products, at):
                continue
            for f in range(products[at]["last"] + 1, base):
                if has_attribute(products, at, products[f]["attributes"]):
                    continue
                value = products[at]["value"] * products[f]["value"]
                if not 0.0 < abs(value) < TOO_LARGE:
                    continue
                if end == room:
                    return end, True
                product = products[end]
                product["key"] = max(products[at]["key"] + products[f]["key"], U1)
                product["attributes"] = products[at]["attributes"] + products[f]["attributes"]
                product["value"] = value
                product["degree"] = degree
                product["last"] = f
                product["rest"] = at
                if degree < settings.order and not settings.by_level:
                    end += 1  # the tuple is a part of others, whether it is selected or not
                elif is_learned_tuple(model, products, end):
                    end += 1
        first = stop
    return end, False


@part
def has_attribute(products: NDArray[np.void], at: int, attribute: Key) -> bool:
    """Return whether one of a product's base features is of this attribute."""
    while at >= 0:
        if products[products[at]["last"]]["attributes"] == attribute:
            return True
        at = products[at]["rest"]
    return False


@part
def is_learned_tuple(model: TupleModel, products: NDArray[np.void], at: int) -> bool:
    """Return whether the tuple of a product is selected; or, before its level is, whether it is a candidate."""
    product, level = products[at], model.counts[LEVEL]
    if not model.settings.selects:
        return True
    if product["degree"] < level:
        return index_of(model.chosen, product["attributes"]) >= 0
    if model.settings.by_level and product["degree"] > 1:
        while at >= 0:
            rest = product["attributes"] - products[products[at]["last"]]["attributes"]
            if index_of(model.chosen, rest) < 0:
                return False
            at = products[at]["rest"]
    return True


@part
def is_feature(model: TupleModel, products: NDArray[np.void], at: int) -> bool:
    """Return whether a product is learned: not if it is only a part of others."""
    degree, order = products[at]["degree"], model.settings.order
    if degree == 1 and order == 1:
        return is_learned_tuple(model, products, at)
    return degree in (1, order) or model.settings.by_level


@part
def find_features(model: TupleModel, work: TupleScratch, size: int) -> tuple[int, int]:
    """Write slots and values of the features among products[:size], the constant first.

    Returns how many have a slot, and how many products are missing: `work.missing` has their numbers.
    """
    slots, products = model.slots, work.products
    work.slots[0], work.values[0] = len(slots) - 1, 1.0
    found, missing = 1, 0
    for at in range(size):
        if not is_feature(model, products, at):
            continue
        place = place_of(slots, products[at]["key"])
        if place >= 0 and slots[place]["key"] == products[at]["key"]:
            work.slots[found], work.values[found] = place, products[at]["value"]
            found += 1
        else:
            work.missing[missing] = at
            missing += 1
    return found, missing
