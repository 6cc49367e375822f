"""Learners of k classes: what they learn, whom they publish, and that nothing depends on how a stream is cut."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.bare_options import bare
from support.restoring import restored

from stream_apple.core.batch import TOO_LARGE, Batch
from stream_apple.learners.apple.kernels.mixture import FIRST_SHARES
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.state.table import MOST_WEIGHT
from stream_apple.learners.scores import Scores
from stream_apple.learners.state import check_finite

SIZE, COLUMNS = 12_000, 12
KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"mixture": False},
    {"method": "linear"},
    {"method": "quadratic"},
)


def batch_of_columns(x: np.ndarray, labels: np.ndarray) -> Batch:
    """Examples from a matrix, whose zeros are left out."""
    there = x != 0
    keys = np.random.default_rng(99).integers(1, 1 << 64, x.shape[1], np.uint64)
    ends = np.concatenate([[0], there.sum(1).cumsum()]).astype(np.int64)
    rows = np.broadcast_to(keys, x.shape)[there], x[there].astype(np.float32)
    return Batch(ends, *rows, labels.astype(np.float64), np.ones(len(x)))


def planted_classes(seed: int, size: int = SIZE) -> Batch:
    """Three classes that no linear function tells apart: which of two pairs of signs are equal."""
    rng = np.random.default_rng(seed)
    x = rng.choice([-1.0, 1.0], (size, COLUMNS))
    first, second = x[:, 0] == x[:, 1], x[:, 2] == x[:, 3]
    return batch_of_columns(x, np.where(first, 0, np.where(second, 1, 2)))


def in_epochs(learner: Learner, batch: Batch, epochs: int = 8) -> Scores:
    """Learn the batch in equally long epochs."""
    size = len(batch.labels)
    scores = Scores.empty(size)
    for start, stop in itertools.pairwise(np.linspace(0, size, epochs + 1).astype(int).tolist()):
        learner.learn(batch, start, stop, scores)
        learner.end_epoch()
    return scores


def options_of(kind: dict[str, Any], **more: Any) -> Options:
    """Of the softmax loss, three classes unless it is said."""
    return bare(**{"loss": "softmax", "classes": 3, "bits": 12, **kind, **more})


@pytest.mark.parametrize("kind", [{}, {"mixture": False}])
def test_apple_learns_what_linear_cannot(kind: dict[str, Any]) -> None:
    """The last examples are nearly all right, where linear has no more than the frequencies of the classes."""
    batch = planted_classes(1)
    learner = Learner(options_of(kind))
    scores = in_epochs(learner, batch)
    late = slice(-2000, None)
    assert (scores.predictions[late] != batch.labels[late]).mean() < 0.01
    assert (scores.linear[late] != batch.labels[late]).mean() > 0.4
    assert scores.losses[late].mean() < 0.1
    assert scores.linear_losses[late].mean() > 0.9
    found = learner.progress.report("whole")
    assert found.loss == pytest.approx(scores.losses.mean())
    assert found.linear_loss == pytest.approx(scores.linear_losses.mean())
    assert found.expanded_loss == pytest.approx(scores.expanded_losses.mean())
    assert found.label == pytest.approx((scores.predictions == batch.labels).mean())
    assert found.prediction == pytest.approx(scores.probabilities.mean())
    shares = np.bincount(batch.labels.astype(int)) / SIZE
    assert found.best_constant_loss == pytest.approx(-(shares * np.log(shares)).sum())


def test_a_class_of_next_to_no_weight_costs_the_best_constant_nothing() -> None:
    """Its share is 0 in 64 bits, whose logarithm is no number."""
    batch = planted_classes(1, 30)
    batch = batch._replace(weights=np.where(batch.labels == 0, 5e-324, 1e3))
    learner = Learner(options_of({}))
    in_epochs(learner, batch, 1)
    shares = np.bincount(batch.labels.astype(int))[1:] / np.count_nonzero(batch.labels)
    found = learner.progress.report("whole").best_constant_loss
    assert found == pytest.approx(-(shares * np.log(shares)).sum())


@pytest.mark.parametrize("kind", KINDS)
def test_linear_alongside_is_linear(kind: dict[str, Any]) -> None:
    """Beside products it learns as if it were alone."""
    batch = planted_classes(2, 3000)
    alone = in_epochs(Learner(options_of({"method": "linear", "learning_rate": 0.5})), batch)
    beside = in_epochs(Learner(options_of({**kind, "learning_rate": 0.5})), batch)
    np.testing.assert_allclose(beside.linear_losses, alone.losses, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("weights", [(1.0,), (0.01, 1.0, 100.0), (1000.0,)])
@pytest.mark.parametrize("labels", ["noise", "drift", "linear"])
def test_a_mixture_is_never_noticeably_worse_than_linear(labels: str, weights: tuple[float, ...]) -> None:
    """At no time: by log(1 / 0.9) and a 1e-5 of the largest loss an example, in units of the heaviest example."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(6000, 5))
    hidden = rng.normal(size=(5, 3))
    wanted = {
        "noise": rng.integers(0, 3, 6000),
        "drift": np.where(x[:, 0] * x[:, 1] * np.where(np.arange(6000) % 1500 < 755, 1, -1) > 0, 0, 2),
        "linear": (x @ hidden + rng.gumbel(size=(6000, 3))).argmax(1),
    }[labels]
    batch = batch_of_columns(x, wanted)._replace(weights=rng.choice(weights, 6000))
    scores = in_epochs(Learner(options_of({})), batch)
    beyond = np.cumsum(batch.weights * (scores.losses - scores.linear_losses)) / max(weights)
    most = np.log(1 / FIRST_SHARES[0]) + 1e-5 * np.arange(1, 6001) + 1e-9
    assert (beyond <= most).all()


