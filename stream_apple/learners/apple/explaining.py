"""Takes a score apart: the weight of each active monomial in each predictor, and in the published score.

With a mixture, a weight is the sum of the predictors' weights, each times the predictor's share in the published score.
This holds to first order: scores are bounded, and shares mix probabilities or losses, not scores.

With classes, the weights of a monomial are less their mean over classes: what all classes have in common changes no
probability.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.learners.apple.state.classes import BLOCK_OF_AVERAGES, BLOCK_OF_LINEAR_WEIGHTS, BLOCK_OF_WEIGHTS
from stream_apple.learners.apple.state.table import Table
from stream_apple.learners.port import Factor, ScoreParts, Term

BLOCKS = {"linear": BLOCK_OF_LINEAR_WEIGHTS, "average": BLOCK_OF_AVERAGES, "expanded": BLOCK_OF_WEIGHTS}
"""Predictor of a mixture of classes -> its block of a row of `class_weights`."""


class Active(NamedTuple):
    """The features of one example, with the constant.

    slots   int64[k], the slots that they have
    values  float32[k]
    score   the published score
    """

    slots: NDArray[np.int64]
    values: NDArray[np.float32]
    score: float


def parts_of(
    score: float,
    factors: Sequence[tuple[tuple[Factor, ...], int]],
    values: NDArray[np.float32],
    shares: Mapping[str, float],
    weights: NDArray[np.float64],
    label: int | None = None,
) -> ScoreParts:
    """Return a score as the sum of its terms.

    factors  of each feature, and how many of its factors are not known
    shares   of each predictor, by name
    weights  float64[predictors + 1, k]; the last row is added to the weights of each predictor and of the whole alike
    """
    own, added = weights[:-1], weights[-1]
    whole = (np.fromiter(shares.values(), np.float64) @ own + added).tolist()
    of_each = (own + added).T.tolist() if len(shares) > 1 else [()] * len(factors)
    terms = tuple(
        Term(known, weight, value, unknown, tuple(parts))
        for (known, unknown), weight, value, parts in zip(factors, whole, values.tolist(), of_each, strict=True)
    )
    return ScoreParts(score, terms, shares if len(shares) > 1 else {}, label)


def class_weights(
    table: Table, places: NDArray[np.int64], classes: int, predictors: Sequence[str]
) -> NDArray[np.float64]:
    """Return the weights of these slots, float64[predictors, k, classes], less their mean over classes."""
    rows = table.class_weights[places]
    weights = np.stack([rows[:, BLOCKS[name] * classes : (BLOCKS[name] + 1) * classes] for name in predictors])
    weights = weights.astype(np.float64)
    for number, name in enumerate(predictors):
        if name == "linear":
            weights[number, table.slots["degree"][places] > 1] = 0.0
    centred: NDArray[np.float64] = weights - weights.mean(axis=2, keepdims=True)
    return centred
