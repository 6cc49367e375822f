"""What a model is made of, as kernels see it: its table, its scalars, and the rule by which it learns."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.learner.kernels.table import Table

MAX_DEGREE = 250  # degrees are kept in a byte
GROWN_AT = 3  # index of `Recent.filled`
EXAMPLES, NONZEROS, FEATURES, TRUNCATED, OCCUPIED, EVICTED, DEFERRED, REFUSED = range(8)  # indices of counts


class ExpansionRule(NamedTuple):
    """Which products an example may have.

    exhaustive    every monomial below `max_degree` is a parent
    max_features  of an example after expansion
    """

    exhaustive: bool
    max_degree: int
    max_features: int


class Kept(NamedTuple):
    """What is kept beside slots, see `Table`.

    residuals  what the selection of parents by residuals needs, see `residuals.py`
    """

    residuals: bool


class LearningRule(NamedTuple):
    """What does not change during a run.

    alongside  learn the linear predictor too
    mixed      learn all predictors, and publish their mixture
    plain_l2   the regularisation of plain gradient descent, see `plain_descent.py`; 0: the adaptive update
    """

    logistic: bool
    rate: float
    expansion: ExpansionRule
    alongside: bool
    mixed: bool
    kept: Kept
    plain_l2: float


class ModelScalars(NamedTuple):
    """The model's scalars, in arrays so that kernels can change them.

    norm    float64[2]  N, sum of importance * x^2/scale^2, of apple and of the linear predictor
    weight  float64[2]  W, sum of the importance weights of the examples that moved each of them
    labels  float64[2]  smallest and largest of 0 and the labels learned: scores are clipped to it (squared loss)
    counts  int64[8]    see the constants above
    """

    norm: NDArray[np.float64]
    weight: NDArray[np.float64]
    labels: NDArray[np.float64]
    counts: NDArray[np.int64]


class Mixture(NamedTuple):
    """How predictors are mixed; empty arrays if they are not. See `mixture.py`.

    stack      float64[6]   the stack's weight of each predictor
    curvature  float64[36]  its matrix of second derivatives, symmetric
    shares     float64[3]   of linear, average and stack in what is published; they sum to 1
    heaviest   float64[1]   the largest importance weight learned: losses are compared in units of it
    """

    stack: NDArray[np.float64]
    curvature: NDArray[np.float64]
    shares: NDArray[np.float64]
    heaviest: NDArray[np.float64]


class Recent(NamedTuple):
    """The base features of the latest examples, in two halves that take turns; empty if predictors are not mixed.

    keys    uint64[2 * RECENT_FEATURES]
    values  float32[2 * RECENT_FEATURES]
    ends    int64[2 * RECENT_EXAMPLES]  where each example ends in its half
    filled  int64[4]  the half that is being filled, the number of examples in each, and how many examples the model had
                      learned when it last grew
    """

    keys: NDArray[np.uint64]
    values: NDArray[np.float32]
    ends: NDArray[np.int64]
    filled: NDArray[np.int64]


class Model(NamedTuple):
    """All that kernels need of a model."""

    table: Table
    scalars: ModelScalars
    rule: LearningRule
    mixture: Mixture
    recent: Recent


def empty_scalars() -> ModelScalars:
    """The scalars of a model that has seen nothing."""
    return ModelScalars(np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(8, np.int64))
