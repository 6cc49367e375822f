"""What the learners of all systems do alike: the digest of their state, and the counts for display."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.named_arrays import take_over_arrays
from stream_apple.learners.progress.progressive_loss import ProgressiveLoss
from stream_apple.learners.state import LearnerState
from stream_apple.learners.state_digest import state_digest


class BaseLearner:
    """Part of a learner as `learners/port.py` specifies it; the system adds `state`, and everything about examples."""

    progress: ProgressiveLoss

    @property
    def state(self) -> LearnerState:
        """The whole state, the arrays themselves."""
        raise NotImplementedError

    @property
    def observed(self) -> dict[str, NDArray[np.generic]]:
        """What is counted for display only, by name: the arrays themselves. No score and no digest depends on them."""
        return self.progress.observed()

    def restore_observed(self, observed: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the counts of `observed`; ValueError for arrays of other names, types, or sizes."""
        take_over_arrays(self.observed, observed)

    def digest(self) -> str:
        """Return a hash, 32 hex digits, of every bit of the state, see `state_digest.py`."""
        return state_digest(*self.state)
