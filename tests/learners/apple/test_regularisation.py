"""Regularised learners: those of the dense loop, whatever the method, and what their promises are.

Weights decay lazily, and all that looks at them has to see them as they are by now.
"""

import itertools
from typing import Any

import numpy as np
import pytest
from learners.apple.test_learner import KINDS, Row, batch_of, key, monomial_key, planted_rows, run
from support.bare_options import bare
from support.oracles.learner import Oracle

from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Combine, Loss, Method
from stream_apple.learners.apple.state.table import PARENT
from stream_apple.learners.scores import Scores

AMOUNTS = ((1e-2, 0.0), (0.0, 1e-3), (1e-2, 1e-3))


def learn(learner: Learner, rows: list[Row]) -> Scores:
    """All of them, without an epoch's end."""
    scores = Scores.empty(len(rows))
    learner.learn(batch_of(rows), 0, len(rows), scores)
    return scores


def weights_of(learner: Learner, field: str = "weight") -> dict[int, float]:
    """By key, as they are by now."""
    slots = learner.slots()
    return dict(zip(slots["key"].tolist(), slots[field].tolist(), strict=True))


@pytest.mark.parametrize(("l2", "l1"), AMOUNTS)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("method", ["apple", "linear", "quadratic", "cubic"])
def test_every_method_is_the_dense_loop(method: Method, loss: Loss, l2: float, l1: float) -> None:
    """Scores, all weights whether present or not, and parents: as if each step changed each weight."""
    rows = planted_rows(300, seed=3)
    learner = Learner(bare(method=method, loss=loss, bits=14, combine="off", l2=l2, l1=l1))
    oracle, scores, batch = Oracle(method, loss, l2=l2, l1=l1), Scores.empty(len(rows)), batch_of(rows)
    zeros = 0
    for start in range(0, 300, 100):
        part = slice(start, start + 100)
        learner.learn(batch, start, start + 100, scores)
        expected = [oracle.learn(*row) for row in rows[part]]
        tolerance = 2e-4 if loss == "squared" else 1e-3  # Lambert's W is approximate
        apple, linear = zip(*expected, strict=True)
        np.testing.assert_allclose(scores.predictions[part], apple, rtol=tolerance, atol=tolerance)
        alongside = apple if method == "linear" else linear
        np.testing.assert_allclose(scores.linear[part], alongside, rtol=tolerance, atol=tolerance)
        for field, weights in (("weight", oracle.apple), ("linear_weight", oracle.linear)):
            if field == "weight" or method != "linear":
                found = weights_of(learner, field)
                for monomial, value in weights.weight.items():
                    assert found[monomial_key(monomial)] == pytest.approx(float(value), rel=2e-3, abs=2e-4)
                    zeros += value == 0
        learner.end_epoch()
        oracle.end_epoch()
        if method == "apple":
            slots = learner.slots()
            assert set(slots["key"][slots["parent"] == PARENT].tolist()) == {monomial_key(m) for m in oracle.parents}
            assert learner.occupied == len(oracle.apple.gradient) - 1
    assert learner.evicted == 0
    assert (zeros > 0) == (l1 > 0) or method == "linear"


