"""A model of tuples: what counts say of their features, the weights upon them, and what it predicts."""

from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.study.tuples.attributes import Codes
from stream_apple.study.tuples.discretisation import DiscreteTable
from stream_apple.study.tuples.index import FeatureIndex, Members, index_features
from stream_apple.study.tuples.kernels import (
    BETA,
    LOG_THETA,
    count_features,
    learn_all,
    normalise_all,
    score_all,
)

M = 0.1
"""Of the m-estimate: how many examples the uniform distribution is worth."""


class Prepared(NamedTuple):
    """Rows as a model reads them: the number of the feature that each has of each tuple, int32[m, t]; and classes."""

    features: Codes
    labels: Codes


class TupleModel(NamedTuple):
    """log P(y|x) = β log π + Σ β log θ, normalised over the classes y; its weights change when it learns.

    known   the features that were seen
    counts  int32[features, classes]: how many examples of a class have the feature
    state   float64[features + 1, 3, classes]: see `kernels.score_all`
    """

    known: FeatureIndex
    counts: NDArray[np.int32]
    state: NDArray[np.float64]

    @property
    def parameters(self) -> int:
        """How many weights of features it has: one for each feature that was seen, and class."""
        return self.counts.size

    def prepare(self, table: DiscreteTable, rows: NDArray[np.int64]) -> Prepared:
        """These rows, once for many passes."""
        return Prepared(self.known.find(table.codes, rows), table.labels[rows])

    def learn(self, rows: Prepared, rate: float, passes: int) -> None:
        """So many passes of AdaGrad over the rows, in their order."""
        scratch = np.empty(self.state.shape[2])
        for _ in range(passes):
            learn_all(rows.features, rows.labels, self.state, rate, scratch)

    def log_probabilities(self, rows: Prepared) -> NDArray[np.float64]:
        """float64[m, classes]."""
        scores = np.empty((len(rows.features), self.state.shape[2]))
        score_all(rows.features, self.state, scores)
        normalise_all(scores)
        return scores

    def without(self, rows: Prepared, which: int) -> NDArray[np.float64]:
        """float64[m, classes]: log probabilities if the tuple of that number said nothing."""
        others = np.delete(rows.features, which, axis=1)
        return self.log_probabilities(Prepared(others, rows.labels))

    def unlearned(self) -> "TupleModel":
        """The same counts, with the weights that it began with."""
        fresh = self.state.copy()
        fresh[:, BETA:] = 0.0
        order, attributes = self.known.members.shape[1], len(self.known.cardinalities)
        fresh[:-1, BETA], fresh[-1, BETA] = anje_weight(attributes, order), 1.0
        return self._replace(state=fresh)

    def tuple_of_feature(self) -> NDArray[np.int64]:
        """int64[features]: the number of each one's tuple."""
        return np.repeat(np.arange(len(self.known.members)), np.diff(self.first_features()))

    def first_features(self) -> NDArray[np.int64]:
        """int64[t + 1]: the features of tuple i are those from the i-th to before the next."""
        known = self.known
        # A set bit has a rank; the first that is set at or after a tuple's first bit is its first feature.
        words = (known.offsets[:-1] >> 6).astype(np.int64)
        below = (np.uint64(1) << (known.offsets[:-1] & 63).astype(np.uint64)) - np.uint64(1)
        first = known.before[words] + np.bitwise_count(known.bits[words] & below)
        return np.append(first, known.features)


def anje_weight(attributes: int, order: int) -> float:
    """Of every tuple in AnJE: so each attribute is counted once."""
    return 1.0 / comb(attributes - 1, order - 1)


def m_estimate(counts: NDArray[np.int32], sizes: NDArray[np.int64], of_class: NDArray[np.int64]) -> NDArray[np.float64]:
    """θ: (N_Fy + m/|F|) / (N_y + m), float64[features, classes]; over all |F| features of a tuple, its sum is 1.

    counts    [features, classes]
    sizes     [features]: |F|, the possible features of each one's tuple
    of_class  [classes]: N_y
    """
    estimate: NDArray[np.float64] = (counts + M / sizes[:, None]) / (of_class + M)
    return estimate


def count_model(table: DiscreteTable, rows: NDArray[np.int64], members: Members) -> TupleModel:
    """Explore and count: AnJE of these tuples, which is what learning begins with.

    Features that the rows don't have are no part of the model, now or later.
    """
    return count_known(table, rows, index_features(table, rows, members))


def count_known(table: DiscreteTable, rows: NDArray[np.int64], known: FeatureIndex) -> TupleModel:
    """Count: AnJE of these features."""
    counts = np.zeros((known.features, table.classes), np.int32)
    count_features(known.find(table.codes, rows), table.labels[rows], counts)
    of_class = np.bincount(table.labels[rows], minlength=table.classes)
    state = np.zeros((known.features + 1, 3, table.classes))
    model = TupleModel(known, counts, state)
    sizes = known.sizes()[model.tuple_of_feature()]
    state[:-1, LOG_THETA] = np.log(m_estimate(counts, sizes, of_class))
    # As an attribute's values: a class that the rows don't have is unlikely, and not impossible.
    state[-1, LOG_THETA] = np.log((of_class + M / table.classes) / (len(rows) + M))
    return model.unlearned()
