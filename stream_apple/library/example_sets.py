"""Examples as a set, which `fit` learns: their order and weights depend on their contents alone.

A learner of streams learns something else if the order changes, or if three equal examples become one of weight 3.
Users of `fit` expect neither. So equal examples are put together first; an example of weight w is then learned about w
times, at places that follow from its content and the seed.
"""

import math

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.splitmix64 import splitmix64_finalizer

MOST_COPIES = 8
"""An example that is given once, with more weight than this, is learned so often, with more weight each time."""

_Words = NDArray[np.uint64]
_ROUNDING = 1e-9


def in_scale(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weights of a set, float64[n], in the scale in which it is learned.

    Weights whose mean is from 1 to MOST_COPIES may count rows, and stay as they are. Others, such as the 1/n of
    boosting, only say which examples matter more. They would make the steps of the learner too small or too large, so
    they get the mean 1. Examples of weight 0 are not in the set, and do not count.
    """
    positive = weights[weights > 0.0]
    # The sum does not depend on the order, as the set does not.
    mean = math.fsum(positive.tolist()) / max(1, len(positive))
    return weights if not mean or 1.0 <= mean <= MOST_COPIES else weights / mean


def as_set(batch: Batch, seed: int, *, ordered: bool = False) -> Batch:
    """Return the examples in the order in which they are learned, each about as often as it weighs.

    ordered  the order of an example's features says something: those of another order are other examples
    """
    kept = np.flatnonzero(batch.weights > 0.0)
    batch = batch if len(kept) == len(batch.weights) else batch.select(kept)
    if not len(batch.labels):
        return batch
    # The order of the rows decides neither which of equal examples is learned (those of maps may have their features in
    # another order) nor how the sum of their weights is rounded.
    batch = batch.select(np.lexsort((batch.weights, _hashes(batch, ordered=True))))
    hashes, first, group, counts = np.unique(
        _hashes(batch, ordered=ordered), return_index=True, return_inverse=True, return_counts=True
    )
    total = np.bincount(group, batch.weights)
    copies = np.maximum(counts, np.minimum(np.ceil(total * (1.0 - _ROUNDING)), MOST_COPIES)).astype(np.int64)
    rows = np.repeat(np.arange(len(hashes)), copies)
    number = np.arange(len(rows)) - np.repeat(np.cumsum(copies) - copies, copies)
    places = splitmix64_finalizer(
        hashes[rows] + splitmix64_finalizer(number.astype(np.uint64) + np.uint64(seed % (1 << 32) << 32))
    )
    order = np.argsort(places, kind="stable")
    return batch.select(first[rows[order]])._replace(weights=(total / copies)[rows[order]])


def _hashes(batch: Batch, *, ordered: bool) -> _Words:
    """Return a hash of each example's features and label, uint64[n]; it depends on the features' order if `ordered`."""
    features = splitmix64_finalizer(batch.keys + splitmix64_finalizer(batch.values.view(np.uint32).astype(np.uint64)))
    if ordered:
        places = np.arange(len(features)) - np.repeat(batch.indptr[:-1], np.diff(batch.indptr))
        features = splitmix64_finalizer(features + splitmix64_finalizer(places.astype(np.uint64)))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(features, dtype=np.uint64)])
    labels = (batch.labels + 0.0).view(np.uint64)
    return splitmix64_finalizer(sums[batch.indptr[1:]] - sums[batch.indptr[:-1]] + splitmix64_finalizer(labels))
