"""What becomes of a batch before it is learned: its stages, in a fixed order, and their state.

    discretise   values of numeric features become intervals, see `discretisation.py`
    personalise  users have copies of what there is then, see `personalisation.py`

Each stage gets the rows that the one before has made. What it makes of an example is a function of its state and of
that example; its state, of the examples that were learned before. So nothing depends on how examples are cut into
batches.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.learner.options import Options
from stream_apple.core.learner.preparation.personalisation import UserFeatures

Arrays = dict[str, NDArray[np.generic]]

_PORTION = 1 << 20  # features; a part has the products of one example more


class Preparation:
    """The stages that the options ask for; with none, batches are handed on as they are.

    active  whether there is a stage: then batches have roles
    """

    def __init__(self, options: Options) -> None:
        self._users = None
        if options.personalise:
            self._users = UserFeatures(options.personalise, options.max_features_per_example)
        self.active = self._users is not None
        self._truncated = np.zeros(1, np.int64)

    def prepare(self, batch: Batch) -> Batch:
        """All rows, to be scored; the state stays as it is."""
        return batch if self._users is None else self._users.add(batch).batch

    def prepare_to_learn(self, batch: Batch, start: int, stop: int) -> Batch:
        """Rows [start, stop), as rows from 0 on, of which those with a label and a weight change the state.

        Only to be called if `active`.
        """
        batch = batch.select(np.arange(start, stop))
        if self._users is not None:
            batch, truncated = self._users.add(batch)
            learned = (batch.weights > 0.0) & ~np.isnan(batch.labels)
            self._truncated = self._truncated + np.count_nonzero(truncated & learned)
        return batch

    def portions(self, batch: Batch, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Rows [start, stop) in parts that are prepared one after the other, so that they take bounded memory."""
        sizes = np.diff(batch.indptr) if self._users is None else self._users.bounds(batch)
        total = sizes[start:stop].cumsum()
        ends = np.arange(_PORTION, int(total[-1]) if len(total) else 0, _PORTION)
        inner = np.unique(start + np.searchsorted(total, ends)).tolist()
        yield from pairwise(sorted({start, *inner, stop}))

    @property
    def truncated(self) -> int:
        """Examples learned whose users' features were not all made, for lack of room."""
        return int(self._truncated[0])

    @property
    def arrays(self) -> Arrays:
        """Its state by name: the arrays themselves, which are replaced, and not written to, when it changes."""
        return {} if self._users is None else {"truncated": self._truncated}

    def restore(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over a state; lengths may be others. ValueError if it is not of this kind."""
        own, found = sorted(self.arrays), sorted(arrays)
        if own != found:
            raise ValueError(f"expected arrays of a preparation: {own}, found {found}")
        if self._users is not None:
            self._truncated = arrays["truncated"].astype(np.int64)
