"""Drift of k classes: `kernels/drift.py` with a vector of k numbers in place of a label.

A label is 1 - 1/k for its class and -1/k for each other one. The expected label has each class's probability less 1/k.
The product of the two, and the square of the expected label, are sums over the classes, times k / (k - 1): so they are
at most 1, and for two classes they are those of the logistic loss. What holds of the scores is -1 where two classes
have been swapped, and next to 0 where each of many classes has become another one.
"""

import numpy as np

from stream_apple.core.jit import part
from stream_apple.learners.apple.kernels.drift import LEAST_KEPT, Watch, restart, take_in, what_holds
from stream_apple.learners.apple.multiclass.layout import (
    BLOCK_OF_AVERAGES,
    BLOCK_OF_GRADIENTS,
    BLOCK_OF_LINEAR_GRADIENTS,
    BLOCK_OF_LINEAR_WEIGHTS,
    BLOCK_OF_WEIGHTS,
)
from stream_apple.learners.apple.state.model import Mixture
from stream_apple.learners.apple.state.table import Table
from stream_apple.learners.apple.state.work import Numbers64


@part
def has_class_loss_risen(watch: Watch, loss: float, probabilities: Numbers64, label: int) -> bool:
    """Add the loss of a learned example to the watch; return whether losses have risen.

    probabilities  float64[k]  those that were published
    """
    k = len(probabilities)
    even, unit, squares = 1.0 / k, k / (k - 1.0), 0.0
    for c in range(k):
        beyond = probabilities[c] - even
        squares += beyond * beyond
    return bool(take_in(watch, loss, unit * (probabilities[label] - even), unit * squares))


def restart_classes(table: Table, mixture: Mixture, watch: Watch, examples: int, classes: int) -> None:
    """Do what `drift.restart` does, and the same to the weights and accumulators of all classes."""
    holds = np.float32(what_holds(watch))
    restart(table, mixture, watch, examples)
    blocks = table.class_weights.reshape(len(table.slots), -1, classes)
    for weights in (BLOCK_OF_WEIGHTS, BLOCK_OF_LINEAR_WEIGHTS, BLOCK_OF_AVERAGES):
        blocks[:, weights] *= holds
    for gradients in (BLOCK_OF_GRADIENTS, BLOCK_OF_LINEAR_GRADIENTS):
        blocks[:, gradients] *= max(abs(holds), np.float32(LEAST_KEPT))
    for name in ("weight", "linear_weight"):  # the largest differences between the weights of two classes
        np.abs(table.slots[name], out=table.slots[name])
