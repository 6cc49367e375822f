"""Several passes of several learners: who grows when, and what becomes one model."""

import numpy as np
import pytest
from support.bare_options import bare

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.learner import as_apple
from stream_apple.learners.apple.merging.mergeable import mergeable_of
from stream_apple.offline.schedule import Schedule
from stream_apple.offline.sharding.lockstep import Lockstep
from stream_apple.offline.sharding.sharded import streams_of
from study.runs.passes import evaluate_in_passes

SHARDS, IN_ORDER = 3, Schedule(epochs=6, test_fraction=0.0, keep_order=True)
OPTIONS = bare(bits=12, loss="logistic")


def made_up(count: int) -> Batch:
    """Rows of four of twelve binary features; the label goes by a sum and a product of two."""
    rng = np.random.default_rng(3)
    chosen = np.sort(np.argsort(rng.random((count, 12)), axis=1)[:, :4], axis=1)
    sums = np.random.default_rng(1).normal(size=12)[chosen].sum(axis=1)
    sums += 2.0 * ((chosen == 2).any(axis=1) & (chosen == 5).any(axis=1))
    keys = (chosen.ravel().astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    labels = np.where(sums > np.median(sums), 1.0, -1.0)
    return Batch(np.arange(count + 1) * 4, keys, np.ones(4 * count, np.float32), labels, np.ones(count))


BATCH = made_up(2400)


def test_later_passes_keep_the_parents_of_the_first() -> None:
    """Each shard grows in the first pass by itself; then all have the parents of all, and one model after each pass."""
    epochs = np.arange(len(BATCH.labels)) // 400
    alone = Lockstep(OPTIONS, streams_of(BATCH, np.arange(len(BATCH.labels)) % SHARDS, epochs, SHARDS), None)
    alone.learn()
    union = set[int]()
    for shard in alone.shards:
        slots = as_apple(shard.learner).slots()
        union |= set(slots["key"][slots["parent"] == 1].tolist())
    assert len(union) > 3
    for passes in (1, 3):
        measures, learners = evaluate_in_passes(BATCH, OPTIONS, IN_ORDER, SHARDS, passes)
        slots = learners[0].slots()
        assert set(slots["key"][slots["parent"] != 0].tolist()) == union
        assert len({mergeable_of(learner).digest() for learner in learners}) == 1
        assert [learner.examples for learner in learners] == [passes * 800] * SHARDS
        assert measures.features is not None
        assert measures.features > 5.0
        assert measures.test_auc is None


def test_more_passes_fit_better() -> None:
    """A linear model keeps the features that examples have, and its AUC on the test part rises."""
    options = bare(method="linear", bits=12, loss="logistic", learning_rate=0.05)
    few, many = (evaluate_in_passes(BATCH, options, Schedule(), SHARDS, passes)[0] for passes in (1, 5))
    assert few.features == many.features == pytest.approx(5.0)
    assert many.test_auc > few.test_auc > 0.5  # type: ignore[operator]
