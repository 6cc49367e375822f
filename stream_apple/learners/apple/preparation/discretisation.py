"""Discretisation: a reservoir is filled, cuts are fitted on it, and values become intervals, or hats of a spline.

The points of splines are called cuts here as well.

With the option `centre` values are centred before there are cuts: when the reservoir has so many examples, and again
when it has a quarter more, and so on; without the option `rehearsal`, when it has twice as many, and so on.

With the option `refit_epochs` cuts are fitted again, on a sample of later examples. They change as little as possible:
the cuts of a feature stay while they fit (`reservoir.py`). Otherwise its intervals are new features, but for those
between the same two cuts as before, whose keys are the same. The keys that no example will have again are returned, so
that their slots can be freed.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import BIN, Batch, space_key
from stream_apple.learners.apple.options import RESERVOIR, Options
from stream_apple.learners.apple.preparation.intervals import (
    RAW,
    Intervals,
    KernelCall,
    Lookup,
    as_intervals,
    call_for_one_row,
    centre_of,
    form_of,
    look_up_table,
    made_keys,
    no_intervals,
)
from stream_apple.learners.apple.preparation.reservoir import Reservoir, fill, fit
from stream_apple.learners.apple.preparation.sample import Sample, empty_sample, take

_Arrays = dict[str, NDArray[Any]]
_FITTED, _RESERVOIR, _INTERVALS = "fitted", "reservoir_", "intervals_"
_OF_CENTRED = ("centres", "widths")
_WEIGHTS = _RESERVOIR + "weights"
_PRIORITIES, _THRESHOLD, _REFITS = "sample_priorities", "sample_threshold", "refits"
_LEARNED, _MADE_AT, _EPOCHS, _TIMES = range(4)  # indices of `refits`: the examples learned, and fields of Refits


class Refits(NamedTuple):
    """When cuts were fitted.

    made_at  how many examples had been learned when cuts were last fitted; 0 before
    epochs   how many epochs have ended since
    times    how often cuts were fitted
    sampled  how many examples the sample has on which cuts will be fitted next
    """

    made_at: int
    epochs: int
    times: int
    sampled: int


class Discretiser:
    """Discretises batches; its state is a function of the examples learned, and of where epochs ended.

    intervals  the features that are cut; none before cuts are fitted
    """

    def __init__(self, options: Options) -> None:
        self.intervals = no_intervals()
        self._options = options
        self._columns = options.wanted_columns()
        names = [name for name in options.namespaces_to_discretise if name]
        self._spaces = np.array([space_key(name) for name in names], np.uint64)
        self._fitted: NDArray[np.uint8] = np.zeros(1, np.uint8)
        self._sample = empty_sample()  # its reservoir is the one that is filled before the first fit
        self._refits: NDArray[np.int64] = np.zeros(4, np.int64)
        self._form = form_of(options)
        self._lookup = look_up_table(self.intervals, self._form)
        self._first: Reservoir | None = None  # for `take_first_examples`

    def prepare(self, batch: Batch) -> Batch:
        """Return the batch with values as intervals or hats, by the current cuts."""
        return self._prepared(batch, self.intervals, self._lookup)

    @property
    def settled(self) -> bool:
        """Whether cuts are final: how an example is prepared does not depend on the examples before it."""
        return bool(self._fitted[0]) and not self._options.refit_epochs

    def call_for_one_row(self, batch: Batch, room: int) -> tuple[Batch, KernelCall | None]:
        """Return a batch for the prepared row, and a kernel with its arguments that prepares the only row of `batch`.

        room  how many features the row has at most

        Without a kernel the batch returned is `batch` itself, which needs no preparation.
        """
        if len(self.intervals.features) or self._form.lasting:
            return call_for_one_row(batch, room, self.intervals, self._lookup)
        return batch, None

    def prepare_to_learn(self, batch: Batch) -> Iterator[Batch]:
        """Yield the rows as `prepare` would return each at its time, as parts between changes of cuts or centres.

        The state is that behind the rows yielded so far. A part has no row if cuts are made before its first one.
        """
        at, rows = 0, len(batch.labels)
        while at < rows:
            rest = batch if at == 0 else batch.select(np.arange(at, rows))
            intervals, lookup = self.intervals, self._lookup
            stop = self._learn(rest)
            yield self._prepared(rest if stop == rows - at else rest.select(np.arange(stop)), intervals, lookup)
            at += stop

    def take_first_examples(self) -> Batch | None:
        """Return the first examples, centred or cut as has just been fitted on them, to be learned again; once.

        Returns None at any other time, if no feature was centred or cut, and without the option `rehearsal`.
        """
        first, self._first = self._first, None
        if first is None:
            return None
        wanted = {name: getattr(first, name) for name in ("spaces", "attributes") if name in self._columns}
        given = first.examples
        return self.prepare(Batch(given.indptr, given.keys, given.values, given.labels, given.weights, **wanted))

    def _prepared(self, batch: Batch, intervals: Intervals, lookup: Lookup) -> Batch:
        if len(intervals.features):
            return as_intervals(batch, intervals, lookup, self._columns)
        return batch._replace(roles=(batch.values == 1.0) * BIN) if self._form.lasting else batch

    def _learn(self, batch: Batch) -> int:
        """Learn examples until cuts or centres change; return the first row after the change."""
        if self._fitted[0]:
            if self._options.refit_epochs:
                self._sample_examples(batch)
            return len(batch.labels)
        most = int(self._options.reservoir or 0)
        due = min(self._next_centring(), most)
        reservoir, stop, full = fill(self._sample.reservoir, batch, due)
        self._sample = self._sample._replace(reservoir=reservoir)
        if self._options.refit_epochs:
            self._count(int(np.count_nonzero(batch.learned(0, len(batch.labels)) < stop)))
        if full and due < most and len(reservoir.sizes) == due:
            self._take(fit(reservoir, self._options, self._spaces, cut=False))
        elif full:
            self._adopt_cuts(fit(reservoir, self._options, self._spaces))
            self._fitted = np.ones(1, np.uint8)
        if full and self._options.rehearses and len(self.intervals.features):
            self._first = reservoir
        return stop

    def _next_centring(self) -> int:
        """Return the size of the reservoir at which values are centred next; RESERVOIR.high or more if they are not."""
        due = int(self._options.centre or RESERVOIR.high)
        while due <= len(self._sample.reservoir.sizes):
            due += max(due // 4, 1) if self._options.rehearses else due
        return due

    def end_epoch(self) -> NDArray[np.uint64]:
        """Fit cuts again if that is due; return the keys, ascending, that no example will have again.

        If it is due and the sample is not full, it waits for the end of another epoch.
        """
        gone = np.zeros(0, np.uint64)
        if not self._options.refit_epochs or not self._fitted[0]:
            return gone
        self._refits = self._refits.copy()
        self._refits[_EPOCHS] += 1
        most = int(self._options.reservoir or 0)
        if self._refits[_EPOCHS] < self._options.refit_epochs or not self._sample.full(most):
            return gone
        before, made_before = self.intervals, made_keys(self.intervals, self._lookup)
        self._adopt_cuts(fit(self._sample.reservoir, self._options, self._spaces, before))
        values_before, values = (each.features[each.kept != RAW] for each in (before, self.intervals))
        gone = np.setdiff1d(made_before, made_keys(self.intervals, self._lookup))
        return np.union1d(gone, np.setdiff1d(values, values_before))

    def _sample_examples(self, batch: Batch) -> None:
        """Take a sample, for the next fit, of the examples that come after cuts were fitted."""
        self._sample = take(self._sample, batch, int(self._refits[_LEARNED]), int(self._options.reservoir or 0))
        self._count(len(batch.learned(0, len(batch.labels))))

    def _count(self, learned: int) -> None:
        self._refits = self._refits.copy()
        self._refits[_LEARNED] += learned

    def _adopt_cuts(self, intervals: Intervals) -> None:
        """Use these intervals from now on, and begin another sample."""
        self._take(intervals)
        self._sample = empty_sample()
        self._refits = self._refits.copy()
        self._refits[_MADE_AT], self._refits[_EPOCHS] = self._refits[_LEARNED], 0
        self._refits[_TIMES] += 1

    def _take(self, intervals: Intervals) -> None:
        self.intervals = intervals
        self._lookup = look_up_table(intervals, self._form)

    @property
    def refits(self) -> Refits | None:
        """When cuts were fitted; None if they are fitted once, after the first examples."""
        if not self._options.refit_epochs:
            return None
        state = self._refits.tolist()
        sampled = len(self._sample.priorities)
        return Refits(state[_MADE_AT], state[_EPOCHS], state[_TIMES], sampled)

    @property
    def arrays(self) -> _Arrays:
        """The state by name."""
        found: _Arrays = {_FITTED: self._fitted}
        found |= {_RESERVOIR + name: array for name, array in self._sample.reservoir._asdict().items()}
        if not self._options.rehearses:
            del found[_WEIGHTS]
        found |= {
            _INTERVALS + name: array
            for name, array in self.intervals._asdict().items()
            if self._form.lasting or name not in _OF_CENTRED
        }
        if self._options.refit_epochs:
            sample = self._sample
            found |= {_PRIORITIES: sample.priorities, _THRESHOLD: sample.threshold, _REFITS: self._refits}
        return found

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a state of these names and types; ValueError if its lengths contradict each other."""
        found = {_WEIGHTS: np.ones(len(arrays[_RESERVOIR + "labels"]))} | dict(arrays)
        reservoir = Reservoir(*(found[_RESERVOIR + name].copy() for name in Reservoir._fields))
        given = {name: arrays[_INTERVALS + name].copy() for name in Intervals._fields if _INTERVALS + name in arrays}
        intervals = no_intervals()._replace(**given)
        if not self._form.lasting:
            intervals = _centred_by_cuts(intervals)
        features, cuts = len(intervals.features), len(intervals.cuts)
        if {len(array) for name, array in intervals._asdict().items() if name != "cuts"} - {features}:
            raise ValueError(f"expected intervals of {features} features, found other lengths")
        ends = np.concatenate([[0], intervals.ends, [cuts]])
        if (np.diff(ends) < 0).any() or (features and ends[-2] != cuts):
            raise ValueError(f"expected ends of {cuts} cuts, found {intervals.ends.tolist()[:10]}")
        entries, examples = int(reservoir.sizes.sum()), len(reservoir.sizes)
        if {len(array) for array in reservoir[3:]} != {entries} or {len(each) for each in reservoir[1:3]} != {examples}:
            raise ValueError(f"expected a reservoir of {entries} features, found other lengths")
        sample = empty_sample()._replace(reservoir=reservoir)
        if self._options.refit_epochs:
            sample = Sample(reservoir, arrays[_PRIORITIES].copy(), arrays[_THRESHOLD].copy())
            sampled = examples if arrays[_FITTED].any() else 0
            if (len(sample.priorities), len(sample.threshold)) != (sampled, 1):
                raise ValueError(f"expected priorities of {sampled} examples, found {len(sample.priorities)}")
            if len(arrays[_REFITS]) != len(self._refits):
                raise ValueError(f"expected {len(self._refits)} numbers of refits, found {len(arrays[_REFITS])}")
            self._refits = arrays[_REFITS].copy()
        self._fitted = arrays[_FITTED].copy()
        self._sample = sample
        self._take(intervals)


def _centred_by_cuts(intervals: Intervals) -> Intervals:
    """Return the intervals with the centres and widths that follow from their cuts."""
    pairs = [centre_of(cuts) for cuts in intervals.cuts_of_each()]
    centres, widths = ([pair[which] for pair in pairs] for which in range(2))
    return intervals._replace(centres=np.array(centres, np.float32), widths=np.array(widths, np.float32))
