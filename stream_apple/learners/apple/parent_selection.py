"""Parent selection: the candidates of the highest salience.

Agarwal et al. 2014, section 2.1, Algorithm 1, line 6 (by weight), and section 2.2 (by squared residuals).

The table is read once, a portion at a time, and no more candidates are kept than may become parents.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel, prefetch, routine
from stream_apple.learners.apple.kernels.lanes import append
from stream_apple.learners.apple.state.table import (
    BUCKET,
    PARENT,
    U0,
    U1,
    U3,
    Element,
    Floats,
    Index,
    Table,
    taken_slots,
)
from stream_apple.learners.apple.state.work import LANES, Numbers
from stream_apple.learners.port import Census

# A monomial without weight can't become a parent: salience has to be above 1e-9 (as in Vowpal Wabbit).
LEAST_SALIENCE = np.nextafter(np.float32(1e-9), np.float32(1))
LEAST_RESIDUAL = np.nextafter(np.float32(0), np.float32(1))
PORTION = 1 << 13  # buckets
PREFETCH_DISTANCE = np.uint64(32)  # slots: a survey of so many takes longer than a memory access
HALF_TRUSTED = np.float32(100.0)  # sights
RESTING = np.uint8(2)  # `parent` of a former parent: RESTING times the epochs in which it can't become one again
_DEGREES = 256
_BY_WEIGHT, _BY_EVIDENCE, _BY_SSM = range(3)
Ranking = Literal["weight", "evidence", "ssm"]
"""What salience is, see `survey_for_growth`."""
_RANKINGS: dict[Ranking, int] = {"weight": _BY_WEIGHT, "evidence": _BY_EVIDENCE, "ssm": _BY_SSM}


class Candidates(NamedTuple):
    """Monomials that could become parents: their slots, and their salience."""

    slots: NDArray[np.int64]
    salience: Floats


class Survey(NamedTuple):
    """The candidates, parents and census of a table.

    best     the slots of the best candidates, the best first
    parents  the slots of all parents, ascending, without the constant
    census   int64[256] each
    """

    best: NDArray[np.int64]
    parents: NDArray[np.int64]
    census: Census


class Found(NamedTuple):
    """Room for the candidates and parents of a portion of the table, and for a census of the whole table.

    parents_by_degree    int64[256]
    monomials_by_degree  int64[4, 256], four partial counts: adding to one number again and again would wait for memory
    """

    candidates: Candidates
    parents: NDArray[np.int64]
    parents_by_degree: NDArray[np.int64]
    monomials_by_degree: NDArray[np.int64]


def take_census(table: Table) -> Census:
    """Return the numbers of monomials and parents in the table, by degree."""
    return trimmed(survey_for_growth(table, 0, "weight", 0, epoch_ended=False).census)


def survey_for_growth(table: Table, wanted: int, by: Ranking, max_degree: int, *, epoch_ended: bool) -> Survey:
    """Find the `wanted` best candidates below `max_degree`; if an epoch has ended, former parents rest one epoch less.

    Otherwise the table does not change.

    Salience by weight is |weight| * scale: what the monomial adds to a score at its largest, in any unit. By evidence
    it is that times sqrt(n / (n + HALF_TRUSTED)), n being how often the monomial was learned (at most 255): the weight
    of a rare monomial is mostly noise. By ssm it is the mean of the squared residuals weighted by m^2, the squared
    monomial (section 2.2 of the paper: E[r^2 m^2] / E[m^2]). Ties go to the smaller key, which, unlike the slot, does
    not depend on the history of the table.
    """
    size = PORTION * BUCKET
    found = Found(
        Candidates(np.empty(size, np.int64), np.empty(size, np.float32)),
        np.empty(size, np.int64),
        np.zeros(_DEGREES, np.int64),
        np.zeros((4, _DEGREES), np.int64),
    )
    found.parents_by_degree[0] = found.monomials_by_degree[0, 0] = 1  # the constant
    taken = np.zeros(size + max(LANES, int(PREFETCH_DISTANCE)), np.uint32)
    best = Candidates(np.empty(0, np.int64), np.empty(0, np.float32))
    parents: list[NDArray[np.int64]] = []
    # A mean of squared residuals has a unit of its own, so any but 0 will do.
    least = LEAST_SALIENCE if by != "ssm" else LEAST_RESIDUAL
    if not wanted:
        least = np.float32(np.inf)
    for start in range(0, len(table.tags), PORTION):
        stop = min(start + PORTION, len(table.tags))
        policy = _RANKINGS[by], max_degree, epoch_ended
        count, above = _survey_portion(table, (start, stop), policy, least, taken, found)
        parents.append(found.parents[:above].copy())
        if count:
            slots = np.concatenate([best.slots, found.candidates.slots[:count]])
            salience = np.concatenate([best.salience, found.candidates.salience[:count]])
            best = _most_salient(table, Candidates(slots, salience), wanted)
        if 0 < wanted == len(best.slots):
            least = best.salience[-1]
    census = Census(found.parents_by_degree, found.monomials_by_degree.sum(0))
    return Survey(best.slots, np.sort(np.concatenate(parents)), census)


@kernel
def _survey_portion(
    table: Table, span: tuple[int, int], policy: tuple[int, int, bool], least: np.float32, taken: Numbers, found: Found
) -> tuple[int, int]:
    """Count what is in the buckets of the span, and write parents, and candidates of at least the salience `least`.

    Returns how many candidates, and how many parents. `taken` is scratch for the slots that are taken; `policy` is the
    ranking, the degree that candidates must be below, and whether former parents rest one epoch less.
    """
    ranking, max_degree, epoch_ended = policy
    end = U0
    for bucket in range(np.uint64(span[0]), np.uint64(span[1])):
        end = append(taken, end, bucket << U3, taken_slots(table.tags[bucket]))
    count, above = U0, U0
    for t in range(end):
        prefetch(table.slots, np.uint64(taken[t + PREFETCH_DISTANCE]))
        slot = table.slots[taken[t]]
        found.monomials_by_degree[t & U3, slot["degree"]] += 1
        # Branches are cheap here: after the first portion hardly any slot is a parent's or a candidate's.
        if slot["parent"]:
            if slot["parent"] & PARENT:
                found.parents_by_degree[slot["degree"]] += 1
                found.parents[above] = taken[t]
                above += U1
            elif epoch_ended:
                slot["parent"] -= RESTING
            continue
        if ranking <= _BY_EVIDENCE and np.float32(abs(slot["weight"]) * slot["scale"]) < least:
            continue  # so most need no square root
        salience = _salience(table, slot, taken[t], ranking)
        if salience >= least and slot["degree"] < max_degree:
            found.candidates.slots[count], found.candidates.salience[count] = taken[t], salience
            count += U1
    return int(count), int(above)


@routine
def _salience(table: Table, slot: Element, place: Index, ranking: int) -> np.float32:
    """Return the salience of a monomial by this ranking: how promising it is as a parent."""
    if ranking == _BY_SSM:
        sums = table.residuals[place]
        return np.float32(sums["residuals"] / sums["squares"]) if sums["squares"] > 0.0 else np.float32(0.0)
    salience = np.float32(abs(slot["weight"]) * slot["scale"])
    if ranking == _BY_EVIDENCE:
        sights = np.float32(slot["sights"])
        salience *= np.sqrt(sights / (sights + HALF_TRUSTED))
    return salience


def _most_salient(table: Table, candidates: Candidates, wanted: int) -> Candidates:
    """Return the `wanted` most salient in descending order; ties go to the smaller key."""
    slots, salience = candidates
    if wanted < len(slots):
        heavy = salience >= np.partition(salience, -wanted)[-wanted]
        slots, salience = slots[heavy], salience[heavy]
    order = np.lexsort((table.slots["key"][slots], -salience))[:wanted]
    return Candidates(slots[order], salience[order])


def trimmed(census: Census) -> Census:
    """Return the census up to the highest degree that occurs."""
    return Census(*(counts[: np.flatnonzero(counts)[-1] + 1] for counts in census))
