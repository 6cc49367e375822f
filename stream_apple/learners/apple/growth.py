"""Growth at an epoch's end: monomials become parents, and in a mixture the worst parents cease to be.

Agarwal et al. 2014, section 2.1, Algorithm 1, lines 6 and 7, with s^alpha parents (section 2.2). What a mixture does is
not in the paper. A stream has no last epoch, so products need a budget. A young model need not wait for its first epoch
to end: it also grows after EARLY_GROWTH examples, after twice as many, and so on, and again so after each restart.
"""

import numpy as np
from numpy.typing import NDArray

from stream_apple.learners.apple.appraisal import Appraisal, Appraiser
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.parent_selection import RESTING, Ranking, Survey, survey_for_growth, trimmed
from stream_apple.learners.apple.state.model import EXAMPLES, NONZEROS, Model
from stream_apple.learners.apple.state.table import NOMINATED, PARENT, Table
from stream_apple.learners.apple.state.work import Work
from stream_apple.learners.port import Change

PARENTS = 2.0  # times the mean number of non-zeros: how many parents the end of an epoch adds to a mixture
FEWEST_NONZEROS = 12.0  # examples with fewer non-zeros add as many parents as if they had so many
BUDGET_PER_FEATURE = 16.0  # products for each base feature that an example has in the mean
RENEWAL = 0.1  # share of the budget that is freed for the products of candidates, even when the budget is used up
FEWEST_PRODUCTS = 250  # the least budget, before UNPROVED
UNPROVED = 0.4  # share of the budget that products have where they do not help
MOST_PARENTS = 1 / 16  # of the slots: parents keep their slots, and old ones must not fill the table
EARLY_GROWTH = 60  # examples, after which a model first grows
EARLY = 0.25  # an early growth adds this share of the parents of an epoch's end
RARE = 10  # base features are rare if there are more than RARE times as many as an example has in the mean
FEWEST_EXAMPLES = 50  # between two growths
REST = np.uint8(4)  # epochs that a monomial waits after it ceased to be a parent, before it may become one again


UNCHANGED = Change()


def grow(
    model: Model, work: Work, appraiser: Appraiser, options: Options, *, nominate: bool = False, early: bool = False
) -> Change:
    """Make the best monomials parents: in a mixture up to PARENTS * s, else s^alpha; s is an example's mean non-zeros.

    In a mixture the worst parents retire first, and only as many are added as then fit the budget. Fewer than
    FEWEST_EXAMPLES examples since the last growth change nothing: the last new parents cannot have earned much yet.

    appraiser  the model's own, the same at each growth
    nominate   mark the new parents, because the model will be merged with others, which vote on them, see `merging/`
    early      no epoch has ended. Then only EARLY times as many are added, half of them base features; none are added
               where base features are rare, because the weights of what was seen a few times are noise
    """
    counts, table = model.scalars.counts, model.table
    examples, nonzeros = counts[EXAMPLES], counts[NONZEROS]
    if options.mixed and examples - model.recent.grown_at[0] < FEWEST_EXAMPLES:
        return UNCHANGED
    wanted = _wanted(options, nonzeros / examples, early=early) if examples else 0
    ranking: Ranking = "evidence" if options.mixed else options.selection
    max_degree = model.rule.expansion.max_degree
    survey = survey_for_growth(table, wanted, ranking, max_degree, epoch_ended=not early)
    if early and survey.census.monomials[1] > RARE * nonzeros / examples:
        return UNCHANGED
    if options.mixed:
        model.recent.grown_at[0] = examples
    chosen, retired = survey.best, survey.parents[:0]
    if early:
        chosen = _half_of_base(table, chosen, wanted, ranking)
    if options.fallback and wanted:
        chosen = _with_smallest_degree(table, chosen, wanted)
    if options.mixed:
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
    return Change(len(chosen), len(retired), trimmed(census))


def _wanted(options: Options, nonzeros: float, *, early: bool) -> int:
    """Return how many monomials should become parents; `nonzeros` is the mean number of an example's base features."""
    if options.mixed:
        return int((EARLY if early else 1.0) * PARENTS * max(nonzeros, FEWEST_NONZEROS))
    return int(nonzeros**options.alpha)


def budget_of(options: Options, nonzeros: float, share_of_linear: float) -> int:
    """Return how many products an example of a mixture may have in the mean.

    nonzeros         mean number of base features of an example
    share_of_linear  the linear predictor's share of the mixture. Products get 1 - share_of_linear of what examples of
                     this size may have, but at least UNPROVED: all of it only where they have proved to help
    """
    proved = max(1.0 - share_of_linear, UNPROVED)
    return int(proved * min(max(BUDGET_PER_FEATURE * nonzeros, FEWEST_PRODUCTS), options.max_products))


def _within(
    budget: int, table: Table, survey: Survey, candidates: NDArray[np.int64], appraisal: Appraisal
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the parents that retire, and the candidates that become parents, to keep within the budget."""
    expected = appraisal.presence * appraisal.nonzeros
    kept = budget - min(float(expected.sum()), RENEWAL * budget)
    # A parent that is in no recent example costs nothing and earns nothing: it goes first.
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


def _half_of_base(table: Table, best: NDArray[np.int64], wanted: int, ranking: Ranking) -> NDArray[np.int64]:
    """Return `wanted` candidates: one half are the best base features, the others the best of any degree.

    The weight of a product that was in a few examples is larger than those of its factors, by noise. If products came
    first, base features would be left out for long, and so would the products that need them as a parent.
    """
    base = survey_for_growth(table, wanted // 2, ranking, 2, epoch_ended=False).best
    others = best[~np.isin(best, base)]
    return np.concatenate([base, others[: wanted - len(base)]])


def _with_smallest_degree(table: Table, best: NDArray[np.int64], wanted: int) -> NDArray[np.int64]:
    """Return the best `wanted` - 1 candidates, and the first non-parent of the smallest degree (section 2.2)."""
    slots = table.slots[:-1]
    heaviest = best[: wanted - 1]
    left = (slots["key"] != 0) & (slots["parent"] == 0)  # not those that rest: they would earn as little as before
    left[heaviest] = False
    others = np.flatnonzero(left)
    if not len(others):
        return heaviest
    first = others[np.lexsort((slots["key"][others], slots["degree"][others]))[0]]
    return np.append(heaviest, first)
