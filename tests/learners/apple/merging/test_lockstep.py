"""Four learners of a quarter of a stream each: merged at each epoch's end, they are nearly as good as one of all."""

from itertools import pairwise

import numpy as np
import pytest
from support.bare_options import bare

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.merging.merge import adopt, merge
from stream_apple.learners.apple.merging.mergeable import mergeable_of
from stream_apple.learners.apple.options import Options
from stream_apple.learners.merging_port import Parents
from stream_apple.learners.scores import Scores

EXAMPLES, EPOCHS, PARTITIONS = 24_000, 12, 4
FEATURES, HEADS, PAIRS = 1000, 40, 60


def _planted() -> Batch:
    """About 25 of the features each, popular ones first; the label depends on pairs of popular ones."""
    rng = np.random.default_rng(11)
    popularity = 1 / np.arange(1, FEATURES + 1) ** 0.8
    cumulative = np.cumsum(popularity / popularity.sum())
    linear, pairs = rng.normal(0, 0.3, FEATURES), np.zeros((HEADS, HEADS))
    for _ in range(PAIRS):
        i, j = np.sort(rng.choice(HEADS, 2, replace=False))
        pairs[i, j] = rng.normal(0, 1.5)
    rows, labels = [], np.empty(EXAMPLES)
    for row in range(EXAMPLES):
        present = np.unique(np.searchsorted(cumulative, rng.random(28)))
        heads = present[present < HEADS]
        odds = 0.3 * linear[present].sum() + pairs[np.ix_(heads, heads)].sum() + rng.logistic(0, 0.2)
        labels[row] = 1.0 if odds > 0 else -1.0
        rows.append(present)
    keys = rng.integers(1, 1 << 64, FEATURES, np.uint64)
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    joined = np.concatenate(rows)
    return Batch(indptr, keys[joined], np.ones(len(joined), np.float32), labels, np.ones(EXAMPLES))


def _losses(options: Options, shards: list[Batch], parents: Parents | None) -> tuple[float, float]:
    """Mean loss of all; and by how much the first twentieth of an epoch is worse than the last of the one before."""
    learners = [Learner(options) for _ in shards]
    size = len(shards[0].labels) // EPOCHS
    columns = []
    for epoch in range(EPOCHS):
        losses = []
        for learner, shard in zip(learners, shards, strict=True):
            scores = Scores.empty(len(shard.labels))
            learner.learn(shard, epoch * size, (epoch + 1) * size, scores)
            losses.append(scores.losses[epoch * size : (epoch + 1) * size])
            learner.end_epoch(nominate=parents is not None)
        columns.append(np.mean(losses, axis=0))
        if parents:
            merged = merge(learners, parents=parents).model
            for learner in learners:
                adopt(learner, merged)
            assert {mergeable_of(learner).digest() for learner in learners} == {merged.digest()}
    part = max(size // 20, 1)
    jumps = [after[:part].mean() / before[-part:].mean() for before, after in pairwise(columns[2:])]
    return float(np.mean(columns)), max(jumps)


@pytest.mark.parametrize(("mixture", "won_back"), [(False, 0.7), (True, 0.35)])
def test_merged_learners_learn_from_all(mixture: bool, won_back: float) -> None:  # noqa: FBT001
    """Most of what partitioning costs apple is won back, and the loss does not jump after a merge."""
    batch = _planted()
    shards = [batch.select(np.arange(at, EXAMPLES, PARTITIONS)) for at in range(PARTITIONS)]
    options = bare(bits=16, mixture=mixture)
    one, _ = _losses(options, [batch], None)
    apart, _ = _losses(options, shards, None)
    merged, jump = _losses(options, shards, "votes")
    assert one < merged < apart - won_back * (apart - one)
    assert jump < 1.25
