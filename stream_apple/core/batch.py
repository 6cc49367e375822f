"""The arrays that examples pass through: what a record may hold, where its row is written, and the batch of rows.

Shared by the wire format (`codec`), which fills them, and the learner (`learner`), which reads them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

TOO_LARGE = np.float32(2.0**60)
"""No value of a feature, and no product of values, is as large, in size: its square, which the learner adds up, still
fits a float32, and so does its product with any weight. A larger one would be the end of its feature's weight."""


class Batch(NamedTuple):
    """`n` examples with `z` features in all.

    indptr   int64[n + 1]   row r's features are [indptr[r], indptr[r + 1])
    keys     uint64[z]      64-bit identity of each base feature, in the order of the message (never 0)
    values   float32[z]     never zero, and below TOO_LARGE in size
    labels   float64[n]     NaN where the example has none: it is scored and not learned
    weights  float64[n]     importance, finite, >= 0
    """

    indptr: NDArray[np.int64]
    keys: NDArray[np.uint64]
    values: NDArray[np.float32]
    labels: NDArray[np.float64]
    weights: NDArray[np.float64]

    def select(self, rows: NDArray[np.int64]) -> "Batch":
        """The examples of these rows, int64[k], in the given order."""
        lengths = np.diff(self.indptr)[rows]
        indptr = np.concatenate([[0], lengths]).cumsum(dtype=np.int64)
        places = np.repeat(self.indptr[rows] - indptr[:-1], lengths) + np.arange(indptr[-1])
        return Batch(indptr, self.keys[places], self.values[places], self.labels[rows], self.weights[rows])


class Limits(NamedTuple):
    """What a record may hold. `binary`: labels are 1 and -1 (0 is read as -1), instead of a range."""

    max_features: int
    max_record_bytes: int
    max_weight: float
    min_label: float
    max_label: float
    binary: bool


class Columns(NamedTuple):
    """Where the rows are written: `n` records, `m` of them good, with `z` features in all.

    indptr   int64[n + 1]   written up to m + 1; the element after a row being read is where it stops so far
    keys     uint64[...]    as many as the records' sum of min(max_features, size // 2); written up to z
    values   float32[...]   as many as keys
    labels   float64[n]     written up to m, and so are weights, rows and ids
    weights  float64[n]
    rows     int64[n]       index of the record
    ids      int64[n, 2]    start and stop of the raw msgpack of `id`
    """

    indptr: NDArray[np.int64]
    keys: NDArray[np.uint64]
    values: NDArray[np.float32]
    labels: NDArray[np.float64]
    weights: NDArray[np.float64]
    rows: NDArray[np.int64]
    ids: NDArray[np.int64]
