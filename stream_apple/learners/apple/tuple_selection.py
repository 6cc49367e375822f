"""Tuple selection: an epoch's end keeps the tuples of attributes that say most about the label.

Zaidi, Petitjean, Webb: sALR^n selects among all tuples of n attributes; hsALR^n attribute by attribute, level by level.
They make passes to count, and then learn. A stream is counted and learned at once, and epochs' ends select:

- All tuples have features until an epoch ends after FEWEST_EXAMPLES.
- Then the best share of the tuples seen is kept. The features of the others lose their slots, and never come back.
- A tuple with an attribute that came later has features until an epoch ends; then the best share of all tuples ever
  seen is kept, of the old ones and the new.
- Level by level, each level takes FEWEST_EXAMPLES, and a tuple of one attribute more has features if all smaller tuples
  were selected. The tuples selected at lower levels stay. Attributes that come later join no tuple.

The score of a tuple by mi is its mutual information with the label, in nats, from raw counts: the sum over its features
F and over y of P(F, y) * log(P(F, y) / (P(F) * P(y))). Examples that have none of its features in the table, because an
attribute is absent or a feature was evicted, count as one more value. The score by cv is that of `kernels/ablation.py`.
Ties go to the smaller key.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.named_arrays import check_kinds
from stream_apple.learners.apple.kernels.tuple_expansion import set_of
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.state.model import EXAMPLES, LEVEL, OCCUPIED, SEEN, SINCE, ModelScalars, Tuples
from stream_apple.learners.apple.state.table import Table, Words, free_slots

FEWEST_EXAMPLES = 1000  # from which a selection is made: the counts of fewer say little
MOST_TUPLES = 1 << 15  # selected tuples, and as many known attributes: snapshots keep them in one message
_NAMES = ("tuples_chosen", "tuples_known", "tuples_state")


class SelectionEnd(NamedTuple):
    """What an epoch's end selected: how many tuples are newly kept, and how many were left out."""

    kept: int
    left_out: int


class TupleSelection:
    """The tuples selected so far: part of a learner's state.

    chosen       uint64[k], ascending: keys of the tuples
    known        uint64[a], ascending: keys of attributes
    fewest       the least number of examples from which a selection is made
    kernel_view  the same sets as hash sets, for kernels
    """

    def __init__(self, options: Options) -> None:
        self._share = options.selection_share
        self._order = int(options.order or 0)
        # Without a selection all levels are learned at once.
        self.by_level = options.hierarchical and options.selects_tuples
        self._ablating = options.selection == "cv"
        self.selecting = options.selects_tuples
        self.fewest = FEWEST_EXAMPLES
        self.chosen = np.zeros(0, np.uint64)
        self.known = np.zeros(0, np.uint64)
        self._state = np.zeros(3, np.int64)
        self._state[LEVEL] = 1 if self.by_level else self._order
        self._view()

    def _view(self) -> None:
        self.kernel_view = Tuples(set_of(self.chosen), set_of(self.known), self._state)

    @property
    def level(self) -> int:
        """The order of the tuples that are being explored; one above the last order when all are selected."""
        return int(self._state[LEVEL])

    @property
    def seen(self) -> int:
        """How many tuples the last selection chose from."""
        return int(self._state[SEEN])

    @property
    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The state by name, empty if nothing is ever left out; the first two arrays are replaced on change."""
        return dict(zip(_NAMES, (self.chosen, self.known, self._state), strict=True)) if self.selecting else {}

    def restore(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the arrays of another selection; ValueError if they are none."""
        check_kinds(self.arrays, arrays)
        if not self.selecting:
            return
        chosen, known, state = (arrays[name] for name in _NAMES)
        if len(state) != len(self._state) or max(len(chosen), len(known)) > MOST_TUPLES:
            raise ValueError(f"tuples: expected at most {MOST_TUPLES:,}, found {len(chosen):,} and {len(known):,}")
        self.chosen, self.known = chosen.astype(np.uint64), known.astype(np.uint64)
        self._state[:] = state
        self._view()

    def end_epoch(self, table: Table, scalars: ModelScalars) -> SelectionEnd:
        """Select tuples, if enough examples were counted, and free the slots of those left out."""
        examples = int(scalars.counts[EXAMPLES])
        decided = self.level > self._order
        if not self.selecting or (decided and self.by_level) or examples - self._state[SINCE] < self.fewest:
            return SelectionEnd(0, 0)
        totals = table.counts[-1]
        if not self._ablating and not (totals["positive"] > 0.0 and totals["negative"] > 0.0):
            return SelectionEnd(0, 0)  # with one class alone no tuple says anything
        level = min(self.level, self._order)
        places, tuples, of_place = tuples_in(table, level)
        if not len(tuples):
            return SelectionEnd(0, 0)
        before = np.isin(tuples, self.chosen)
        fresh = int(np.count_nonzero(~before))
        seen = fresh + (self.seen if decided else 0)
        if self._ablating:
            scores = _sums(of_place, table.ablations[places], len(tuples))
        else:
            scores = information_about(table, places, of_place, len(tuples))
        room = MOST_TUPLES - (len(self.chosen) if self.by_level else 0)
        best = np.lexsort((tuples, -scores))[: min(max(int(np.ceil(self._share * seen)), 1), room)]
        kept = np.zeros(len(tuples), np.bool_)
        kept[best] = True
        if level > 1:
            left_out = places[~kept[of_place]]
            free_slots(table, left_out)
            scalars.counts[OCCUPIED] -= len(left_out)
        chosen = tuples[kept]
        self.chosen = np.union1d(self.chosen, chosen) if self.by_level else chosen
        attributes = np.unique(table.counts["attributes"][:-1][_of_degree(table, 1)])
        self.known = attributes[:MOST_TUPLES]
        self._state[:] = level + 1, seen, examples
        if self._ablating:
            table.ablations[:] = 0.0  # each selection goes by its own examples
        self._view()
        return SelectionEnd(int(np.count_nonzero(kept & ~before)), int(np.count_nonzero(~kept)))


