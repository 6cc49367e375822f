"""Labels that persist: the published score follows the latest label where that helps, and nothing else changes."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.bare_options import bare
from support.restoring import restored

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.kernels.mixture import KEEP, RIDGE, SHARE
from stream_apple.learners.apple.kernels.persistence import FIRST_SHARE, KEPT, PERSISTENT
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Loss
from stream_apple.learners.scores import EARLY, Scores
from stream_apple.river import AppleClassifier, AppleRegressor

Numbers = NDArray[np.float64]
COLUMNS, SIZE, KNOWN, RATE = 4, 2_000, 20, {"logistic": 1.0, "squared": 2.0}
LOSSES: tuple[Loss, ...] = ("logistic", "squared")


def stream(loss: Loss, *, persistent: bool, size: int = SIZE, seed: int = 1) -> Batch:
    """Features that say something of the label, and a level that stays for a while and that no feature tells."""
    rng = np.random.default_rng(seed)
    cells = rng.normal(size=(size, COLUMNS)).astype(np.float32)
    changes = rng.random(size) < (0.03 if persistent else 1.0)
    level = rng.normal(size=size)[np.maximum.accumulate(np.where(changes, np.arange(size), 0))]
    value = cells[:, 0] - cells[:, 1] * 0.5 + 2.0 * level + rng.normal(size=size) * 0.3
    labels = np.where(value > 0.0, 1.0, -1.0) if loss == "logistic" else 3.0 * value.astype(np.float64)
    keys = np.tile(np.arange(1, COLUMNS + 1, dtype=np.uint64), size)
    return Batch(np.arange(0, len(keys) + 1, COLUMNS), keys, cells.ravel(), labels, rng.choice([0.5, 1.0, 3.0], size))


def learned(batch: Batch, **chosen: Any) -> tuple[Learner, Scores]:
    """What a learner of all rows has published."""
    learner, scores = Learner(bare(bits=10, **chosen)), Scores.empty(len(batch.labels), early=True)
    learner.learn(batch, 0, len(batch.labels), scores)
    return learner, scores


class Follower:
    """What is published of a score and the labels before it, by plain NumPy, from the description."""

    def __init__(self, loss: Loss) -> None:
        self.loss, self.share, self.weights, self.matrix = (
            loss,
            FIRST_SHARE,
            np.array([1.0, 0.0, 0.0]),
            np.zeros((3, 3)),
        )
        self.label = self.misses = self.heaviest = 0.0
        self.low, self.high = (-50.0, 50.0) if loss == "logistic" else (0.0, 0.0)

    def include(self, label: float) -> None:
        """Extend the bounds of scores, and the unit of losses with them."""
        if self.loss == "squared" and not self.low <= label <= self.high:
            before = self.high - self.low
            self.low, self.high = min(self.low, label), max(self.high, label)
            self._temper((before / (self.high - self.low)) ** 2)

    def score(self, given: float) -> float:
        """What is published."""
        self.inputs = np.array([given, self.label, self.misses])
        self.raw = float(self.weights @ self.inputs)
        both, shares = np.clip([given, self.raw], self.low, self.high), np.array([1.0 - self.share, self.share])
        if self.loss == "logistic":
            return float(np.log(shares @ (1 / (1 + np.exp(-both))) / (shares @ (1 / (1 + np.exp(both))))))
        spread = self.high - self.low
        evidence = [np.log(shares @ np.exp(-2 * ((both - end) / spread) ** 2)) for end in (self.high, self.low)]
        return float(self.low + spread * (0.5 + 0.25 * (evidence[0] - evidence[1])))

    def learn(self, label: float, importance: float) -> None:
        """From the example that was scored last."""
        unit = 1.0 if self.loss == "logistic" else (self.high - self.low) ** 2
        if importance > self.heaviest:
            self._temper(self.heaviest / importance)
            self.heaviest = importance
        given, following = np.clip([self.inputs[0], self.raw], self.low, self.high)
        lost = [self._lost(score, label) for score in (given, following)]
        grown = np.array([1.0 - self.share, self.share]) * np.exp(
            -RATE[self.loss] / unit * importance / self.heaviest * np.array(lost)
        )
        self.share = (1 - SHARE) * grown[1] / grown.sum() + SHARE * FIRST_SHARE
        slope, curvature = label - self.raw, 1.0
        probability = 1 / (1 + np.exp(-given))
        if self.loss == "logistic":
            missed = 1 / (1 + np.exp(following * label))
            slope, curvature = label * missed, max(missed**2, missed * (1 - missed))
        self.matrix = self.matrix * KEEP + importance * curvature * np.outer(self.inputs, self.inputs)
        self.weights = self.weights + np.linalg.solve(
            self.matrix + RIDGE * unit * np.eye(3), importance * slope * self.inputs
        )
        miss = (label > 0.0) - probability if self.loss == "logistic" else label - given
        self.label, self.misses = label, KEPT * self.misses + (1 - KEPT) * miss

    def _lost(self, score: float, label: float) -> float:
        return float(np.logaddexp(0.0, -score * label) if self.loss == "logistic" else (score - label) ** 2)

    def _temper(self, ratio: float) -> None:
        parts = [
            first * (share / first) ** ratio
            for first, share in ((1 - FIRST_SHARE, 1 - self.share), (FIRST_SHARE, self.share))
        ]
        self.share = parts[1] / sum(parts)


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_what_is_published_is_as_described_and_nothing_else_changes(loss: Loss, persistent: bool) -> None:  # noqa: FBT001
    """The learner without it gives the mixture's scores; its state is the same, bit for bit."""
    batch = stream(loss, persistent=persistent)
    learner, scores = learned(batch, loss=loss, persistence="on", drift="restart")
    without, mixed = learned(batch, loss=loss, persistence="off", drift="restart")
    follower, expected = Follower(loss), []
    for label, importance, given in zip(
        batch.labels.tolist(), batch.weights.tolist(), mixed.predictions.tolist(), strict=True
    ):
        follower.include(label)
        expected.append(follower.score(given))
        follower.learn(label, importance)
    np.testing.assert_allclose(scores.predictions, expected, rtol=1e-6, atol=1e-6)
    assert learner.mixture_shares()[PERSISTENT] == pytest.approx(follower.share, rel=1e-5)
    assert sum(learner.mixture_shares().values()) == pytest.approx(1.0)
    assert learner.table.slots.tobytes() == without.table.slots.tobytes()
    own = {name: array.tolist() for name, array in without.sums.items() if name not in without.progress.arrays()}
    assert {name: learner.sums[name].tolist() for name in own} == own
    np.testing.assert_array_equal(scores.linear, mixed.linear)
    assert learner.restarts == without.restarts


