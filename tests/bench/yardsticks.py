"""What learning is measured against: Vowpal Wabbit, and what memory alone costs."""

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from vowpalwabbit import pyvw

from stream_apple.core.jit import kernel
from stream_apple.learners.apple.state.table import Extent, Slots, empty_table

Addresses = NDArray[np.uint32]
"""Numbers of slots, in the order in which they are visited."""


class Run(NamedTuple):
    """One pass: wall seconds, features of all examples together (constants included), mean progressive loss."""

    seconds: float
    features: float
    loss: float


def vowpal_wabbit(path: Path, bits: int, arguments: Sequence[str]) -> Run:
    """One pass over a file, from the start of Vowpal Wabbit to the end of the file."""
    start = time.perf_counter()
    workspace = pyvw.Workspace(arg_list=["-d", str(path), "-b", str(bits), *arguments], enable_logging=True)
    seconds = time.perf_counter() - start
    loss = workspace.get_sum_loss() / workspace.get_weighted_examples()
    workspace.finish()
    features = re.search(r"total feature number = (\d+)", "".join(workspace.get_log()))
    assert features
    return Run(seconds, float(features[1]), loss)


@kernel
def _visit(slots: Slots, addresses: Addresses) -> float:
    """Read what scoring needs of each slot, and write what learning changes."""
    score = 0.0
    for at in range(len(addresses)):
        owner = slots[np.uint64(addresses[at])]
        weight, gradient, scale = owner["weight"], owner["gradient"], owner["scale"]
        score += weight
        owner["weight"] = weight + scale
        owner["gradient"] = gradient + scale
    return score


class Memory:
    """A table of 2^bits slots whose every page is there already: what it costs to visit slots, and nothing else."""

    def __init__(self, bits: int) -> None:
        self._slots = empty_table(bits, Extent()).slots
        self._slots["scale"] = 1.0
        self.visit(np.zeros(1, np.uint32))

    def visit(self, addresses: Addresses) -> float:
        """Seconds of reading and writing the slots, once each in one go: no arithmetic waits for another's result.

        A floor: the learner can't write the first slot of an example before it has read the last.
        """
        start = time.perf_counter()
        _visit(self._slots, addresses)
        return time.perf_counter() - start
