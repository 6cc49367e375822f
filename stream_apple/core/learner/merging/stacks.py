"""The same slots of several models, stacked in arrays, to be merged at once.

A key's bucket depends on the key and the size of the table alone, so buckets are merged one by one, and it takes no
more memory than a portion of each model. They are copies: the models stay as they are.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.learner.kernels.decay import settle
from stream_apple.core.learner.state.model import Decay, DecayRule
from stream_apple.core.learner.state.table import BUCKET, COMPANION, SIDES, SLOT, Table, base_features

PORTION_SLOTS = 1 << 14


class Stack(NamedTuple):
    """The same slots of several models: arrays [models, slots] like `Table`'s, [models, 0] where these are empty.

    Before the last slot stand whole buckets; the last is for `settle`, which leaves it out.
    """

    slots: NDArray[np.void]
    companions: NDArray[np.void]
    residuals: NDArray[np.void]
    stamps: NDArray[np.float64]
    counts: NDArray[np.void]
    class_weights: NDArray[np.float32]
    ablations: NDArray[np.float64]


def portions_of(table: Table) -> list[tuple[int, int]]:
    """Return first slot and end of each portion of the table; the constant, in the last slot, belongs to none."""
    size = len(table.slots) - 1
    return [(start, min(start + PORTION_SLOTS, size)) for start in range(0, size, PORTION_SLOTS)]


def empty_stack(tables: Sequence[Table], size: int) -> Stack:
    """Return a stack for `size` slots of each of these tables, in which there is nothing yet."""
    models = len(tables)
    raw = np.zeros((models, (size + 1) * SLOT.itemsize), np.uint8)
    side_arrays = {"companions": np.zeros((models, size + 1 if len(tables[0].companions) else 0), COMPANION)}
    for name in SIDES:
        like = getattr(tables[0], name)
        side_arrays[name] = np.zeros((models, size + 1 if len(like) else 0, *like.shape[1:]), like.dtype)
    named: dict[str, Any] = side_arrays
    return Stack(slots=raw.view(SLOT), **named)


def fill_stack(stack: Stack, tables: Sequence[Table], where: slice | NDArray[np.int64]) -> Stack:
    """Write these slots of all tables to a stack for as many; rows of companions are 0 but for base features.

    Memory that is filled again and again is worth more than new memory, which the system would have to clear.
    """
    raw = stack.slots.view(np.uint8)
    stack.companions.view(np.uint8)[:] = 0
    for at, table in enumerate(tables):
        slots = table.slots[where]
        raw[at, : slots.nbytes] = slots.view(np.uint8)  # as bytes: NumPy would copy field by field
        if len(table.companions):
            used = np.flatnonzero(slots["degree"] <= 1)
            stack.companions[at, used] = table.companions[where][used]
        for name in SIDES:
            if len(side := getattr(table, name)):
                getattr(stack, name)[at, :-1] = side[where]
    return stack


def stack_of(tables: Sequence[Table], where: slice | NDArray[np.int64]) -> Stack:
    """Return these slots of all tables, in a stack of their own; see `fill_stack`."""
    size = len(range(*where.indices(len(tables[0].slots)))) if isinstance(where, slice) else len(where)
    return fill_stack(empty_stack(tables, size), tables, where)


def settle_stack(stack: Stack, decays: Sequence[Decay], rule: DecayRule) -> None:
    """Write the decayed weights to the stack; those of a constant stay as they are."""
    if not rule.active:
        return
    for at, decay in enumerate(decays):
        table = Table(
            slots=stack.slots[at],
            tags=np.zeros(0, np.uint64),
            admission_filter=np.zeros(0, np.uint8),
            companions=stack.companions[at],
            residuals=stack.residuals[at],
            stamps=stack.stamps[at],
            counts=stack.counts[at],
            class_weights=stack.class_weights[at],
            ablations=stack.ablations[at],
        )
        settle(table, Decay(*(array.copy() for array in decay)), rule)


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
    """Copy all arrays of a table into another one of the same size."""
    table.slots.view(np.uint8)[:] = given.slots.view(np.uint8)
    table.tags[:] = given.tags
    table.admission_filter[:] = given.admission_filter
    if len(table.companions):
        # No others: memory that was never written costs nothing.
        for used in (base_features(given.slots), [len(given.slots) - 1]):
            table.companions[used] = given.companions[used]
    for name in SIDES:
        getattr(table, name)[:] = getattr(given, name)
