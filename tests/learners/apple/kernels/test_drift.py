"""Drift: a rise of the loss is found soon, chance is not taken for one, and a model learns fast again."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from support.oracles.drift import learned_row_by_row

from stream_apple.core.batch import Batch
from stream_apple.core.jit import kernel
from stream_apple.learners.apple.growth import EARLY_GROWTH
from stream_apple.learners.apple.kernels.drift import has_risen, what_holds
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Drift, Options
from stream_apple.learners.apple.state.watch import BLOCK, BLOCKS, Watch, empty_watch
from stream_apple.learners.loss_functions import agreement_of
from stream_apple.learners.losses import LOGISTIC, SQUARED, Loss
from stream_apple.learners.scores import Scores

SIZE, FEATURES, VALUES = 6000, 5, 6
LOG_ODDS = LOGISTIC.number


@kernel
def _rises(watch: Watch, losses: NDArray[np.float64], found: NDArray[np.int64]) -> int:
    """Write the numbers of the losses with which they had risen; return how many there are."""
    count = 0
    for i in range(len(losses)):
        held, expected = agreement_of(LOG_ODDS, losses[i], 0.0, 1.0)
        if has_risen(watch, losses[i], held, expected):
            found[count] = i
            count += 1
    return count


def rises(losses: NDArray[np.float64]) -> list[int]:
    """After which of the losses a rise is found."""
    found = np.zeros(len(losses), np.int64)
    count = _rises(empty_watch(), losses, found)
    return [int(at) for at in found[:count]]


@pytest.mark.parametrize("seed", range(3))
def test_chance_is_no_rise(seed: int) -> None:
    """In 200,000 losses of one distribution, heavy-tailed or of two values, nothing is found."""
    rng = np.random.default_rng(seed)
    assert rises(rng.exponential(0.3, 200_000)) == []
    assert rises(rng.pareto(1.5, 200_000)) == []
    assert rises((rng.random(200_000) < 0.01).astype(np.float64)) == []


def test_a_fall_is_no_rise() -> None:
    """Losses that shrink as a model learns are what is hoped for."""
    rng = np.random.default_rng(1)
    assert rises(rng.exponential(1.0, 50_000) / np.sqrt(np.arange(1, 50_001))) == []


@pytest.mark.parametrize(("before", "after", "within"), [(0.1, 1.0, 100), (0.3, 0.5, 500), (0.02, 0.04, 1000)])
def test_a_rise_is_found_soon_and_once(before: float, after: float, within: int) -> None:
    """The smaller it is the longer it takes; then the level above is the usual one."""
    rng = np.random.default_rng(2)
    losses = np.concatenate([rng.exponential(before, 20_000), rng.exponential(after, 20_000)])
    found = rises(losses)
    assert found
    assert 20_000 <= found[0] < 20_000 + within
    assert len(found) <= 2


def test_infinite_losses_are_losses() -> None:
    """They count as the largest, and leave no watch blind."""
    losses = np.full(40_000, 0.1)
    losses[:100] = np.inf
    losses[20_000:] = 1.0
    assert [at for at in rises(losses) if at >= 20_000]


def test_memory_is_bounded() -> None:
    """A level has at most BLOCKS blocks, and what is older is in larger ones: all together are all losses."""
    watch, count = empty_watch(), 100_000
    _rises(watch, np.full(count, 0.25), np.zeros(count, np.int64))
    blocks = watch.used.tolist()
    assert max(blocks) <= BLOCKS
    assert sum(used * (BLOCK << level) for level, used in enumerate(blocks)) + watch.open[0] == count
    assert watch.sums[..., 0].sum() >= 0.2 * count * 0.9


@kernel
def _take_in(watch: Watch, loss: int, losses: NDArray[np.float64], scores: NDArray[np.float64], label: float) -> None:
    for i in range(len(losses)):
        held, expected = agreement_of(loss, losses[i], scores[i], label)
        has_risen(watch, losses[i], held, expected)


@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC], ids=lambda loss: loss.name)
@pytest.mark.parametrize(("wrong", "holds"), [(0.05, 1.0), (0.5, 0.0), (0.95, -1.0)])
def test_what_holds(loss: Loss, wrong: float, holds: float) -> None:
    """All of it where labels are as expected, nothing where they are anything, and the contrary of what is turned."""
    expected = np.where(np.arange(6400) % 100 < 100 * wrong, -0.9, 0.9)
    scores = expected if loss.real_valued else 2.0 * np.arctanh(expected)
    losses = (scores - 1.0) ** 2 if loss.real_valued else np.log1p(np.exp(-scores))
    watch = empty_watch()
    _take_in(watch, loss.number, losses, scores, 1.0)
    assert what_holds(watch) == pytest.approx(holds, abs=0.01)


def test_few_examples_say_less_than_many() -> None:
    """One block is shrunk towards 0."""
    watch = empty_watch()
    _take_in(watch, SQUARED.number, np.full(BLOCK, 0.25), np.full(BLOCK, 0.5), -1.0)
    assert what_holds(watch) == -1.0  # -2 without bounds
    _take_in(watch, SQUARED.number, np.full(BLOCK, 2.25), np.full(BLOCK, 0.5), 0.25)
    assert what_holds(watch) == pytest.approx(-0.375 * BLOCK / (0.5 * BLOCK + 4.0))


def flipping(seed: int) -> Batch:
    """Categories whose meaning turns over in the middle of the stream."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, VALUES, (SIZE, FEATURES))
    keys = rng.integers(1, 1 << 63, (FEATURES, VALUES), np.uint64)[np.arange(FEATURES), values]
    odds = rng.normal(size=(FEATURES, VALUES))[np.arange(FEATURES), values].sum(1) * 2
    odds[SIZE // 2 :] *= -1
    labels = np.where(odds + rng.logistic(size=SIZE) * 0.3 > 0, 1.0, -1.0)
    ones = np.ones(SIZE * FEATURES, np.float32)
    return Batch(np.arange(0, SIZE * FEATURES + 1, FEATURES), keys.reshape(-1), ones, labels, np.ones(SIZE))


def learned(batch: Batch, drift: Drift, step: int = SIZE) -> tuple[Learner, Scores]:
    """The learner of a whole stream."""
    learner, scores = Learner(Options(loss="logistic", bits=12, drift=drift)), Scores.empty(SIZE)
    for start in range(0, SIZE, step):
        learner.learn(batch, start, min(start + step, SIZE), scores)
    return learner, scores


def test_after_a_flip_a_model_is_back_sooner() -> None:
    """The loss of the 1,000 examples behind it is far below that of a model that ignores it."""
    behind = slice(SIZE // 2, SIZE // 2 + 1000)
    ratios = []
    for seed in range(3):
        batch = flipping(seed)
        learner, scores = learned(batch, "restart")
        ignoring, slow = learned(batch, "ignore")
        assert learner.restarts == 1
        assert ignoring.restarts == 0
        assert np.array_equal(scores.losses[: SIZE // 2], slow.losses[: SIZE // 2])
        ratios.append(scores.losses[behind].mean() / slow.losses[behind].mean())
    assert np.mean(ratios) < 0.75


@pytest.mark.parametrize("seed", range(3))
def test_a_restart_as_it_is_described(seed: int) -> None:
    """As the oracle finds it, and does it to each weight; until the model grows anew."""
    batch = flipping(seed)
    learner, scores = learned(batch, "restart")
    expected, slow = Learner(Options(loss="logistic", bits=12, drift="ignore")), Scores.empty(SIZE)
    risen = learned_row_by_row(
        expected,
        batch,
        slow,
        SIZE // 2 + 100,
        lambda row: (math.tanh(slow.predictions[row] / 2.0), float(batch.labels[row])),
    )
    assert learner.restarts == len(risen) == 1
    assert risen[0][1] < -0.5
    same = slice(0, risen[0][0] + EARLY_GROWTH)
    assert np.allclose(scores.predictions[same], slow.predictions[same], rtol=1e-4)


def test_growth_begins_anew() -> None:
    """After as many examples as with a young model, though no epoch has ended."""
    batch, scores = flipping(0), Scores.empty(SIZE)
    learner = Learner(Options(loss="logistic", bits=12))
    learner.learn(batch, 0, SIZE // 2, scores)
    row = SIZE // 2
    while learner.restarts == 0:
        learner.learn(batch, row, row + 1, scores)
        row += 1
    learner.learn(batch, row, row + 59, scores)
    before = learner.census().parents.sum()
    learner.learn(batch, row + 59, row + 60, scores)
    assert learner.census().parents.sum() > before


def test_batches_do_not_matter() -> None:
    """A restart comes after the same example however rows are cut, and its count is part of the model."""
    batch = flipping(7)
    whole, expected = learned(batch, "restart")
    parts, found = learned(batch, "restart", 37)
    assert parts.restarts == 1
    assert np.array_equal(found.predictions, expected.predictions)
    assert parts.digest() == whole.digest()
    assert int(whole.sums["watch_restarts"][0]) == 1
