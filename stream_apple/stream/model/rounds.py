"""Which round an epoch is in, and where a partition's model has to stop to be merged.

A boundary lies before the first accepted record of a later round, by the partition's own clock. The model ends its
epoch there, and is held: it learns nothing before it is told to go on.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.stream.positions.merge_note import BoundaryNote, BoundaryState


class Boundary(NamedTuple):
    """Marks the end of a round in a partition.

    round  the one that has ended
    at     the first offset that the model has not learned
    """

    round: int
    at: int


class Rounds:
    """Tells a model where it has to stop to be merged.

    every        epochs of a round

    held         the boundary that the model stands at, waiting; None while it goes on
    passed       whether the model stands at a boundary and has been told to go on: the next record ends no epoch
    uncommitted  whether it has been told to go on, and that is not committed yet
    """

    def __init__(self, every: int) -> None:
        self.every = every
        self.held: Boundary | None = None
        self.passed = False
        self.uncommitted = False

    def first_behind(self, epoch: int, epochs: NDArray[np.int64]) -> int:
        """Return the index of the first of the next examples that is behind a boundary; n if none is.

        epoch   the epoch before the first of them, -1 if there was none
        epochs  int64[n], the epoch of each
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
        """Hold the model at offset `at`, as the round of `epoch` is over; return the boundary."""
        self.held, self.passed = Boundary(epoch // self.every, at), False
        return self.held

    def restore(self, note: BoundaryNote | None, next_offset: int) -> None:
        """Take over the note that was committed for a model that is restored at `next_offset`."""
        if note is not None and note.at == next_offset:
            waits = note.state is BoundaryState.CONTRIBUTED
            self.held = Boundary(note.round, note.at) if waits else None
            self.passed = not waits

    def agrees_with(self, note: BoundaryNote | None) -> bool:
        """Whether `note`, which is committed, may be about the model as it stands here."""
        if self.uncommitted:
            return False
        waits = note is not None and note.state is BoundaryState.CONTRIBUTED
        return not waits or (note is not None and self.held == Boundary(note.round, note.at))

    def go_on(self) -> None:
        """Let the model go on behind the boundary; that holds once it is committed."""
        self.held, self.passed, self.uncommitted = None, True, True
