"""Small random examples."""

import numpy as np
from numpy.typing import NDArray

from stream_apple.study.logistic.sparse_rows import SparseRows


def random_rows(rng: np.random.Generator, examples: int, size: int, most: int = 6) -> SparseRows:
    """Of up to `most` features, of which some come twice, with values of both signs and labels by a planted weight."""
    lengths = rng.integers(0, most + 1, examples)
    indptr = np.concatenate([[0], lengths]).cumsum(dtype=np.int64)
    columns = rng.integers(0, size, indptr[-1]).astype(np.int64)
    values = rng.normal(size=len(columns))
    scores = np.bincount(
        np.repeat(np.arange(examples), lengths), rng.normal(size=size)[columns] * values, minlength=examples
    )
    return SparseRows(indptr, columns, values, (scores + rng.normal(size=examples) > 0).astype(np.float64), size)


def rows_from(examples: list[tuple[float, dict[int, float]]], size: int) -> SparseRows:
    """Of (label, column -> value)."""
    indptr = np.array([0, *np.cumsum([len(features) for _, features in examples])], np.int64)
    columns = np.array([column for _, features in examples for column in features], np.int64)
    values = np.array([value for _, features in examples for value in features.values()], np.float64)
    return SparseRows(indptr, columns, values, np.array([label for label, _ in examples]), size)


def dense(rows: SparseRows) -> NDArray[np.float64]:
    """The matrix, float64[n, size]."""
    matrix = np.zeros((len(rows.labels), rows.size))
    np.add.at(matrix, (np.repeat(np.arange(len(rows.labels)), np.diff(rows.indptr)), rows.columns), rows.values)
    return matrix
