"""What becomes of a batch before it is learned: its stages, in a fixed order, and their state.

    discretise   values of numeric features become intervals, see `discretisation.py`

Each stage gets the rows that the one before has made. What it makes of an example is a function of its state and of
that example; its state, of the examples that were learned before. So nothing depends on how examples are cut into
batches.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.learner.options import Options
from stream_apple.core.learner.preparation.discretisation import Discretiser
from stream_apple.core.learner.preparation.intervals import Intervals, no_intervals

Arrays = dict[str, NDArray[Any]]


class Preparation:
    """The stages that the options ask for; with none, batches are handed on as they are.

    active  whether there is a stage: then features may have roles
    """

    def __init__(self, options: Options) -> None:
        self._discretiser = None if options.discretise == "none" else Discretiser(options)
        self.active = self._discretiser is not None

    @property
    def intervals(self) -> Intervals:
        """The features that are cut; replaced whole, for those who look from other threads."""
        return no_intervals() if self._discretiser is None else self._discretiser.intervals

    def warm_up(self, batch: Batch) -> None:
        """Compile what the stages need."""
        if self._discretiser is not None:
            self._discretiser.warm_up(batch)

    def prepare(self, batch: Batch) -> Batch:
        """All rows, to be scored; the state stays as it is."""
        if self._discretiser is not None:
            batch = self._discretiser.prepare(batch)
        return batch

    def prepare_to_learn(self, batch: Batch, start: int, stop: int) -> Batch:
        """Rows [start, stop), as rows from 0 on, of which those with a label and a weight change the state."""
        batch = _rows(batch, start, stop)
        if self._discretiser is not None:
            size = stop - start
            first = self._discretiser.learn(batch)
            if first == 0:
                batch = self._discretiser.prepare(batch)
            elif first < size and len(self.intervals.features):
                batch = _joined(_rows(batch, 0, first), self._discretiser.prepare(_rows(batch, first, size)))
        return batch

    @property
    def arrays(self) -> Arrays:
        """Its state by name: the arrays themselves, which are replaced, and not written to, when it changes."""
        return {} if self._discretiser is None else self._discretiser.arrays

    def restore(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over a state; lengths may be others. ValueError if it is not of this kind."""
        own = self.arrays
        if sorted(arrays) != sorted(own):
            raise ValueError(f"expected arrays {', '.join(sorted(own))}, found {', '.join(sorted(arrays))}")
        for name, array in own.items():
            if arrays[name].dtype != array.dtype:
                raise ValueError(f"{name}: expected {array.dtype}, found {arrays[name].dtype}")
        if self._discretiser is not None:
            self._discretiser.restore(arrays)


def _rows(batch: Batch, start: int, stop: int) -> Batch:
    """Those of [start, stop), as views; `indptr` goes on from where it was."""
    return batch._replace(
        indptr=batch.indptr[start : stop + 1],
        labels=batch.labels[start:stop],
        weights=batch.weights[start:stop],
        users=batch.users[start:stop] if len(batch.users) else batch.users,
    )


def _joined(before: Batch, after: Batch) -> Batch:
    """The rows of both, which ask for the same; those that have no roles get 0."""
    parts = [(part, slice(int(part.indptr[0]), int(part.indptr[-1]))) for part in (before, after)]
    features: Arrays = {
        name: np.concatenate([getattr(part, name)[own] for part, own in parts if len(getattr(part, name))])
        for name in ("keys", "values", "spaces", "attributes")
        if len(getattr(before, name)) or len(getattr(after, name))
    }
    roles = [part.roles[own] if len(part.roles) else np.zeros(own.stop - own.start, np.uint8) for part, own in parts]
    rows: Arrays = {
        name: np.concatenate([getattr(before, name), getattr(after, name)]) for name in ("labels", "weights", "users")
    }
    lengths = np.concatenate([np.diff(part.indptr) for part, _ in parts])
    indptr = np.concatenate([[0], lengths.cumsum()])
    return after._replace(indptr=indptr, roles=np.concatenate(roles), **features, **rows)
