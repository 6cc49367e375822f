"""The softmax update: against finite differences, a dense learner in float64, and the logistic loss of two classes."""

import numpy as np
import pytest
from learners.apple.test_learner import Row, batch_of, key, run
from support.oracles.softmax import DenseSoftmax, log_loss

from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Method, Options
from stream_apple.learners.scores import Scores

NAMES = ("a", "b", "c", "d", "e", "f")
CLASSES = 4


def draw(rng: np.random.Generator, size: int, classes: int = CLASSES) -> list[Row]:
    """Examples of a linear function of their features; a third of them are heavy, or light."""
    hidden = rng.normal(size=(len(NAMES), classes))
    rows = []
    for _ in range(size):
        x = np.round(rng.normal(size=len(NAMES)) * (rng.random(len(NAMES)) < 0.7), 3)
        label = int((x @ hidden + rng.gumbel(size=classes)).argmax())
        weight = float(rng.choice([1.0, 1.0, 3.0, 0.2]))
        rows.append(Row({name: float(v) for name, v in zip(NAMES, x, strict=True) if v}, float(label), weight))
    return rows


def dense(row: Row) -> np.ndarray:
    """The values of all names, and the constant's."""
    return np.array([*(row.features.get(name, 0.0) for name in NAMES), 1.0])


def places(learner: Learner) -> list[int]:
    """The slots of the names and of the constant."""
    keys = learner.table.slots["key"]
    return [*(int(np.flatnonzero(keys == key(name))[0]) for name in NAMES), len(keys) - 1]


def test_the_step_goes_down_the_gradient() -> None:
    """Of each weight: the accumulator grows by its squared slope, and the weight goes the other way."""
    rows = draw(np.random.default_rng(1), 60)
    learner = Learner(Options(method="linear", loss="softmax", classes=CLASSES, bits=8))
    learner.learn(batch_of(rows[:-1]), 0, len(rows) - 1, Scores.empty(len(rows)))
    at, last = places(learner), rows[-1]
    before = learner.table.class_weights[at].astype(np.float64)
    learner.learn(batch_of([last]), 0, 1, Scores.empty(1))
    after = learner.table.class_weights[at].astype(np.float64)
    weights, x, tiny = before[:, :CLASSES], dense(last), 1e-6
    assert last.label is not None
    for i in np.flatnonzero(x):
        for c in range(CLASSES):
            beside = [weights.copy() for _ in range(2)]
            beside[0][i, c] -= tiny
            beside[1][i, c] += tiny
            low, high = (log_loss(each, x, int(last.label)) for each in beside)
            slope = (high - low) / (2 * tiny)
            grown = after[i, CLASSES + c] - before[i, CLASSES + c]
            assert grown == pytest.approx(last.weight * slope * slope, rel=1e-3, abs=1e-6)
            assert np.sign(after[i, c] - before[i, c]) == -np.sign(slope)
    assert log_loss(after[:, :CLASSES], x, int(last.label)) < log_loss(weights, x, int(last.label))


@pytest.mark.parametrize("rate", [0.1, 0.5, 5.0])
def test_linear_is_the_dense_learner(rate: float) -> None:
    """Example for example the loss of the oracle, to what float32 and the approximation of Lambert's W leave."""
    rows = draw(np.random.default_rng(2), 400)
    learner = Learner(Options(method="linear", loss="softmax", classes=CLASSES, bits=8, learning_rate=rate))
    scores = Scores.empty(len(rows))
    learner.learn(batch_of(rows), 0, len(rows), scores)
    oracle = DenseSoftmax(len(NAMES) + 1, CLASSES, rate)
    losses = []
    for row in rows:
        assert row.label is not None
        losses.append(oracle.loss(dense(row), int(row.label)))
        oracle.learn(dense(row), int(row.label), row.weight)
    np.testing.assert_allclose(scores.losses, losses, rtol=2e-3, atol=2e-4)
    found = learner.table.class_weights[places(learner), :CLASSES]
    np.testing.assert_allclose(found, oracle.weights, rtol=0.01, atol=2e-3)


