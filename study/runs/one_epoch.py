"""A learner that has learned examples in one epoch, and its predictions for others."""

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.learners.port import Learner
from stream_apple.learners.scores import Scores


def learn_once(learner: Learner, trained: Batch) -> None:
    """Learn all examples, in their order; no epoch ends. ModelError if a score is not finite."""
    learner.learn(trained, 0, len(trained.labels), Scores.empty(len(trained.labels)))


def predictions_of(learner: Learner, tested: Batch) -> NDArray[np.float64]:
    """Return the predictions for all examples, float64[n]; the learner does not change."""
    scores = Scores.empty(len(tested.labels))
    learner.score_rows(tested, 0, len(tested.labels), scores)
    return scores.predictions
