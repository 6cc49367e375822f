"""Drift: a test that losses have risen by more than chance explains, and what is done then.

The test is ADWIN's (Bifet, Gavalda 2007, section 3), one-sided: the losses since the last rise are kept as sums over
blocks, whose sizes double with age, so that memory and time are bounded. Where the mean of the newer blocks exceeds
that of the older ones by more than a Bernstein bound, for any place between two blocks, there was a rise in between;
the older blocks are forgotten. The bound holds for values in [0, 1]: a loss l counts as l / (1 + l), in the units that
are minimised.

Then the predictors of a mixture that are fast begin anew, and the expanded and the linear ones learn as fast as a young
model does, as their sums of squared gradients shrink. Weights stay, except those of the fast ones: what was true before
the rise may be true of most features after it. The mixture takes what turns out best.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import part, routine
from stream_apple.core.learner.state.model import Mixture
from stream_apple.core.learner.state.table import Table

BLOCK = 32  # examples of the newest blocks
BLOCKS, LEVELS = 6, 24  # blocks of one size, and sizes: what is older than some 10^9 examples is forgotten
CONFIDENCE = 1e-4  # the probability of a false alarm at one test, at most
FEWEST_BEFORE = 64  # examples
SHRINKAGE = np.float32(0.1)
KEPT_CURVATURE = 0.02
TRUSTED = np.uint8(20)  # sights: an average follows quickly again

_COUNT, _SUM, _SQUARES = range(3)


class Watch(NamedTuple):
    """The losses since the last rise.

    sums      float64[LEVELS, BLOCKS, 2]  of the losses of a block of BLOCK * 2^level examples, and of their squares;
                                          those of a level are in the order of time
    used      int64[LEVELS]  how many blocks a level has
    open      float64[3]  the number of examples since the last block, and their sums
    restarts  int64[1]  how often losses have risen
    """

    sums: NDArray[np.float64]
    used: NDArray[np.int64]
    open: NDArray[np.float64]
    restarts: NDArray[np.int64]


def empty_watch() -> Watch:
    """Return a watch that has seen no loss."""
    return Watch(np.zeros((LEVELS, BLOCKS, 2)), np.zeros(LEVELS, np.int64), np.zeros(3), np.zeros(1, np.int64))


@part
def has_risen(watch: Watch, loss: float) -> bool:
    """Take in the loss of an example that is learned, and return whether losses have risen."""
    bounded = 1.0 - 1.0 / (1.0 + loss)  # 1 of an infinite loss
    watch.open[_COUNT] += 1.0
    watch.open[_SUM] += bounded
    watch.open[_SQUARES] += bounded * bounded
    if watch.open[_COUNT] < BLOCK:
        return False
    _close_block(watch)
    return bool(_forget_before_rise(watch))


@routine
def _close_block(watch: Watch) -> None:
    """Append a block of what is open; where a level is full its two oldest blocks become one of the next level."""
    total, squares = watch.open[_SUM], watch.open[_SQUARES]
    watch.open[:] = 0.0
    for level in range(LEVELS):
        blocks, used = watch.sums[level], watch.used[level]
        if used < BLOCKS:
            blocks[used, 0], blocks[used, 1] = total, squares
            watch.used[level] += 1
            return
        oldest, oldest_squares = blocks[0, 0] + blocks[1, 0], blocks[0, 1] + blocks[1, 1]
        for i in range(2, BLOCKS):
            blocks[i - 2, 0], blocks[i - 2, 1] = blocks[i, 0], blocks[i, 1]
        blocks[BLOCKS - 2, 0], blocks[BLOCKS - 2, 1] = total, squares
        watch.used[level] = BLOCKS - 1
        total, squares = oldest, oldest_squares


@routine
def _forget_before_rise(watch: Watch) -> bool:
    """Forget the blocks before a rise, if there was one; return whether there was."""
    count, total, squares = 0.0, 0.0, 0.0
    for level in range(LEVELS):
        for i in range(watch.used[level]):
            count += BLOCK << level
            total += watch.sums[level, i, 0]
            squares += watch.sums[level, i, 1]
    variance = max(squares / count - (total / count) * (total / count), 0.0)
    doubt = math.log(2.0 * math.log(max(count, 3.0)) / CONFIDENCE)
    newer, newer_total = 0.0, 0.0
    for level in range(LEVELS):
        for back in range(watch.used[level]):
            i = watch.used[level] - 1 - back
            newer += BLOCK << level
            newer_total += watch.sums[level, i, 0]
            older = count - newer
            if older < FEWEST_BEFORE:
                return False
            rise = newer_total / newer - (total - newer_total) / older
            scarcity = 1.0 / newer + 1.0 / older
            if rise > math.sqrt(2.0 * scarcity * variance * doubt) + 2.0 / 3.0 * scarcity * doubt:
                for kept in range(i, watch.used[level]):
                    watch.sums[level, kept - i, 0] = watch.sums[level, kept, 0]
                    watch.sums[level, kept - i, 1] = watch.sums[level, kept, 1]
                watch.used[level] -= i
                watch.used[level + 1 :] = 0
                return True
    return False


def restart(table: Table, mixture: Mixture, watch: Watch) -> None:
    """Let the fast predictors begin anew, and the others learn as fast as a young model; weights are settled."""
    slots, companions = table.slots, table.companions
    slots["gradient"] *= SHRINKAGE
    base = slots["degree"] <= 1
    slots["linear_gradient"][base] *= SHRINKAGE
    slots["average"][~base] = slots["weight"][~base]
    slots["fast"][~base] = 0.0
    slots["sights"] = np.minimum(slots["sights"], TRUSTED)
    companions["average"] = slots["weight"]
    companions["fast"] = companions["fast_linear"] = 0.0
    mixture.curvature[:] *= KEPT_CURVATURE
    watch.restarts[0] += 1
