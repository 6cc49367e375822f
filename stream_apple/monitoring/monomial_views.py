"""Describes monomials by the names of their features, as far as those are known."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.codec.feature_names import Names
from stream_apple.learners.apple.factorization import Factors, Product
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.preparation.splines import Splines, hat_keys
from stream_apple.learners.apple.state.table import PARENT

TIMES = " \u00d7 "
"""Separates the names in a product."""
_SUPERSCRIPTS = str.maketrans("0123456789", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")
_UNKNOWN = "?"
_LOOKUPS = 1 << 22
"""How many children are looked up for one view, in some tenths of a second; the heaviest parents come first."""


class Monomial(NamedTuple):
    """Describes one monomial of a model.

    name           its factors with TIMES between, powers with superscript digits
    factors        names of its base features; `?` and hex digits for a key without a name, `?` for an unknown key
    key            16 hex digits
    salience       |weight| * scale: the most that it adds to a score
    linear_weight  its weight in the linear predictor: 0 for products
    parent         whether it is a parent now
    """

    name: str
    factors: tuple[str, ...]
    key: str
    degree: int
    weight: float
    scale: float
    salience: float
    linear_weight: float
    parent: bool


class Parent(NamedTuple):
    """Describes a parent and its children, which are its products with base features.

    children  how many have a slot
    gain      the sum of their salience
    heaviest  the name of the most salient child, empty if there is none
    """

    name: str
    degree: int
    salience: float
    children: int
    gain: float
    heaviest: str


class SplineView(NamedTuple):
    """Describes a feature that has a spline.

    points    ascending
    dense     whether its value is centered, and an example without the feature means the value 0
    salience  the sum over its hats
    """

    name: str
    points: tuple[float, ...]
    dense: bool
    salience: float


class MonomialFormatter:
    """Describes the monomials of a learner by their slots.

    salience  float32[slots without the constant's]: |weight| * scale, 0 where a slot is empty
    factors   of the monomials
    used      keys of the base features of the described monomials, with or without a name
    """

    def __init__(self, learner: Learner, names: Names) -> None:
        slots = learner.table.slots
        self.salience = np.abs(slots["weight"][:-1]) * slots["scale"][:-1]
        self.salience[slots["key"][:-1] == 0] = 0.0
        self.factors = Factors(learner.table, np.fromiter(names.known(), np.uint64))
        self.used: set[int] = set()
        self._described: dict[int, Monomial] = {}
        self._slots = slots
        self._names = names
        self._derived = learner.preparation.derived_names()

    @property
    def share_named(self) -> float:
        """Return the share of the base features in `used` that have a name."""
        named = sum(self._names.get(key) is not None for key in self.used)
        return named / len(self.used) if self.used else 1.0

    def monomial(self, at: int) -> Monomial:
        """Return the monomial in slot `at`, the same at every call."""
        if at not in self._described:
            self._described[at] = self._describe(at)
        return self._described[at]

    def _describe(self, at: int) -> Monomial:
        slot = self._slots[at]
        factors = tuple(self._named(self.factors.of(int(slot["key"]), int(slot["degree"]))))
        return Monomial(
            name=name_of(factors),
            factors=factors,
            key=f"{int(slot['key']):016x}",
            degree=int(slot["degree"]),
            weight=float(slot["weight"]),
            scale=float(slot["scale"]),
            salience=abs(float(slot["weight"])) * float(slot["scale"]),
            linear_weight=float(slot["linear_weight"]) if slot["degree"] <= 1 else 0.0,
            parent=bool(slot["parent"] & PARENT),
        )

    def parents(self, candidates: NDArray[np.int64], top: int) -> tuple[tuple[Parent, ...], int]:
        """Return the `top` with most gain, and how many were examined, which are the first of `candidates`."""
        examined = candidates[: max(_LOOKUPS // max(len(self.factors.bases), 1), 1)]
        offspring = [(self.factors.offspring(int(self._slots["key"][at])), int(at)) for at in examined]
        offspring.sort(key=lambda pair: -pair[0].salience)
        return tuple(
            Parent(
                name=self.monomial(at).name,
                degree=int(self._slots["degree"][at]),
                salience=float(self.salience[at]),
                children=found.children,
                gain=found.salience,
                heaviest="" if found.best < 0 else self.monomial(found.best).name,
            )
            for found, at in offspring[:top]
        ), len(examined)

    def splines(self, splines: Splines, top: int) -> tuple[SplineView, ...]:
        """Return the `top` splines with most salience, and of equals the smaller key first."""
        base = np.flatnonzero(self._slots["degree"][:-1] == 1)
        base = base[np.argsort(self._slots["key"][base])]
        keys, salience = self._slots["key"][base], self.salience[base]
        found = []
        for feature, points, dense in zip(
            splines.features.tolist(), splines.points_of_each(), splines.dense.tolist(), strict=True
        ):
            if len(points):  # else it is only centered so far
                own = float(salience[np.isin(keys, hat_keys(feature, points))].sum())
                found.append((-own, feature, tuple(points.tolist()), bool(dense)))
        return tuple(
            SplineView(self._name_of(feature), points, dense, -own)
            for own, feature, points, dense in sorted(found)[:top]
        )

    def _name_of(self, feature: int) -> str:
        """Return the name of a base feature, or what stands for it."""
        self.used.add(feature)
        return self._names.get(feature) or f"{_UNKNOWN}{feature:016x}"

    def _named(self, product: Product) -> Iterator[str]:
        named, unnamed = [], []
        for key in product.bases:
            feature, ending = self._derived.get(key, (key, ""))
            self.used.add(feature)
            name = self._names.get(feature)
            if name is None:
                unnamed.append(f"?{feature:016x}{ending}")
            else:
                named.append(name + ending)
        yield from sorted(named)
        yield from unnamed
        yield from (_UNKNOWN for _ in range(product.unknown))


def name_of(factors: Sequence[str]) -> str:
    """Return the text of a product: `device=phone`, `country=de`, `country=de` is `device=phone x country=de^2`."""
    powers = Counter(factors)
    unknown = powers.pop(_UNKNOWN, 0)
    told = [name if power == 1 else name + str(power).translate(_SUPERSCRIPTS) for name, power in powers.items()]
    return TIMES.join((*told, *(_UNKNOWN for _ in range(unknown))))
