"""Which round an epoch is in, and where a partition's model has to stop for others.

A boundary is where the first accepted record of a later round comes, by the partition's own clock. The model ends its
epoch there, and is held: it learns nothing before it is told to go on.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.stream.positions.merge_note import BoundaryNote, BoundaryState


class Boundary(NamedTuple):
    """Marks the end of a round, in a partition.

    round  that has ended
    at     the first offset that the model has not learned
    """

    round: int
    at: int


class Rounds:
    """Tells a model where it has to stop for others.

    every        epochs of a round

    held         the boundary that the model stands at, waiting; None while it goes on
    passed       whether the model stands at a boundary that is behind it: the next record ends no epoch
    uncommitted  whether it has gone on, and nobody would know if it were lost now
    """

    def __init__(self, every: int) -> None:
        self.every = every
        self.held: Boundary | None = None
        self.passed = False
        self.uncommitted = False

    def first_behind(self, epoch: int, epochs: NDArray[np.int64]) -> int:
        """Which of the next examples is the first behind a boundary; how many they are, if none is.

        epoch   before the first of them, -1 if there was none
        epochs  int64[n], of each
        """
        if not len(epochs):
            return 0
        before = np.concatenate(([epoch], epochs[:-1]))
        behind = (epochs // self.every > before // self.every) & (before >= 0)
        if self.passed:
            behind[0] = False
        found = np.flatnonzero(behind)
        return int(found[0]) if len(found) else len(epochs)

    def stop(self, epoch: int, at: int) -> Boundary:
        """The model stops at `at`, the round of `epoch` being over."""
        self.held, self.passed = Boundary(epoch // self.every, at), False
        return self.held

    def restore(self, note: BoundaryNote | None, next_offset: int) -> None:
        """The model is that of a snapshot, at `next_offset`, beside which this was noted."""
        if note is not None and note.at == next_offset:
            waits = note.state is BoundaryState.CONTRIBUTED
            self.held = Boundary(note.round, note.at) if waits else None
            self.passed = not waits

    def agrees_with(self, note: BoundaryNote | None) -> bool:
        """Whether a model that was kept is one beside which this may have been noted."""
        if self.uncommitted:
            return False
        waits = note is not None and note.state is BoundaryState.CONTRIBUTED
        return not waits or (note is not None and self.held == Boundary(note.round, note.at))

    def go_on(self) -> None:
        """The model has what there is to have, and goes on behind the boundary, when that is committed."""
        self.held, self.passed, self.uncommitted = None, True, True
