"""Drift: a test whether losses have risen by more than chance explains, and the restart that follows.

The test is ADWIN's (Bifet, Gavalda 2007, section 3), one-sided: the losses since the last rise are kept as sums over
blocks, whose sizes double with age, so that memory and time are bounded. If the mean of the newer blocks exceeds that
of the older ones by more than a Bernstein bound, at any place between two blocks, losses have risen there, and the
older blocks are forgotten. The bound holds for values in [0, 1], so a loss l (as it is minimised) counts as
l / (1 + l).

The restart multiplies all weights by a factor that is estimated from the newer blocks: the slope of the labels over
the expected labels, by least squares, through 0. It is -1 where the labels have been swapped, 0 where scores say
nothing any more, and nearly 1 where little has changed, or the alarm was false. The sums of squared gradients shrink by
the size of the factor, so the model then learns faster, up to a young model's speed. The mixture deals a part of its
shares evenly, and the model grows early, as a young one does. Of several classes `multiclass/class_drift.py` says what
the label and the expected label are.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import part, routine
from stream_apple.learners.apple.kernels.mixture import deal_shares
from stream_apple.learners.apple.state.model import Mixture
from stream_apple.learners.apple.state.table import Table
from stream_apple.learners.loss_functions import agreement_of

BLOCK = 32  # examples of the newest blocks
BLOCKS, LEVELS = 6, 24  # blocks of one size, and number of sizes: together they cover the latest 10^9 examples or more
CONFIDENCE = 1e-4  # the probability of a false alarm at one test, at most
FEWEST_BEFORE = 64  # examples
NOTHING_HOLDS = 4.0  # a prior for the factor 0: it weighs as much as so many examples
LEAST_KEPT = 0.1  # of the sums of squared gradients
KEPT_CURVATURE = 0.02  # of the stack's matrix
TRUSTED = np.uint8(20)  # the most sights that a slot keeps, so that averages follow quickly again

SUMS = 4  # of a block
_LOSSES, _SQUARES, _HELD, _EXPECTED = range(SUMS)
_RESTARTS, _AT = range(2)


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
        return int(self.restarts[_RESTARTS])

    @property
    def risen_at(self) -> int:
        """How many examples had been learned when losses last rose; 0 if they never rose."""
        return int(self.restarts[_AT])


def empty_watch() -> Watch:
    """Return a watch that has seen no loss."""
    return Watch(
        np.zeros((LEVELS, BLOCKS, SUMS)), np.zeros(LEVELS, np.int64), np.zeros(1 + SUMS), np.zeros(2, np.int64)
    )


@part
def has_risen(watch: Watch, loss: int, lost: float, score: float, label: float) -> bool:
    """Add a learned example, whose score lost so much, to the watch; return whether losses have risen."""
    held, expected = agreement_of(loss, lost, score, label)
    return bool(take_in(watch, lost, held, expected))


@part
def take_in(watch: Watch, loss: float, held: float, expected: float) -> bool:
    """Add a loss, the label times the expected label, and the square of this; return whether losses have risen."""
    bounded = 1.0 - 1.0 / (1.0 + loss)  # 1 of an infinite loss
    watch.open[0] += 1.0
    watch.open[1 + _LOSSES] += bounded
    watch.open[1 + _SQUARES] += bounded * bounded
    watch.open[1 + _HELD] += held
    watch.open[1 + _EXPECTED] += expected
    if watch.open[0] < BLOCK:
        return False
    _close_block(watch)
    return bool(_forget_before_rise(watch))


@routine
def _close_block(watch: Watch) -> None:
    """Append the open sums as a block; if a level is full, its two oldest blocks become one block of the next level."""
    for level in range(LEVELS):
        blocks, used = watch.sums[level], watch.used[level]
        if used < BLOCKS:
            watch.used[level] += 1
            for k in range(SUMS):
                blocks[used, k] = watch.open[1 + k]
            break
        watch.used[level] = BLOCKS - 1
        for k in range(SUMS):
            oldest = blocks[0, k] + blocks[1, k]
            for i in range(2, BLOCKS):
                blocks[i - 2, k] = blocks[i, k]
            blocks[BLOCKS - 2, k] = watch.open[1 + k]
            watch.open[1 + k] = oldest  # goes to the next level
    watch.open[:] = 0.0


@routine
def _forget_before_rise(watch: Watch) -> bool:
    """Forget the blocks before a rise, if there was one; return whether there was."""
    count, total, squares = 0.0, 0.0, 0.0
    for level in range(LEVELS):
        for i in range(watch.used[level]):
            count += BLOCK << level
            total += watch.sums[level, i, _LOSSES]
            squares += watch.sums[level, i, _SQUARES]
    variance = max(squares / count - (total / count) * (total / count), 0.0)
    doubt = math.log(2.0 * math.log(max(count, 3.0)) / CONFIDENCE)
    newer, newer_total = 0.0, 0.0
    for level in range(LEVELS):
        for back in range(watch.used[level]):
            i = watch.used[level] - 1 - back
            newer += BLOCK << level
            newer_total += watch.sums[level, i, _LOSSES]
            older = count - newer
            if older < FEWEST_BEFORE:
                return False
            rise = newer_total / newer - (total - newer_total) / older
            scarcity = 1.0 / newer + 1.0 / older
            if rise > math.sqrt(2.0 * scarcity * variance * doubt) + 2.0 / 3.0 * scarcity * doubt:
                for kept in range(i, watch.used[level]):
                    for k in range(SUMS):
                        watch.sums[level, kept - i, k] = watch.sums[level, kept, k]
                watch.used[level] -= i
                watch.used[level + 1 :] = 0
                return True
    return False


def what_holds(watch: Watch) -> float:
    """Return the factor by which scores still hold, from -1 to 1, estimated from all blocks of the watch."""
    held, expected = 0.0, NOTHING_HOLDS
    for level, used in enumerate(watch.used):
        held += float(watch.sums[level, :used, _HELD].sum())
        expected += float(watch.sums[level, :used, _EXPECTED].sum())
    return min(max(held / expected, -1.0), 1.0)


def restart(table: Table, mixture: Mixture, watch: Watch, examples: int) -> None:
    """Multiply all weights by `what_holds`, and shrink the accumulators so that the model learns fast again.

    `examples` is how many were learned.
    """
    slots, companions = table.slots, table.companions
    holds = np.float32(what_holds(watch))
    kept = max(abs(holds), np.float32(LEAST_KEPT))
    base = slots["degree"] <= 1
    slots["weight"] *= holds
    slots["linear_weight"] *= holds  # of a product, this is the average
    slots["fast"][~base] *= holds
    slots["gradient"] *= kept
    slots["linear_gradient"][base] *= kept
    slots["sights"] = np.minimum(slots["sights"], TRUSTED)
    for name in ("average", "fast", "slow_linear"):
        companions[name] *= holds
    mixture.curvature[:] *= KEPT_CURVATURE
    deal_shares(mixture)
    watch.restarts[_RESTARTS] += 1
    watch.restarts[_AT] = examples
