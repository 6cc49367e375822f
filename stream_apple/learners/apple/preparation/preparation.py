"""The stages that prepare a batch before it is learned, in a fixed order, and their state.

    ngrams       neighbours in a text become features, see `core/ngrams.py`
    discretise   values of numeric features become intervals, see `discretisation.py`

Each stage gets the rows that the stage before has made. What it makes of an example is a function of its state and of
that example. Its state is a function of the examples that were learned before and of where epochs ended. So nothing
depends on how examples are cut into batches.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.named_arrays import check_kinds
from stream_apple.core.ngrams import NgramSizes, add_ngrams, ngram_sizes
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.preparation.derived_names import Derived, derived_names
from stream_apple.learners.apple.preparation.discretisation import Discretiser, Refits
from stream_apple.learners.apple.preparation.intervals import Intervals, KernelCall, form_of, no_intervals

Arrays = dict[str, NDArray[Any]]

_PORTION = 1 << 20  # features of a portion, which the last example may exceed


class Preparation:
    """The stages that the options ask for; without any, batches stay as they are.

    active      whether there is a stage
    form        what numbers become that are cut
    with_roles  whether features may have roles afterwards
    """

    def __init__(self, options: Options) -> None:
        self._ngrams = ngrams_of(options)
        self._discretiser = None if options.discretise == "none" else Discretiser(options)
        self.form = form_of(options)
        self.with_roles = self._discretiser is not None
        self.active = self.with_roles or self._ngrams is not None

    @property
    def intervals(self) -> Intervals:
        """The features that are cut; replaced as a whole, so that other threads may read it."""
        return no_intervals() if self._discretiser is None else self._discretiser.intervals

    def derived_names(self) -> dict[int, Derived]:
        """Return the features that were made of others, by key."""
        return derived_names(self.intervals, self.form)

    def prepare(self, batch: Batch) -> Batch:
        """Return all rows, prepared for scoring; the state stays as it is."""
        batch = self._with_ngrams(batch)
        return batch if self._discretiser is None else self._discretiser.prepare(batch)

    def prepare_to_learn(self, batch: Batch, start: int, stop: int) -> Iterator[Batch]:
        """Yield rows [start, stop), prepared, in parts; those with a label and a weight change the state.

        The state is that behind the rows yielded so far.
        """
        batch = self._with_ngrams(batch.rows(start, stop))
        yield from (batch,) if self._discretiser is None else self._discretiser.prepare_to_learn(batch)

    def take_first_examples(self) -> Batch | None:
        """Return, once, the examples on which cuts have just been made, prepared; see `Discretiser`."""
        return None if self._discretiser is None else self._discretiser.take_first_examples()

    @property
    def settled(self) -> bool:
        """Whether `call_for_one_row` can prepare an example, and its state will not change any more."""
        return self._ngrams is None and (self._discretiser is None or self._discretiser.settled)

    def call_for_one_row(self, batch: Batch, room: int) -> tuple[Batch, KernelCall | None]:
        """Return a batch for the prepared row, and a kernel with its arguments that prepares the only row of `batch`.

        room  how many features the row has at most

        Without a kernel the batch returned is `batch` itself, which needs no preparation.
        """
        return (batch, None) if self._discretiser is None else self._discretiser.call_for_one_row(batch, room)

    def portions(self, batch: Batch, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the bounds of portions of rows [start, stop), prepared one after another in bounded memory."""
        sizes = np.diff(batch.indptr)
        if self._ngrams is not None:
            sizes = sizes * self._ngrams.largest
        total = sizes[start:stop].cumsum()
        ends = np.arange(_PORTION, int(total[-1]) if len(total) else 0, _PORTION)
        inner = np.unique(start + np.searchsorted(total, ends)).tolist()
        yield from pairwise(sorted({start, *inner, stop}))

    def _with_ngrams(self, batch: Batch) -> Batch:
        return batch if self._ngrams is None else add_ngrams(batch, self._ngrams)

    def end_epoch(self) -> NDArray[np.uint64]:
        """Let the stages end an epoch; return the keys, ascending, that no feature will have again."""
        return np.zeros(0, np.uint64) if self._discretiser is None else self._discretiser.end_epoch()

    @property
    def refits(self) -> Refits | None:
        """When cuts were fitted, if the options have them fitted again and again; else None."""
        return None if self._discretiser is None else self._discretiser.refits

    @property
    def arrays(self) -> Arrays:
        """The state by name: the arrays themselves; a change of the state replaces them and does not write to them."""
        return {} if self._discretiser is None else self._discretiser.arrays

    def restore(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over a state, whose arrays may have other lengths; ValueError if it is not of this kind."""
        check_kinds(self.arrays, arrays)
        if self._discretiser is not None:
            self._discretiser.restore(arrays)


def ngrams_of(options: Options) -> NgramSizes | None:
    """Return the sizes of n-grams that are features too; None if the options ask for none."""
    return ngram_sizes(*options.ngrams_of_namespaces()) if options.ngrams else None
