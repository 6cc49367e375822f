"""The hashing trick: features without names in a table of fixed size, shared by those that meet in a slot.

Weinberger et al., "Feature hashing for large scale multitask learning" (2009), and W. Cohen's lecture: V[h] is the sum
of the values of all features whose hash is h, each times its sign if there are signs; V takes the place of x.
"""

import math

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel
from stream_apple.study.logistic.sparse_rows import SparseRows, fold

_SIGN_SEED = 0x9E6C63D0876A9A47  # the sign is of another hash: it must not depend on the slot


def mixed(keys: NDArray[np.uint64], seed: int = 0) -> NDArray[np.uint64]:
    """A hash of each key, uint64: the finaliser of splitmix64 (Steele, Lea, Flood 2014), of the key and a seed."""
    word = (keys ^ np.uint64(seed)) + np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


def hashed(rows: SparseRows, keys: NDArray[np.uint64], bits: int, *, signed: bool, seed: int = 0) -> SparseRows:
    """The examples in 2^bits slots.

    keys  uint64[size]: of each column of the rows, as `rows_of` gives them
    """
    slots = (mixed(keys, seed) & np.uint64((1 << bits) - 1)).astype(np.int64)
    signs = None
    if signed:
        signs = np.where(mixed(keys, seed ^ _SIGN_SEED) >> np.uint64(63), 1.0, -1.0)[rows.columns]
    return fold(rows, slots[rows.columns], signs, 1 << bits)


class AdaptiveLogistic:
    """Logistic regression by AdaGrad (Duchi, Hazan, Singer 2011): w += rate * g / sqrt(sum of g^2), g included.

    The last weight is the constant's.
    """

    def __init__(self, size: int, rate: float) -> None:
        self._rate = rate
        self._weights = np.zeros(size + 1)
        self._squares = np.zeros(size + 1)

    def learn(self, rows: SparseRows) -> NDArray[np.float64]:
        """Score and learn the examples in order; the scores, log-odds, float64[n]. Rows have each column once."""
        scores = np.zeros(len(rows.labels))
        _learn_adaptively(rows, self._rate, self._weights, self._squares, scores)
        return scores

    def predict(self, rows: SparseRows) -> NDArray[np.float64]:
        """Scores float64[n]; nothing is written."""
        owners = np.repeat(np.arange(len(rows.labels)), np.diff(rows.indptr))
        products = self._weights[rows.columns] * rows.values
        scores: NDArray[np.float64] = np.bincount(owners, products, len(rows.labels)) + self._weights[-1]
        return scores


@kernel
def _learn_adaptively(
    rows: SparseRows,
    rate: float,
    weights: NDArray[np.float64],
    squares: NDArray[np.float64],
    scores: NDArray[np.float64],
) -> None:
    for row in range(len(scores)):
        score = weights[-1]
        for place in range(rows.indptr[row], rows.indptr[row + 1]):
            score += weights[rows.columns[place]] * rows.values[place]
        scores[row] = score
        slope = rows.labels[row] - 1.0 / (1.0 + math.exp(-score))
        if slope == 0.0:
            continue  # nothing to learn, and 0 / 0 for weights that never learned
        for place in range(rows.indptr[row], rows.indptr[row + 1]):
            column, gradient = rows.columns[place], slope * rows.values[place]
            squares[column] += gradient * gradient
            weights[column] += rate * gradient / math.sqrt(squares[column])
        squares[-1] += slope * slope
        weights[-1] += rate * slope / math.sqrt(squares[-1])