@pytest.mark.parametrize("loss", LOSSES)
def test_it_helps_where_labels_persist_and_costs_nothing_where_they_do_not(loss: Loss) -> None:
    """Losses are weighted, as they are in the bound."""
    ratios = []
    for persistent in (True, False):
        batch = stream(loss, persistent=persistent)
        losses = [learned(batch, loss=loss, persistence=each)[1].losses @ batch.weights for each in ("on", "off")]
        unit = batch.weights.max() * (1.0 if loss == "logistic" else np.ptp(np.append(batch.labels, 0.0)) ** 2 / 2.0)
        assert losses[0] <= losses[1] + unit * (-np.log(1 - FIRST_SHARE) + SIZE * SHARE)
        ratios.append(losses[0] / losses[1])
    assert ratios[0] < 0.85
    assert ratios[1] < 1.005


@pytest.mark.parametrize("loss", LOSSES)
def test_every_score_follows_the_label_that_was_learned_last(loss: Loss) -> None:
    """Of a row without a label in the stream, and beside the stream; the model does not change."""
    batch = stream(loss, persistent=True, size=300)
    batch = batch._replace(labels=np.where(np.arange(300) < 298, batch.labels, np.nan))
    learner, scores = learned(batch, loss=loss, persistence="on")
    _, mixed = learned(batch, loss=loss, persistence="off")
    digest = learner.digest()
    assert learner.predict(batch.select(np.array([299, 298]))).tolist() == scores.predictions[[299, 298]].tolist()
    assert (scores.predictions[-2:] != mixed.predictions[-2:]).all()
    assert learner.digest() == digest


@pytest.mark.parametrize("loss", LOSSES)
def test_it_rests_once_a_label_was_late(loss: Loss) -> None:
    """From then on what is published is the mixture's score, and the share is gone."""
    batch = stream(loss, persistent=True, size=600)
    early = np.full((600, EARLY), np.nan, np.float32)
    found = {}
    for persistence in ("on", "off"):
        learner, scores = Learner(bare(bits=10, loss=loss, persistence=persistence)), Scores.empty(600, early=True)
        learner.learn(batch, 0, 300, scores)
        early[310:] = scores.early[280]  # what was kept of a prediction that was asked for some examples before
        learner.learn(batch, 300, 600, scores, early)
        found[persistence] = scores.predictions
        assert list(learner.mixture_shares()) == ["linear", "average", "stack", "constant", "slow_linear"]
    assert (found["on"][250:300] != found["off"][250:300]).any()
    np.testing.assert_array_equal(found["on"][311:], found["off"][311:])


@pytest.mark.parametrize("loss", LOSSES)
def test_state_is_restored_wherever_a_stream_is_cut(loss: Loss) -> None:
    """Digest and scores are those of one pass; the model of before has a state without it."""
    batch = stream(loss, persistent=True, size=400)
    whole, expected = learned(batch, loss=loss, persistence="on")
    learner, scores = Learner(whole.options), Scores.empty(400)
    for start in range(0, 400, 17):
        learner.learn(batch, start, min(start + 17, 400), scores)
        learner = restored(learner)
    assert learner.digest() == whole.digest()
    np.testing.assert_array_equal(scores.predictions, expected.predictions)
    assert not any(name.startswith("persistence") for name in Learner(replace(whole.options, persistence="off")).sums)


@pytest.mark.parametrize("loss", LOSSES)
def test_river_s_next_prediction_is_that_of_the_stream(loss: Loss) -> None:
    """What `predict_one` says before `learn_one` is what `learn` publishes."""
    batch = stream(loss, persistent=True, size=300)
    names = [f"n{number}" for number in range(COLUMNS)]
    rows = [dict(zip(names, cells, strict=True)) for cells in batch.values.reshape(-1, COLUMNS).tolist()]
    model: Any = (
        AppleClassifier(epoch_examples=0, bits=10, persistence="on")
        if loss == "logistic"
        else AppleRegressor(epoch_examples=0, bits=10, persistence="on")
    )
    batch.labels[:2] = np.array([-1.0, 1.0]) * np.abs(batch.labels).max()  # no later label extends the bounds of scores
    predicted, early = [], 0.0
    for number, (row, label) in enumerate(zip(rows, batch.labels.tolist(), strict=True)):
        early = model.progressive_loss * number if number == KNOWN else early
        predicted.append(model.predict_proba_one(row).get(True, 0.5) if loss == "logistic" else model.predict_one(row))
        model.learn_one(row, label > 0.0 if loss == "logistic" else label)
    lost = (np.array(predicted) - batch.labels) ** 2
    if loss == "logistic":
        lost = -np.log(np.where(batch.labels > 0.0, predicted, 1.0 - np.array(predicted)))
    assert lost[KNOWN:].sum() == pytest.approx(300 * model.progressive_loss - early, rel=1e-6)
