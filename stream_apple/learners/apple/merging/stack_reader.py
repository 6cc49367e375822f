"""Reads the tables of several models block by block, into stacks."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_apple.learners.apple.merging.mergeable import ReadableModel
from stream_apple.learners.apple.merging.stacks import empty_stack, gather_taken
from stream_apple.learners.apple.new_model import extent_of
from stream_apple.learners.apple.state.table import BUCKET, empty_block


class StackReader:
    """Reads the buckets of models with equal options; it has memory for a block of each.

    Buckets that have to wait until all blocks have been read are put aside.

    models   in the order of the stacks
    buckets  of a block
    slots    the most that are taken in a block of any model
    aside    int64[k], ascending  the buckets to be put aside

    stack        the other buckets of the block that was read last. To fill the same memory again is faster than to
                 take new memory, which the system would have to clear
    stack_aside  all that have been put aside so far
    """

    def __init__(self, models: Sequence[ReadableModel], buckets: int, slots: int, aside: NDArray[np.int64]) -> None:
        options = models[0].options
        self._tables = [each.table for each in models]
        self._memory = empty_block(int(options.bits or 0), extent_of(options))
        self._aside = aside
        self._count = 0  # of those that have been put aside
        self.stack = empty_stack(len(models), buckets, slots, self._memory)
        self.stack_aside = empty_stack(len(models), len(aside), len(aside) * BUCKET, self._memory)
        self._parts = [(self.stack.part(at), self.stack_aside.part(at)) for at in range(len(models))]

    def read(self, start: int, stop: int) -> NDArray[np.int64]:
        """Read slots [start, stop), a block or the constant's; return the numbers of the stack's buckets in there.

        Blocks are read in ascending order.
        """
        buckets = np.arange(max(stop // BUCKET - start // BUCKET, 1))
        last = np.searchsorted(self._aside, stop // BUCKET)
        aside = self._aside[self._count : last] - start // BUCKET
        others = np.delete(buckets, aside)
        for at, (table, (into, into_aside)) in enumerate(zip(self._tables, self._parts, strict=True)):
            part = table.part(start, stop, self._memory)
            gather_taken(part, others, into, self.stack.starts[at], 0)
            if len(aside):
                gather_taken(part, aside, into_aside, self.stack_aside.starts[at], self._count)
        self._count += len(aside)
        return others
