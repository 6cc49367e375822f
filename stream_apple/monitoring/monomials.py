"""Names what a learner describes: its features, which are monomials of base features, as far as names are known."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.learners.port import Factor, Term, TermCell, TermTable
from stream_apple.records.message.feature_names import Names

TIMES = " \u00d7 "
"""Separates the names in a product."""
_SUPERSCRIPTS = str.maketrans("0123456789", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")
_UNKNOWN = "?"

ShownCell = str | float | tuple[float, ...] | None


class Monomial(NamedTuple):
    """Describes one monomial of a model.

    name      its factors with TIMES between, powers with superscript digits
    factors   names of its base features; `?` and hex digits for a key without a name, `?` for an unknown key
    scale     the largest value so far
    salience  |weight| * scale: the most that it adds to a score
    weights   its weights in other predictors, by their names
    mark      a word about it, such as "parent"; "" if there is nothing to say
    """

    name: str
    factors: tuple[str, ...]
    degree: int
    weight: float
    scale: float
    salience: float
    weights: dict[str, float]
    mark: str


class ShownTable(NamedTuple):
    """A table that a learner shows, with names of features; see `learners/port.py`."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[ShownCell, ...], ...]
    note: str


class MonomialFormatter:
    """Describes the terms of a learner by name.

    used  keys of the base features of the described terms, with or without a name
    """

    def __init__(self, names: Names) -> None:
        self.used: set[int] = set()
        self._names = names

    @property
    def known(self) -> NDArray[np.uint64]:
        """Return the keys of all base features whose names are known."""
        return np.fromiter(self._names.known(), np.uint64)

    @property
    def share_named(self) -> float:
        """Return the share of the base features in `used` that have a name."""
        named = sum(self._names.get(key) is not None for key in self.used)
        return named / len(self.used) if self.used else 1.0

    def name(self, term: Term) -> str:
        """Return the name of a term."""
        return name_of(self._factors(term))

    def monomial(self, term: Term, predictors: Sequence[str]) -> Monomial:
        """Return a term by name; `predictors` are the names of those whose weights it has."""
        factors = self._factors(term)
        return Monomial(
            name=name_of(factors),
            factors=factors,
            degree=len(factors),
            weight=term.weight,
            scale=term.value,
            salience=term.salience,
            weights=dict(zip(predictors, term.weights, strict=False)),
            mark=term.mark,
        )

    def table(self, table: TermTable) -> ShownTable:
        """Return a table by name."""
        rows = tuple(tuple(map(self._cell, row)) for row in table.rows)
        return ShownTable(table.title, table.columns, rows, table.note)

    def _cell(self, cell: TermCell) -> ShownCell:
        return self.name(cell) if isinstance(cell, Term) else cell

    def _factors(self, term: Term) -> tuple[str, ...]:
        return tuple(self._named(term.factors, term.unknown))

    def _named(self, factors: Sequence[Factor], unknown: int) -> Iterator[str]:
        named, unnamed = [], []
        for key, ending in factors:
            self.used.add(key)
            name = self._names.get(key)
            if name is None:
                unnamed.append(f"{_UNKNOWN}{key:016x}{ending}")
            else:
                named.append(name + ending)
        yield from sorted(named)
        yield from unnamed
        yield from (_UNKNOWN for _ in range(unknown))


def name_of(factors: Sequence[str]) -> str:
    """Return the text of a product: `device=phone`, `country=de`, `country=de` is `device=phone x country=de^2`."""
    powers = Counter(factors)
    unknown = powers.pop(_UNKNOWN, 0)
    told = [name if power == 1 else name + str(power).translate(_SUPERSCRIPTS) for name, power in powers.items()]
    return TIMES.join((*told, *(_UNKNOWN for _ in range(unknown))))
