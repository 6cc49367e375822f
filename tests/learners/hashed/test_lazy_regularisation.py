"""Lazy regularisation is regularisation of every weight in every step, as an oracle with dense arrays does it."""

import math
from typing import Any

import numpy as np
import pytest
from learners.hashed.rows import Row, batch_of, drawn_labels, drawn_rows, learned, predictions, slot_of
from numpy.typing import NDArray

from stream_apple.learners.hashed.learner import HashedLearner
from stream_apple.learners.hashed.options import HashedOptions
from stream_apple.learners.scores import Scores

BITS = 10


def _new_score(*, loss: str, score: float, label: float, span: float) -> float:
    """Return the score after many small steps whose rates times sensitivity sum to `span`, by bisection."""
    if loss == "squared":
        return label + (score - label) * math.exp(-2.0 * span)
    start = score * label
    low, high = start, start + span
    for _ in range(80):
        middle = 0.5 * (low + high)
        if middle - start + math.exp(middle) - math.exp(start) < span:
            low = middle
        else:
            high = middle
    return low * label


class EagerOracle:
    """The same model in float64, which shrinks every weight in every step; no kernel takes part."""

    def __init__(self, options: HashedOptions) -> None:
        self.options = options
        size = (1 << options.bits) + 1
        self.weights = np.zeros(size)
        self.squares = np.zeros(size)
        self.scale = np.zeros(size) if options.descent == "adaptive" else np.ones(size)
        self.importance = self.norm = 0.0
        self.labels = [0.0, 0.0]

    def learn(self, row: Row, label: float, importance: float) -> float:
        """Learn an example; return the score that it had before."""
        options = self.options
        x = np.zeros(len(self.weights))
        for key, value in row.items():
            x[slot_of(key, options.bits)] += value
        x[-1] = 1.0
        score = float(self.weights @ x)
        logistic = options.loss == "logistic"
        if not logistic:
            self.labels = [min(self.labels[0], label), max(self.labels[1], label)]
        low, high = (-50.0, 50.0) if logistic else self.labels
        score = min(max(score, low), high)
        slope = -label / (1.0 + math.exp(score * label)) if logistic else 2.0 * (score - label)
        if slope == 0.0:
            return score
        direction = self._direction(x, slope, importance)
        sensitivity = float(x @ direction)
        span = options.learning_rate * importance * sensitivity
        length = _new_score(loss=options.loss, score=score, label=label, span=span) - score
        length /= sensitivity
        rate = -length / slope
        constant = self.weights[-1]
        shrunk = np.abs(self.weights) * (1.0 - options.l2 * rate)
        drawn = np.divide(options.l1 * rate, self.scale, out=np.zeros_like(x), where=self.scale > 0.0)
        self.weights = np.sign(self.weights) * np.maximum(shrunk - drawn, 0.0)
        self.weights[-1] = constant
        self.weights += length * direction
        return score

    def _direction(self, x: NDArray[np.float64], slope: float, importance: float) -> NDArray[np.float64]:
        if self.options.descent == "plain":
            return x
        present = x != 0.0
        scale = np.maximum(self.scale, np.abs(x))
        self.weights = np.divide(self.weights * self.scale, scale, out=np.zeros_like(x), where=scale > 0.0)
        self.scale = scale
        self.squares += importance * slope * slope * x * x
        ratio = np.divide(x, scale, out=np.zeros_like(x), where=present)
        self.importance += importance
        self.norm += importance * float(ratio @ ratio)
        steps = np.divide(ratio, np.sqrt(self.squares), out=np.zeros_like(x), where=present)
        return steps * math.sqrt(self.importance / self.norm)


PENALTIES = [{}, {"l2": 1e-3}, {"l1": 1e-3}, {"l2": 1e-3, "l1": 1e-3}, {"l2": 0.3, "l1": 1e-4}]


