"""The state of a learner, and how its rows are cut into blocks: a snapshot has a message for each."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_apple.errors import ModelError

Rows: TypeAlias = Mapping[str, NDArray[Any]]

BLOCK_BYTES = 1_000_000
"""The most bytes of a block before compression: below Kafka's default limit for a message, if nothing compresses."""


class LearnerState(NamedTuple):
    """All that future scores depend on, by name: the learner's own arrays, not copies, so they change as it learns.

    rows  arrays of any dtype with the same length in the first dimension, such as the buckets of a table: a snapshot
          cuts them into blocks, and writes them back into these arrays
    sums  everything else: arrays of one dimension, which `Learner.restore` takes over
    """

    rows: Rows
    sums: Mapping[str, NDArray[np.generic]]

    def copy(self) -> "LearnerState":
        """Return the same state in memory of its own."""
        # As bytes: NumPy would copy an array with fields field by field.
        rows = {
            name: np.ascontiguousarray(array).view(np.uint8).copy().view(array.dtype).reshape(array.shape)
            for name, array in self.rows.items()
        }
        return LearnerState(rows, {name: array.copy() for name, array in self.sums.items()})


def block_bounds(rows: Rows) -> list[tuple[int, int]]:
    """Return the first row and the end of each block; all are of one size, a power of two, but the last may be less."""
    size, each = len(next(iter(rows.values()))), rows_of_a_block(bytes_of_rows(rows, 0, 1))
    return [(start, min(start + each, size)) for start in range(0, size, each)]


def rows_of_a_block(row_bytes: int) -> int:
    """Return how many rows of so many bytes a block has at most: a power of two."""
    return 1 << max((BLOCK_BYTES // row_bytes).bit_length() - 1, 0)


def room_for_block(rows: Rows) -> Rows:
    """Return arrays for one block of such rows, all zeros."""
    _, size = block_bounds(rows)[0]
    return {name: np.zeros((size, *array.shape[1:]), array.dtype) for name, array in rows.items()}


def check_finite(arrays: Rows) -> None:
    """Raise ModelError if a number in one of these arrays, or in one of its fields, is infinite or NaN."""
    for name, array in arrays.items():
        for field in array.dtype.names or ("",):
            column = array[field] if field else array
            if column.dtype.kind == "f" and not np.isfinite(column).all():
                found = column[~np.isfinite(column)][0]
                raise ModelError(f"expected finite weights, found {found} among the values of {field or name}")


def bytes_of_rows(rows: Rows, start: int, stop: int) -> int:
    """Return how many bytes rows [start, stop) have."""
    return sum(array[start:stop].nbytes for array in rows.values())
