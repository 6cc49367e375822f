"""The learner: it scores, learns, and ends epochs, in the order in which the caller asks.

One learner is one model, of one input partition.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.named_arrays import take_over_arrays
from stream_apple.errors import ModelError
from stream_apple.learners.apple.appraisal import Appraiser
from stream_apple.learners.apple.describing import Monomials, findings_of
from stream_apple.learners.apple.explaining import BLOCKS, Active, class_weights, parts_of
from stream_apple.learners.apple.growth import EARLY_GROWTH, UNCHANGED, grow
from stream_apple.learners.apple.kernels.drift import restart
from stream_apple.learners.apple.kernels.mixture import LATE_SHARED, SHARED, effective_weights, is_late
from stream_apple.learners.apple.kernels.process import process
from stream_apple.learners.apple.kernels.rows import LOSSES_ROSE, NOT_FINITE
from stream_apple.learners.apple.multiclass.process import process_classes
from stream_apple.learners.apple.new_model import empty_model, empty_scratch
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.parent_selection import take_census
from stream_apple.learners.apple.preparation.preparation import Preparation
from stream_apple.learners.apple.single_row import SingleRow, empty_row
from stream_apple.learners.apple.state.classes import check_labels, empty_class_work
from stream_apple.learners.apple.state.model import (
    DEFERRED,
    EVICTED,
    EXAMPLES,
    FEATURES,
    OCCUPIED,
    REFUSED,
    TRUNCATED,
    Model,
    rehearsal_of,
)
from stream_apple.learners.apple.state.recent import forget_recent, longest_recent, recent_examples
from stream_apple.learners.apple.state.table import Table
from stream_apple.learners.apple.state.weights import APPLE, AVERAGE, LINEAR, NAMES, weights_at
from stream_apple.learners.base_learner import BaseLearner
from stream_apple.learners.label_units import LABEL_UNITS, LabelUnits
from stream_apple.learners.port import (
    NO_CENSUS,
    NO_KEYS,
    Census,
    Change,
    Description,
    Findings,
    ScoreParts,
)
from stream_apple.learners.port import Learner as Port
from stream_apple.learners.progress.progressive_loss import progress_of
from stream_apple.learners.scores import NO_EARLY, Scores
from stream_apple.learners.state import LearnerState

_PREPARED = "prepared_"  # prefix of the names of the preparation's arrays
_NEVER = 1 << 62


class Learner(BaseLearner):
    """A model that predicts, learns, and grows at the end of epochs.

    generation  increases when arrays that kernels work on are replaced by others
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.progress = progress_of(options)
        self.preparation = Preparation(options)
        self.units = LabelUnits(standardized=options.mixed and options.objective.real_valued)
        self._state = empty_model(options, roles=self.preparation.with_splines)
        self._longest = 0
        self.generation = 0
        self._work = empty_scratch(options, 0)
        self._appraiser = Appraiser()
        self._class_work = empty_class_work(options.classes)

    def predict(self, batch: Batch) -> NDArray[np.float64]:
        """Return the scores of all rows, float64[n], whatever their labels; the model does not change."""
        return self.score(batch).predictions

    def score(self, batch: Batch) -> Scores:
        """Return the scores of all rows, with losses and the linear predictor's scores; the model does not change."""
        scores = Scores.empty(len(batch.labels))
        self.score_rows(batch, 0, len(batch.labels), scores)
        return scores

    def score_rows(self, batch: Batch, start: int, stop: int, scores: Scores) -> None:
        """Write the scores of rows [start, stop), as `score` returns them; the model does not change."""
        for begin, end in self.preparation.portions(batch, start, stop):
            prepared = self.preparation.prepare(batch, begin, end)
            self._process(prepared, 0, end - begin, _rows(scores, begin, end), learn=False, first=begin)
        self.units.from_units(batch, scores, start, stop, self.units.scale)

    def learn(self, batch: Batch, start: int, stop: int, scores: Scores, early: NDArray[np.float32] = NO_EARLY) -> None:
        """Score, then learn, rows [start, stop) in order; write these rows of `scores`.

        early  float32[n, EARLY], one row for each of the batch: what `Scores.early` held when a prediction was asked
               for before the label came; NaN for other rows. A mixture learns its shares from these scores, because
               they were the ones that were used; it learns no shares from rows that are infinite.

        A row without a label, or of weight zero, is only scored. Raises ModelError where a score is not finite. The
        rows before it have been learned by then, so the caller has to drop the model.
        """
        first = start
        while first < stop:
            last = self._end_of_stretch(batch, first, stop)
            of_scores = self.units.scale
            self._learn_prepared(batch, first, last, scores, early)
            self.units.from_units(batch, scores, first, last, of_scores)
            if not self.units.fixed:
                self.units.include(batch.labels[batch.learned(first, last)])
                if self.units.fixed and self.options.mixed:
                    forget_recent(self._state.recent)  # their labels are in other units
            first = last
        self.progress.add(batch, scores, start, stop)

    def single_row(self, features: int) -> SingleRow | None:
        """Return room for one example of up to `features` features, which is learned as `learn` does, at less cost.

        The room is valid while its `generation` equals the learner's. Returns None if examples have n-grams; and,
        for a young model, while splines or the units of labels are not final.
        """
        if not (self.preparation.settled and self.units.fixed):
            return None
        row = empty_row(features)
        prepared, prepare = self.preparation.call_for_one_row(row, features)
        self._make_room(len(prepared.keys))
        return SingleRow(self, row, prepared, prepare)

    def active_features(self, batch: Batch) -> Active:
        """Return the features of the only row, the constant among them, which has the last slot of the table.

        The model does not change.
        """
        scores = Scores.empty(1)
        prepared = self.preparation.prepare(batch, 0, 1)
        self._make_room(len(prepared.keys))
        slots = self._work.features.slot
        slots[:] = len(self.table.slots)  # none has this number
        self._process(prepared, 0, 1, scores, learn=False)
        size = int(np.argmax(slots == len(self.table.slots)))
        # The kernel writes a feature that it reaches again behind the last one; it stays there if no other follows.
        size -= int(slots[size - 1] in slots[: size - 1])
        self.units.from_units(prepared, scores, 0, 1, self.units.scale)
        values = self._work.features.x[:size].copy()
        return Active(slots[:size].astype(np.int64), values, float(scores.predictions[0]))

    def end_epoch(self, *, nominate: bool = False, counted: bool = True) -> Change:
        """End an epoch: with method apple, make the best monomials parents.

        With the other methods the parents are fixed.

        nominate  the model will be merged with others, see `grow`
        counted   return a census in any case, even if that takes a reading of the whole table
        """
        self.generation += 1
        self.progress.end_epoch()
        growth = self._grow(nominate=nominate) if self.options.method == "apple" else UNCHANGED
        return growth._replace(census=self.census()) if counted and growth.census is NO_CENSUS else growth

    @property
    def table(self) -> Table:
        """The table itself, not a copy: for reading or writing snapshots between two calls."""
        return self._state.table

    @property
    def sums(self) -> dict[str, NDArray[np.generic]]:
        """All state besides the rows of the table, by name: the arrays themselves."""
        sums = {**self.table.constant, **self._state.scalars._asdict(), **self.progress.arrays()}
        if self.options.mixed:
            sums |= {name: array.reshape(-1) for name, array in self._state.mixture._asdict().items()}
            recent = {f"recent_{name}": array.reshape(-1) for name, array in self._state.recent._asdict().items()}
            sums |= {name: array for name, array in recent.items() if array.size}
        if self._state.rule.restarts:
            sums |= {f"watch_{name}": array.reshape(-1) for name, array in self._state.watch._asdict().items()}
        sums |= self.units.arrays
        return sums | {_PREPARED + name: array for name, array in self.preparation.arrays.items()}

    def restore(self, sums: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over all state besides the table, which the caller has filled.

        ValueError for other names or sizes, and for numbers that no model has.
        """
        self.generation += 1
        prepared = {name for name in sums if name.startswith(_PREPARED)}
        own = {name: array for name, array in self.sums.items() if not name.startswith(_PREPARED)}
        take_over_arrays(own, {name: array for name, array in sums.items() if name not in prepared})
        _check_numbers(self._state.scalars._asdict() | self._state.mixture._asdict())
        if (self._state.mixture.shares <= 0.0).any():
            raise ValueError(f"shares: expected numbers above 0, found {self._state.mixture.shares.tolist()}")
        self.preparation.restore({name.removeprefix(_PREPARED): sums[name] for name in prepared})

    def take_over(self, sums: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over these sums of another learner with equal options; all other sums stay as they are.

        If examples are prepared otherwise from now on, the recent examples, kept for the epoch's end, are forgotten.
        """
        own = self.sums
        changed = any(is_of_preparation(name) and not np.array_equal(own[name], sums[name]) for name in sums)
        for name, array in sums.items():
            if not name.startswith(_PREPARED):
                own[name][:] = array
        prepared = {
            name.removeprefix(_PREPARED): sums.get(name, array)
            for name, array in own.items()
            if name.startswith(_PREPARED)
        }
        if changed:
            self.generation += 1
            self.preparation.restore(prepared)
            forget_recent(self._state.recent)

    @property
    def state(self) -> LearnerState:
        """The whole state, the arrays themselves."""
        return LearnerState(self.table.rows, self.sums)

    def slots(self) -> NDArray[np.void]:
        """Return a copy of the slots, SLOT[2^bits + 1]; the constant is the last."""
        return self.table.slots.copy()

    @property
    def examples(self) -> int:
        """The number of examples learned."""
        return int(self._state.scalars.counts[EXAMPLES])

    @property
    def features_per_example(self) -> float:
        """The mean number of features of the examples learned, with the constant; NaN before the first."""
        return int(self._state.scalars.counts[FEATURES]) / self.examples if self.examples else float("nan")

    @property
    def truncated(self) -> int:
        """The number of examples whose features were cut off at `max_features_per_example`."""
        return int(self._state.scalars.counts[TRUNCATED])

    @property
    def capacity(self) -> int:
        """The number of slots of the table, without the constant's."""
        return len(self.table.slots) - 1

    @property
    def occupied(self) -> int:
        """The number of slots that hold a monomial."""
        return int(self._state.scalars.occupancy[OCCUPIED])

    @property
    def evicted(self) -> int:
        """How many monomials have lost their slot to another monomial."""
        return int(self._state.scalars.occupancy[EVICTED])

    @property
    def deferred(self) -> int:
        """How often the admission filter did not let a monomial in yet."""
        return int(self._state.scalars.occupancy[DEFERRED])

    @property
    def refused(self) -> int:
        """How often a monomial got no slot, as its bucket held only parents and features of the same example."""
        return int(self._state.scalars.occupancy[REFUSED])

    @property
    def restarts(self) -> int:
        """How often losses rose, so that the model restarted; 0 where drift is ignored."""
        return self._state.watch.rises

    def mixture_weights(self) -> NDArray[np.float64]:
        """Return the weight of each predictor's score in the published one, float64[6], see `kernels/mixture.py`.

        float64[0] if predictors are not mixed.
        """
        return effective_weights(self._state.mixture) if self.options.mixed else np.zeros(0)

    @property
    def predictors(self) -> tuple[str, ...]:
        """The names of the mixture's predictors, in the order of `mixture_weights`."""
        return NAMES

    def mixture_shares(self) -> dict[str, float]:
        """Return each score's share in the published one, by its name; they sum to 1. Empty if there is no mixture.

        There are linear, average and stack; constant and slow linear once a label was late.
        """
        mixture = self._state.mixture
        shares = dict(zip(SHARED, mixture.shares.tolist(), strict=False))
        return shares | dict(zip(LATE_SHARED, mixture.late.tolist(), strict=False)) if is_late(mixture) else shares

    def describe(self) -> Description:
        """Return what is shown of the model all the time; see `learners/port.py`."""
        preparation, slots = self.preparation, self.table.slots
        splines = int(np.count_nonzero(np.diff(preparation.splines.ends, prepend=0)))
        gauges = {
            "table_slots": self.capacity,
            "table_occupied_slots": self.occupied,
            "table_evictions": self.evicted,
            "table_refusals": self.refused,
            "table_deferrals": self.deferred,
            "drift_restarts": self.restarts,
            "splines": splines,
            "constant_weight": float(slots["weight"][-1]),
        }
        notes = (f"{splines:,} numbers have splines",) if self.options.discretise != "none" else ()
        weights = dict(zip(self.predictors, self.mixture_weights().tolist(), strict=False))
        shares = self.mixture_shares() if self.options.mixed else {}
        return Description(self.options.method, gauges, weights, shares, notes)

    def find(self, most: int, known: NDArray[np.uint64] = NO_KEYS) -> Findings:
        """Return what the model has found; see `learners/port.py`."""
        return findings_of(self.table, self.preparation, most, known)

    def explain(self, batch: Batch) -> tuple[ScoreParts, ...]:
        """Take the score of the batch's only row apart, or that of each class; the model does not change."""
        places, values, score = self.active_features(batch)
        table, constant = self.table, len(self.table.slots) - 1
        bases = table.slots["key"][places[table.slots["degree"][places] == 1]]
        monomials = Monomials(table, self.preparation, np.concatenate([batch.keys, bases]))
        factors = [monomials.factors_at(place) for place in places.tolist()]
        added, shares = np.zeros((1, len(places))), {"expanded": 1.0}
        if not self.options.classes:
            # Kernels have labels that are amounts in units; their centre is the score if nothing has been learned.
            added[0, places == constant], width = self.units.scale
            weights = weights_at(table, places)
            if self.options.mixed:
                shares = dict(zip(self.predictors, self.mixture_weights().tolist(), strict=True))
            else:
                weights = weights[APPLE : APPLE + 1]
            return (parts_of(score, factors, values, shares, np.concatenate([width * weights, added])),)
        scores = Scores.empty(1, self.options.classes)
        self.score_rows(batch, 0, 1, scores)
        logs = np.log(scores.all_probabilities[0])
        if self.options.mixed:
            shares = dict(zip(BLOCKS, self.mixture_weights()[[LINEAR, AVERAGE, APPLE]].tolist(), strict=True))
        weights = class_weights(table, places, self.options.classes, tuple(shares))
        return tuple(
            parts_of(of_class, factors, values, shares, np.concatenate([weights[:, :, label], added]), label)
            for label, of_class in enumerate((logs - logs.mean()).tolist())
        )

    def census(self) -> Census:
        """Return how many monomials and parents there are of each degree.

        This reads the whole table: half a millisecond for 2^18 slots.
        """
        return take_census(self.table)

    def _end_of_stretch(self, batch: Batch, start: int, stop: int) -> int:
        """Return the end of the first rows of [start, stop) that are learned in the same units of labels."""
        if self.units.fixed:
            return stop
        learned = batch.learned(start, stop)
        return _end_of(learned, self.units.equal(batch.labels[learned]) or 1, stop)

    def _end_before_growth(self, batch: Batch, start: int, stop: int) -> int:
        """Return the end of the first rows of [start, stop) that are learned before the next early growth."""
        until_growth = self._growth_due(self.examples) - self.examples
        return stop if until_growth > stop - start else _end_of(batch.learned(start, stop), until_growth, stop)

    def _growth_due(self, examples: int) -> int:
        """Return the number of examples, above `examples`, at which the next early growth is due.

        Early growths are due after EARLY_GROWTH examples, twice as many, and so on, counted from the last restart.
        """
        since = self._state.watch.risen_at
        due = EARLY_GROWTH if self.options.grows_early else _NEVER
        while since + due <= examples:
            due *= 2
        return since + due

    def grow_if_due(self, before: int, row: int = 0) -> None:
        """Grow early if that is due after the examples learned so far; `before` of them had been learned before.

        The latest examples are then learned again, as they have new products. ModelError names `row`, the last one
        learned, if a score is not finite.
        """
        if self.examples == self._growth_due(before):
            growth = self._grow(early=True)
            if growth.added and self.options.mixed and self.units.fixed:
                self._rehearse(recent_examples(self._state.recent), row, keep=False)

    def _grow(self, *, nominate: bool = False, early: bool = False) -> Change:
        # Growth expands the recent examples again; a restored model has made no room for them in this process yet.
        self._make_room(longest_recent(self._state.recent) if self.options.mixed else 0)
        return grow(self._state, self._work, self._appraiser, self.options, nominate=nominate, early=early)

    def _rehearse(self, prepared: Batch, row: int, *, keep: bool) -> None:
        """Learn these examples again: the weights change, and nothing that counts or judges examples.

        Features that are new, as products after a growth are, would otherwise start from nothing, though examples that
        have them are known. The mixture does not learn, because scores of known examples are better than those of new
        ones; nor does the watch for drift. Examples of one label are left out: they only would make scores surer of it.

        prepared  examples with labels in units of labels
        row       what ModelError names if a score is not finite
        keep      keep them among the latest examples, too
        """
        if len(np.unique(prepared.labels)) < 2:
            return
        self._make_room(int(np.diff(prepared.indptr).max(initial=0)))
        model, start, stop = rehearsal_of(self._state, keep=keep), 0, len(prepared.labels)
        scores = Scores.empty(stop)
        while start < stop:
            call, arguments = self._kernel_call(model, prepared, scores, start, stop, learn=True)
            if call(*arguments) == NOT_FINITE:
                raise _not_finite(row)
            start = int(self._work.next_row[0])

    def restart(self) -> None:
        """Learn fast again after losses have risen, see `kernels/drift.py`."""
        forget_recent(self._state.recent)  # what they say does not hold any more
        restart(self._state)

    def _process(
        self,
        batch: Batch,
        start: int,
        stop: int,
        scores: Scores,
        *,
        learn: bool,
        first: int = 0,
        early: NDArray[np.float32] = NO_EARLY,
    ) -> None:
        """Run the kernel that the options ask for; grow early and restart between rows, where that is due.

        first  the number that errors give to row 0
        """
        batch = self.units.to_units(batch)
        self._make_room(int(np.diff(batch.indptr[start : stop + 1]).max(initial=0)))
        if self.options.classes:
            check_labels(batch.labels[start:stop], self.options.classes)
        while start < stop:
            end, before = self._end_before_growth(batch, start, stop) if learn else stop, self.examples
            call, arguments = self.kernel_call(batch, scores, start, end, learn=learn, early=early)
            outcome, start = call(*arguments), int(self._work.next_row[0])
            if outcome == NOT_FINITE:
                raise _not_finite(first + start)
            if outcome == LOSSES_ROSE:
                self.restart()
            self.grow_if_due(before, first + start - 1)

    def kernel_call(
        self, batch: Batch, scores: Scores, start: int, stop: int, *, learn: bool, early: NDArray[np.float32] = NO_EARLY
    ) -> tuple[Callable[..., int], tuple[Any, ...]]:
        """Return the kernel that the options ask for, and its arguments to score or learn rows [start, stop).

        The kernel returns DONE, NOT_FINITE, or LOSSES_ROSE, see `kernels/rows.py`. The arguments are valid while
        `generation` stays the same. The batch has labels in the units of labels already.
        """
        return self._kernel_call(self._state, batch, scores, start, stop, learn=learn, early=early)

    def _kernel_call(
        self,
        model: Model,
        batch: Batch,
        scores: Scores,
        start: int,
        stop: int,
        *,
        learn: bool,
        early: NDArray[np.float32] = NO_EARLY,
    ) -> tuple[Callable[..., int], tuple[Any, ...]]:
        if self.options.classes:
            return process_classes, (model, self._work, self._class_work, batch, scores, start, stop, learn)
        return process, (model, self._work, batch, early, scores, start, stop, learn)

    def _learn_prepared(self, batch: Batch, start: int, stop: int, scores: Scores, early: NDArray[np.float32]) -> None:
        """Prepare and learn rows [start, stop) in portions; rehearse the first examples when splines change."""
        for begin, end in self.preparation.portions(batch, start, stop):
            at = begin
            for rows, again in self.preparation.prepare_to_learn(batch, begin, end):
                count = len(rows.labels)
                after = at + count
                self._process(rows, 0, count, _rows(scores, at, after), learn=True, first=at, early=early[at:after])
                at = after
                if again is not None and self.options.mixed and self.units.fixed:
                    forget_recent(self._state.recent)
                    self._rehearse(self.units.to_units(again), at - 1, keep=True)

    def _make_room(self, longest: int) -> None:
        """Make the scratch large enough for examples of `longest` base features: kernels check no bounds."""
        if longest > self._longest:
            self.generation += 1
            self._longest = longest
            self._work = empty_scratch(self.options, longest)


def is_of_preparation(name: str) -> bool:
    """Return whether this name of `Learner.sums` says how examples are prepared, or in which units labels are."""
    return name == LABEL_UNITS or name.startswith(_PREPARED)


def _check_numbers(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise ValueError if a number is infinite or NaN: kernels keep all of them finite."""
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ValueError(f"{name}: expected finite numbers, found {array.tolist()[:10]}")


def _end_of(learned: NDArray[np.int64], count: int, stop: int) -> int:
    """Return the end of the first `count` of the rows `learned`; `stop` if there are fewer."""
    return int(learned[count - 1]) + 1 if count <= len(learned) else stop


def _not_finite(row: int) -> ModelError:
    return ModelError(f"expected a finite score, found infinity or NaN at row {row}: weights or values overflow", row)


def _rows(scores: Scores, start: int, stop: int) -> Scores:
    """Return views of rows [start, stop) of all columns; an `early` without rows stays without rows."""
    return Scores._make(column[start:stop] for column in scores)


def as_apple(learner: Port) -> Learner:
    """Return the learner, which has to be one of this system: only these are merged; TypeError for another."""
    if not isinstance(learner, Learner):
        raise TypeError(f"expected a learner of the system apple, found one of {learner.options.system}")
    return learner
