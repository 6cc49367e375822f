"""The tuples of attributes that a model learns from, by the attributes' names: a part of the view of a model."""

from typing import NamedTuple

import numpy as np

from stream_apple.core.codec.feature_names import Names
from stream_apple.learners.apple.factorization import Factors
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.tuple_selection import tuples_in

_VALUE_OF = "="
_UNKNOWN = "?"


class TupleView(NamedTuple):
    """Describes one tuple of attributes.

    attributes  their names, `?` if no example has shown one
    features    how many of its products have a slot
    salience    the sum over its products: |weight| * scale
    """

    attributes: tuple[str, ...]
    features: int
    salience: float


class TuplesView(NamedTuple):
    """Describes the tuples of attributes that a model learns from.

    order     how many attributes each tuple has
    selected  how many were selected, out of `seen`; both are 0 before a selection, and if nothing is left out
    level     the order of the tuples that are being explored; above `order` when all are selected
    top       the most salient ones; only if tuples are selected, as their features are not counted otherwise
    """

    order: int
    selected: int
    seen: int
    level: int
    top: tuple[TupleView, ...]


def view_tuples(learner: Learner, factors: Factors, names: Names, top: int) -> TuplesView | None:
    """Return the tuples that are learned from, with the `top` most salient ones; None if the method is not tuples."""
    if learner.options.method != "tuples":
        return None
    order, selection = int(learner.options.order or 0), learner.selection
    found: tuple[TupleView, ...] = ()
    if selection.selecting:
        found = _most_salient(learner, factors, names, (min(selection.level, order), top))
    return TuplesView(order, len(selection.chosen), selection.seen, selection.level, found)


def _most_salient(learner: Learner, factors: Factors, names: Names, which: tuple[int, int]) -> tuple[TupleView, ...]:
    order, top = which
    table = learner.table
    places, tuples, of_place = tuples_in(table, order)
    slots = table.slots[places]
    salience = np.bincount(of_place, np.abs(slots["weight"]) * slots["scale"], len(tuples))
    features = np.bincount(of_place, minlength=len(tuples))
    first = np.zeros(len(tuples), np.int64)
    first[of_place[::-1]] = np.arange(len(places))[::-1]  # any feature of a tuple has its attributes
    best = np.lexsort((tuples, -salience))[:top]
    return tuple(
        TupleView(
            _attributes_of(int(slots["key"][first[at]]), order, factors, names), int(features[at]), float(salience[at])
        )
        for at in best.tolist()
    )


def _attributes_of(key: int, order: int, factors: Factors, names: Names) -> tuple[str, ...]:
    """Return the names of the attributes whose values a monomial's factors are."""
    product = factors.of(key, order)
    told = [names.get(base) for base in product.bases]
    known = sorted(name.partition(_VALUE_OF)[0] for name in told if name is not None)
    return (*known, *(_UNKNOWN for _ in range(order - len(known))))
