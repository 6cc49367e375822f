"""The paper's example in which the heaviest features are the right parents: a product of independent coins."""

import itertools

import numpy as np
import pytest
from learners.apple.paper.supports import Monomial, monomials_of, parents_of
from learners.apple.test_learner import Row, batch_of, monomial_key
from support.bare_options import bare

from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.scores import Scores

D = 6
NAMES = [f"n{i}" for i in range(D)]
WANTED: Monomial = ("n0", "n1", "n2")
PATTERNS = [dict.fromkeys(each, 1.0) for n in range(D + 1) for each in itertools.combinations(NAMES, n)]


@pytest.mark.parametrize("p", [0.5, 0.3])
def test_one_sparse_regression_finds_it_factor_by_factor(p: float) -> None:
    """A factor of degree l has the weight p^(|M| - l); one parent a stage, and M has come after |M| of them.

    The weights are those of regressions on one monomial each, over all examples there are; no more than d |M| products
    are needed.
    """
    chance = np.array([p ** len(each) * (1 - p) ** (D - len(each)) for each in PATTERNS])
    labels = np.array([float(set(WANTED) <= set(each)) for each in PATTERNS])
    rows = [Row(each, float(y), float(w)) for each, y, w in zip(PATTERNS, labels, chance, strict=True)]
    learner = Learner(bare(mixture=False, bits=12, alpha=1e-9))
    parents: set[Monomial] = set()
    for stage in range(1, len(WANTED) + 1):
        learner.learn(batch_of(rows), 0, len(rows), Scores.empty(len(rows)))
        found = [monomials_of(each, parents) for each in PATTERNS]
        monomials = set().union(*found) - {()}
        assert len(monomials) <= D * len(WANTED)
        slots = learner.table.slots
        for monomial in monomials:
            x = np.array([each.get(monomial, 0.0) for each in found])
            weight = (chance * x * labels).sum() / (chance * x * x).sum()
            if set(monomial) <= set(WANTED):
                assert weight == pytest.approx(p ** (len(WANTED) - len(set(monomial))))
            place = np.flatnonzero(slots["key"] == monomial_key(monomial))
            slots["weight"][place], slots["scale"][place] = weight, 1.0
        assert learner.end_epoch().added == 1
        parents = parents_of(learner, monomials)
        assert max(map(len, parents)) == stage
    assert WANTED in parents


@pytest.mark.parametrize("p", [0.5, 0.4])
def test_the_learner_finds_it_in_as_many_stages(p: float) -> None:
    """With enough examples an epoch, by the weights that it learns itself: the heaviest of all that are no parents.

    Two labels are far off, so that scores are not clipped to [0, 1]: clipped, a sum of coins is their product.
    """
    rng = np.random.default_rng(3)
    size, names = 4000, [f"n{i}" for i in range(10)]
    learner, scores, losses = Learner(bare(mixture=False, bits=14)), Scores.empty(size), []
    for _ in WANTED:
        present = rng.random((size, len(names))) < p
        labels = present[:, : len(WANTED)].all(axis=1).astype(float)
        rows = [
            Row({names[i]: 1.0 for i in np.flatnonzero(row)}, float(y), 1.0)
            for row, y in zip(present, labels, strict=True)
        ]
        rows[:2] = [rows[0]._replace(label=-2.0), rows[1]._replace(label=2.0)]
        learner.learn(batch_of(rows), 0, size, scores)
        before = learner.slots()
        learner.end_epoch()
        losses.append(scores.losses[-500:].mean() / labels.var())
    (place,) = np.flatnonzero(before["key"] == monomial_key(WANTED))
    salience = np.abs(before["weight"]) * before["scale"] * ((before["key"] != 0) & (before["parent"] == 0))
    assert np.argmax(salience) == place
    assert learner.slots()["parent"][place] == 1
    assert losses[2] < 0.2 * losses[1] < 0.2 * losses[0]
