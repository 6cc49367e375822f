"""An epoch's end: the heaviest monomials become parents (Agarwal et al. 2014, section 2.2, line 8 of Algorithm 1)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.expansion import EXAMPLES, NONZEROS
from stream_apple.core.table import Table
from stream_apple.core.update import Totals

LEAST_SALIENCE = 1e-9  # monomials of no weight are no parents (as in Vowpal Wabbit)


class Growth(NamedTuple):
    """What an epoch's end changed.

    added      how many monomials became parents
    parents    int64[degrees]  parents by degree, from degree 0 (the constant: always one)
    """

    added: int
    parents: NDArray[np.int64]


def grow(table: Table, totals: Totals, alpha: float, max_degree: int) -> Growth:
    """Make the floor(s^alpha) most salient monomials parents; s is the mean number of non-zeros of an example.

    Salience is |weight| * scale: what the monomial adds to a score at its largest, whatever its unit. Ties go to the
    smaller key, which, unlike the slot, does not depend on the history of the table. A parent stays one.
    """
    examples, nonzeros = totals.counts[EXAMPLES], totals.counts[NONZEROS]
    wanted = int((nonzeros / examples) ** alpha) if examples else 0
    slots = table.slots[:-1]
    salience = np.abs(slots["weight"]) * slots["scale"]
    salience[(slots["parent"] == 1) | (slots["degree"] >= max_degree) | ~(salience > LEAST_SALIENCE)] = 0
    candidates = np.flatnonzero(salience)
    if 0 < wanted < len(candidates):
        threshold = np.partition(salience[candidates], -wanted)[-wanted]
        candidates = candidates[salience[candidates] >= threshold]
    order = np.lexsort((slots["key"][candidates], -salience[candidates]))
    chosen = candidates[order[:wanted]]
    slots["parent"][chosen] = 1
    return Growth(len(chosen), parents_by_degree(table))


def parents_by_degree(table: Table) -> NDArray[np.int64]:
    """How many parents have degree 0 (the constant), 1, 2, ...: int64[highest degree + 1]."""
    return _by_degree(table, table.slots["parent"] == 1)


def monomials_by_degree(table: Table) -> NDArray[np.int64]:
    """How many monomials of degree 0 (the constant), 1, 2, ... have a slot: int64[highest degree + 1]."""
    return _by_degree(table, table.slots["key"] != 0)


def _by_degree(table: Table, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count the chosen slots by degree, and the constant, which is in the last slot, as the one of degree 0."""
    counts = np.bincount(table.slots["degree"][:-1][chosen[:-1]], minlength=1)
    counts[0] = 1
    return counts
