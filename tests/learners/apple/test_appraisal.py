"""What parents cost and earn, against a dictionary of monomials."""

import numpy as np
import pytest
from learners.apple.test_learner import batch_of, monomial_key, planted_rows
from support.bare_options import bare
from support.oracles.learner import CONSTANT, Monomial, Oracle

from stream_apple.learners.apple.appraisal import Appraiser
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.scores import Scores


@pytest.mark.parametrize("deepest", [2, 3])
def test_appraisal_equals_the_oracle(deepest: int) -> None:
    """Costs, earnings and presence of what is in the table, over the latest examples; and nothing is changed."""
    rows = [row for row in planted_rows(900, seed=3, names=9) if row.label is not None and row.weight > 0]
    learner = Learner(bare(bits=14, max_products=1 << 24))
    for start in range(0, len(rows), 120):
        part = rows[start : start + 120]
        learner.learn(batch_of(part), 0, len(part), Scores.empty(len(part)))
        if start < 120 * deepest:
            learner.end_epoch()
    slots = learner.slots()
    place = {int(key): at for at, key in enumerate(slots["key"]) if key}
    reach = Oracle()
    monomials: dict[int, Monomial] = {0: CONSTANT}
    for _ in range(deepest):  # what is reached grows with the parents that are known
        for row in rows:
            monomials |= {monomial_key(monomial): monomial for monomial in reach.expand(row.features)[0]}
        marked = slots["key"][slots["parent"] == 1].tolist()
        reach.parents = {monomials[key] for key in marked if key in monomials}
    assert len(reach.parents) == len(marked)
    assert max(map(len, reach.parents)) >= deepest - 1

    latest = rows[-int(learner.sums["recent_counts"].sum()) :]
    cost, earned, presence = (dict.fromkeys(place.values(), 0.0) for _ in range(3))
    products = nonzeros = 0.0
    for row in latest:
        # The oracle's order is the learner's: breadth first, in the order of the base features. But what has no slot
        # is no parent, and so reached by nobody.
        values, reached_from = reach.expand(row.features)
        nonzeros += len(row.features)
        for monomial in values:
            if monomial == CONSTANT or monomial in reach.parents:
                products += len(row.features)
            at = place.get(monomial_key(monomial))
            if monomial == CONSTANT or at is None:
                continue
            presence[at] += 1
            if monomial in reach.parents:
                cost[at] += len(row.features)
            average = slots[at]["average"]
            if (parent := reached_from[monomial]) != CONSTANT:
                earned[place[monomial_key(parent)]] += abs(float(average) * float(values[monomial]))
    count = len(latest)
    parents = np.flatnonzero(slots["parent"] == 1)
    candidates = np.random.default_rng(1).permutation([at for at in place.values() if not slots["parent"][at]])
    before = learner.digest()
    found = Appraiser().appraise(learner._state, learner._work, parents, candidates)
    assert learner.digest() == before
    assert found.examples == count > 500
    assert found.products == pytest.approx(products / count, rel=1e-12)
    assert found.nonzeros == pytest.approx(nonzeros / count, rel=1e-12)
    assert found.cost == pytest.approx([cost[int(at)] / count for at in parents], rel=1e-12)
    assert found.earned == pytest.approx([earned[int(at)] / count for at in parents], rel=1e-5)
    assert found.presence == pytest.approx([presence[int(at)] / count for at in candidates], rel=1e-12)
    assert found.earned.max() > 0


def test_before_the_first_example_there_is_nothing_to_see() -> None:
    """An epoch that ends empty."""
    learner = Learner(bare(bits=8))
    none = np.zeros(0, np.int64)
    found = Appraiser().appraise(learner._state, learner._work, none, none)
    assert found[:3] == (0, 0.0, 0.0)


def test_an_expansion_that_is_cut_off_is_appraised_by_the_example_alone() -> None:
    """Nodes that did not fit cost as well; a restored model, whose scratch has held no example, sees the same."""
    rows = [row for row in planted_rows(600, seed=3, names=9) if row.label is not None and row.weight > 0]
    learner = Learner(bare(bits=14, max_products=1 << 24, max_features_per_example=30))
    for start in range(0, len(rows), 120):
        part = rows[start : start + 120]
        learner.learn(batch_of(part), 0, len(part), Scores.empty(len(part)))
        learner.end_epoch()
    assert learner.truncated > 100
    parents = np.flatnonzero(learner.slots()["parent"] == 1)
    none, found = np.zeros(0, np.int64), []
    for filled in (0, 0xFF):
        learner._work.nodes.view(np.uint8)[:] = filled
        found.append(Appraiser().appraise(learner._state, learner._work, parents, none))
    assert found[0].products > 30
    assert found[0].cost.sum() + found[0].nonzeros == pytest.approx(found[0].products)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