@pytest.mark.parametrize(("method", "mixture"), [("linear", False), ("quadratic", False), ("apple", False)])
def test_two_classes_are_the_logistic_loss(method: Method, mixture: bool) -> None:  # noqa: FBT001
    """The same losses and the same parents, one weight being the difference of two.

    Values are of one size: where the loss is 0 in float32, scales are widened here, and not by the logistic loss.
    """
    drawn = draw(np.random.default_rng(3), 2000, classes=2)
    rows = [row._replace(features={name: float(np.sign(v)) for name, v in row.features.items()}) for row in drawn]
    batch = batch_of(rows)
    softmax = Learner(Options(method=method, mixture=mixture, loss="softmax", classes=2, bits=10))
    logistic = Learner(Options(method=method, mixture=mixture, loss="logistic", bits=10))
    found = run(softmax, batch, 5)
    expected = run(logistic, batch._replace(labels=np.where(batch.labels > 0, 1.0, -1.0)), 5)
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-4, atol=1e-5)
    margins = expected.linear * np.where(batch.labels > 0, 1.0, -1.0)
    np.testing.assert_allclose(found.linear_losses, np.logaddexp(0, -margins), rtol=1e-4, atol=1e-5)
    assert (found.predictions == (expected.predictions > 0)).all()
    slots = softmax.slots(), logistic.slots()
    assert (slots[0]["key"] == slots[1]["key"]).all()
    assert (slots[0]["parent"] == slots[1]["parent"]).all()
    np.testing.assert_allclose(slots[0]["weight"], np.abs(slots[1]["weight"]), rtol=1e-3, atol=1e-4)


def test_a_heavy_example_does_not_overshoot() -> None:
    """However heavy, an example's own loss falls, and its scores stay near each other."""
    for importance in (1.0, 1e3, 1e9, 1e12):
        rows = draw(np.random.default_rng(4), 50)
        learner = Learner(Options(method="linear", loss="softmax", classes=CLASSES, bits=8, learning_rate=10.0))
        learner.learn(batch_of(rows), 0, 50, Scores.empty(50))
        heavy = Row(rows[-1].features, (float(rows[-1].label or 0) + 1) % CLASSES, importance)
        batch = batch_of([heavy])
        before = learner.score(batch).losses[0]
        learner.learn(batch, 0, 1, Scores.empty(1))
        assert learner.score(batch).losses[0] < before
        at = [place for place, value in zip(places(learner), dense(heavy), strict=True) if value]
        weights = learner.table.class_weights[at, :CLASSES].astype(float)
        scores = dense(heavy)[dense(heavy) != 0] @ weights
        assert np.ptp(scores) < 3 * np.log(importance + 2) + 50


def test_learning_twice_is_learning_once_at_twice_the_weight() -> None:
    """Nearly: the way is that of many small steps along the gradient at its start."""
    rows = [row._replace(weight=1.0) for row in draw(np.random.default_rng(5), 300)]
    losses = []
    for copies, weight in ((2, 1.0), (1, 2.0)):
        learner = Learner(Options(method="linear", loss="softmax", classes=CLASSES, bits=8, learning_rate=0.1))
        repeated = [row._replace(weight=weight) for row in rows for _ in range(copies)]
        learner.learn(batch_of(repeated), 0, len(repeated), Scores.empty(len(repeated)))
        losses.append(float(learner.score(batch_of(rows)).losses.mean()))
    assert losses[0] == pytest.approx(losses[1], rel=0.02)


@pytest.mark.parametrize("label", [-1.0, 4.0, 1.5, np.inf])
def test_kernels_see_no_other_labels(label: float) -> None:
    """Arrays are as long as there are classes."""
    learner = Learner(Options(loss="softmax", classes=CLASSES, bits=8))
    batch = batch_of([Row({"a": 1.0}, label, 1.0)])
    with pytest.raises(ValueError, match="whole numbers from 0 to 3"):
        learner.learn(batch, 0, 1, Scores.empty(1))
