"""Streams made against the mixture: what is published is never noticeably worse than the linear predictor.

The bound is log(1 / 0.9) * (1, or half of the squared range of labels), and about a 1e-5 of that an example, times the
largest weight, in the sum of losses. So early on, when that sum is small, the ratio may be larger than in the long run.
"""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import LossName, Options
from stream_apple.learners.scores import Scores

SIZE, COLUMNS, VALUES = 6000, 6, 29
EARLY = 48  # examples
MOST = 1.01

Numbers = NDArray[np.float64]
Stream = Callable[[np.random.Generator, "Data"], tuple[Numbers, Numbers]]


class Data:
    """Categories, what a linear function says of them, and a pair of columns that only products can tell."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.values = rng.integers(0, VALUES, (SIZE, COLUMNS))
        self.linear: Numbers = rng.normal(size=(COLUMNS, VALUES))[np.arange(COLUMNS), self.values].sum(1)
        self.pair: Numbers = np.where(self.values[:, 0] % 5 == self.values[:, 1] % 5, 1.0, -1.0)
        self.keys = rng.integers(1, 1 << 64, (COLUMNS, VALUES), np.uint64)[np.arange(COLUMNS), self.values]


def _noise(rng: np.random.Generator, data: Data) -> tuple[Numbers, Numbers]:
    """Expansion only hurts: there is nothing but the linear part, and noise."""
    return data.linear + rng.normal(size=SIZE) * 2, np.ones(SIZE)


def _drift(_: np.random.Generator, data: Data) -> tuple[Numbers, Numbers]:
    """The products' meaning turns over just after every fifth end of an epoch."""
    turned = np.where(np.arange(SIZE) % 1200 < 605, 1.0, -1.0)
    return 0.3 * data.linear + 2 * turned * data.pair, np.ones(SIZE)


def _jump(_: np.random.Generator, data: Data) -> tuple[Numbers, Numbers]:
    """First products explain all, within a range of 1; then labels are linear, in a range of 1000."""
    return np.where(np.arange(SIZE) < SIZE // 2, data.pair / 2, 80 * data.linear), np.ones(SIZE)


def _weights(rng: np.random.Generator, data: Data) -> tuple[Numbers, Numbers]:
    """Importance weights of four orders of magnitude."""
    return data.linear + rng.normal(size=SIZE), rng.choice([0.01, 1.0, 100.0], SIZE)


def _heavy(rng: np.random.Generator, data: Data) -> tuple[Numbers, Numbers]:
    """All weights are large."""
    return 0.2 * data.linear + rng.normal(size=SIZE), np.full(SIZE, 1000.0)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("rate", [0.5, 5.0])
@pytest.mark.parametrize("stream", [_noise, _drift, _jump, _weights, _heavy])
def test_never_noticeably_worse_than_linear(stream: Stream, rate: float, loss: LossName) -> None:
    """At the end of each of 50 epochs, also with a learning rate ten times too high."""
    rng = np.random.default_rng(8)
    data = Data(rng)
    labels, weights = stream(rng, data)
    if loss == "logistic":
        labels = np.where(labels > 0, 1.0, -1.0)
    batch = Batch(
        np.arange(SIZE + 1) * COLUMNS, data.keys.ravel(), np.ones(SIZE * COLUMNS, np.float32), labels, weights
    )
    learner, scores = Learner(Options(loss=loss, bits=14, learning_rate=rate)), Scores.empty(SIZE)
    parents = 0
    for start, stop in itertools.pairwise(range(0, SIZE + 1, SIZE // 50)):
        learner.learn(batch, start, stop, scores)
        parents = max(parents, int(learner.end_epoch().census.parents.sum()) - 1)
        unit = 1.0 if loss == "logistic" else float(np.ptp([0.0, *labels[:stop]])) ** 2 / 2
        early = 0.11 * unit * weights.max() if stop <= EARLY else 0.0
        total = learner.progress.whole[0]
        assert learner.progress.report("whole").loss * total <= (
            MOST * learner.progress.report("whole").linear_loss * total + early
        )
    assert parents > 20, "there must be something that could hurt"


def test_a_wider_range_of_labels_tempers_the_shares() -> None:
    """What was lost within a range of 1 is next to nothing in one of 1000: the mixture begins anew."""
    rng = np.random.default_rng(8)
    data = Data(rng)
    batch = Batch(
        np.arange(SIZE + 1) * COLUMNS, data.keys.ravel(), np.ones(SIZE * COLUMNS, np.float32), data.pair, np.ones(SIZE)
    )
    batch.labels[3000:] = 1000.0
    learner, scores = Learner(Options(bits=14)), Scores.empty(SIZE)
    for start in range(0, 3000, 250):
        learner.learn(batch, start, start + 250, scores)
        learner.end_epoch()
    assert learner.sums["shares"][0] < 0.01
    learner.learn(batch, 3000, 3001, scores)
    assert learner.sums["shares"][0] > 0.8