@pytest.mark.parametrize("combine", ["mix", "off"])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_the_linear_predictor_is_that_which_is_learned_alone(loss: Loss, combine: Combine) -> None:
    """Each predictor is regularised by its own steps: what learns beside it makes no difference."""
    batch = batch_of(planted_rows(800, seed=5, binary=True))
    chosen: dict[str, Any] = {"loss": loss, "bits": 12, "l2": 1e-2, "l1": 1e-3}
    beside, alone = Learner(bare(combine=combine, **chosen)), Learner(bare(method="linear", **chosen))
    np.testing.assert_allclose(run(beside, batch, 4).linear, run(alone, batch, 4).predictions, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_the_constant_does_not_decay(kind: tuple[Method, Combine]) -> None:
    """Of examples that have nothing else the scores are those of no regularisation, to the bit."""
    rows = [Row({}, 1.0 + number % 7, 1.0) for number in range(300)]
    free, held = (Learner(bare(method=kind[0], combine=kind[1], bits=8, l2=by, l1=by)) for by in (0.0, 0.1))
    for learner in (free, held):
        learner.end_epoch()
    np.testing.assert_array_equal(learn(free, rows).predictions, learn(held, rows).predictions)
    assert free.slots()["weight"][-1] == held.slots()["weight"][-1] > 1.0


@pytest.mark.parametrize(("l2", "l1"), AMOUNTS)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_depends_on_snapshots_batches_or_looks(kind: tuple[Method, Combine], l2: float, l1: float) -> None:
    """Restored at random places, cut at random places, looked at in between: the digests are the same."""
    options = bare(method=kind[0], combine=kind[1], bits=8, l2=l2, l1=l1, loss="logistic")
    batch, rng = batch_of(planted_rows(900, seed=2, names=40)), np.random.default_rng(7)
    whole, cut = Learner(options), Learner(options)
    for start in range(0, 900, 300):
        scores = Scores.empty(900)
        whole.learn(batch, start, start + 300, scores)
        places = [start, *sorted(rng.integers(start, start + 300, 6).tolist()), start + 300]
        for first, last in itertools.pairwise(places):
            cut.learn(batch, first, last, Scores.empty(900))
            before = cut.digest()
            cut.predict(batch)
            cut.slots()
            assert cut.digest() == before, "to look changes nothing"
            restored = Learner(options)
            pairs: Any = zip(restored.table, cut.table, strict=True)
            for own, given in pairs:
                own[:] = given
            restored.restore(cut.sums)
            cut = restored
        assert cut.digest() == whole.digest()
        cut.end_epoch()
        whole.end_epoch()
        assert cut.digest() == whole.digest()
    assert whole.evicted > 0 or kind in {("linear", "off"), ("apple", "mix")}


def test_a_scale_that_becomes_small_is_settled_where_the_examples_say() -> None:
    """Within an epoch: scores go on as they were, and what the table has stays within float32."""
    rows = planted_rows(1500, seed=8, names=6, binary=True)
    learner, oracle = Learner(bare(method="linear", bits=8, l2=0.2)), Oracle("linear", l2=0.2)
    scales = []
    for row in rows:
        score = learn(learner, [row]).predictions[0]
        assert score == pytest.approx(oracle.learn(*row)[0], rel=1e-4, abs=1e-4)
        scales.append(float(learner.sums["decay_scale"][1]))
    assert min(scales) >= 2.0**-30
    assert sum(after > before for before, after in itertools.pairwise(scales)) >= 2, "more than once"


def stale(learner: Learner, *, idle: int) -> None:
    """`old` gets the heaviest weight of all and is then seen no more, while `new` is learned, and all decay."""
    learn(learner, [Row({"old": 1.0}, 1.0, 20.0)] * 30)
    learn(learner, [Row({"new": 1.0}, (-1.0) ** number, 1.0 + 0.4 * (number % 2)) for number in range(idle)])


@pytest.mark.parametrize("combine", ["mix", "off"])
def test_growth_sees_decayed_weights(combine: Combine) -> None:
    """The heaviest in the table is not the heaviest by now: the other one becomes a parent."""
    parents: dict[float, set[int]] = {}
    for l1 in (0.0, 0.02):
        options: dict[str, Any] = {"combine": combine, "parents": 1.0, "selection": "weight", "loss": "logistic"}
        learner = Learner(bare(bits=8, l1=l1, **options))
        stale(learner, idle=400)
        raw = learner.table.slots
        weight = {name: abs(float(raw["weight"][raw["key"] == key(name)][0])) for name in ("old", "new")}
        assert weight["old"] > weight["new"]
        learner.end_epoch()
        slots = learner.slots()
        parents[l1] = set(slots["key"][slots["parent"] == PARENT].tolist())
    assert parents == {0.0: {key("old")}, 0.02: {key("new")}}


@pytest.mark.parametrize("l1", [0.0, 0.01])
@pytest.mark.parametrize("combine", ["mix", "off"])
def test_eviction_sees_decayed_weights(combine: Combine, l1: float) -> None:
    """In a full bucket the one that decayed to nothing makes room, though the table has more for it than for others."""
    learner = Learner(bare(bits=8, combine=combine, loss="logistic", l1=l1))
    bucket = [name for name in map(str, range(4000)) if key(name) >> 8 & 31 == 0][:9]
    *eight, newcomer = bucket
    learn(learner, [Row({eight[0]: 1.0}, 1.0, 1.0)] * 200)
    for _ in range(300):
        learn(learner, [Row({name: 1.0}, 1.0, 0.1) for name in eight[1:]])
    raw = learner.table.slots
    assert np.argmax(np.abs(raw["weight"][:8])) == np.flatnonzero(raw["key"][:8] == key(eight[0]))[0]
    learn(learner, [Row({newcomer: 1.0}, 1.0, 1.0)] * 2)
    left = set(learner.slots()["key"].tolist())
    assert key(newcomer) in left
    assert learner.evicted == 1
    assert (key(eight[0]) in left) == (l1 == 0.0)


def test_a_value_beyond_the_scale_finds_a_decayed_weight() -> None:
    """What is still to come off a weight is in its old units: it comes off before the scale widens."""
    rows = [
        *[Row({"a": 1.0, "b": 1.0}, 1.0, 1.0)] * 5,
        *[Row({"b": 1.0}, 1.0, 1.0), Row({"b": 1.0}, -1.0, 1.0)] * 15,
        Row({"a": 50.0}, -1.0, 1.0),
    ]
    for combine in ("mix", "off"):
        learner, oracle = Learner(bare(bits=8, combine=combine, l1=0.01)), Oracle(l1=0.01)
        scores = learn(learner, rows)
        expected = [oracle.learn(*row)[0] for row in rows]
        np.testing.assert_allclose(scores.apple, expected, rtol=1e-4, atol=1e-4)
        assert weights_of(learner)[key("a")] == pytest.approx(float(oracle.apple.weight["a",]), rel=1e-3)


@pytest.mark.parametrize("combine", ["mix", "off"])
def test_products_without_weight_leave_the_table(combine: Combine) -> None:
    """At an epoch's end, but for parents; what is left of them is a free slot, and counts say so."""
    occupied = {}
    for l1 in (0.0, 0.005):
        learner = Learner(bare(bits=12, combine=combine, loss="logistic", l1=l1))
        rows = planted_rows(3000, seed=4, names=12, binary=True)
        for start in range(0, 3000, 500):
            learn(learner, rows[start : start + 500])
            learner.end_epoch()
            slots, tags = learner.table.slots[:-1], learner.table.tags.view(np.uint8)
            taken = slots["key"] != 0
            assert learner.occupied == taken.sum() == (tags != 0).sum() == learner.census().monomials[1:].sum()
            assert not slots[~taken].view(np.uint8).any()
            assert not learner.table.stamps.any()
            products = taken & (slots["degree"] > 1) & (slots["parent"] == 0)
            weigh = np.abs(slots["weight"]) + np.abs(slots["average"]) + np.abs(slots["fast"])
            if l1:
                assert (weigh[products] > 0).all()
        assert (slots["degree"] > 1).sum() > 0
        occupied[l1] = learner.occupied
    assert occupied[0.005] < 0.7 * occupied[0.0]


def test_products_without_weight_may_meet_the_most_residuals() -> None:
    """Selected by these, a product that L1 holds at 0 becomes a parent: it keeps its slot until its epoch has ended."""
    learner = Learner(bare(bits=12, combine="off", selection="ssm", l1=0.02, alpha=0.8))
    rows = planted_rows(1200, seed=4, names=12)
    weightless = 0
    for start in range(0, 1200, 200):
        learn(learner, rows[start : start + 200])
        before = learner.slots()
        learner.end_epoch()
        added = (learner.table.slots["parent"] == PARENT) & (before["parent"] == 0)
        weightless += (added & (before["degree"] > 1) & (before["weight"] == 0)).sum()
    assert weightless > 0
