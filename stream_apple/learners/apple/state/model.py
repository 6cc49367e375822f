"""What a model is made of, as kernels see it: its table, its scalars, and the rule by which it learns."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.learners.apple.state.table import Table
from stream_apple.learners.apple.state.watch import Watch, empty_watch

MAX_DEGREE = 250  # degrees are kept in a byte
EXAMPLES, NONZEROS, FEATURES, TRUNCATED = range(4)  # indices of `ModelScalars.counts`
OCCUPIED, EVICTED, DEFERRED, REFUSED = range(4)  # indices of `ModelScalars.occupancy`

Bounds = NDArray[np.float64]
Counts = NDArray[np.int64]


class ExpansionRule(NamedTuple):
    """Limits which products an example may have.

    exhaustive    every monomial below `max_degree` is a parent
    max_features  of an example after expansion
    """

    exhaustive: bool
    max_degree: int
    max_features: int


class LearningRule(NamedTuple):
    """The options that kernels need; they do not change during a run.

    loss       the number of the loss function, see `losses.py`
    rate       the learning rate
    alongside  learn the linear predictor too
    mixed      learn all predictors, and publish their mixture
    restarts   restart when losses have risen, see `drift.py`
    theorem_1_lambda  the regularization of plain gradient descent, see `theorem_1.py`; 0: the update is adaptive
    classes    the number of classes of the softmax loss, see `multiclass/`; 0: there is one score
    """

    loss: int
    rate: float
    expansion: ExpansionRule
    alongside: bool
    mixed: bool
    restarts: bool
    theorem_1_lambda: float
    classes: int = 0


class ModelScalars(NamedTuple):
    """The model's scalars, in arrays so that kernels can change them in place.

    norm    float64[2]  the sum of importance * x^2 / scale^2, of apple and of the linear predictor
    weight  float64[2]  the sum of the importance weights of the examples that moved each of the two
    labels  float64[2]  smallest and largest of 0 and the labels learned, to which scores are clipped (squared loss)
    counts  int64[4]    of the examples learned: their number, and by NONZEROS ... TRUNCATED above
    occupancy  int64[4]  how many slots are taken, and how many monomials got none, by OCCUPIED ... REFUSED above
    """

    norm: NDArray[np.float64]
    weight: NDArray[np.float64]
    labels: Bounds
    counts: Counts
    occupancy: Counts


class Mixture(NamedTuple):
    """The state of the mixture of predictors; empty arrays if they are not mixed. See `mixture.py`.

    stack      float64[6]     the stack's weight of each predictor
    shares     float64[3]     of linear, average and stack in what is published; they sum to 1
    curvature  float64[6, 6]  the stack's matrix of second derivatives, which is symmetric: its lower half
    heaviest   float64[1]     the largest importance weight learned: losses are compared in units of it

    All 0 before a label was late:

    late        float64[2]  the shares of constant and slow linear
    label_sums  float64[2]  the importance-weighted sum of labels (logistic loss: of labels 1), and that of importance
    """

    stack: NDArray[np.float64]
    shares: NDArray[np.float64]
    curvature: NDArray[np.float64]
    heaviest: NDArray[np.float64]
    late: NDArray[np.float64]
    label_sums: NDArray[np.float64]


class Recent(NamedTuple):
    """The latest examples, in two halves that are filled in turn; empty if predictors do not mix.

    keys      uint64[2, RECENT_FEATURES]
    values    float32[2, RECENT_FEATURES]
    roles     uint8[2, RECENT_FEATURES], or uint8[2, 0] if features have no roles
    ends      int64[2, RECENT_EXAMPLES]  where each example's base features end in its half
    half      int64[1]  the half that is being filled
    counts    int64[2]  the numbers of examples in both
    grown_at  int64[1]  how many examples the model had learned when it last grew
    labels    float64[2, RECENT_EXAMPLES]  in units of labels
    weights   float64[2, RECENT_EXAMPLES]  importance
    """

    keys: NDArray[np.uint64]
    values: NDArray[np.float32]
    roles: NDArray[np.uint8]
    ends: NDArray[np.int64]
    half: NDArray[np.int64]
    counts: NDArray[np.int64]
    grown_at: NDArray[np.int64]
    labels: NDArray[np.float64]
    weights: NDArray[np.float64]


class Model(NamedTuple):
    """All that kernels need of a model.

    watch  the losses since they last rose; nothing unless `rule.restarts`
    """

    table: Table
    scalars: ModelScalars
    rule: LearningRule
    mixture: Mixture
    recent: Recent
    watch: Watch


def rehearsal_of(model: Model, *, keep: bool) -> Model:
    """Return a model that learns for another one: it has the same table and rule, and judges and counts on its own.

    The state of its mixture, its counts of examples, and what it watches are copies, or new. What it learns of features
    is the other model's.

    keep  the latest examples are the other model's, too
    """
    return model._replace(
        scalars=model.scalars._replace(counts=model.scalars.counts.copy()),
        mixture=Mixture._make(array.copy() for array in model.mixture),
        recent=model.recent if keep else Recent._make(array.copy() for array in model.recent),
        watch=empty_watch(),
    )
