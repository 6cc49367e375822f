"""An epoch's end: monomials become parents, and, under a product budget, the parents that earn least cease to be.

Agarwal et al. 2014, section 2.1, Algorithm 1, lines 6 and 7, with s^alpha parents (section 2.2). The budget is not in
the paper: a stream has no last epoch.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.learner.appraisal import Appraisal, Appraiser
from stream_apple.core.learner.options import Options, Selection
from stream_apple.core.learner.parent_selection import (
    NO_CENSUS,
    RESTING,
    Census,
    Survey,
    survey_for_growth,
    trimmed,
)
from stream_apple.core.learner.state.model import EXAMPLES, GROWN_AT, NONZEROS, Model
from stream_apple.core.learner.state.table import NOMINATED, PARENT, Table
from stream_apple.core.learner.state.work import Work
from stream_apple.core.learner.tuple_selection import SelectionEnd

RENEWAL = 0.1  # of the budget: so much is made free for new products, if there are candidates, even when it is used up
FEWEST_PRODUCTS = 250  # of a budget for each base feature
UNPROVED = 0.4  # of that budget, where products do not help
MOST_PARENTS = 1 / 16  # of the slots: parents keep theirs, and the table must not fill with those of long ago
FEWEST_NONZEROS = 12.0  # of an example: where there are fewer, as many parents are added as if there were so many
EARLY = 0.25  # of the parents of an epoch's end
RARE = 10  # base features in all, for each that an example has: more, and most examples lack most of them
FEWEST_EXAMPLES = 50  # between two growths
REST = np.uint8(4)  # epochs that one who has ceased to be a parent waits before it may be one again


class Growth(NamedTuple):
    """What an epoch's end changed: how many monomials became parents, how many ceased to be, and the census afterwards.

    census  NO_CENSUS if none was taken
    tuples  what was selected of them, with method tuples; None with others
    """

    added: int
    retired: int
    census: Census = NO_CENSUS
    tuples: SelectionEnd | None = None


UNCHANGED = Growth(0, 0)


def grow(
    model: Model,
    work: Work,
    appraiser: Appraiser,
    options: Options,
    *,
    nominate: bool = False,
    early: bool = False,
) -> Growth:
    """Make up to floor(parents * s^alpha) monomials parents; s is the mean number of non-zeros of an example.

    With a budget for each base feature s is FEWEST_NONZEROS at least: few features have few products, all of which fit.

    With a product budget the worst earners make room first, and no more parents are added than then fit; an epoch of a
    few examples changes nothing: new parents would have earned nothing by its end.

    appraiser  of this model, the same at each growth
    nominate   mark the new parents, since the model is to be merged with others: then they are voted on, see `merging/`
    early      no epoch has ended. Then EARLY of so many are added, half of them base features; and none where base
               features are rare, as weights of what was seen a few times are noise
    """
    counts, table = model.scalars.counts, model.table
    examples, nonzeros = counts[EXAMPLES], counts[NONZEROS]
    if options.product_budget and examples - model.recent.filled[GROWN_AT] < FEWEST_EXAMPLES:
        return UNCHANGED
    parents = float(options.parents or 0.0) * (EARLY if early else 1.0)
    fewest = FEWEST_NONZEROS if options.budget_per_feature else 0.0
    wanted = int(parents * max(nonzeros / examples, fewest) ** options.alpha) if examples else 0
    ranking, max_degree = options.selection or "weight", model.rule.expansion.max_degree
    survey = survey_for_growth(table, wanted, ranking, max_degree, epoch_ended=not early)
    if early and survey.census.monomials[1] > RARE * nonzeros / examples:
        return UNCHANGED
    if options.product_budget:
        model.recent.filled[GROWN_AT] = examples
    chosen, retired = survey.best, survey.parents[:0]
    if early:
        chosen = _half_of_base(table, chosen, wanted, ranking)
    if options.fallback and wanted:
        chosen = _with_smallest_degree(table, chosen, wanted)
    if options.product_budget:
        budget = budget_of(options, nonzeros / examples, float(model.mixture.shares[0]))
        few = _above_most_parents(table, survey, chosen) <= 0
        if not (appraiser.all_fit(model, work, survey.parents, chosen, budget) and few):
            appraisal = appraiser.appraise(model, work, survey.parents, chosen)
            if appraisal.examples:
                retired, chosen = _within(budget, table, survey, chosen, appraisal)
        appraiser.changed(model, survey.parents, retired, chosen)
    slots, census = table.slots, survey.census
    slots["parent"][retired] = REST * RESTING
    slots["parent"][chosen] = PARENT | NOMINATED if nominate else PARENT
    for changed, by in ((retired, -1), (chosen, 1)):
        census.parents[:] += by * np.bincount(slots["degree"][changed], minlength=len(census.parents))
    return Growth(len(chosen), len(retired), trimmed(census))


def budget_of(options: Options, nonzeros: float, share_of_linear: float) -> int:
    """Return how many products an example may have in the mean.

    nonzeros         base features of an example, in the mean
    share_of_linear  in what is published. Products have a budget for each base feature, and all of it only where they
                     have proved that they help: what linear has of the mixture they have not, down to UNPROVED
    """
    most = int(options.product_budget or 0)
    if not options.budget_per_feature:
        return most
    proved = max(1.0 - share_of_linear, UNPROVED)
    return int(proved * min(max(options.budget_per_feature * nonzeros, FEWEST_PRODUCTS), most))


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
    too_many = _above_most_parents(table, survey, candidates)
    count = int(np.searchsorted(saved, appraisal.products - kept))
    count = min(max(count, too_many, 0), len(order))
    room = max(budget - (appraisal.products - float(saved[count])), 0.0)
    return survey.parents[order[:count]], candidates[np.cumsum(expected) <= room]


def _above_most_parents(table: Table, survey: Survey, candidates: NDArray[np.int64]) -> int:
    return len(survey.parents) + len(candidates) - int(MOST_PARENTS * len(table.slots))


def _half_of_base(table: Table, best: NDArray[np.int64], wanted: int, ranking: Selection) -> NDArray[np.int64]:
    """Return half of the `wanted` parents from base features alone, and fill up with the best of any degree.

    A product of a few examples has a larger weight than its factors, by noise. If products came first, base features
    would be left out for long, and so would the products that need them as a parent.
    """
    base = survey_for_growth(table, wanted // 2, ranking, 2, epoch_ended=False).best
    others = best[~np.isin(best, base)]
    return np.concatenate([base, others[: wanted - len(base)]])


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
