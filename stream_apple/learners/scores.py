"""What a learner writes of each row that it scores, and what is kept of an example until its label comes."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

EARLY = 11
"""How many numbers are kept of an example until its label comes: the scores of the predictors, of the stack and of the
constant, the published score, how many examples had been learned (modulo CYCLE), and the stride: one example of so many
is kept. All are float32, because one message of a snapshot holds many of them."""
EARLY_LINEAR, EARLY_EXPANDED = 0, 1
EARLY_CONSTANT, EARLY_PUBLISHED, EARLY_LEARNED, EARLY_STRIDE = range(EARLY - 4, EARLY)
CYCLE = 1 << 24  # whole numbers below it are exact as float32
NO_EARLY: NDArray[np.float32] = np.empty((0, EARLY), np.float32)


class Scores(NamedTuple):
    """The output of `learn`, one element a row of the batch.

    predictions  float64[n]  the score given before learning: the expected label (squared loss) or the log-odds of
                             label 1 (logistic loss)
    losses       float64[n]  loss of the prediction, not weighted; NaN without a label
    expanded     float64[n]  the score of all features, products included: the prediction itself, unless predictors are
                             mixed
    linear       float64[n]  the linear predictor's score

    With the softmax loss (`multiclass/`) `predictions`, `expanded`, and `linear` are numbers of classes: the most
    probable class by what is published, by all features, and by the linear predictor. The next three are NaN with other
    losses:

    probabilities                float64[n]  the probability of the predicted class
    expanded_losses, linear_losses  float64[n]  as losses
    all_probabilities            float64[n, k]  the probabilities of all k classes; k is 0 if they are not wanted

    Where predictors are mixed:

    early  float32[n, EARLY]  what is kept until the label comes, see `mixture.py`; float32[0, EARLY] if not wanted
    """

    predictions: NDArray[np.float64]
    losses: NDArray[np.float64]
    expanded: NDArray[np.float64]
    linear: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    expanded_losses: NDArray[np.float64]
    linear_losses: NDArray[np.float64]
    all_probabilities: NDArray[np.float64]
    early: NDArray[np.float32]

    @classmethod
    def empty(cls, size: int, classes: int = 0, *, early: bool = False) -> "Scores":
        """Return columns of `size` rows, all NaN.

        classes  the number of classes if the probabilities of all are wanted, else 0
        early    whether `early` is wanted
        """
        column, kept = np.full((len(cls._fields) - 2, size), np.nan), size if early else 0
        return cls._make([*column, np.full((size, classes), np.nan), np.full((kept, EARLY), np.nan, np.float32)])
