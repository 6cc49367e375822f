"""Examples whose features are columns of a matrix: what the learners here read, and how features share columns."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch


class SparseRows(NamedTuple):
    """`n` examples with `z` features in all, of `size` columns.

    indptr   int64[n + 1]  row r's features are [indptr[r], indptr[r + 1])
    columns  int64[z]      below `size`; a row may have one several times: then its values count together
    values   float64[z]
    labels   float64[n]    0 or 1
    """

    indptr: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[np.float64]
    labels: NDArray[np.float64]
    size: int

    def select(self, rows: NDArray[np.int64]) -> "SparseRows":
        """The examples of these rows, int64[k], in the given order."""
        lengths = np.diff(self.indptr)[rows]
        indptr = np.concatenate([[0], lengths]).cumsum(dtype=np.int64)
        places = np.repeat(self.indptr[rows] - indptr[:-1], lengths) + np.arange(indptr[-1])
        return SparseRows(indptr, self.columns[places], self.values[places], self.labels[rows], self.size)


def rows_of(batch: Batch) -> tuple[SparseRows, NDArray[np.uint64]]:
    """A column for each feature, in the order of their keys, and these keys, uint64[size].

    The larger of the two labels becomes 1. ValueError if there are not just two.
    """
    found = np.unique(batch.labels)
    if len(found) != 2:
        raise ValueError(f"expected two labels, found {len(found)}")
    keys, columns = np.unique(batch.keys, return_inverse=True)
    labels = (batch.labels == found[1]).astype(np.float64)
    return SparseRows(batch.indptr, columns.astype(np.int64), batch.values.astype(np.float64), labels, len(keys)), keys


def fold(rows: SparseRows, places: NDArray[np.int64], signs: NDArray[np.float64] | None, size: int) -> SparseRows:
    """The examples with entry i, of all z, at column places[i], its value times signs[i]: V[h] = sum of sign * value.

    Entries of one row at one place are summed here, before anything is learned: a row then has each column once, in
    ascending order. Sums that are zero are left out; those below zero are not.
    """
    if len(rows.labels) * size >= 1 << 63:
        raise ValueError(f"expected rows times slots below 2^63, found {len(rows.labels)} times {size}")
    values = rows.values if signs is None else rows.values * signs
    owners = np.repeat(np.arange(len(rows.labels)), np.diff(rows.indptr))
    cells, entry = np.unique(owners * size + places, return_inverse=True)
    sums = np.bincount(entry, values, len(cells)).astype(np.float64)
    cells, sums = cells[sums != 0.0], sums[sums != 0.0]
    owners, columns = np.divmod(cells, size)
    indptr = np.searchsorted(owners, np.arange(len(rows.labels) + 1)).astype(np.int64)
    return SparseRows(indptr, columns, sums, rows.labels, size)
