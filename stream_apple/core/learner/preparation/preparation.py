"""What becomes of a batch before it is learned: its stages, in a fixed order, and their state.

    discretise   values of numeric features become intervals, see `discretisation.py`

Each stage gets the rows that the one before has made. What it makes of an example is a function of its state and of
that example; its state, of the examples that were learned before. So nothing depends on how examples are cut into
batches.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.learner.options import Options

Arrays = dict[str, NDArray[np.generic]]


class Preparation:
    """The stages that the options ask for; with none, batches are handed on as they are.

    active  whether there is a stage: then batches have roles
    """

    def __init__(self, _options: Options) -> None:
        self.active = False

    def prepare(self, batch: Batch) -> Batch:
        """All rows, to be scored; the state stays as it is."""
        return batch

    def prepare_to_learn(self, batch: Batch, start: int, stop: int) -> Batch:
        """Rows [start, stop), as rows from 0 on, of which those with a label and a weight change the state.

        Only to be called if `active`.
        """
        return batch.select(np.arange(start, stop))

    @property
    def arrays(self) -> Arrays:
        """Its state by name: the arrays themselves, which are replaced, and not written to, when it changes."""
        return {}

    def restore(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over a state; lengths may be others. ValueError if it is not of this kind."""
        if arrays:
            raise ValueError(f"expected no arrays of a preparation, found {', '.join(sorted(arrays))}")
