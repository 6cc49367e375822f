"""The layout of the numbers of k classes: a slot's row, and the scratch of one example.

A row of `Table.class_weights` has blocks of k float32 each, in this order; how many depends on what is learned:

    weights, gradients                apple's weights and AdaGrad's accumulators; method linear has no other blocks
    linear weights, linear gradients  those of the linear predictor alongside, for base features
    averages                          if predictors are mixed: the mean of apple's latest weights

The slot itself has what all classes share: scale, degree, parent, sights. Its weight is the largest difference between
the weights of two classes: the most that the monomial adds to the log-odds of any two classes. So growth, eviction and
inspection see one number, which for two classes is the weight of the logistic loss. The slot's gradient is the mean of
the classes' accumulators.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.learners.apple.state.table import Floats
from stream_apple.learners.apple.state.work import LANES, Numbers64

BLOCK_OF_WEIGHTS, BLOCK_OF_GRADIENTS, BLOCK_OF_LINEAR_WEIGHTS, BLOCK_OF_LINEAR_GRADIENTS, BLOCK_OF_AVERAGES = range(5)
BLOCKS_OF_WEIGHTS = [BLOCK_OF_WEIGHTS, BLOCK_OF_LINEAR_WEIGHTS, BLOCK_OF_AVERAGES]
BLOCKS_OF_GRADIENTS = [BLOCK_OF_GRADIENTS, BLOCK_OF_LINEAR_GRADIENTS]
CLASS_EXPANDED, CLASS_LINEAR, CLASS_AVERAGE, CLASS_STACK = range(4)
"""What has scores in the scratch: apple (or the only predictor), the linear one alongside, the average, the stack."""


class ClassWork(NamedTuple):
    """The scratch of one example of k classes, with room for n, which is k rounded up to whole LANES.

    scores         float64[4 * n]  of each predictor, of whose n numbers k are used; `softmax` makes the largest 0
    probabilities  float64[4 * n]  their softmax
    published      float64[k]      the probabilities that are published
    rivals         float64[n]      the softmax over the classes that are not the label
    sensitivity    float64[n]      the score's change per unit of step
    slopes         float32[n]      importance times the squared slope
    changes        float32[n]      the factor of each feature's step by which a class's weight changes
    """

    scores: Numbers64
    probabilities: Numbers64
    published: Numbers64
    rivals: Numbers64
    sensitivity: Numbers64
    slopes: Floats
    changes: Floats


def check_labels(labels: NDArray[np.float64], classes: int) -> None:
    """Raise ValueError for a label that is neither NaN nor the number of a class: kernels check no bounds."""
    wrong = ~np.isnan(labels) & ~((labels >= 0.0) & (labels < classes) & (labels == np.floor(labels)))
    if wrong.any():
        raise ValueError(f"expected labels that are whole numbers from 0 to {classes - 1}, found {labels[wrong][0]:g}")


def empty_class_work(classes: int) -> ClassWork:
    """Return scratch for `classes` classes; empty arrays if there are 0."""
    room = -(-classes // LANES) * LANES
    return ClassWork(
        np.zeros((CLASS_STACK + 1) * room),
        np.zeros((CLASS_STACK + 1) * room),
        np.zeros(classes),
        np.zeros(room),
        np.zeros(room),
        np.zeros(room, np.float32),
        np.zeros(room, np.float32),
    )
