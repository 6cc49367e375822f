"""What becomes of examples before they are learned: neighbors in a text become n-grams, then numbers become splines.

What is made of an example is a function of that example and of the first examples that were learned (see
`first_examples.py`). So nothing depends on how examples are cut into batches.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.named_arrays import check_kinds
from stream_apple.core.ngrams import add_ngrams, ngram_sizes
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.preparation.derived_names import derived_names
from stream_apple.learners.apple.preparation.first_examples import NO_EXAMPLES, FirstExamples, fill, fit
from stream_apple.learners.apple.preparation.splines import (
    NO_SPLINES,
    KernelCall,
    Splines,
    call_for_one_row,
    look_up_table,
    with_splines,
)
from stream_apple.learners.port import Factor

_Arrays = dict[str, NDArray[Any]]
_FITTED, _FIRST, _SPLINES = "fitted", "first_", "splines_"
_PORTION = 1 << 20  # features of a portion, which the last example may exceed


class Prepared(NamedTuple):
    """Some rows of a batch, prepared.

    again  the first examples, prepared as all rows after these will be, if that differs from how they were prepared
           before; else None
    """

    rows: Batch
    again: Batch | None


class Preparation:
    """Prepares batches.

    with_splines  whether numbers become splines, and features have roles
    splines       those so far; replaced as a whole, so that other threads may read it
    """

    def __init__(self, options: Options) -> None:
        self.with_splines = options.discretise == "spline"
        self.splines = NO_SPLINES
        self._lookup = look_up_table(NO_SPLINES)
        self._first = NO_EXAMPLES
        self._fitted = np.array([not self.with_splines], np.uint8)
        self._ngrams = ngram_sizes(*options.ngrams_of_namespaces())

    def derived_names(self) -> dict[int, Factor]:
        """Return the features that were made of others, by key."""
        return derived_names(self.splines)

    def portions(self, batch: Batch, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the bounds of portions of rows [start, stop), prepared one after another in bounded memory."""
        total = self._ngrams.largest * (batch.indptr[start + 1 : stop + 1] - batch.indptr[start])
        ends = np.arange(_PORTION, int(total[-1]) if len(total) else 0, _PORTION)
        inner = np.unique(start + np.searchsorted(total, ends)).tolist()
        yield from pairwise(sorted({start, *inner, stop}))

    def prepare(self, batch: Batch, start: int, stop: int) -> Batch:
        """Return rows [start, stop), prepared for scoring; the state stays as it is."""
        return self._as_learned(add_ngrams(batch.rows(start, stop), self._ngrams))

    def prepare_to_learn(self, batch: Batch, start: int, stop: int) -> Iterator[Prepared]:
        """Yield rows [start, stop), prepared, in parts between changes of splines.

        Those with a label and a weight change the state; it is the one after the rows yielded so far. A part has no row
        if splines change before its first one.
        """
        batch = add_ngrams(batch.rows(start, stop), self._ngrams)
        at, rows = 0, len(batch.labels)
        while at < rows:
            rest = batch.rows(at, rows)
            if self._fitted[0]:
                yield Prepared(self._as_learned(rest), None)
                return
            self._first, count, due, full = fill(self._first, rest)
            part = self._as_learned(rest.rows(0, count))
            if due:
                self._fitted = np.array([full], np.uint8)
                self._adopt(fit(self._first, points=full))
            again = self._as_learned(self._first.rows) if due and len(self.splines.features) else None
            if full:
                self._first = NO_EXAMPLES  # they have served
            yield Prepared(part, again)
            at += count

    def _as_learned(self, batch: Batch) -> Batch:
        return with_splines(batch, self.splines, self._lookup) if self.with_splines else batch

    def _adopt(self, splines: Splines) -> None:
        self.splines, self._lookup = splines, look_up_table(splines)

    @property
    def settled(self) -> bool:
        """Whether `call_for_one_row` can prepare an example, and the state will not change any more."""
        return self._ngrams.largest == 1 and bool(self._fitted[0])

    def call_for_one_row(self, batch: Batch, room: int) -> tuple[Batch, KernelCall | None]:
        """Return a batch for the prepared row, and a kernel with its arguments that prepares the only row of `batch`.

        room  how many features the row has at most

        Without a kernel the batch returned is `batch` itself, which needs no preparation.
        """
        return call_for_one_row(batch, room, self.splines, self._lookup) if self.with_splines else (batch, None)

    @property
    def arrays(self) -> _Arrays:
        """The state by name: the arrays themselves; a change of the state replaces them and does not write to them."""
        if not self.with_splines:
            return {}
        found: _Arrays = {_FITTED: self._fitted}
        found |= {_FIRST + name: array for name, array in self._first._asdict().items()}
        return found | {_SPLINES + name: array for name, array in self.splines._asdict().items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a state, whose arrays may have other lengths; ValueError if it is not of this kind."""
        check_kinds(self.arrays, arrays)
        if not self.with_splines:
            return
        first = FirstExamples(*(arrays[_FIRST + name].copy() for name in FirstExamples._fields))
        splines = Splines(*(arrays[_SPLINES + name].copy() for name in Splines._fields))
        _check_lengths(first, splines)
        self._first, self._fitted = first, arrays[_FITTED].copy()
        self._adopt(splines)


def _check_lengths(first: FirstExamples, splines: Splines) -> None:
    """Raise ValueError if lengths contradict each other: kernels check no bounds."""
    features, points = len(splines.features), len(splines.points)
    if {len(array) for array in splines if array is not splines.points} != {features}:
        raise ValueError(f"expected splines of {features} features, found other lengths")
    ends = np.concatenate([[0], splines.ends, [points]])
    if (np.diff(ends) < 0).any() or (features and ends[-2] != points):
        raise ValueError(f"expected ends of {points} points, found {splines.ends.tolist()[:10]}")
    entries, examples = int(first.sizes.sum()), len(first.sizes)
    if {len(first.keys), len(first.values)} != {entries} or {len(first.labels), len(first.weights)} != {examples}:
        raise ValueError(f"expected {examples} first examples of {entries} features, found other lengths")
