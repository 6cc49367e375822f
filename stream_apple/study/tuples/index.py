"""Which features there are, and where: a bit for each that is possible, and its rank among those that were seen."""

from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.errors import ConfigurationError
from stream_apple.study.tuples.attributes import Codes
from stream_apple.study.tuples.discretisation import DiscreteTable
from stream_apple.study.tuples.kernels import count_before, find_features, mark_seen

Members = NDArray[np.int32]
"""[t, order]: the attributes of each tuple, ascending; tuples are in the order of their attributes."""

MOST_BITS = 1 << 33
"""A gibibyte of them."""


class FeatureIndex(NamedTuple):
    """The features that were seen of some tuples, numbered tuple by tuple.

    members        the tuples
    cardinalities  int64[a]
    offsets        int64[t + 1]: of each tuple's first bit, and how many bits there are
    bits           uint64[words]: set for a feature that was seen
    before         int64[words]: how many are set in all words before
    features       how many were seen
    """

    members: Members
    cardinalities: NDArray[np.int64]
    offsets: NDArray[np.int64]
    bits: NDArray[np.uint64]
    before: NDArray[np.int64]
    features: int

    def find(self, codes: Codes, rows: NDArray[np.int64]) -> Codes:
        """[m, t]: the number of the feature that each row has of each tuple; -1 if it was never seen."""
        found = np.empty((len(rows), len(self.members)), np.int32)
        find_features(codes, rows, self.members, self.cardinalities, self.offsets, self.bits, self.before, found)
        return found

    def sizes(self) -> NDArray[np.int64]:
        """int64[t]: the possible features of each tuple, |F|."""
        return np.diff(self.offsets)

    def only(self, is_kept: NDArray[np.bool_]) -> "FeatureIndex":
        """The same tuples with these of the features alone, bool[features], numbered as if only they were seen."""
        words = np.flatnonzero(self.bits)
        is_set = (self.bits[words, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1) != 0
        lost = ((words[:, None] << 6) + np.arange(64))[is_set][~is_kept]
        bits, before = self.bits.copy(), np.empty_like(self.before)
        np.bitwise_and.at(bits, lost >> 6, ~(np.uint64(1) << (lost & 63).astype(np.uint64)))
        return self._replace(bits=bits, before=before, features=int(count_before(bits, before)))


def all_tuples(attributes: int, order: int) -> Members:
    """Every tuple of exactly `order` of the attributes; ValueError if there are fewer attributes."""
    if not 1 <= order <= attributes:
        raise ValueError(f"expected an order from 1 to {attributes}, the number of attributes, found {order}")
    return np.array(list(combinations(range(attributes), order)), np.int32).reshape(comb(attributes, order), order)


def index_features(table: DiscreteTable, rows: NDArray[np.int64], members: Members) -> FeatureIndex:
    """Explore: which features of the tuples the rows have.

    ConfigurationError if more are possible than there is memory for.
    """
    sizes = np.prod(table.cardinalities[members].astype(np.float64), axis=1)
    if sizes.sum() > MOST_BITS:
        raise ConfigurationError(
            f"expected at most {MOST_BITS:,} possible features, found {sizes.sum():,.0f} of {len(members):,} tuples: "
            "a lower order, or fewer values"
        )
    offsets = np.concatenate([[0], sizes.astype(np.int64)]).cumsum()
    bits = np.zeros(int(offsets[-1]) // 64 + 1, np.uint64)
    mark_seen(table.codes, rows, members, table.cardinalities, offsets, bits)
    before = np.empty(len(bits), np.int64)
    features = int(count_before(bits, before))
    return FeatureIndex(members, table.cardinalities, offsets, bits, before, features)