def _of_degree(table: Table, degree: int) -> NDArray[np.int64]:
    """Return the slots of the monomials of this degree, int64[n]."""
    slots = table.slots[:-1]
    return np.flatnonzero((slots["degree"] == degree) & (slots["key"] != 0))


def tuples_in(table: Table, order: int) -> tuple[NDArray[np.int64], Words, NDArray[np.int64]]:
    """Return the slots of the features of this order, the keys of their tuples, and which tuple each feature is of.

    The keys are distinct and ascending; the last are indices of keys, one a slot.
    """
    places = _of_degree(table, order)
    tuples, of_place = np.unique(table.counts["attributes"][places], return_inverse=True)
    return places, tuples, of_place.ravel()


def information_about(
    table: Table, places: NDArray[np.int64], of_place: NDArray[np.int64], count: int
) -> NDArray[np.float64]:
    """Return the mutual information of each tuple and the label, float64[count], in nats; see the module."""
    counts, totals = table.counts[places], table.counts[-1]
    of_class = np.array([totals["positive"], totals["negative"]])
    seen = np.stack([counts["positive"], counts["negative"]])
    have = np.stack([_sums(of_place, each, count) for each in seen])
    # An example may have several features of a tuple, so features may outnumber examples.
    rest = np.maximum(of_class[:, None] - have, 0.0)
    return _sums(of_place, _summands(seen, of_class), count) + _summands(rest, of_class)


def _summands(seen: NDArray[np.float64], of_class: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return P(F) * KL(P(Y | F) || P(Y)) >= 0 for counts by class, float64[2, n], as float64[n]."""
    of_all = of_class.sum()
    both = seen.sum(axis=0)
    shares = np.divide(seen, both, out=np.zeros_like(seen), where=both > 0.0)
    # A class of less weight is left out, as its ratios might overflow.
    prior = np.broadcast_to((of_class / of_all)[:, None], shares.shape)
    ratios = np.divide(shares, prior, out=np.zeros_like(shares), where=prior >= np.finfo(np.float64).tiny)
    logs = np.log(ratios, out=np.zeros_like(ratios), where=ratios > 0.0)
    summands: NDArray[np.float64] = np.maximum((seen / of_all * logs).sum(axis=0), 0.0)
    return summands


def _sums(of_place: NDArray[np.int64], values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return the sum of the values of each tuple's features, float64[count]."""
    found: NDArray[np.float64] = np.bincount(of_place, values, count).astype(np.float64)
    return found
