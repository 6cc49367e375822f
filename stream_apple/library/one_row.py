"""One example at a time: a map is scored and learned without a batch being made of it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.learner.kernels.losses import write_probabilities
from stream_apple.core.learner.learner import Scores
from stream_apple.library.featurizer import Featurizer
from stream_apple.library.online import OnlineLearner


class OneRow:
    """A learner and the featurizer of its rows.

    sort_names  features are taken in the order of their names, whatever that of the map
    """

    def __init__(self, online: OnlineLearner, featurizer: Featurizer, *, sort_names: bool) -> None:
        self.online = online
        self.featurizer = featurizer
        self.sort_names = sort_names

    def _batch(self, x: Mapping[Any, Any]) -> Batch:
        if self.sort_names:
            x = {name: x[name] for name in sorted(x, key=str)}
        return self.featurizer.maps([x])

    def learn(self, x: Mapping[Any, Any], label: float, weight: float) -> float:
        """Learn one example; return the score that it was given before."""
        batch = self._batch(x)
        batch.labels[0], batch.weights[0] = label, weight
        return float(self.online.learn(batch).predictions[0])

    def score(self, x: Mapping[Any, Any]) -> float:
        """Return the published score of a row: the expected label, the log-odds, or the number of a class."""
        return float(self.online.score(self._batch(x)).predictions[0])

    def probability(self, x: Mapping[Any, Any]) -> float:
        """Return the probability of label 1, of a model with the logistic loss."""
        return float(self.probabilities_of(self._batch(x))[0])

    def probabilities(self, x: Mapping[Any, Any]) -> NDArray[np.float64]:
        """Return the probability of each class, float64[k], of a model with the softmax loss."""
        found: NDArray[np.float64] = self.online.score(self._batch(x)).all_probabilities[0]
        return found

    def learn_batch(self, batch: Batch) -> None:
        """Learn all rows, in order."""
        self.online.learn(batch)

    def score_batch(self, batch: Batch) -> Scores:
        """Return the scores of all rows."""
        return self.online.score(batch)

    def probabilities_of(self, batch: Batch) -> NDArray[np.float64]:
        """Return the probability of label 1 of each row, float64[n], of a model with the logistic loss."""
        scores = self.online.score(batch).predictions
        probabilities = np.empty(len(scores))
        write_probabilities(scores, probabilities)
        return probabilities
