"""Classes that persist: what is published follows the latest class where that helps, and nothing else changes."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.bare_options import bare
from support.restoring import restored

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.kernels.mixture import KEEP, SHARE
from stream_apple.learners.apple.kernels.persistence import FIRST_SHARE, KEPT, PERSISTENT
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.multiclass.class_stack import CLASS_RIDGE
from stream_apple.learners.scores import Scores

Numbers = NDArray[np.float64]
COLUMNS, SIZE = 4, 1_500


def stream(classes: int, *, persistent: bool) -> Batch:
    """Features that say something of the class, and a level of each class that stays for a while."""
    rng = np.random.default_rng(classes)
    cells = rng.normal(size=(SIZE, COLUMNS)).astype(np.float32)
    changes = rng.random(SIZE) < (0.03 if persistent else 1.0)
    last = np.maximum.accumulate(np.where(changes, np.arange(SIZE), 0))
    levels = 2.0 * rng.normal(size=(SIZE, classes))[last] + cells @ rng.normal(size=(COLUMNS, classes))
    labels = (levels + 0.3 * rng.normal(size=levels.shape)).argmax(axis=1).astype(np.float64)
    keys = np.tile(np.arange(1, COLUMNS + 1, dtype=np.uint64), SIZE)
    return Batch(np.arange(0, len(keys) + 1, COLUMNS), keys, cells.ravel(), labels, rng.choice([0.5, 1.0, 3.0], SIZE))


def learned(batch: Batch, classes: int, **chosen: Any) -> tuple[Learner, Scores]:
    """What a learner of all rows has published."""
    learner, scores = Learner(bare(loss="softmax", classes=classes, bits=10, **chosen)), Scores.empty(SIZE, classes)
    learner.learn(batch, 0, SIZE, scores)
    return learner, scores


class Follower:
    """What is published of probabilities and the classes before, on matrices, from the description."""

    def __init__(self, classes: int) -> None:
        self.share, self.weights, self.matrix = FIRST_SHARE, np.array([1.0, 0.0, 0.0]), np.zeros((3, 3))
        self.latest, self.misses, self.heaviest = np.zeros(classes), np.zeros(classes), 0.0

    def probabilities(self, mixed: Numbers) -> Numbers:
        """Of the classes."""
        self.mixed, self.inputs = mixed, np.stack([np.log(mixed), self.latest, self.misses])
        combined = self.weights @ self.inputs
        grown = np.exp(np.maximum(combined - combined.max(), -50.0))
        self.own = grown / grown.sum()
        found: Numbers = (1.0 - self.share) * mixed + self.share * self.own
        return found

    def learn(self, label: int, importance: float) -> None:
        """From the example whose probabilities were asked for last."""
        if importance > self.heaviest:
            self._raise_to(self.heaviest / importance)
            self.heaviest = importance
        grown = np.array([1.0 - self.share, self.share])
        grown *= np.array([self.mixed[label], self.own[label]]) ** (importance / self.heaviest)
        self.share = (1.0 - SHARE) * grown[1] / grown.sum() + SHARE * FIRST_SHARE
        apart = self.inputs - (self.inputs @ self.own)[:, None]
        self.matrix = KEEP * self.matrix + importance * (apart * self.own) @ apart.T
        self.weights = self.weights + np.linalg.solve(
            self.matrix + CLASS_RIDGE * np.eye(3), importance * apart[:, label]
        )
        self.latest = np.eye(len(self.latest))[label]
        self.misses = KEPT * self.misses + (1.0 - KEPT) * (self.latest - self.mixed)

    def _raise_to(self, ratio: float) -> None:
        following = FIRST_SHARE * (self.share / FIRST_SHARE) ** ratio
        other = (1.0 - FIRST_SHARE) * ((1.0 - self.share) / (1.0 - FIRST_SHARE)) ** ratio
        self.share = following / (following + other)


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("classes", [2, 3, 11])
def test_what_is_published_is_as_described_and_nothing_else_changes(classes: int, persistent: bool) -> None:  # noqa: FBT001
    """The learner without it gives the mixture's probabilities; its state is the same, bit for bit."""
    batch, chosen = stream(classes, persistent=persistent), {"stack_loss": "log", "drift": "restart"}
    learner, scores = learned(batch, classes, persistence="on", **chosen)
    without, mixed = learned(batch, classes, **chosen)
    follower, expected = Follower(classes), []
    for label, importance, given in zip(batch.labels, batch.weights, mixed.all_probabilities, strict=True):
        expected.append(follower.probabilities(given))
        follower.learn(int(label), float(importance))
    np.testing.assert_allclose(scores.all_probabilities, expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        scores.losses, -np.log(np.array(expected)[np.arange(SIZE), batch.labels.astype(int)]), 1e-5
    )
    assert learner.mixture_shares()[PERSISTENT] == pytest.approx(follower.share, rel=1e-5)
    assert learner.table.slots.tobytes() == without.table.slots.tobytes()
    own = {name: array.tolist() for name, array in without.sums.items() if name not in without.progress.arrays()}
    assert {name: learner.sums[name].tolist() for name in own} == own
    np.testing.assert_array_equal(scores.linear_losses, mixed.linear_losses)
    ratio = (scores.losses @ batch.weights) / (mixed.losses @ batch.weights)
    assert ratio < (0.9 if persistent else 1.01)


def test_state_is_restored_wherever_a_stream_is_cut() -> None:
    """Digest and probabilities are those of one pass, and a score beside the stream changes nothing."""
    batch = stream(3, persistent=True)
    whole, expected = learned(batch, 3, persistence="on")
    learner, scores = Learner(whole.options), Scores.empty(SIZE, 3)
    for start in range(0, SIZE, 170):
        stop = min(start + 170, SIZE)
        first = batch.select(np.arange(start, start + 1))
        asked = learner.score(first)
        learner.learn(batch, start, stop, scores)
        assert asked.probabilities[0] == scores.probabilities[start]
        learner = restored(learner)
    assert learner.digest() == whole.digest()
    np.testing.assert_array_equal(scores.all_probabilities, expected.all_probabilities)