@given(cuts=st.lists(st.integers(0, 900), max_size=6), kind=st.sampled_from(KINDS))
@settings(max_examples=12, deadline=None)
def test_cuts_change_nothing(cuts: list[int], kind: dict[str, Any]) -> None:
    """Neither where batches end, nor a model that is put down and taken up there; and to score is free."""
    batch = planted_classes(4, 900)
    whole, parts = Learner(options_of(kind)), Learner(options_of(kind))
    scores, pieces = Scores.empty(900), Scores.empty(900)
    whole.learn(batch, 0, 450, scores)
    whole.end_epoch()
    whole.learn(batch, 450, 900, scores)
    for start, stop in itertools.pairwise(sorted({0, 450, 900, *cuts})):
        parts = restored(parts)
        if start == 450:
            parts.end_epoch()
        parts.predict(batch)
        parts.learn(batch, start, stop, pieces)
    assert parts.digest() == whole.digest()
    for found, expected in zip(pieces, scores, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_every_weight_is_in_the_digest() -> None:
    """Another weight of one class is another model."""
    learner = Learner(options_of({}))
    in_epochs(learner, planted_classes(5, 300))
    before = learner.digest()
    place = int(np.flatnonzero(learner.table.slots["key"])[0])
    for column in range(learner.table.class_weights.shape[1]):
        learner.table.class_weights[place, column] += 1
        assert learner.digest() != before
        learner.table.class_weights[place, column] -= 1


LARGEST = float(np.nextafter(TOO_LARGE, np.float32(0)))
SIZES = (1.0, LARGEST, 1e10, 1e-10, 1e-38, 1e-45)
VALUES = st.sampled_from([sign * size for size in SIZES for sign in (1, -1)])
WEIGHTS = st.sampled_from([1.0, 1e12, 1e-3, 1e-100, 5e-324])
ROWS = st.lists(
    st.tuples(st.lists(VALUES, min_size=0, max_size=4), st.integers(0, 2), WEIGHTS), min_size=1, max_size=30
)


@given(
    rows=ROWS, kind=st.sampled_from(KINDS), rate=st.sampled_from([1e-30, 0.5, 1000.0]), repeat=st.sampled_from([1, 40])
)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_no_stream_is_the_end_of_a_model(
    rows: list[tuple[list[float], int, float]], kind: dict[str, Any], rate: float, repeat: int
) -> None:
    """Extremes of values and weights: probabilities stay probabilities, and every number of the model is finite."""
    rows = rows * repeat
    keys = np.array([7, 8, 9, 10], np.uint64)
    batch = Batch(
        np.cumsum([0, *(len(values) for values, _, _ in rows)]).astype(np.int64),
        np.concatenate([keys[: len(values)] for values, _, _ in rows]),
        np.array([value for values, _, _ in rows for value in values], np.float32),
        np.array([float(label) for _, label, _ in rows]),
        np.array([weight for _, _, weight in rows]),
    )
    learner, scores = Learner(options_of(kind, bits=8, learning_rate=rate)), Scores.empty(len(rows))
    for _ in range(3):
        learner.learn(batch, 0, len(rows), scores)
        assert ((scores.probabilities >= 1 / 3 - 1e-9) & (scores.probabilities <= 1.0)).all()
        assert np.isfinite(scores.losses).all()
        assert (scores.losses >= 0).all()
        learner.end_epoch()
        check_finite(learner.table._asdict())
        assert (np.abs(learner.table.slots["weight"]) <= MOST_WEIGHT).all()
        assert all(np.isfinite(array).all() for array in learner.sums.values())


def test_probabilities_sum_to_one() -> None:
    """Each class's own, from the losses that it would have as a label."""
    learner = Learner(options_of({}, classes=5))
    batch = planted_classes(6, 2000)
    in_epochs(learner, batch)
    losses = [learner.score(batch._replace(labels=np.full(2000, float(c)))).losses for c in range(5)]
    np.testing.assert_allclose(np.exp(-np.array(losses)).sum(0), 1.0, rtol=1e-12)
    likeliest = np.argmin(losses, axis=0)
    assert (learner.predict(batch) == likeliest).all()


def test_memory_is_counted() -> None:
    """Twenty bytes a class and slot in a mixture; the table really has that."""
    for kind, each in (({}, 20), ({"mixture": False}, 16), ({"method": "linear"}, 8)):
        few, many = (options_of(kind, classes=classes) for classes in (2, 12))
        assert many.model_bytes() - few.model_bytes() == 10 * each << 12
        assert Learner(many).table.class_weights.nbytes == 12 * each * ((1 << 12) + 1)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"loss": "softmax"}, "classes: expected an integer from 2 to 1000 with loss softmax, found 0"),
        ({"loss": "softmax", "classes": 1001}, "classes: expected an integer from 0 to 1000, found 1001"),
        ({"classes": 3}, "classes: expected 0 with loss squared, found 3"),
        ({"loss": "softmax", "classes": 3, "mixture": False, "selection": "ssm"}, "selection: expected"),
        (
            {"loss": "softmax", "classes": 3, "mixture": False, "steps": "theorem1", "theorem1_lambda": 1.0},
            "steps: expected adaptive",
        ),
    ],
)
def test_options_that_contradict_each_other(given: dict[str, Any], fault: str) -> None:
    """Each says what it expects."""
    with pytest.raises(ValueError, match=fault):
        bare(**given)
