"""The losses since they last rose, kept in blocks, as `kernels/drift.py` needs them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK = 32  # examples of the newest blocks
BLOCKS, LEVELS = 6, 24  # blocks of one size, and number of sizes: together they cover the latest 10^9 examples or more
SUMS = 4  # of a block
LOSS_SUM, SQUARES, HELD, EXPECTED = range(SUMS)
RESTARTS, RISEN_AT = range(2)


class Watch(NamedTuple):
    """The losses since the last rise.

    sums      float64[LEVELS, BLOCKS, SUMS]  over a block of BLOCK * 2^level examples: the sums of losses, of their
                                             squares, of labels times expected labels, and of the squares of expected
                                             labels; the blocks of a level are in the order of time
    used      int64[LEVELS]  how many blocks a level has
    open      float64[1 + SUMS]  the number of examples since the last block, and their sums
    restarts  int64[2]  how often losses have risen, and how many examples had been learned at the last rise
    """

    sums: NDArray[np.float64]
    used: NDArray[np.int64]
    open: NDArray[np.float64]
    restarts: NDArray[np.int64]

    @property
    def rises(self) -> int:
        """How often losses have risen."""
        return int(self.restarts[RESTARTS])

    @property
    def risen_at(self) -> int:
        """How many examples had been learned when losses last rose; 0 if they never rose."""
        return int(self.restarts[RISEN_AT])


def empty_watch() -> Watch:
    """Return a watch that has seen no loss."""
    return Watch(
        np.zeros((LEVELS, BLOCKS, SUMS)), np.zeros(LEVELS, np.int64), np.zeros(1 + SUMS), np.zeros(2, np.int64)
    )
