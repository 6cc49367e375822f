"""A made-up stream of which one learner in P sees too little: many rare features, and pairs of frequent ones.

An example has about 57 of 20,000 binary features, the feature of rank r with a probability by 1 / r^0.8. The label, -1
or 1, is the sign of a weak linear part over all of them, of 300 pairs among the 60 most frequent, and of noise.
"""

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.splitmix64 import GOLDEN, splitmix64_finalizer

FEATURES = 20_000
FREQUENT = 60
PAIRS = 300
_DRAWS = 60  # of an example, in the mean, before those that were drawn twice count once
_LINEAR, _NOISE = 0.15, 0.3


def plant_pairs(examples: int, seed: int) -> Batch:
    """Draw so many examples with this seed; what is planted is always the same."""
    rng = np.random.default_rng(seed)
    share = np.cumsum(1.0 / np.arange(1, FEATURES + 1) ** 0.8)
    lengths = np.maximum(rng.poisson(_DRAWS, examples), 5)
    drawn = np.searchsorted(share / share[-1], rng.random(int(lengths.sum()))).astype(np.int64)
    entries = np.unique(np.repeat(np.arange(examples), lengths) * FEATURES + drawn)
    rows, features = entries // FEATURES, entries % FEATURES
    linear, pairs = _planted()
    odds = _LINEAR * np.bincount(rows, linear[features], examples) + rng.logistic(0.0, _NOISE, examples)
    frequent = np.zeros((examples, FREQUENT))
    among = features < FREQUENT
    frequent[rows[among], features[among]] = 1.0
    odds += ((frequent @ pairs) * frequent).sum(axis=1)
    indptr = np.concatenate([[0], np.bincount(rows, minlength=examples)]).cumsum(dtype=np.int64)
    keys = _mixed((features + 1).astype(np.uint64))
    labels = np.where(odds > 0.0, 1.0, -1.0)
    return Batch(indptr, keys, np.ones(len(keys), np.float32), labels, np.ones(examples))


def _planted() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the weights: float64[FEATURES], and of pairs, above the diagonal, float64[FREQUENT, FREQUENT]."""
    rng = np.random.default_rng(2014)
    pairs = np.zeros((FREQUENT, FREQUENT))
    first, second = np.triu_indices(FREQUENT, 1)
    chosen = rng.choice(len(first), PAIRS, replace=False)
    pairs[first[chosen], second[chosen]] = rng.normal(size=PAIRS)
    return rng.normal(size=FEATURES), pairs


def _mixed(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a hash of each key, by the finalizer of splitmix64. The table expects even keys."""
    return splitmix64_finalizer((keys ^ np.uint64(2)) + GOLDEN)
