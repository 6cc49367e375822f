"""Learners of a few hundred examples, of all kinds that can be merged."""

from typing import Any

import numpy as np
import pytest
from support.bare_options import bare

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.merging.merge import adopt, merge
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.state.table import Table
from stream_apple.learners.merging_port import Mergeable
from stream_apple.learners.scores import Scores

SIZE, EPOCHS = 400, 4
KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"mixture": False},
    {"loss": "logistic"},
    {"mixture": False, "selection": "ssm"},
    {"loss": "softmax", "classes": 3},
    {"loss": "softmax", "classes": 3, "mixture": False},
    {"loss": "softmax", "classes": 3, "method": "linear"},
    {"method": "linear"},
    {"method": "quadratic"},
    {"discretise": "spline"},
    {"loss": "softmax", "classes": 3, "discretise": "spline"},
)
kinds = pytest.mark.parametrize(
    "kind",
    KINDS,
    ids=lambda kind: ",".join(f"{name}={value}" for name, value in kind.items()) or "mix",
)


def examples(options: Options, seed: int) -> Batch:
    """Of 3 to 12 of 40 features; the label depends on pairs of them."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(3, 13, SIZE)
    keys = np.random.default_rng(0).integers(1, 1 << 64, 40, np.uint64)
    present = [rng.choice(40, size, replace=False) for size in sizes]
    values = np.ones(sizes.sum(), np.float32)
    values[::7] = 2.0
    odds = np.array([2.0 * ((row < 6).sum() > 1) - 1.0 + 0.1 * (row[0] % 5) for row in present])
    labels = np.where(odds + rng.logistic(0, 0.5, SIZE) > 0, 1.0, -1.0)
    if options.classes:
        labels = labels + 1.0 - (rng.random(SIZE) < 0.3) * (labels > 0)
    weights = rng.integers(1, 4, SIZE).astype(np.float64)
    joined = np.concatenate(present)
    indptr = np.concatenate([[0], sizes.cumsum()]).astype(np.int64)
    return Batch(indptr, keys[joined], values, labels, weights)


def learned(options: Options, seed: int, *, epochs: int = EPOCHS, nominate: bool = True) -> Learner:
    """A learner of `epochs` quarters of the examples."""
    learner = Learner(options)
    continued(learner, seed, (0, epochs), nominate=nominate)
    return learner


def continued(learner: Learner, seed: int, epochs: tuple[int, int], *, nominate: bool = True) -> None:
    """Have it learn these epochs."""
    batch, size = examples(learner.options, seed), SIZE // EPOCHS
    for epoch in range(*epochs):
        learner.learn(batch, epoch * size, (epoch + 1) * size, Scores.empty(SIZE))
        learner.end_epoch(nominate=nominate)


def adopted_table(model: Mergeable) -> Table:
    """The table of a learner that has adopted it."""
    assert isinstance(model.options, Options)
    learner = Learner(model.options)
    adopt(learner, model)
    return learner.table


def merged_digests() -> list[str]:
    """Of what two small models of some kinds become, by votes: to be compared between processes."""
    found = []
    for kind in KINDS[1], KINDS[2], KINDS[4]:
        options = bare(bits=8, **kind)
        found.append(merge([learned(options, seed, epochs=1) for seed in range(2)]).model.digest())
    return found
