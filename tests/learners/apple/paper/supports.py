"""The support of a learner, followed by name: which monomials are features, told from parents alone."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import numpy as np
from learners.apple.test_learner import monomial_key

from stream_apple.learners.apple.learner import Learner

Monomial = tuple[str, ...]  # sorted names, with repetition


def monomials_of(base: Mapping[str, float], parents: AbstractSet[Monomial]) -> dict[Monomial, float]:
    """The constant, the base features, and the products of the parents that the example has with each of these."""
    values: dict[Monomial, float] = {(): 1.0}
    queue: list[Monomial] = [()]
    while queue:
        parent = queue.pop()
        for name, value in base.items():
            child = tuple(sorted((*parent, name)))
            if child not in values:
                values[child] = values[parent] * value
                if child in parents:
                    queue.append(child)
    return values


def parents_of(learner: Learner, known: AbstractSet[Monomial]) -> set[Monomial]:
    """Those of the known monomials that are parents; all that are must be known."""
    slots = learner.slots()
    keys = set(slots["key"][(slots["parent"] & 1) != 0].tolist())
    found = {monomial for monomial in known if monomial and monomial_key(monomial) in keys}
    assert len(found) == len(keys)
    return found


def column_of(learner: Learner, field: str) -> dict[int, float]:
    """Key -> a field of its slot, of all monomials that have one; the constant's key is 0."""
    slots = learner.slots()
    taken = np.flatnonzero((slots["key"] != 0) | (np.arange(len(slots)) == len(slots) - 1))
    return dict(zip(slots["key"][taken].tolist(), slots[field][taken].tolist(), strict=True))
