"""`TupleLearner`, the learner of `learners/port.py` on tuples of attributes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch, joined
from stream_apple.core.named_arrays import check_kinds, take_over_arrays
from stream_apple.errors import ModelError
from stream_apple.learners.base_learner import BaseLearner
from stream_apple.learners.label_units import LabelUnits
from stream_apple.learners.port import NO_KEYS, Census, Change, Description, Findings, RowInPlace, ScoreParts
from stream_apple.learners.progress.progressive_loss import progress_of
from stream_apple.learners.scores import NO_EARLY, Scores
from stream_apple.learners.state import LearnerState
from stream_apple.learners.tuples.cuts import NumberCuts, are_consistent, fit_cuts
from stream_apple.learners.tuples.display import heaviest_features, terms_of
from stream_apple.learners.tuples.learning import process_rows
from stream_apple.learners.tuples.model import (
    EXAMPLES,
    FEATURES,
    LEVEL,
    OCCUPIED,
    REFUSED,
    TRUNCATED,
    TRUST,
    new_tuple_model,
    new_tuple_scratch,
)
from stream_apple.learners.tuples.options import MOST_TUPLES, RESERVOIR, RESERVOIR_FEATURES, TupleOptions
from stream_apple.learners.tuples.selection import select_tuples

_CUTS, _RESERVOIR = "cuts_", "reservoir_"
_KEPT = ("indptr", "keys", "values", "labels", "weights", "attributes")  # columns of the reservoir


class TupleLearner(BaseLearner):
    """A model that learns tuples of attributes, and selects them when epochs end.

    With `discretise`, the first RESERVOIR examples are learned as they are, and kept. Then cuts are made of them, and
    from then on a number is its interval. What was learned of values stays in the table, as features that no example
    has any more.

    generation  increases when arrays of the state are replaced by others
    """

    def __init__(self, options: TupleOptions) -> None:
        self.options = options
        self.progress = progress_of(options)
        self.units = LabelUnits(standardized=False)
        self.generation = 0
        self._model = new_tuple_model(options)
        self._work = new_tuple_scratch(options)
        self._reservoir = _no_examples()
        self._is_cut = np.array([options.discretise == "none"], np.uint8)

    def score_rows(self, batch: Batch, start: int, stop: int, scores: Scores) -> None:
        """Write the scores of rows [start, stop); the model does not change. ModelError if one is not finite."""
        _check_all_scored(process_rows(self._model, self._work, batch, scores, start, stop, False), stop)

    def learn(
        self,
        batch: Batch,
        start: int,
        stop: int,
        scores: Scores,
        early: NDArray[np.float32] = NO_EARLY,  # noqa: ARG002  only a mixture learns from them
    ) -> None:
        """Score, then learn, rows [start, stop) in order, and write these rows of `scores`; see the port."""
        while start < stop:
            end, is_last = (stop, False) if self._is_cut[0] else self._end_of_reservoir(batch, start, stop)
            reached = process_rows(self._model, self._work, batch, scores, start, end, True)
            self.progress.add(batch, scores, start, reached)
            if not self._is_cut[0]:
                self._reservoir = joined([self._reservoir, _kept(batch.select(batch.learned(start, reached)))])
            _check_all_scored(reached, end)
            if is_last:
                self._cut()
            start = end

    def single_row(self, features: int) -> RowInPlace | None:  # noqa: ARG002
        """Return None: an example alone is a batch of one row."""
        return None

    def end_epoch(self, *, nominate: bool = False, counted: bool = True) -> Change:  # noqa: ARG002  see the port
        """End an epoch: select tuples, if some will be left out and enough examples were learned."""
        self.progress.end_epoch()
        self.generation += 1
        if not self.options.selects:
            return Change()
        self._model, removed = select_tuples(self._model, self.options.selection_share)
        return Change(retired=removed)

    @property
    def state(self) -> LearnerState:
        """The whole state, the arrays themselves."""
        sums: dict[str, NDArray[np.generic]] = {**self._fixed}
        sums["chosen"] = self._model.chosen
        sums |= {_CUTS + name: array for name, array in self._model.cuts._asdict().items()}
        sums |= {_RESERVOIR + name: getattr(self._reservoir, name) for name in _KEPT}
        return LearnerState({"slots": self._model.slots}, sums)

    @property
    def _fixed(self) -> dict[str, NDArray[np.generic]]:
        """The arrays that keep their sizes, by name."""
        model = self._model
        own = {"steps": model.steps, "labels": model.labels, "trust": model.trust, "counts": model.counts}
        return {**own, "is_cut": self._is_cut, **self.progress.arrays()}

    def restore(self, sums: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over `LearnerState.sums`; the caller has filled the rows. ValueError for other names, types or sizes."""
        check_kinds(self.state.sums, sums)
        cuts = NumberCuts(*(_own(sums[_CUTS + name]) for name in NumberCuts._fields))
        reservoir = _no_examples()._replace(**{name: _own(sums[_RESERVOIR + name]) for name in _KEPT})
        chosen: NDArray[np.uint64] = _own(sums["chosen"])
        ends = reservoir.indptr
        if not are_consistent(cuts) or len(ends) != len(reservoir.labels) + 1 or ends[-1] != len(reservoir.keys):
            raise ValueError("expected cuts and a reservoir whose arrays fit together, found others")
        if len(chosen) > MOST_TUPLES:
            raise ValueError(f"chosen: expected at most {MOST_TUPLES:,} tuples, found {len(chosen):,}")
        take_over_arrays(self._fixed, {name: sums[name] for name in self._fixed})
        self._model = self._model._replace(cuts=cuts, chosen=chosen)
        self._reservoir = reservoir
        self.generation += 1

    def describe(self) -> Description:
        """Return what is shown of the model."""
        model, order, level = self._model, self.options.order, int(self._model.counts[LEVEL])
        gauges = {
            "table_slots": float(len(model.slots) - 1),
            "table_occupied_slots": float(model.counts[OCCUPIED]),
            "table_refusals": float(model.counts[REFUSED]),
            "cut_numbers": float(len(model.cuts.features)),
            "selected_tuples": float(len(model.chosen)),
            "naive_bayes_trust": float(model.trust[TRUST]),
        }
        stage = f"all tuples of {order} attributes"
        if self.options.selects:
            stage = f"{len(model.chosen)} selected tuples of up to {order} attributes"
            if level <= order:
                stage = f"tuples of {level} attributes are explored, {len(model.chosen)} of fewer are selected"
        return Description(f"tuples of {order} attributes", gauges, notes=(stage,))

    def find(self, most: int, known: NDArray[np.uint64] = NO_KEYS) -> Findings:  # noqa: ARG002  no slot is ever lost
        """Return the features and the tuples of the largest salience, at most `most` of each."""
        return heaviest_features(self._model, most)

    def explain(self, batch: Batch) -> tuple[ScoreParts, ...]:
        """Take the score of the batch's only row apart; the model does not change.

        The terms are the features that have a slot. What is missing is the naive Bayes start, and what clipping has
        changed.
        """
        scores, work = Scores.empty(1), self._work
        work.slots[:] = -1
        self.score_rows(batch, 0, 1, scores)
        found = int(np.count_nonzero(work.slots >= 0))
        terms = terms_of(self._model, work.slots[:found], work.values[:found])
        return (ScoreParts(float(scores.predictions[0]), terms),)

    @property
    def examples(self) -> int:
        """The number of examples learned."""
        return int(self._model.counts[EXAMPLES])

    @property
    def features_per_example(self) -> float:
        """The mean number of features of the examples learned, with the constant; NaN before the first."""
        return int(self._model.counts[FEATURES]) / self.examples if self.examples else float("nan")

    @property
    def truncated(self) -> int:
        """The number of examples whose features were cut off at `max_features_per_example`."""
        return int(self._model.counts[TRUNCATED])

    def census(self) -> Census:
        """Return how many features there are of each degree; none of them is multiplied further."""
        slots = self._model.slots
        monomials = np.bincount(slots["degree"][slots["key"] != 0], minlength=2)
        monomials[0] = 1
        return Census(np.zeros_like(monomials), monomials)

    def _end_of_reservoir(self, batch: Batch, start: int, stop: int) -> tuple[int, bool]:
        """Return the end of the rows of [start, stop) that the reservoir has room for, and whether it is full then."""
        learned = batch.learned(start, stop)
        sizes = np.diff(batch.indptr)[learned]
        fitting = int(np.searchsorted(sizes.cumsum(), RESERVOIR_FEATURES - len(self._reservoir.keys), side="right"))
        room = RESERVOIR - len(self._reservoir.labels)
        if room <= min(fitting, len(learned)):
            return int(learned[room - 1]) + 1, True
        return (int(learned[fitting]), True) if fitting < len(learned) else (stop, False)

    def _cut(self) -> None:
        """Make the cuts of numbers from the examples of the reservoir, which are not needed any more."""
        cuts = fit_cuts(self._reservoir, mdl=self.options.discretise == "mdl")
        self._model = self._model._replace(cuts=cuts)
        self._reservoir = _no_examples()
        self._is_cut[0] = 1
        self.generation += 1


def _check_all_scored(reached: int, end: int) -> None:
    """Raise ModelError for the row that was reached, if it is not the end."""
    if reached < end:
        raise ModelError(
            f"expected a finite score, found infinity or NaN at row {reached}: weights or values overflow", reached
        )


def _no_examples() -> Batch:
    """Return a batch without rows, which may get attributes."""
    nothing = np.zeros(0, np.uint64)
    return Batch(np.zeros(1, np.int64), nothing, np.zeros(0, np.float32), np.zeros(0), np.zeros(0), attributes=nothing)


def _kept(batch: Batch) -> Batch:
    """Return the columns that the reservoir keeps; attributes are 0 where the batch has none."""
    attributes = batch.attributes if len(batch.attributes) else np.zeros(len(batch.keys), np.uint64)
    columns = {name: getattr(batch, name) for name in _KEPT if name != "attributes"}
    return Batch(**columns, attributes=attributes)


def _own(array: NDArray[Any]) -> NDArray[Any]:
    """Return a writable, contiguous copy."""
    return np.array(array)
