"""The lazy loop against the dense one, and against what is easily got wrong."""

import numpy as np
import pytest
from study.logistic.sample_rows import dense, random_rows, rows_from

from stream_apple.study.logistic.hashing import hashed
from stream_apple.study.logistic.regularised import DenseLogistic, ElasticNet, LazyLogistic, rates_of_passes
from stream_apple.study.logistic.sparse_rows import fold

NETS = {
    "none": ElasticNet(),
    "l2": ElasticNet(l2=1e-2),
    "l1": ElasticNet(l1=2e-2),
    "both": ElasticNet(l2=1e-2, l1=2e-2),
    "strong": ElasticNet(l2=0.9, l1=2e-2),  # levels fall below 1e-9 every few dozen examples
}


@pytest.mark.parametrize("predict_first", [False, True])
@pytest.mark.parametrize("name", NETS)
def test_lazy_is_dense(name: str, predict_first: bool) -> None:  # noqa: FBT001
    """At a random rate for each example, in several passes: the same scores, weights and non-zeros."""
    rng = np.random.default_rng(1)
    rows = random_rows(rng, 500, 40)
    net = NETS[name]._replace(predict_first=predict_first)
    lazy, oracle = LazyLogistic(40, net), DenseLogistic(40, net)
    for _ in range(3):
        rates = rng.uniform(0.01, 0.5, 500)
        np.testing.assert_allclose(lazy.learn(rows, rates), oracle.learn(rows, rates), rtol=0, atol=1e-12)
    np.testing.assert_allclose(lazy.weights(), oracle.weights(), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(lazy.weights() != 0, oracle.weights() != 0)
    if net.l1:
        assert np.count_nonzero(lazy.weights()[:-1]) < 40, "nothing was ever shrunk to zero"


def test_the_dense_loop_is_what_is_written() -> None:
    """An oracle of its own: matrices, no loop over features."""
    rng = np.random.default_rng(2)
    rows, net = random_rows(rng, 200, 10), NETS["both"]
    rates = rng.uniform(0.01, 0.5, 200)
    model = DenseLogistic(10, net)
    model.learn(rows, rates)
    w, constant = np.zeros(10), 0.0
    for x, y, rate in zip(dense(rows), rows.labels, rates, strict=True):
        w = np.sign(w) * np.maximum(0.0, (1 - 2 * rate * net.l2) * np.abs(w) - rate * net.l1)
        slope = y - 1 / (1 + np.exp(-(w @ x + constant)))
        w, constant = w + rate * slope * x, constant + rate * slope
    np.testing.assert_allclose(model.weights(), [*w, constant], rtol=0, atol=1e-12)


@pytest.mark.parametrize("predict_first", [False, True])
def test_hashed_features_shrink_where_they_learn(predict_first: bool) -> None:  # noqa: FBT001
    """The clock is the slot's, not the feature's: lazy is dense where features share slots, whatever their signs."""
    rng = np.random.default_rng(3)
    rows = random_rows(rng, 400, 60)
    folded = hashed(rows, rng.integers(1, 1 << 62, 60).astype(np.uint64), 3, signed=True)
    net = ElasticNet(1e-2, 1e-3, predict_first)
    lazy, oracle = LazyLogistic(8, net), DenseLogistic(8, net)
    rates = rng.uniform(0.01, 0.5, 400)
    for model in (lazy, oracle):
        model.learn(folded, rates)
    np.testing.assert_allclose(lazy.weights(), oracle.weights(), rtol=0, atol=1e-12)


def test_each_step_of_a_gap_has_its_own_rate() -> None:
    """1,000 steps were missed at a rate of .5, and the next has .125: e^-1 of the weight is left, not .779."""
    net = ElasticNet(l2=1e-3)
    model = LazyLogistic(2, net)
    model.learn(rows_from([(1.0, {0: 1.0})], 2), np.array([0.5]))
    before = model.weights()[0]
    model.learn(rows_from([(1.0, {1: 1.0})] * 1000, 2), np.full(1000, 0.5))
    model.learn(rows_from([(1.0, {1: 1.0})], 2), np.array([0.125]))
    left = model.weights()[0] / before
    assert left == pytest.approx(0.999**1000 * (1 - 2 * 0.125 * 1e-3), rel=1e-9)
    assert left == pytest.approx(0.368, abs=1e-3)


def test_a_feature_that_comes_twice_is_one() -> None:
    """Its values count together, and it shrinks once an example."""
    rng = np.random.default_rng(4)
    rows = random_rows(rng, 300, 6)  # most rows have a column twice
    merged = fold(rows, rows.columns, None, 6)
    assert len(merged.columns) < len(rows.columns)
    models = [LazyLogistic(6, NETS["both"]) for _ in range(2)]
    for model, each in zip(models, (rows, merged), strict=True):
        model.learn(each, np.full(300, 0.3))
    np.testing.assert_allclose(models[0].weights(), models[1].weights(), rtol=0, atol=1e-12)


def test_orders_differ_by_one_step() -> None:
    """At rate .5 with l2 .05, learning a, then b: a's weight is .25, then .2375, however a itself was reckoned."""
    a, b = rows_from([(1.0, {0: 1.0})], 2), rows_from([(1.0, {1: 1.0})], 2)
    for predict_first in (False, True):
        model = LazyLogistic(2, ElasticNet(l2=0.05, predict_first=predict_first))
        model.learn(a, np.array([0.5]))
        assert model.weights()[0] == 0.25
        model.learn(b, np.array([0.5]))
        assert model.weights()[0] == pytest.approx(0.2375, rel=1e-15)
        constant = model.weights()[-1]
        # a comes again: its score is of the weight before or after this example's own shrinking.
        expected = 0.2375 * (1.0 if predict_first else 0.95) + constant
        assert model.learn(a, np.array([0.5]))[0] == pytest.approx(expected, rel=1e-14)


def test_predicting_writes_nothing() -> None:
    """What is due is reckoned on the way: scores are those of the weights as they would be saved."""
    rng = np.random.default_rng(5)
    rows, net = random_rows(rng, 200, 30), NETS["both"]
    models = [LazyLogistic(30, net) for _ in range(2)]
    for part in np.array_split(np.arange(200), 7):
        scores = models[0].predict(rows)
        weights = models[0].weights()
        np.testing.assert_allclose(scores, dense(rows) @ weights[:-1] + weights[-1], rtol=0, atol=1e-12)
        for model in models:
            model.learn(rows.select(part), np.full(len(part), 0.2))
    np.testing.assert_array_equal(models[0].weights(), models[1].weights())


def test_the_constant_is_not_regularised() -> None:
    """It learns the share of the label, whatever the penalty takes from the others."""
    rows = rows_from([(float(i % 4 != 0), {0: 1.0}) for i in range(4000)], 1)
    model = LazyLogistic(1, ElasticNet(l2=0.1, l1=0.5))
    model.learn(rows, np.full(4000, 0.05))
    weight, constant = model.weights()
    assert abs(weight) < 0.05  # of its last step
    assert 1 / (1 + np.exp(-constant)) == pytest.approx(0.75, abs=0.03)


def test_rates_of_passes() -> None:
    """First / E^2."""
    assert [list(rates) for rates in rates_of_passes(0.5, 2, 3)] == [[0.5] * 2, [0.125] * 2, [0.5 / 9] * 2]


def test_what_can_t_be_learned_is_refused() -> None:
    """A rate that would turn weights round, rates that are not one an example, rows of another width."""
    rows, model = rows_from([(1.0, {0: 1.0})], 1), LazyLogistic(1, ElasticNet(l2=1.0))
    with pytest.raises(ValueError, match=r"2 \* rate \* l2 below 1, found rate 0.5 and l2 1"):
        model.learn(rows, np.array([0.5]))
    with pytest.raises(ValueError, match="rate for each of 1 examples, found 2"):
        model.learn(rows, np.array([0.1, 0.1]))
    with pytest.raises(ValueError, match="rows of 1 columns, found 2"):
        model.learn(rows._replace(size=2), np.array([0.1]))
