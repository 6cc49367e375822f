"""Reads the tables of several models block by block, into stacks."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.learner.merging.mergeable import ReadableModel
from stream_apple.core.learner.merging.stacks import Stack, empty_stack, gather_taken, settle_rows
from stream_apple.core.learner.new_model import decay_of, extent_of
from stream_apple.core.learner.state.model import Decay
from stream_apple.core.learner.state.table import BUCKET, empty_block

_A = TypeVar("_A")
_R = TypeVar("_R")


class CallEach(Protocol):
    """Calls a function with each argument, one after the other or at once; yields the results in their order."""

    def __call__(self, call: Callable[[_A], _R], arguments: Iterable[_A], /) -> Iterable[_R]:
        """Return what `map` returns."""
        ...


class StackReader:
    """Reads the buckets of models with equal options, a block of each at a time, and decays their weights.

    Buckets that have to wait until all blocks have been read are put aside.

    models   in the order of the stacks
    buckets  of a block
    aside    int64[k], ascending  the buckets to be put aside
    run      calls the function that reads some of the models
    parts    how often it is called for a block, each time with memory of its own for what has to be decoded

    stack        the other buckets of the block that was read last. To fill the same memory again is faster than to
                 take new memory, which the system would have to clear
    stack_aside  all that have been put aside so far
    """

    def __init__(
        self, models: Sequence[ReadableModel], buckets: int, aside: NDArray[np.int64], run: CallEach, parts: int
    ) -> None:
        options = models[0].options
        bits, extent, count = int(options.bits or 0), extent_of(options), len(models)
        self._tables = [each.table for each in models]
        self._run = run
        self._memories = [empty_block(bits, extent) for _ in range(min(parts, count))]
        self._aside = aside
        self._put = 0  # aside so far
        self._rule = decay_of(options)
        self._decays = [
            Decay(each.sums["decay_scale"], each.sums["decay_drawn"]) for each in models if self._rule.active
        ]
        self.stack = empty_stack(count, buckets, self._memories[0])
        self.stack_aside = empty_stack(count, len(aside), self._memories[0])
        self._rows = [(self.stack.part(at), self.stack_aside.part(at)) for at in range(count)]

    def read(self, start: int, stop: int) -> NDArray[np.int64]:
        """Read slots [start, stop), a block or the constant's; return the numbers of the stack's buckets in there.

        Blocks are read in ascending order.
        """
        buckets, put = np.arange(max(stop // BUCKET - start // BUCKET, 1)), self._put
        self._put = int(np.searchsorted(self._aside, stop // BUCKET))
        aside = self._aside[put : self._put] - start // BUCKET
        others = np.delete(buckets, aside)

        def read_some(which: int) -> None:
            for at in range(which, len(self._tables), len(self._memories)):
                into, into_aside = self._rows[at]
                part = self._tables[at].part(start, stop, self._memories[which])
                gather_taken(part, others, into, self.stack.starts[at], 0)
                if len(aside):
                    gather_taken(part, aside, into_aside, self.stack_aside.starts[at], put)
                self._settle(self.stack, at, len(others))

        list(self._run(read_some, range(len(self._memories))))
        return others

    def finish(self) -> None:
        """Decay the weights that were put aside; call it once, when all blocks have been read."""
        for at in range(len(self._tables)):
            self._settle(self.stack_aside, at, self._put)

    def _settle(self, stack: Stack, at: int, buckets: int) -> None:
        if self._rule.active:
            settle_rows(stack, at, buckets, self._decays[at], self._rule)
