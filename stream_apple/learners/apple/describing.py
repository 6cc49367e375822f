"""What a model shows of its table: its heaviest monomials, its parents, and the splines of numbers.

Another thread may make it of a live model, without a lock: the arrays stay where they are, and it does no harm in a
display if one number is a moment older than another. So being watched costs the loop nothing.
"""

import numpy as np
from numpy.typing import NDArray

from stream_apple.learners.apple.factorization import Factors, Keys
from stream_apple.learners.apple.preparation.preparation import Preparation
from stream_apple.learners.apple.preparation.splines import hat_keys
from stream_apple.learners.apple.state.table import PARENT, Table
from stream_apple.learners.port import NO_KEYS, Factor, Findings, Term, TermCell, TermTable

_LOOKUPS = 1 << 22
"""How many children are looked up for one display, in some tenths of a second; the heaviest parents come first."""
_DENSE, _SPARSE = "the centered value; 0 where it is absent", "the value"
"""What is learned of a number besides its hats."""


class Monomials:
    """Describes the monomials of a table by their slots.

    salience  float32[slots without the constant's]: |weight| * scale, 0 where a slot is empty
    """

    def __init__(self, table: Table, preparation: Preparation, known: Keys = NO_KEYS) -> None:
        slots = table.slots
        self.salience = np.abs(slots["weight"][:-1]) * slots["scale"][:-1]
        self.salience[slots["key"][:-1] == 0] = 0.0
        self.factors = Factors(table, known)
        self._slots, self._companions = slots, table.companions
        self._preparation = preparation
        self._derived = preparation.derived_names()

    def factors_at(self, place: int) -> tuple[tuple[Factor, ...], int]:
        """Return the factors of the monomial in a slot, ascending, and how many more are not known."""
        if place == len(self._slots) - 1:
            return (), 0
        product = self.factors.of(int(self._slots["key"][place]), int(self._slots["degree"][place]))
        return tuple(sorted(map(self._factor, product.bases))), product.unknown

    def term(self, place: int) -> Term:
        """Return the monomial in a slot, with its weight in the linear predictor, which is 0 for products."""
        slot = self._slots[place]
        factors, unknown = self.factors_at(place)
        linear = float(self._companions["linear_weight"][place]) if len(self._companions) else 0.0
        mark = "parent" if slot["parent"] & PARENT else ""
        return Term(factors, float(slot["weight"]), float(slot["scale"]), unknown, (linear,), mark)

    def heaviest(self, salience: NDArray[np.float32], most: int) -> tuple[Term, ...]:
        """Return the `most` monomials of the largest saliences above 0, and of equals the lower slot first."""
        most = min(most, len(salience))
        found = np.argpartition(salience, -most)[-most:] if 0 < most < len(salience) else np.arange(len(salience))
        found = found[salience[found] > 0]
        return tuple(self.term(place) for place in found[np.lexsort((found, -salience[found]))][:most].tolist())

    def products(self) -> NDArray[np.float32]:
        """Return the salience of products, and 0 of all other slots."""
        return np.where(self._slots["degree"][:-1] > 1, self.salience, np.float32(0.0))

    def parents(self, most: int) -> TermTable:
        """Return the `most` parents whose children, their products with base features, add most to scores."""
        slots = self._slots
        found = np.flatnonzero(((slots["parent"][:-1] & PARENT) != 0) & (slots["key"][:-1] != 0))
        found = found[np.lexsort((slots["key"][found], -self.salience[found]))]
        examined = found[: max(_LOOKUPS // max(len(self.factors.bases), 1), 1)].tolist()
        offspring = [(self.factors.offspring(int(slots["key"][place])), place) for place in examined]
        offspring.sort(key=lambda pair: -pair[0].salience)
        rows: list[tuple[TermCell, ...]] = [
            (
                self.term(place),
                own.children,
                own.salience,
                float(self.salience[place]),
                None if own.best < 0 else self.term(own.best),
            )
            for own, place in offspring[:most]
        ]
        return TermTable(
            "Parents, by what their children add",
            ("parent", "children", "gain", "salience", "heaviest child"),
            tuple(rows),
            f"The gain is the sum of the children's salience. {len(examined):,} of {len(found):,} parents examined.",
        )

    def splines(self, most: int) -> TermTable:
        """Return the `most` numbers whose hats have most salience in sum, and of equals the smaller key first."""
        splines = self._preparation.splines
        base = np.flatnonzero(self._slots["degree"][:-1] == 1)
        base = base[np.argsort(self._slots["key"][base])]
        keys, salience = self._slots["key"][base], self.salience[base]
        found = []
        fields = splines.features.tolist(), splines.points_of_each(), splines.dense.tolist()
        for feature, points, dense in zip(*fields, strict=True):
            if len(points):  # else it is only centered so far
                own = float(salience[np.isin(keys, hat_keys(feature, points))].sum())
                found.append((-own, feature, tuple(points.tolist()), _DENSE if dense else _SPARSE))
        found.sort()
        return TermTable(
            "Numbers as splines",
            ("number", "salience", "points", "besides"),
            tuple(
                (Term((Factor(feature),), 0.0, 0.0), -own, points, besides)
                for own, feature, points, besides in found[:most]
            ),
            f"{len(found):,} numbers have splines; those that can move a prediction most come first.",
        )

    def _factor(self, key: int) -> Factor:
        return self._derived.get(key) or Factor(key)


def findings_of(table: Table, preparation: Preparation, most: int, known: Keys) -> Findings:
    """Return what a model has found, at most `most` of each kind; see `learners/port.py`."""
    monomials = Monomials(table, preparation, known)
    return Findings(
        monomials.heaviest(monomials.salience, most),
        monomials.heaviest(monomials.products(), most),
        ("linear",),
        tuple(each for each in (monomials.parents(most), monomials.splines(most)) if each.rows),
    )
