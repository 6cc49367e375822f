"""Batches written by hand, and what a learner makes of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.learners.hashed.learner import HashedLearner
from stream_apple.learners.hashed.options import HashedOptions
from stream_apple.learners.scores import Scores

Row = dict[int, float]
"""Key -> value."""


def batch_of(
    rows: list[Row], labels: list[float], weights: list[float] | None = None, spaces: dict[int, int] | None = None
) -> Batch:
    """Return these examples.

    spaces  key of a feature -> key of its namespace, 0 for the others; None: a batch without namespaces
    """
    keys = np.array([key for row in rows for key in row], np.uint64)
    batch = Batch(
        np.cumsum([0, *map(len, rows)]).astype(np.int64),
        keys,
        np.array([x for row in rows for x in row.values()], np.float32),
        np.array(labels, np.float64),
        np.array([1.0] * len(rows) if weights is None else weights, np.float64),
    )
    if spaces is None:
        return batch
    return batch._replace(spaces=np.array([spaces.get(key, 0) for key in keys.tolist()], np.uint64))


def drawn_rows(count: int, seed: int, keys: int = 40, features: int = 6) -> list[Row]:
    """Return rows of random features with values from -1 to 1."""
    generator = np.random.default_rng(seed)
    names = key_range(keys)
    return [
        {
            int(key): float(np.float32(x))
            for key, x in zip(
                generator.choice(names, features, replace=False), generator.uniform(-1, 1, features), strict=True
            )
        }
        for _ in range(count)
    ]


def key_range(count: int) -> NDArray[np.uint64]:
    """Return different keys, as hashes would be."""
    return np.random.default_rng(99).integers(1, 1 << 63, count, np.uint64)


def drawn_labels(rows: list[Row], loss: str, seed: int = 0) -> list[float]:
    """Return labels that depend on the features and on chance."""
    generator = np.random.default_rng(seed)
    truth = {int(key): weight for key, weight in zip(key_range(1000), generator.normal(size=1000), strict=True)}
    scores = [sum(truth[key] * x for key, x in row.items()) + generator.normal() for row in rows]
    return [float(np.sign(score)) if loss == "logistic" else score for score in scores]


def learned(batch: Batch, **options: Any) -> HashedLearner:
    """Return a learner with these options after all rows of the batch."""
    learner = HashedLearner(HashedOptions(**options))
    learner.learn(batch, 0, len(batch.labels), Scores.empty(len(batch.labels)))
    return learner


def predictions(learner: HashedLearner, batch: Batch) -> NDArray[np.float64]:
    """Return the scores of all rows, float64[n]."""
    scores = Scores.empty(len(batch.labels))
    learner.score_rows(batch, 0, len(batch.labels), scores)
    return scores.predictions


def slot_of(key: int, bits: int) -> int:
    """Return the slot of a feature."""
    return (key * 0x9E3779B97F4A7C15 & (1 << 64) - 1) >> (64 - bits)


def keys_of_one_slot(bits: int) -> tuple[int, int]:
    """Return two keys that share a slot of a table of this size."""
    seen: dict[int, int] = {}
    for key in key_range(1000).tolist():
        if (other := seen.setdefault(slot_of(key, bits), key)) != key:
            return other, key
    raise AssertionError(f"expected two of 1000 keys in one of 2^{bits} slots, found none")
