"""What predictions are worth: errors of the likeliest class, and of the probabilities."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.study.tuples.attributes import Codes


class Worth(NamedTuple):
    """Of predictions, each the less the better.

    error     share of examples whose likeliest class is not theirs; of equally likely ones, the first counts
    rmse      root of the mean of (1 - P(true class))²
    log_loss  mean of -log P(true class), in nats
    """

    error: float
    rmse: float
    log_loss: float


def worth_of(log_probabilities: NDArray[np.float64], labels: Codes) -> Worth:
    """Of float64[m, classes], for the classes labels[m]."""
    of_true = log_probabilities[np.arange(len(labels)), labels]
    return Worth(
        float((log_probabilities.argmax(axis=1) != labels).mean()),
        float(np.sqrt(((1.0 - np.exp(of_true)) ** 2).mean())),
        float(-of_true.mean()),
    )
