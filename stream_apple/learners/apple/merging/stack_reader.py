"""Reads the rows of several models block by block, into stacks."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_apple.learners.apple.merging.mergeable import constant_of, table_of_rows
from stream_apple.learners.apple.merging.stacks import Stack, empty_stack, gather_taken
from stream_apple.learners.apple.state.table import Table
from stream_apple.learners.merging_port import ReadableModel
from stream_apple.learners.state import room_for_block


class BlockReader:
    """Reads blocks of models with equal options; it has memory for one block.

    like  a table with the arrays that the models' tables have
    """

    def __init__(self, like: Table) -> None:
        self._memory = room_for_block(like.rows)

    def read(self, model: ReadableModel, start: int, stop: int) -> Table:
        """Return buckets [start, stop), a block, as a table without a constant, until the next block is read."""
        return table_of_rows(model.read(start, stop, self._memory))


class StackReader:
    """Reads the buckets of models with equal options; it has memory for a block of each.

    Buckets that have to wait until all blocks have been read are put aside.

    models   in the order of the stacks
    like     a table with the arrays that the models' tables have
    buckets  of a block
    aside    int64[k], ascending  the buckets to be put aside

    stack        the other buckets of the block that was read last. To fill the same memory again is faster than to
                 take new memory, which the system would have to clear
    stack_aside  all that have been put aside so far
    """

    def __init__(self, models: Sequence[ReadableModel], like: Table, buckets: int, aside: NDArray[np.int64]) -> None:
        self._models = models
        self._blocks = BlockReader(like)
        self._aside = aside
        self._count = 0  # of those that have been put aside
        self.stack = empty_stack(len(models), buckets, like)
        self.stack_aside = empty_stack(len(models), len(aside), like)
        self._parts = [(self.stack.part(at), self.stack_aside.part(at)) for at in range(len(models))]

    def read(self, start: int, stop: int) -> NDArray[np.int64]:
        """Read buckets [start, stop), a block; return the numbers of the stack's buckets in there.

        Blocks are read in ascending order.
        """
        last = np.searchsorted(self._aside, stop)
        aside = self._aside[self._count : last] - start
        others = np.delete(np.arange(stop - start), aside)
        for at, (model, (into, into_aside)) in enumerate(zip(self._models, self._parts, strict=True)):
            block = self._blocks.read(model, start, stop)
            gather_taken(block, others, into, self.stack.starts[at], 0)
            if len(aside):
                gather_taken(block, aside, into_aside, self.stack_aside.starts[at], self._count)
        self._count += len(aside)
        return others


def stack_of_constants(models: Sequence[ReadableModel]) -> Stack:
    """Return the constants of all models, in their order."""
    constants = [constant_of(each.sums) for each in models]
    stack = empty_stack(len(models), 1, constants[0])
    for at, constant in enumerate(constants):
        gather_taken(constant, np.zeros(1, np.int64), stack.part(at), stack.starts[at], 0)
    return stack
