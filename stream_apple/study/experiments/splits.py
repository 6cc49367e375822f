"""A random split of a set: the learner after one pass over the training part, and its error on the rest."""

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.learner.learner import Learner, Scores
from stream_apple.core.learner.options import Options


def learn_once(trained: Batch, options: Options) -> Learner:
    """The learner after these examples, in one epoch."""
    learner = Learner(options)
    learner.learn(trained, 0, len(trained.labels), Scores.empty(len(trained.labels)))
    return learner


def share_wrong(scores: NDArray[np.float64], labels: NDArray[np.float64]) -> float:
    """The share of log-odds that are on the wrong side, for labels -1 and 1."""
    return float(((scores > 0.0) != (labels > 0.0)).mean())
