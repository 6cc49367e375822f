"""The taken slots of the same buckets of several models, stacked in arrays, to be merged at once.

A key's bucket depends on the key and the size of the table alone, so buckets are merged one by one, and a stack takes
no more memory than a portion of each model. It holds copies, so the models stay as they are. Of a table that is not
full only the cache lines that hold something are read.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel, part
from stream_apple.core.learner.kernels.decay import settle
from stream_apple.core.learner.state.model import Decay, DecayRule
from stream_apple.core.learner.state.table import (
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

PORTION_SLOTS = 1 << 14


class Stack(NamedTuple):
    """The slots of several models that are taken in the same buckets, one after another.

    All but `starts` are arrays [models, slots] like `Table`'s, [models, 0] where these are empty.

    starts  int64[models, buckets + 1]  where each bucket's slots begin, and where the last one's end. After them is
            room for one more slot, because `settle` leaves out the last one
    """

    slots: NDArray[np.void]
    companions: NDArray[np.void]
    residuals: NDArray[np.void]
    stamps: NDArray[np.float64]
    counts: NDArray[np.void]
    class_weights: NDArray[np.float32]
    ablations: NDArray[np.float64]
    starts: NDArray[np.int64]


def portions_of(table: Table) -> list[tuple[int, int]]:
    """Return first slot and end of each portion of the table; the constant, in the last slot, belongs to none."""
    size = len(table.slots) - 1
    return [(start, min(start + PORTION_SLOTS, size)) for start in range(0, size, PORTION_SLOTS)]


def empty_stack(tables: Sequence[Table], buckets: int) -> Stack:
    """Return an empty stack for `buckets` buckets of each of these tables."""
    models, size = len(tables), buckets * BUCKET + 1
    side_arrays = {"companions": np.zeros((models, size if len(tables[0].companions) else 0), COMPANION)}
    for name in SIDES:
        like = getattr(tables[0], name)
        side_arrays[name] = np.zeros((models, size if len(like) else 0, *like.shape[1:]), like.dtype)
    named: dict[str, Any] = side_arrays
    raw = np.zeros((models, size * SLOT.itemsize), np.uint8)
    return Stack(slots=raw.view(SLOT), starts=np.zeros((models, buckets + 1), np.int64), **named)


def fill_stack(stack: Stack, tables: Sequence[Table], buckets: NDArray[np.int64]) -> Stack:
    """Write these buckets of all tables to a stack for as many; a number one above the last bucket's is the constant's.

    Filling the same memory again is faster than new memory, which the system would have to clear.
    """
    for at, table in enumerate(tables):
        _gather(table, buckets, _model_of(stack, at), stack.starts[at])
    return stack


def _model_of(stack: Stack, at: int, size: int | None = None) -> Table:
    """Return the first `size` slots of one model in a stack as a table; None: all of them."""
    return Table(
        slots=stack.slots[at, :size],
        tags=np.zeros(0, np.uint64),
        admission_filter=np.zeros(0, np.uint8),
        companions=stack.companions[at, :size],
        residuals=stack.residuals[at, :size],
        stamps=stack.stamps[at, :size],
        counts=stack.counts[at, :size],
        class_weights=stack.class_weights[at, :size],
        ablations=stack.ablations[at, :size],
    )


@kernel
def _gather(table: Table, buckets: NDArray[np.int64], into: Table, starts: NDArray[np.int64]) -> None:
    """Write the taken slots of these buckets one after another, and `starts`, see `Stack`."""
    end = U0
    for at in range(len(buckets)):
        starts[at] = end
        bucket = np.uint64(buckets[at])
        taken = U1 if bucket == np.uint64(len(table.tags)) else taken_slots(table.tags[bucket])
        place = bucket << U3
        while taken != U0:
            if taken & U1 != U0:
                _copy_row(table, place, into, end)
                end += U1
            taken >>= U1
            place += U1
    starts[len(buckets)] = end


def stack_of(tables: Sequence[Table], buckets: NDArray[np.int64]) -> Stack:
    """Return these buckets of all tables, in a stack of their own; see `fill_stack`."""
    return fill_stack(empty_stack(tables, len(buckets)), tables, buckets)


def settle_stack(stack: Stack, decays: Sequence[Decay], rule: DecayRule) -> None:
    """Write the decayed weights to the stack; those of a constant stay as they are."""
    if not rule.active:
        return
    for at, decay in enumerate(decays):
        settle(_model_of(stack, at, int(stack.starts[at, -1]) + 1), Decay(*(array.copy() for array in decay)), rule)


def part_of(table: Table, start: int, stop: int) -> Table:
    """Return views of slots [start, stop) of a table that is to be written."""
    sides = {name: side[start:stop] if len(side := getattr(table, name)) else side for name in SIDES}
    return table._replace(
        slots=table.slots[start:stop],
        tags=table.tags[start // BUCKET : stop // BUCKET],
        companions=table.companions[start:stop],
        **sides,
    )


def copy_into(table: Table, given: Table) -> None:
    """Copy all monomials of a table into another one of the same size, in place of those that it has."""
    _copy_taken(table, given)
    table.tags[:] = given.tags
    table.admission_filter[:] = given.admission_filter


@kernel
def _copy_taken(table: Table, given: Table) -> None:
    """Copy the slots that are taken in either table, and the constant's: others are 0 in both."""
    buckets = np.uint64(len(table.tags))
    for bucket in range(buckets + U1):
        constant = bucket == buckets
        taken = U1 if constant else taken_slots(table.tags[bucket] | given.tags[bucket])
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
    if len(table.companions) > 0 and table.slots[place]["degree"] <= 1:
        other.companions[to] = table.companions[place]
    if len(table.residuals) > 0:
        other.residuals[to] = table.residuals[place]
    for c in range(table.stamps.shape[1] if len(table.stamps) > 0 else 0):
        other.stamps[to, c] = table.stamps[place, c]
    if len(table.counts) > 0:
        other.counts[to] = table.counts[place]
    for c in range(table.class_weights.shape[1] if len(table.class_weights) > 0 else 0):
        other.class_weights[to, c] = table.class_weights[place, c]
    if len(table.ablations) > 0:
        other.ablations[to] = table.ablations[place]
