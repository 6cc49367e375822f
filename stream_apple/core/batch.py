"""Examples as the learner sees them: a sparse matrix in compressed rows, with labels and weights."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Batch(NamedTuple):
    """`n` examples with `z` features in all.

    indptr   int64[n + 1]   row r's features are [indptr[r], indptr[r + 1])
    keys     uint64[z]      64-bit identity of each base feature, in the order of the message (never 0)
    values   float32[z]     finite, never zero
    labels   float64[n]     NaN where the example has none: it is scored and not learned
    weights  float64[n]     importance, finite, >= 0
    """

    indptr: NDArray[np.int64]
    keys: NDArray[np.uint64]
    values: NDArray[np.float32]
    labels: NDArray[np.float64]
    weights: NDArray[np.float64]
