"""A rise of the losses, and what is done then, slow and obvious: a list of blocks, and weights one by one.

Written from the description of the test and of the restart, not from the kernels.
"""

import math
from collections.abc import Callable
from dataclasses import astuple, dataclass, field
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.scores import Scores

Numbers = float | NDArray[np.float64]
"""Of a label: one number, or one for each class."""


@dataclass
class Block:
    """So many examples: the sums of their losses over 1 + loss, of the squares of these, and of label * expectation."""

    count: int = 0
    losses: float = 0.0
    squares: float = 0.0
    held: float = 0.0
    expected: float = 0.0

    def __add__(self, other: "Block") -> "Block":
        return Block(*(mine + its for mine, its in zip(astuple(self), astuple(other), strict=True)))


@dataclass
class DriftOracle:
    """The blocks since the last rise, the oldest first; `open` is the one that is being filled."""

    blocks: list[Block] = field(default_factory=list)
    open: Block = field(default_factory=Block)

    def risen(self, loss: float, expected: Numbers, label: Numbers) -> bool:
        """Take in an example; say whether losses have risen, and forget what was before."""
        bounded = loss / (1.0 + loss)
        self.open += Block(1, bounded, bounded**2, float(np.dot(label, expected)), float(np.dot(expected, expected)))
        if self.open.count < 32:
            return False
        self.blocks.append(self.open)
        self.open = Block()
        size = 32
        while sum(block.count == size for block in self.blocks) > 6:  # the two oldest of a size become one
            first = next(i for i, block in enumerate(self.blocks) if block.count == size)
            self.blocks[first : first + 2] = [self.blocks[first] + self.blocks[first + 1]]
            size *= 2
        return self._cut()

    def _cut(self) -> bool:
        whole = reduce(add, self.blocks)
        variance = max(whole.squares / whole.count - (whole.losses / whole.count) ** 2, 0.0)
        doubt = math.log(2.0 * math.log(whole.count) / 1e-4)
        for at in range(len(self.blocks) - 1, 0, -1):
            older, newer = reduce(add, self.blocks[:at]), reduce(add, self.blocks[at:])
            if older.count < 64:
                return False
            scarcity = 1 / older.count + 1 / newer.count
            bound = math.sqrt(2 * scarcity * variance * doubt) + 2 / 3 * scarcity * doubt
            if newer.losses / newer.count - older.losses / older.count > bound:
                del self.blocks[:at]
                return True
        return False

    @property
    def holds(self) -> float:
        """What of the scores still does."""
        whole = reduce(add, self.blocks)
        return min(max(whole.held / (whole.expected + 4.0), -1.0), 1.0)


def learned_row_by_row(
    learner: Learner, batch: Batch, scores: Scores, rows: int, told: Callable[[int], tuple[Numbers, Numbers]]
) -> list[tuple[int, float]]:
    """Learn the first rows, and restart where losses have risen; return how many rows there were, and what held.

    told  the expected label of a row that was learned, and its label
    """
    oracle, risen = DriftOracle(), []
    for row in range(rows):
        learner.learn(batch, row, row + 1, scores)
        if oracle.risen(scores.losses[row], *told(row)):
            restart(learner, oracle.holds)
            risen.append((row + 1, oracle.holds))
    return risen


def restart(learner: Learner, holds: float) -> None:
    """Do to each weight of a learner what a rise does."""
    slots, companions, sums = learner.table.slots, learner.table.companions, learner.sums
    kept, classes = np.float32(max(abs(holds), 0.1)), learner.options.classes
    for row in learner.table.class_weights:
        for place in range(len(row)):
            is_weight = place // classes in {0, 2, 4}
            row[place] *= np.float32(holds) if is_weight else kept
    if classes:
        holds = abs(holds)  # a slot holds the sizes of what its classes have
    for slot, companion in zip(slots, companions, strict=True):
        slot["weight"] *= np.float32(holds)
        slot["gradient"] *= kept
        slot["sights"] = min(slot["sights"], 20)
        for name in ("average", "fast"):
            slot[name] *= np.float32(holds)
        for name in ("linear_weight", "slow_linear"):
            companion[name] *= np.float32(holds)
        companion["linear_gradient"] *= kept
    sums["curvature"][:] = 0.02 * sums["curvature"].astype(np.float64)
    sums["shares"][:] = 0.9 * sums["shares"].astype(np.float64) + 0.1 / 3
