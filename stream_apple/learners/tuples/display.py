"""What is shown of a model: its features with the base features that they are products of."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.splitmix64 import GOLDEN, splitmix64_finalizer
from stream_apple.learners.port import Factor, Findings, Term
from stream_apple.learners.tuples.cuts import NumberCuts
from stream_apple.learners.tuples.model import FeatureSlots, TupleModel

_IN, _MINUS, _INFINITE = "\u2208", "\u2212", "\u221e"
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
    base, intervals = base_keys(model.slots), intervals_of(model.cuts)
    return tuple(
        _term(base, intervals, int(owner["key"]), int(owner["degree"]), float(owner["weight"]), float(value))
        for owner, value in zip(model.slots[places], values, strict=True)
    )


def _term(
    base: NDArray[np.uint64], intervals: dict[int, Factor], key: int, degree: int, weight: float, value: float
) -> Term:
    found = factors_of(base, key, degree)
    factors = sorted(intervals.get(each, Factor(each)) for each in found)
    return Term(tuple(factors), weight, value, unknown=degree - len(found))


def intervals_of(cuts: NumberCuts) -> dict[int, Factor]:
    """Return the intervals of all numbers by key, see `expansion.interval_of`."""
    found: dict[int, Factor] = {}
    ends = [0, *cuts.ends.tolist()]
    for feature, (start, stop) in zip(cuts.features.tolist(), pairwise(ends), strict=True):
        shown = [f"{cut:.6g}".replace("-", _MINUS) for cut in cuts.cuts[start:stop].tolist()]
        bounds = pairwise([f"{_MINUS}{_INFINITE}", *shown, _INFINITE])
        with np.errstate(over="ignore"):
            words = np.uint64(feature) + GOLDEN * np.arange(1, stop - start + 2, dtype=np.uint64)
            keys = splitmix64_finalizer(words).tolist()
        for number, (key, (low, high)) in enumerate(zip(keys, bounds, strict=True)):
            found[key] = Factor(feature, f"{_IN}{'[' if number else '('}{low},{high})")
    return found


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
