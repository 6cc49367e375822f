"""Freeing slots of base features that no example will have again, and of their products.

Eviction would not remove these: it takes the least useful first, and their weights, which nothing changes any
more, stay as large as they were. A key is a sum, so a slot does not tell which factors its monomial has. But products
are found again as the expansion found them: products of these features with parents, and of parents among those with
base features. Products of former parents are not found, nor those beyond MOST_LOOKUPS: they wait to be evicted.
"""

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel, routine
from stream_apple.learners.apple.state.model import OCCUPIED, LearningRule, ModelScalars
from stream_apple.learners.apple.state.table import FREE, Table, Words, find, free_slots

MOST_LOOKUPS = 1 << 24
"""Lookups of products in one call: they take a second if no slot is in a cache."""


def forget_features(table: Table, scalars: ModelScalars, rule: LearningRule, gone: Words) -> int:
    """Free the slots of base features, uint64[n] keys, and of their products; return how many."""
    slots = table.slots[:-1]
    base = (slots["degree"] == 1) & (slots["key"] != 0)
    bases = slots["key"][base]
    partners = slots["key"][base if rule.expansion.exhaustive else slots["parent"] != 0]
    found = np.empty(np.count_nonzero(slots["key"]), np.int64)
    with np.errstate(over="ignore"):  # keys are added mod 2^64; only interpreted code would tell
        policy = (rule.expansion.exhaustive, rule.expansion.max_degree, MOST_LOOKUPS)
        count = _find_products(table, gone, (bases, partners), policy, found)
    free_slots(table, found[:count])
    scalars.counts[OCCUPIED] -= count
    return int(count)


@kernel
def _find_products(
    table: Table, gone: Words, factors: tuple[Words, Words], policy: tuple[bool, int, int], found: NDArray[np.int64]
) -> int:
    """Write the slots of the features `gone`, and of their products, to `found`; return how many.

    factors  the keys of base features; and the keys of monomials that base features are multiplied with
    policy   whether all monomials below the highest degree are multiplied; that degree; the most lookups
    """
    bases, partners = factors
    exhaustive, max_degree, most = policy
    slots, count, lookups = table.slots, 0, 0
    for key in gone:
        count = _add(table, key, found, count)
    for key in gone:
        if lookups >= most:
            break
        lookups += len(partners)
        for partner in partners:
            count = _add(table, np.uint64(key + partner), found, count)
    at = 0
    while at < count and lookups < most:
        owner = slots[found[at]]
        at += 1
        if owner["degree"] >= max_degree or not (exhaustive or owner["parent"] != 0):
            continue
        lookups += len(bases)
        for base in bases:
            count = _add(table, np.uint64(owner["key"] + base), found, count)
    for n in range(count):
        slots[found[n]]["active"] = 0
    return count


@routine
def _add(table: Table, key: np.uint64, found: NDArray[np.int64], count: int) -> int:
    """Append the key's slot to `found`, if it has one that is not in it yet; return how many there are."""
    place = find(table, key)
    if place >= FREE or key == 0 or table.slots[place]["active"] != 0:
        return count
    table.slots[place]["active"] = 1
    found[count] = place
    return count + 1