@pytest.mark.parametrize("penalties", PENALTIES, ids=str)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("descent", ["adaptive", "plain"])
def test_it_equals_eager_regularisation(descent: str, loss: str, penalties: dict[str, float]) -> None:
    """Weights, and each score on the way, to the precision of float32 slots; the largest l2 settles the table often."""
    options: dict[str, Any] = {"bits": BITS, "loss": loss, "descent": descent, "learning_rate": 0.3, **penalties}
    rows = drawn_rows(400, 0)
    labels = drawn_labels(rows, loss)
    weights = np.random.default_rng(1).uniform(0.2, 2.0, len(rows)).tolist()
    oracle = EagerOracle(HashedOptions(**options))
    expected = [oracle.learn(*example) for example in zip(rows, labels, weights, strict=True)]
    learner, scores = HashedLearner(HashedOptions(**options)), Scores.empty(len(rows))
    learner.learn(batch_of(rows, labels, weights), 0, len(rows), scores)
    assert scores.predictions == pytest.approx(np.array(expected), rel=1e-5, abs=2e-6)
    assert learner.weights() == pytest.approx(oracle.weights, rel=1e-5, abs=2e-6)
    assert np.abs(oracle.weights).max() > 0.05  # the largest penalties do not empty the model


def test_small_plain_steps_are_those_of_the_lecture() -> None:
    """Cohen: w <- (1 - 2 * rate * mu) * w + rate * (y - p) * x, where y is 0 or 1; `l2` is 2 * mu."""
    rate, mu = 1e-5, 50.0
    rows = drawn_rows(300, 3)
    labels = drawn_labels(rows, "logistic")
    learner = learned(batch_of(rows, labels), bits=BITS, descent="plain", learning_rate=rate, l2=2 * mu)
    w = np.zeros((1 << BITS) + 1)
    for row, label in zip(rows, labels, strict=True):
        x = np.zeros_like(w)
        np.add.at(x, [slot_of(key, BITS) for key in row], list(row.values()))
        x[-1] = 1.0
        p = 1.0 / (1.0 + math.exp(-w @ x))
        shrunk = w * (1.0 - 2.0 * rate * mu)
        shrunk[-1] = w[-1]  # the constant is not regularised
        w = shrunk + rate * ((label + 1.0) / 2.0 - p) * x
    assert learner.weights() == pytest.approx(w, rel=1e-4, abs=1e-9)


def test_weights_that_no_example_has_keep_shrinking() -> None:
    """A score of features that were not seen for long shrinks, though no example wrote their slots."""
    rows: list[Row] = [{1: 1.0}, *[{2: 1.0, 3: 0.5}] * 50]
    labels = [1.0, *[-1.0, 1.0] * 25]
    with_l2, without = (
        learned(batch_of(rows, labels), bits=BITS, descent="plain", l2=l2).weights()[slot_of(1, BITS)]
        for l2 in (0.1, 0.0)
    )
    assert 0.0 < with_l2 < 0.5 * without


def test_l1_leaves_weights_of_exactly_zero() -> None:
    """Features that say nothing lose their weights; those that say much keep them."""
    generator = np.random.default_rng(0)
    labels = generator.choice([-1.0, 1.0], 2000).tolist()
    others = generator.integers(100, 150, 2000)
    rows: list[Row] = [{7: label, int(key): 1.0} for label, key in zip(labels, others, strict=True)]
    found = learned(batch_of(rows, labels), bits=16, l1=0.02).weights()
    assert found[slot_of(7, 16)] > 1.0
    assert np.count_nonzero(found[:-1]) < 30
    assert np.count_nonzero(learned(batch_of(rows, labels), bits=16).weights()[:-1]) == 51


@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_adaptive_shrinkage_does_not_depend_on_units(unit: float) -> None:
    """A feature in another unit is shrunk as much: scores are the same."""
    rows = drawn_rows(300, 5)
    labels = drawn_labels(rows, "squared")
    scaled: list[Row] = [{key: x * unit for key, x in row.items()} for row in rows]
    one, other = (
        predictions(learned(batch, bits=BITS, loss="squared", l1=1e-3, l2=1e-3), batch)
        for batch in (batch_of(rows, labels), batch_of(scaled, labels))
    )
    assert other == pytest.approx(one, rel=1e-3, abs=1e-4)


def test_a_large_penalty_only_empties_the_model() -> None:
    """Weights stay finite, and never change their sign by shrinking."""
    rows = drawn_rows(200, 6)
    batch = batch_of(rows, drawn_labels(rows, "logistic"), [1e9] * len(rows))
    found = learned(batch, bits=BITS, l2=1000.0, l1=1000.0)
    assert np.isfinite(found.weights()).all()
    assert np.isfinite(predictions(found, batch)).all()
