"""The taken slots of the same buckets of several models, stacked in arrays, to be merged at once.

A key's bucket depends on the key and the size of the table alone, so buckets are merged one by one, and a stack takes
no more memory than a block of each model. It holds copies, so the models stay as they are. Of a table that is not full
only the cache lines that hold something are read.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel, part
from stream_apple.learners.apple.state.table import (
    BUCKET,
    COMPANION,
    SIDES,
    SLOT,
    U0,
    U1,
    U3,
    Index,
    Table,
    taken_slots,
)


class Stack(NamedTuple):
    """The slots of several models that are taken in the same buckets, one after another.

    All but `starts` are arrays [models, slots] like `Table`'s, [models, 0] where these are empty.

    starts  int64[models, n]  where each bucket's slots begin, and where the last one's end; n is one more than there
            are buckets
    """

    slots: NDArray[np.void]
    companions: NDArray[np.void]
    residuals: NDArray[np.void]
    class_weights: NDArray[np.float32]
    starts: NDArray[np.int64]

    def part(self, at: int) -> Table:
        """Return the slots of one model as a table."""
        columns = {name: getattr(self, name)[at] for name in ("slots", "companions", *SIDES)}
        return Table(tags=np.zeros(0, np.uint64), admission_filter=np.zeros(0, np.uint8), **columns)


def empty_stack(models: int, buckets: int, like: Table) -> Stack:
    """Return an empty stack of so many buckets of so many models, with arrays as the table `like` has."""
    size = buckets * BUCKET
    side_arrays = {"companions": np.zeros((models, size if len(like.companions) else 0), COMPANION)}
    for name in SIDES:
        side = getattr(like, name)
        side_arrays[name] = np.zeros((models, size if len(side) else 0, *side.shape[1:]), side.dtype)
    named: dict[str, Any] = side_arrays
    raw = np.zeros((models, size * SLOT.itemsize), np.uint8)
    return Stack(slots=raw.view(SLOT), starts=np.zeros((models, buckets + 1), np.int64), **named)


@kernel
def gather_taken(table: Table, buckets: NDArray[np.int64], into: Table, starts: NDArray[np.int64], first: int) -> None:
    """Write the taken slots of these buckets one after another, behind those of the first `first` buckets.

    The bucket behind the table's last is the constant's. `into` and `starts` are one model's part of a stack.
    """
    end: Index = np.uint64(starts[first])
    for at in range(len(buckets)):
        bucket = np.uint64(buckets[at])
        taken = U1 if bucket == np.uint64(len(table.tags)) else taken_slots(table.tags[bucket])
        place = bucket << U3
        while taken != U0:
            if taken & U1 != U0:
                _copy_row(table, place, into, end)
                end += U1
            taken >>= U1
            place += U1
        starts[first + at + 1] = end


def copy_into(table: Table, given: Table) -> None:
    """Copy all monomials of a table into another one of the same size, in place of those that it has.

    The constant stays as it is.
    """
    _copy_taken(table, given)
    table.tags[:] = given.tags
    table.admission_filter[:] = given.admission_filter


@kernel
def _copy_taken(table: Table, given: Table) -> None:
    """Copy the slots that are taken in either table: others are 0 in both."""
    for bucket in range(np.uint64(len(table.tags))):
        taken = taken_slots(table.tags[bucket] | given.tags[bucket])
        place = bucket << U3
        while taken != U0:
            if taken & U1 != U0:
                _copy_row(given, place, table, place)
            taken >>= U1
            place += U1


@part
def _copy_row(table: Table, place: Index, other: Table, to: Index) -> None:
    """Copy a slot, and its rows of the companions and side arrays that the table has."""
    other.slots[to] = table.slots[place]
    if len(table.companions) > 0:
        other.companions[to] = table.companions[place]
    if len(table.residuals) > 0:
        other.residuals[to] = table.residuals[place]
    for c in range(table.class_weights.shape[1] if len(table.class_weights) > 0 else 0):
        other.class_weights[to, c] = table.class_weights[place, c]
