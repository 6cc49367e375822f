"""Which monomials may become parents, against a plain selection over the whole table."""

import numpy as np
import pytest

from stream_apple.learners.apple.parent_selection import PORTION, RESTING, Ranking, survey_for_growth, take_census
from stream_apple.learners.apple.state.table import BUCKET, PARENT, Extent, Table, empty_table

MAX_DEGREE = 4


def random_table(seed: int, *, mixed: bool = False) -> Table:
    """Three portions and a half, some buckets full and some empty; saliences that tie, and some that are none."""
    rng = np.random.default_rng(seed)
    table = empty_table(int(np.log2(4 * PORTION * BUCKET)), Extent(mixed=mixed, residuals=mixed))
    size = len(table.slots) - 1
    tags = table.tags.view(np.uint8)
    taken = np.flatnonzero((rng.random(size) < 0.3) & (np.arange(size) // BUCKET < 3.5 * PORTION))
    tags[taken] = rng.integers(0, 128, len(taken)) * 2 + 1
    table.slots["key"][taken] = rng.permutation(np.uint64(7) * np.arange(1, len(taken) + 1, dtype=np.uint64))
    table.slots["weight"][taken] = rng.choice(np.array([0.0, 1e-10, -3.0, 2.0, 0.5, -8.0], np.float32), len(taken))
    table.slots["scale"][taken] = rng.choice(np.array([1.0, 2.0, 1.5], np.float32), len(taken))
    table.slots["degree"][taken] = rng.integers(1, MAX_DEGREE + 1, len(taken))
    table.slots["parent"][taken] = rng.random(len(taken)) < 0.01
    if mixed:
        table.slots["sights"][taken] = rng.integers(0, 256, len(taken))
        table.residuals["residuals"][:-1] = rng.choice([0.0, 2.0, 5.0], size)
        table.residuals["squares"][:-1] = rng.choice([0.0, 1.0, 3.0, 1e-3], size)
    return table


def chosen_by_sorting(table: Table, wanted: int, by: Ranking = "weight", max_degree: int = MAX_DEGREE) -> list[int]:
    """All candidates, sorted: those of which most is expected first, and of those that tie the smallest key."""
    slots, sums = table.slots[:-1], table.residuals[:-1]
    expected, least = np.abs(slots["weight"]) * slots["scale"], 1e-9
    if by == "evidence":
        sights = slots["sights"].astype(np.float32)
        expected *= np.sqrt(sights / (sights + np.float32(100)))
    elif by == "ssm":
        met = sums["squares"] > 0
        expected = np.zeros(len(slots), np.float32)
        expected[met] = (sums["residuals"][met] / sums["squares"][met]).astype(np.float32)
        least = 0.0
    may_grow = (slots["key"] != 0) & (slots["parent"] == 0) & (slots["degree"] < max_degree)
    candidates = np.flatnonzero(may_grow & (expected > least))
    order = sorted(candidates.tolist(), key=lambda slot: (-expected[slot], slots["key"][slot]))
    return order[:wanted]


@pytest.mark.parametrize("by", ["weight", "evidence", "ssm"])
@pytest.mark.parametrize("wanted", [0, 1, 50, 30_000, 1_000_000])
def test_the_best_are_found(wanted: int, by: Ranking) -> None:
    """However many are asked for: none, few, many that tie, more than there are; and nothing is changed."""
    table = random_table(wanted, mixed=True)
    before = table.slots.tobytes()
    survey = survey_for_growth(table, wanted, by, MAX_DEGREE, epoch_ended=True)
    assert survey.best.tolist() == chosen_by_sorting(table, wanted, by)
    assert survey.parents.tolist() == np.flatnonzero(table.slots["parent"] == PARENT).tolist()
    degrees = table.slots["degree"][table.slots["parent"] == PARENT]
    assert survey.census.parents.sum() == 1 + len(degrees)
    monomials = np.bincount(table.slots["degree"][:-1][table.slots["key"][:-1] != 0])
    assert take_census(table).monomials.tolist() == [1, *monomials[1:].tolist()]
    assert take_census(table).parents.tolist() == [1, *np.bincount(degrees)[1:].tolist()]
    assert table.slots.tobytes() == before


def test_those_that_rest_are_no_candidates_until_they_have_rested() -> None:
    """The end of an epoch brings each nearer; an early growth does not, nor does a census."""
    table = random_table(5)
    (best,) = chosen_by_sorting(table, 1)
    table.slots["parent"][best] = 2 * RESTING
    for left in (2, 1):
        take_census(table)
        assert survey_for_growth(table, 1, "weight", MAX_DEGREE, epoch_ended=False).best.tolist() != [best]
        assert table.slots["parent"][best] == left * RESTING
        survey = survey_for_growth(table, 1, "weight", MAX_DEGREE, epoch_ended=True)
        assert survey.best.tolist() != [best]
        assert best not in survey.parents
    assert table.slots["parent"][best] == 0
    assert survey_for_growth(table, 1, "weight", MAX_DEGREE, epoch_ended=True).best.tolist() == [best]
