"""The paper's fall-back rule: whatever the heuristic prefers, no monomial of a low degree is left out for ever."""

from itertools import combinations_with_replacement

import numpy as np
import pytest
from learners.apple.test_learner import Row, batch_of, monomial_key

from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.parent_selection import RESTING
from stream_apple.learners.scores import Scores

D, EPOCH = 4, 40
NAMES = [f"n{i}" for i in range(D)]


def rows_of(rng: np.random.Generator) -> list[Row]:
    """An epoch in which each example has all features, and the label is mostly the sign of the first."""
    values = np.round(rng.normal(size=(EPOCH, D)), 3) + 1e-3
    return [
        Row(dict(zip(NAMES, map(float, row), strict=True)), float(np.sign(row[0]) + 0.1 * row[1]), 1.0)
        for row in values
    ]


def keys_of_degree(degree: int) -> set[int]:
    """Of all monomials, powers included."""
    return {monomial_key(each) for each in combinations_with_replacement(NAMES, degree)}


def parent_keys(learner: Learner) -> set[int]:
    """All parents."""
    slots = learner.slots()
    return set(slots["key"][slots["parent"] == 1].tolist())


@pytest.mark.parametrize("parents", [1, 2])
def test_low_degrees_are_complete_after_so_many_stages(parents: int) -> None:
    """All of degree 1 after d stages, then all of degree 2 after d (d + 1) / 2 more; the heuristic chooses the rest."""
    rng = np.random.default_rng(2)
    alpha = 1e-9 if parents == 1 else 0.5  # the root of the mean number of features is between 2 and 3
    options = Options(mixture=False, bits=14, fallback=True, alpha=alpha)
    learner, wanted = Learner(options), parents
    for stage in range(1, D + D * (D + 1) // 2 + 1):
        learner.learn(batch_of(rows_of(rng)), 0, EPOCH, Scores.empty(EPOCH))
        slots, before = learner.slots()[:-1], parent_keys(learner)
        free = {
            int(slot["key"]): (int(slot["degree"]), float(abs(slot["weight"]) * slot["scale"]))
            for slot in slots[(slots["key"] != 0) & (slots["parent"] == 0)]
        }
        heaviest = sorted(free, key=lambda key: (-free[key][1], key))[: wanted - 1]
        first = min(set(free) - set(heaviest), key=lambda key: (free[key][0], key))
        assert learner.end_epoch().added == wanted
        assert parent_keys(learner) - before == {*heaviest, first}
        if stage == D:
            assert keys_of_degree(1) <= parent_keys(learner)
    assert keys_of_degree(2) <= parent_keys(learner)


def test_without_it_they_need_not_be() -> None:
    """The same stages by the heuristic alone leave some out: the guarantee is the rule's."""
    rng = np.random.default_rng(2)
    learner = Learner(Options(mixture=False, bits=14, alpha=1e-9))
    for _ in range(D + D * (D + 1) // 2):
        learner.learn(batch_of(rows_of(rng)), 0, EPOCH, Scores.empty(EPOCH))
        learner.end_epoch()
    assert not keys_of_degree(1) | keys_of_degree(2) <= parent_keys(learner)


def test_one_that_rests_is_passed_over() -> None:
    """A parent that was retired for earning little is not the first to come back."""
    learner = Learner(Options(mixture=False, bits=14, fallback=True, alpha=1e-9))
    learner.learn(batch_of(rows_of(np.random.default_rng(2))), 0, EPOCH, Scores.empty(EPOCH))
    resting = min(keys_of_degree(1))
    slots = learner.table.slots
    slots["parent"][slots["key"] == resting] = 3 * RESTING
    added: list[int] = []
    for _ in range(D):
        learner.end_epoch()
        added += parent_keys(learner) - set(added)
    others = sorted(keys_of_degree(1) - {resting})
    assert added == [*others[:2], resting, *others[2:]]  # it has the smallest key, and comes when it has rested


def test_a_table_of_parents_alone_has_no_more() -> None:
    """Once all monomials are parents, an epoch's end adds none."""
    learner = Learner(Options(mixture=False, bits=14, fallback=True, alpha=1e-9))
    row = Row({"a": 1.0}, 1.0, 1.0)
    learner.learn(batch_of([row]), 0, 1, Scores.empty(1))
    assert [learner.end_epoch().added for _ in range(2)] == [1, 0]
