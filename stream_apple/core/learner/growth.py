"""An epoch's end: monomials become parents, and, under a product budget, the parents that earn least cease to be.

Agarwal et al. 2014, section 2.1, Algorithm 1, lines 6 and 7, with s^alpha parents (section 2.2). The budget is not in
the paper: a stream has no last epoch.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.learner.appraisal import Appraisal, appraise
from stream_apple.core.learner.options import Options
from stream_apple.core.learner.parent_selection import RESTING, Census, Survey, survey_for_growth, take_census, trimmed
from stream_apple.core.learner.state.model import EXAMPLES, GROWN_AT, MAX_DEGREE, NONZEROS, Model
from stream_apple.core.learner.state.table import NOMINATED, PARENT, Table
from stream_apple.core.learner.state.work import Work
from stream_apple.core.learner.tuple_selection import SelectionEnd

RENEWAL = 0.1  # of the budget: so much is made free for new products, if there are candidates, even when it is used up
MOST_PARENTS = 1 / 16  # of the slots: parents keep theirs, and the table must not fill with those of long ago
FEWEST_EXAMPLES = 50  # between two growths
REST = np.uint8(4)  # epochs that one who has ceased to be a parent waits before it may be one again


class Growth(NamedTuple):
    """What an epoch's end changed: how many monomials became parents, how many ceased to be, and the census afterwards.

    tuples  what was selected of them, with method tuples; None with others
    """

    added: int
    retired: int
    census: Census
    tuples: SelectionEnd | None = None


def grow(model: Model, work: Work, options: Options, *, nominate: bool = False) -> Growth:
    """Make up to floor(parents * s^alpha) monomials parents; s is the mean number of non-zeros of an example.

    With a product budget the worst earners make room first, and no more parents are added than then fit; an epoch of a
    few examples changes nothing: new parents would have earned nothing by its end.

    nominate  mark the new parents, since the model is to be merged with others: then they are voted on, see `merging/`
    """
    counts, table = model.scalars.counts, model.table
    examples, nonzeros = counts[EXAMPLES], counts[NONZEROS]
    if options.product_budget:
        if examples - model.recent.filled[GROWN_AT] < FEWEST_EXAMPLES:
            return Growth(0, 0, take_census(table))
        model.recent.filled[GROWN_AT] = examples
    wanted = int(float(options.parents or 0.0) * (nonzeros / examples) ** options.alpha) if examples else 0
    survey = survey_for_growth(table, wanted, options.selection or "weight", MAX_DEGREE)
    chosen, retired = survey.best, survey.parents[:0]
    if options.fallback and wanted:
        chosen = _with_smallest_degree(table, chosen, wanted)
    if options.product_budget:
        appraisal = appraise(model, work, survey.parents, chosen)
        if appraisal.examples:
            retired, chosen = _within(options.product_budget, table, survey, chosen, appraisal)
    slots, census = table.slots, survey.census
    slots["parent"][retired] = REST * RESTING
    slots["parent"][chosen] = PARENT | NOMINATED if nominate else PARENT
    for changed, by in ((retired, -1), (chosen, 1)):
        census.parents[:] += by * np.bincount(slots["degree"][changed], minlength=len(census.parents))
    return Growth(len(chosen), len(retired), trimmed(census))


def _within(
    budget: int, table: Table, survey: Survey, candidates: NDArray[np.int64], appraisal: Appraisal
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the parents that cease to be, and the candidates that become parents, to keep within the budget."""
    expected = appraisal.presence * appraisal.nonzeros
    kept = budget - min(float(expected.sum()), RENEWAL * budget)
    # A parent that no recent example has costs nothing and earns nothing: it goes first.
    worth = appraisal.earned / np.maximum(appraisal.cost, 1e-12)
    order = np.lexsort((table.slots["key"][survey.parents], worth))
    saved = np.concatenate([[0.0], np.cumsum(appraisal.cost[order])])
    too_many = len(survey.parents) + len(candidates) - int(MOST_PARENTS * len(table.slots))
    count = int(np.searchsorted(saved, appraisal.products - kept))
    count = min(max(count, too_many, 0), len(order))
    room = max(budget - (appraisal.products - float(saved[count])), 0.0)
    return survey.parents[order[:count]], candidates[np.cumsum(expected) <= room]


def _with_smallest_degree(table: Table, best: NDArray[np.int64], wanted: int) -> NDArray[np.int64]:
    """Return the best `wanted` - 1 candidates, and the first non-parent of the smallest degree (section 2.2)."""
    slots = table.slots[:-1]
    heaviest = best[: wanted - 1]
    left = (slots["key"] != 0) & (slots["parent"] == 0)  # one that rests would earn as little as before
    left[heaviest] = False
    others = np.flatnonzero(left)
    if not len(others):
        return heaviest
    first = others[np.lexsort((slots["key"][others], slots["degree"][others]))[0]]
    return np.append(heaviest, first)
