"""Drift of classes: what holds of their scores, and a restart of all their weights."""

import numpy as np
import pytest
from numpy.typing import NDArray
from support.oracles.drift import learned_row_by_row
from support.restoring import restored

from stream_apple.core.batch import Batch
from stream_apple.core.jit import kernel
from stream_apple.learners.apple.growth import EARLY_GROWTH
from stream_apple.learners.apple.kernels.drift import has_risen, what_holds
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Drift, Options
from stream_apple.learners.apple.state.watch import Watch, empty_watch
from stream_apple.learners.loss_functions import agreement_of, class_agreement
from stream_apple.learners.losses import LOGISTIC
from stream_apple.learners.scores import Scores

SIZE, CLASSES, FEATURES, VALUES = 6000, 4, 5, 6
LOG_ODDS = LOGISTIC.number


@kernel
def _take_in(watch: Watch, losses: NDArray[np.float64], rows: NDArray[np.float64], labels: NDArray[np.int64]) -> int:
    """Return the number of the first row with which losses had risen, or -1."""
    for i in range(len(losses)):
        held, expected = class_agreement(rows[i], labels[i])
        if has_risen(watch, losses[i], held, expected):
            return i
    return -1


@kernel
def _take_in_log_odds(watch: Watch, losses: NDArray[np.float64]) -> int:
    for i in range(len(losses)):
        held, expected = agreement_of(LOG_ODDS, losses[i], 0.0, 1.0)
        if has_risen(watch, losses[i], held, expected):
            return i
    return -1


def watched(rows: NDArray[np.float64], labels: NDArray[np.int64]) -> Watch:
    """What a watch keeps of these probabilities, which are no reason for an alarm."""
    watch = empty_watch()
    assert _take_in(watch, -np.log(rows[np.arange(len(rows)), labels]), rows, labels) == -1
    return watch


def test_two_classes_are_two_labels() -> None:
    """All sums are those of the logistic loss, and so is the alarm."""
    rng = np.random.default_rng(1)
    first = rng.beta(5.0, 2.0, 20_000)
    rows, labels = np.stack([first, 1.0 - first], axis=1), (rng.random(20_000) > first).astype(np.int64)
    labels[15_000:] = 1 - labels[15_000:]
    losses = -np.log(rows[np.arange(20_000), labels])
    ours, theirs = empty_watch(), empty_watch()
    risen = _take_in(ours, losses, rows, labels)
    assert risen > 15_000
    assert risen == _take_in_log_odds(theirs, losses)
    for mine, its in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-9)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_what_holds(classes: int) -> None:
    """All of it, nothing of chance, and next to nothing where each class has become the next."""
    rng = np.random.default_rng(classes)
    labels = rng.integers(0, classes, 6400)
    rows = np.full((6400, classes), 0.1 / (classes - 1))
    rows[np.arange(6400), labels] = 0.9
    right = np.where(rng.random(6400) < 0.9, labels, (labels + rng.integers(1, classes, 6400)) % classes)
    assert what_holds(watched(rows, right)) == pytest.approx(1.0, abs=0.02)
    assert what_holds(watched(rows, rng.integers(0, classes, 6400))) == pytest.approx(0.0, abs=0.03)
    after_the_next = what_holds(watched(rows, (labels + 1) % classes))
    assert after_the_next == pytest.approx(max(-1.0 / (classes - 1) / (0.9 - 0.1 / (classes - 1)), -1.0), abs=0.01)


def turning(seed: int) -> Batch:
    """Categories that speak for classes, each of which becomes the next one in the middle of the stream."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, VALUES, (SIZE, FEATURES))
    keys = rng.integers(1, 1 << 63, (FEATURES, VALUES), np.uint64)[np.arange(FEATURES), values]
    scores = rng.normal(size=(FEATURES, VALUES, CLASSES))[np.arange(FEATURES), values].sum(1) * 2
    labels = (scores + 0.3 * rng.gumbel(size=(SIZE, CLASSES))).argmax(1)
    labels[SIZE // 2 :] = (labels[SIZE // 2 :] + 1) % CLASSES
    ones = np.ones(SIZE * FEATURES, np.float32)
    ends = np.arange(0, SIZE * FEATURES + 1, FEATURES)
    return Batch(ends, keys.reshape(-1), ones, labels.astype(np.float64), np.ones(SIZE))


def options_of(drift: Drift | None) -> Options:
    """Of the classes."""
    return Options(loss="softmax", classes=CLASSES, bits=12, drift=drift)


def learned(batch: Batch, drift: Drift | None, step: int = SIZE) -> tuple[Learner, Scores]:
    """The learner of a whole stream, which is put down and taken up after each `step` examples."""
    learner, scores = Learner(options_of(drift)), Scores.empty(SIZE, CLASSES)
    for start in range(0, SIZE, step):
        learner = restored(learner)
        learner.learn(batch, start, min(start + step, SIZE), scores)
    return learner, scores


@pytest.mark.parametrize("seed", range(3))
def test_after_a_turn_a_model_is_back_sooner(seed: int) -> None:
    """By default; up to the alarm nothing differs from a model that ignores drift."""
    batch, behind = turning(seed), slice(SIZE // 2, SIZE // 2 + 1000)
    learner, scores = learned(batch, None)
    ignoring, slow = learned(batch, "ignore")
    assert (learner.restarts, ignoring.restarts) == (1, 0)
    assert np.array_equal(scores.losses[: SIZE // 2], slow.losses[: SIZE // 2])
    assert scores.losses[behind].mean() < 0.75 * slow.losses[behind].mean()


@pytest.mark.parametrize("seed", range(3))
def test_a_restart_as_it_is_described(seed: int) -> None:
    """As the oracle finds it, and does it to each weight of each class; until the model grows anew."""
    batch = turning(seed)
    learner, scores = learned(batch, "restart")
    expected, slow = Learner(options_of("ignore")), Scores.empty(SIZE, CLASSES)
    unit, each = np.sqrt(CLASSES / (CLASSES - 1)), np.eye(CLASSES)

    def told(row: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        label = each[int(batch.labels[row])]
        return unit * (slow.all_probabilities[row] - 1 / CLASSES), unit * (label - 1 / CLASSES)

    risen = learned_row_by_row(expected, batch, slow, SIZE // 2 + 100, told)
    assert learner.restarts == len(risen) == 1
    same = slice(0, risen[0][0] + EARLY_GROWTH)
    assert np.allclose(scores.all_probabilities[same], slow.all_probabilities[same], rtol=1e-4)


def test_batches_and_restarts_of_a_process_do_not_matter() -> None:
    """A restart comes after the same example however rows are cut, and the watch is part of the model."""
    batch = turning(7)
    whole, expected = learned(batch, "restart")
    parts, found = learned(batch, "restart", 37)
    assert parts.restarts == 1
    assert np.array_equal(found.all_probabilities, expected.all_probabilities)
    assert parts.digest() == whole.digest()
