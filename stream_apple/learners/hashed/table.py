"""The state of the learner `hashed`, and the arrays that an example passes through."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import space_key
from stream_apple.learners.hashed.options import HashedOptions

SLOT = np.dtype([("weight", np.float32), ("squares", np.float32), ("scale", np.float32), ("stamp", np.float64)])
"""A slot of the table.

weight   the weight, before the shrinkage that is pending, see `regularisation.py`
squares  the sum of the squared gradients; 0 with plain steps
scale    the largest value of the slot's feature so far, at least LEAST; 1 with plain steps
stamp    the value of `HashedSums.shrinkage[DRAWN]` when the slot was last written
"""

LEAST = np.float32(1.2e-38)  # a scale, a square, and a sum of squares are never less, so nothing is divided by 0
MOST = np.finfo(np.float32).max  # a sum of squares is never larger
MOST_WEIGHT = 2.0**66  # with values below 2^60 no score overflows

FACTOR, DRAWN = range(2)  # of `HashedSums.shrinkage`
IMPORTANCE, NORM = range(2)  # of `HashedSums.normaliser`
EXAMPLES, FEATURES, TRUNCATED = range(3)  # of `HashedSums.counts`


class HashedSums(NamedTuple):
    """The state in addition to the slots.

    shrinkage   float64[2]  FACTOR and DRAWN, see `regularisation.py`
    normaliser  float64[2]  IMPORTANCE and NORM, see `update.py`
    labels      float64[2]  the smallest and the largest of 0 and the labels learned
    counts      int64[3]    of the examples learned: EXAMPLES, their FEATURES, and those TRUNCATED, which had features
                            left out
    """

    shrinkage: NDArray[np.float64]
    normaliser: NDArray[np.float64]
    labels: NDArray[np.float64]
    counts: NDArray[np.int64]


class HashedRule(NamedTuple):
    """The options as kernels use them.

    loss   the number of the loss, see `losses.py`
    users  the key of the namespace that names users; 0: there are no users
    """

    loss: int
    bits: int
    rate: float
    adaptive: bool
    l2: float
    l1: float
    users: np.uint64
    max_features: int


class HashedModel(NamedTuple):
    """One model; `slots` is SLOT[2^bits + 1], of which the last is the constant's."""

    slots: NDArray[np.void]
    sums: HashedSums
    rule: HashedRule


class HashedWork(NamedTuple):
    """Scratch space: the features of one example, which are elements [0, found) of these arrays; 0 is the constant.

    slot      int64[most]    the feature's slot; no two features of an example have the same
    x         float64[most]  its value
    weight    float64[most]  its weight, with pending shrinkage applied; in the units of the table
    step      float64[most]  its direction of descent
    position  int32[2^bits]  of each slot, its feature's index in the example; 0 if it has none
    """

    slot: NDArray[np.int64]
    x: NDArray[np.float64]
    weight: NDArray[np.float64]
    step: NDArray[np.float64]
    position: NDArray[np.int32]


def new_model(options: HashedOptions) -> HashedModel:
    """Return a model that has learned nothing."""
    slots = np.zeros((1 << options.bits) + 1, SLOT)
    adaptive = options.descent == "adaptive"
    slots["scale"][:-1] = LEAST if adaptive else 1.0
    slots["scale"][-1] = 1.0
    sums = HashedSums(np.array([1.0, 0.0]), np.zeros(2), np.zeros(2), np.zeros(3, np.int64))
    rule = HashedRule(
        options.objective.number,
        options.bits,
        options.learning_rate,
        adaptive,
        options.l2,
        options.l1,
        np.uint64(space_key(options.personalise)),
        options.max_features_per_example,
    )
    return HashedModel(slots, sums, rule)


def new_work(options: HashedOptions) -> HashedWork:
    """Return scratch space for a model with these options."""
    most = options.max_features_per_example
    return HashedWork(
        np.empty(most, np.int64), np.empty(most), np.empty(most), np.empty(most), np.zeros(1 << options.bits, np.int32)
    )
