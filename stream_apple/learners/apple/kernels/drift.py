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
shares evenly, and the model grows early, as a young one does. The functions `agreement_of` and `class_agreement` of
`loss_functions.py` say what the expected label is.
"""

import math

import numpy as np

from stream_apple.core.jit import part, routine
from stream_apple.learners.apple.kernels.mixture import deal_shares
from stream_apple.learners.apple.state.classes import BLOCKS_OF_GRADIENTS, BLOCKS_OF_WEIGHTS
from stream_apple.learners.apple.state.model import EXAMPLES, Model
from stream_apple.learners.apple.state.watch import (
    BLOCK,
    BLOCKS,
    EXPECTED,
    HELD,
    LEVELS,
    LOSS_SUM,
    RESTARTS,
    RISEN_AT,
    SQUARES,
    SUMS,
    Watch,
)

CONFIDENCE = 1e-4  # the probability of a false alarm at one test, at most
FEWEST_BEFORE = 64  # examples
NOTHING_HOLDS = 4.0  # a prior for the factor 0: it weighs as much as so many examples
LEAST_KEPT = 0.1  # of the sums of squared gradients
KEPT_CURVATURE = 0.02  # of the stack's matrix
TRUSTED = np.uint8(20)  # the most sights that a slot keeps, so that averages follow quickly again


@part
def has_risen(watch: Watch, lost: float, held: float, expected: float) -> bool:
    """Add a learned example to the watch; return whether losses have risen.

    lost      the loss of its score
    held      the label times the expected label
    expected  the square of the expected label
    """
    bounded = 1.0 - 1.0 / (1.0 + lost)  # 1 of an infinite loss
    watch.open[0] += 1.0
    watch.open[1 + LOSS_SUM] += bounded
    watch.open[1 + SQUARES] += bounded * bounded
    watch.open[1 + HELD] += held
    watch.open[1 + EXPECTED] += expected
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
            total += watch.sums[level, i, LOSS_SUM]
            squares += watch.sums[level, i, SQUARES]
    variance = max(squares / count - (total / count) * (total / count), 0.0)
    doubt = math.log(2.0 * math.log(max(count, 3.0)) / CONFIDENCE)
    newer, newer_total = 0.0, 0.0
    for level in range(LEVELS):
        for back in range(watch.used[level]):
            i = watch.used[level] - 1 - back
            newer += BLOCK << level
            newer_total += watch.sums[level, i, LOSS_SUM]
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
        held += float(watch.sums[level, :used, HELD].sum())
        expected += float(watch.sums[level, :used, EXPECTED].sum())
    return min(max(held / expected, -1.0), 1.0)


def restart(model: Model) -> None:
    """Multiply all weights by `what_holds`, and shrink the accumulators so that the model learns fast again."""
    slots, companions, mixture, watch = model.table.slots, model.table.companions, model.mixture, model.watch
    holds = np.float32(what_holds(watch))
    kept = max(abs(holds), np.float32(LEAST_KEPT))
    for name in ("weight", "average", "fast"):
        slots[name] *= holds
    for name in ("linear_weight", "slow_linear"):
        companions[name] *= holds
    slots["gradient"] *= kept
    companions["linear_gradient"] *= kept
    slots["sights"] = np.minimum(slots["sights"], TRUSTED)
    if model.rule.classes:
        of_classes = model.table.class_weights.reshape(len(slots), -1, model.rule.classes)
        of_classes[:, BLOCKS_OF_WEIGHTS] *= holds
        of_classes[:, BLOCKS_OF_GRADIENTS] *= kept
        # The largest differences between the weights of two classes.
        for sizes in (slots["weight"], slots["average"], companions["linear_weight"]):
            np.abs(sizes, out=sizes)
    mixture.curvature[:] *= KEPT_CURVATURE
    deal_shares(mixture)
    watch.restarts[RESTARTS] += 1
    watch.restarts[RISEN_AT] = model.scalars.counts[EXAMPLES]
