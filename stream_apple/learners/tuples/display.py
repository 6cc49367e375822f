"""What is shown of a model: its features with the base features that they are products of."""

import numpy as np
from numpy.typing import NDArray

from stream_apple.learners.port import Factor, Findings, Term
from stream_apple.learners.tuples.model import FeatureSlots, TupleModel

MOST_BASE = 4096
"""The most base features among which the factors of products of more than two are searched."""


def heaviest_features(model: TupleModel, most: int) -> Findings:
    """Return the features, and the tuples, with the largest |weight| times scale, at most `most` of each."""
    slots = model.slots[:-1]
    sizes = np.abs(slots["weight"].astype(np.float64) * slots["scale"])
    order = np.lexsort((slots["key"], -sizes))
    order = order[sizes[order] > 0.0]
    heaviest, tuples = order[:most], order[slots["degree"][order] > 1][:most]
    return Findings(
        terms_of(model, heaviest, slots["scale"][heaviest]), terms_of(model, tuples, slots["scale"][tuples])
    )


def terms_of(model: TupleModel, places: NDArray[np.int64], values: NDArray[np.float32]) -> tuple[Term, ...]:
    """Return the features in these slots, with these values."""
    base = base_keys(model.slots)
    return tuple(
        _term(base, int(owner["key"]), int(owner["degree"]), float(owner["weight"]), float(value))
        for owner, value in zip(model.slots[places], values, strict=True)
    )


def _term(base: NDArray[np.uint64], key: int, degree: int, weight: float, value: float) -> Term:
    found = factors_of(base, key, degree)
    return Term(tuple(map(Factor, found)), weight, value, unknown=degree - len(found))


def base_keys(slots: FeatureSlots) -> NDArray[np.uint64]:
    """Return the keys of the base features, ascending."""
    return np.sort(slots["key"][slots["degree"] == 1])


def factors_of(base: NDArray[np.uint64], key: int, degree: int) -> tuple[int, ...]:
    """Return the keys of the base features whose sum is this key, ascending; () if they can't be found.

    Keys are hashes of 64 bits, so other sums of two or three known keys are hardly ever the same.
    """
    if degree < 2:
        return (key,) * degree
    rests = np.uint64(key) - base
    if degree == 2:
        places = np.minimum(np.searchsorted(base, rests), max(len(base) - 1, 0))
        matching = np.flatnonzero(base[places] == rests)
        return tuple(sorted((int(base[matching[0]]), int(rests[matching[0]])))) if len(matching) else ()
    for rest in rests.tolist() if len(base) <= MOST_BASE else ():
        if len(found := factors_of(base, rest, degree - 1)):
            return tuple(sorted((*found, (key - rest) % 2**64)))
    return ()
