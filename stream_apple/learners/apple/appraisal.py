"""What parents cost and contribute, and what candidates would cost, measured on the latest examples.

A feature of an example belongs to the parent through which it is reached first. A parent earns the sum of its features'
contributions to the averaged score, in absolute value. It costs all of its products with base features, since each is
looked up, whether it is a feature or not.

Most growths find room for all candidates, and no parent has to go; then it does not matter what parents earn. Lists of
each example's parents show that quickly: most of them are still valid since the growth before.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel
from stream_apple.learners.apple.kernels.credits import Credits, SlotIndex, empty_slot_index, index_slots, position_of
from stream_apple.learners.apple.kernels.expansion import expand
from stream_apple.learners.apple.kernels.parent_lists import (
    ParentLists,
    Sightings,
    carry_over,
    empty_parent_lists,
    empty_sightings,
    filter_of,
    list_expanded,
    see_candidates,
)
from stream_apple.learners.apple.state.model import Model, Recent
from stream_apple.learners.apple.state.recent import first_of_half, recent_example, recent_place
from stream_apple.learners.apple.state.table import U1, Table
from stream_apple.learners.apple.state.work import Work

Places = NDArray[np.int64]
Means = NDArray[np.float64]

_NONE: Places = np.zeros(0, np.int64)
_SURELY = 1 - 1e-9  # of the budget, so that no rounding makes a difference


class Appraisal(NamedTuple):
    """Means over the latest examples.

    products  how many products an example looks up, its base features included
    nonzeros  how many base features an example has
    cost      float64[parents]  how many of the products are those of the parent
    earned    float64[parents]  the sum of |average weight * value| over the parent's features
    presence  float64[candidates]  the share of examples that have the monomial
    """

    examples: int
    products: float
    nonzeros: float
    cost: Means
    earned: Means
    presence: Means


class _Lists(NamedTuple):
    """The lists that a kernel reads and writes.

    lists  those of the last growth, and those that the kernel writes
    seen   which recent examples have a candidate of the last growth
    known  int64[2]  how many examples of each half have a list
    """

    lists: tuple[ParentLists, ParentLists]
    seen: Sightings
    known: NDArray[np.int64]


class Appraiser:
    """Appraises parents on the latest examples of one model. What it remembers saves time and changes no result.

    Each growth calls `all_fit`, then `appraise` unless all fit, then `changed`.
    """

    def __init__(self) -> None:
        self._lists = empty_parent_lists(), empty_parent_lists()
        self._seen = empty_sightings()
        self._recent: Recent | None = None  # a copy of the examples that the lists belong to
        self._parents: tuple[NDArray[np.generic], ...] = ()
        self._current = False

    def all_fit(self, model: Model, work: Work, parents: Places, candidates: Places, budget: int) -> bool:
        """Return whether an example surely has at most `budget` products in the mean, those of candidates included.

        `parents` and `candidates` are slots; the parents are in ascending order.
        """
        self._current, known = False, self._known(model.recent)
        if not known.any() or not self._are_known(model.table, parents):
            return False
        totals = self._look(model, work, known, _NONE, _NONE)[0]
        if not self._current or not self._see(model, candidates):
            return False
        examples, products, nonzeros = totals.tolist()
        more = int(self._seen.filled[0]) * nonzeros / examples
        return bool((products + more) / examples <= budget * _SURELY)

    def appraise(self, model: Model, work: Work, parents: Places, candidates: Places) -> Appraisal:
        """Return the appraisal of these parents and candidates, which are slots in any order."""
        self._seen.filled[0] = 0
        totals, cost, earned, presence = self._look(model, work, np.zeros(2, np.int64), parents, candidates)
        examples = max(totals[0], 1.0)
        means = (sums[:-1] / examples for sums in (cost, earned, presence))
        return Appraisal(int(totals[0]), totals[1] / examples, totals[2] / examples, *means)

    def changed(self, model: Model, parents: Places, retired: Places, chosen: Places) -> None:
        """Remember the parents after a growth: `parents` without `retired`, and with `chosen`."""
        known = self._current and not len(retired) and (self._seen.filled[0] > 0 or self._see(model, chosen))
        self._parents = _described(model.table, np.sort(np.concatenate([parents, chosen]))) if known else ()

    def _are_known(self, table: Table, parents: Places) -> bool:
        """Return whether these are the parents that `changed` has remembered."""
        return len(self._parents) > 0 and all(map(np.array_equal, self._parents, _described(table, parents)))

    def _known(self, recent: Recent) -> NDArray[np.int64]:
        """Return how many examples of each half were recent at the last growth already."""
        known, before = np.zeros(2, np.int64), self._recent
        if before is None:
            return known
        for half, (count, now) in enumerate(zip(before.counts, recent.counts, strict=True)):
            if count <= now and all(
                map(np.array_equal, first_of_half(before, half, count), first_of_half(recent, half, count))
            ):
                known[half] = count
        return known

    def _look(
        self, model: Model, work: Work, known: NDArray[np.int64], parents: Places, candidates: Places
    ) -> tuple[Means, Means, Means, Means]:
        """Return totals, cost, earned and presence; examples whose list is known count in the totals alone."""
        cost, presence, totals = np.zeros(len(parents) + 1), np.zeros(len(candidates) + 1), np.zeros(3)
        nodes, listed = np.empty(len(work.nodes), np.uint64), np.zeros(1, np.uint64)
        earners = Credits(empty_slot_index(len(parents)), nodes, listed, np.zeros(len(parents) + 1))
        asked = empty_slot_index(len(candidates))
        before, lists = self._lists
        lists.end[0] = 0
        handed = _Lists(self._lists, self._seen, known)
        _appraise_recent(model, work, (parents, candidates), earners, asked, (cost, presence), totals, handed)
        self._current = bool(lists.end[0] >= 0)
        if self._current:
            self._lists = lists, before
            self._recent = Recent._make(array.copy() for array in model.recent)
        return totals, cost, earners.earned, presence

    def _see(self, model: Model, candidates: Places) -> bool:
        """Find the examples that have a candidate; return whether there was room for all pairs."""
        keys, last = model.table.slots["key"][candidates], np.full(len(candidates), -1, np.int64)
        see_candidates(model.recent, self._lists[0], keys, filter_of(keys), last, self._seen)
        return bool(self._seen.filled[0] >= 0)


def _described(table: Table, parents: Places) -> tuple[NDArray[np.generic], ...]:
    """Return what identifies the parents: their slots, keys and degrees."""
    slots = table.slots
    return parents, slots["key"][parents], slots["degree"][parents]


@kernel
def _appraise_recent(
    model: Model,
    work: Work,
    places: tuple[Places, Places],
    earners: Credits,
    asked: SlotIndex,
    sums: tuple[Means, Means],
    totals: Means,
    known: _Lists,
) -> None:
    """Add up cost, earned and presence of each slot, and the totals: examples, products, base features.

    earners  its index of parents is still empty
    asked    the index of candidates, still empty
    known    examples whose list is known count in the totals alone
    """
    recent, slots, features, nodes = model.recent, model.table.slots, work.features, work.nodes
    cost, presence = sums
    index_slots(earners.parents, places[0])
    index_slots(asked, places[1])
    lists, at = known.lists[1], 0
    for half in range(2):
        first = 0
        for e in range(recent.counts[half]):
            end, place = recent.ends[half, e], recent_place(half, e)
            example = recent_example(recent, half, first, end)
            totals[0] += 1.0
            totals[1] += end - first  # the constant's products
            totals[2] += end - first
            first = end
            partners = example.stop - example.first
            if e < known.known[half]:
                if lists.end[0] >= 0:
                    at = carry_over(model, known.lists, known.seen, at, place, example)
                if lists.end[0] < 0:
                    return
                totals[1] += np.float64((lists.stop[place] - lists.first[place]) * np.int64(partners))
                continue
            found, _ = expand(model, example, False, work, earners)  # noqa: FBT003  by position: it is compiled
            list_expanded(model, lists, place, example, work, earners.listed[0])
            for number in range(U1, earners.listed[0]):
                size = np.float64(partners - nodes[number]["first"])
                totals[1] += size
                cost[earners.numbers[number]] += size
            for t in range(found):
                owner = slots[features.slot[t]]
                owner["active"] = 0
                presence[position_of(asked, features.slot[t])] += 1.0
