"""The state of a partition's model at one moment, which snapshots keep."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from stream_apple.learners.state import LearnerState
from stream_apple.stream.positions.lineage import Lineage


class Ended(NamedTuple):
    """The last epoch that has ended, -1 before the first end, and the learner's digest after it grew; "": not taken."""

    epoch: int = -1
    digest: str = ""


class ModelImage(NamedTuple):
    """Holds the whole state of a partition's model.

    at        the first offset that it has not learned
    learned   the learner's state
    sums      all state by name, besides the learner's rows and `ended`; it includes the learner's sums
    observed  measurements on which nothing depends: the digest does not cover them
    passed    whether it has gone on from the end of a round, and learned nothing since; the note with the committed
              offset keeps that, no snapshot does
    """

    at: int
    lineage: Lineage
    ended: Ended
    learned: LearnerState
    sums: Mapping[str, NDArray[np.generic]]
    observed: Mapping[str, NDArray[np.generic]]
    passed: bool = False

    def copy(self) -> "ModelImage":
        """Return the same image in memory of its own, which stays as it is while the model learns on."""
        learned = self.learned.copy()
        sums = {name: array.copy() for name, array in self.sums.items()}
        return self._replace(
            learned=learned,
            sums={**sums, **learned.sums},
            observed={name: array.copy() for name, array in self.observed.items()},
        )

    def digest(self, learner: str) -> str:
        """Return 32 hex digits over every bit that later outputs depend on; `learner` is the learner's own digest."""
        state = xxhash.xxh3_128(f"{self.at} {self.lineage.model} {learner}".encode())
        for array in self.sums.values():
            state.update(array.view(np.uint8).data)
        return state.hexdigest()
