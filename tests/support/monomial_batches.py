"""Batches of few features, and the keys of their monomials."""

import numpy as np

from stream_apple.core.batch import Batch
from study.runs.monomials import base_entries


def batch_of(rows: list[dict[int, float]]) -> Batch:
    """Examples of these features, whose keys are small numbers."""
    lengths = [len(row) for row in rows]
    return Batch(
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.array([key for row in rows for key in row], np.uint64),
        np.array([value for row in rows for value in row.values()], np.float32),
        np.zeros(len(rows)),
        np.ones(len(rows)),
    )


def key_of(*factors: int) -> int:
    """The key of a monomial."""
    return sum(int(base_entries(batch_of([{factor: 1.0}])).keys[0]) for factor in factors) % 2**64
