"""The learner `hashed`, as `learners/port.py` specifies a learner."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.named_arrays import take_over_arrays
from stream_apple.errors import ModelError
from stream_apple.learners.base_learner import BaseLearner
from stream_apple.learners.hashed.features import list_features
from stream_apple.learners.hashed.options import HashedOptions
from stream_apple.learners.hashed.regularisation import write_weights
from stream_apple.learners.hashed.rows import process_hashed_rows
from stream_apple.learners.hashed.table import EXAMPLES, FEATURES, TRUNCATED, new_model, new_work
from stream_apple.learners.label_units import LabelUnits
from stream_apple.learners.port import (
    NO_KEYS,
    Census,
    Change,
    Description,
    Factor,
    Findings,
    RowInPlace,
    ScoreParts,
    Term,
)
from stream_apple.learners.progress.progressive_loss import progress_of
from stream_apple.learners.scores import NO_EARLY, Scores
from stream_apple.learners.state import LearnerState


class HashedLearner(BaseLearner):
    """A linear model whose features share weights by hash.

    generation  0: the arrays of the state are never replaced
    """

    def __init__(self, options: HashedOptions) -> None:
        self.options = options
        self.progress = progress_of(options)
        self.units = LabelUnits(standardized=False)
        self.generation = 0
        self._model = new_model(options)
        self._work = new_work(options)

    def score_rows(self, batch: Batch, start: int, stop: int, scores: Scores) -> None:
        """Write the scores of rows [start, stop); the model does not change. ModelError if one is not finite."""
        self._refuse(self._process(batch, start, stop, scores, learn=False))

    def learn(self, batch: Batch, start: int, stop: int, scores: Scores, early: NDArray[np.float32] = NO_EARLY) -> None:  # noqa: ARG002
        """Score, then learn, rows [start, stop) in order, and write these rows of `scores`; `early` is ignored.

        ModelError names the row whose score is not finite: it has changed nothing, and the rows before are learned.
        """
        failed = self._process(batch, start, stop, scores, learn=True)
        self.progress.add(batch, scores, start, failed if failed >= 0 else stop)
        self._refuse(failed)

    def single_row(self, features: int) -> RowInPlace | None:  # noqa: ARG002  see the port
        """Return None: an example alone is a batch of one row."""
        return None

    def end_epoch(self, *, nominate: bool = False, counted: bool = True) -> Change:  # noqa: ARG002  see the port
        """End an epoch: the losses of a new epoch begin. Features are not chosen."""
        self.progress.end_epoch()
        return Change()

    @property
    def state(self) -> LearnerState:
        """The whole state, the arrays themselves: `slots`, SLOT[2^bits + 1], and `HashedSums` with the progress."""
        return LearnerState({"slots": self._model.slots}, {**self._model.sums._asdict(), **self.progress.arrays()})

    def restore(self, sums: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over `LearnerState.sums`; the caller has filled the rows. ValueError for other names or sizes."""
        take_over_arrays(self.state.sums, sums)

    def weights(self) -> NDArray[np.float64]:
        """Return the weights of all slots, with all shrinkage applied, float64[2^bits + 1]; the last is the constant's.

        A weight of exactly 0 belongs to a slot that no example has used, or that L1 regularisation has drawn to 0.
        """
        weights = np.empty(len(self._model.slots))
        write_weights(self._model, weights)
        return weights

    def describe(self) -> Description:
        """Return what is shown of the model."""
        return Description("shared weights", {"table_slots": float(len(self._model.slots) - 1)})

    def find(self, most: int, known: NDArray[np.uint64] = NO_KEYS) -> Findings:  # noqa: ARG002  no keys are stored
        """Return the slots of the largest weight times value; which features have them is not known."""
        weights, scales = self.weights()[:-1], self._model.slots["scale"][:-1]
        sizes = np.abs(weights) * scales
        used = np.flatnonzero(sizes)
        chosen = used[np.argsort(-sizes[used], kind="stable")][:most]
        return Findings(tuple(Term((), float(weights[slot]), float(scales[slot]), unknown=1) for slot in chosen), ())

    def explain(self, batch: Batch) -> tuple[ScoreParts, ...]:
        """Take the score of the batch's only row apart; the model does not change.

        Features of the row that share a slot have the same weight. The score is not the sum only if it was clipped.
        """
        scores = Scores.empty(1)
        self.score_rows(batch, 0, 1, scores)
        weights = self.weights()
        terms = (
            Term((), float(weights[-1]), 1.0),
            *(
                Term(tuple(map(Factor, factors)), float(weights[slot]), x)
                for factors, slot, x in list_features(self._model.rule, batch, 0)
            ),
        )
        return (ScoreParts(float(scores.predictions[0]), terms),)

    def census(self) -> Census:
        """Return the constant, and how many slots have been learned; which products share them is not known."""
        learned = np.count_nonzero(self.weights()[:-1])
        return Census(np.zeros(2, np.int64), np.array([1, learned]))

    @property
    def examples(self) -> int:
        """The number of examples learned."""
        return int(self._model.sums.counts[EXAMPLES])

    @property
    def features_per_example(self) -> float:
        """The mean number of slots of the examples learned, with the constant's; NaN before the first."""
        return int(self._model.sums.counts[FEATURES]) / self.examples if self.examples else float("nan")

    @property
    def truncated(self) -> int:
        """The number of examples with more features than `max_features_per_example`."""
        return int(self._model.sums.counts[TRUNCATED])

    def _process(self, batch: Batch, start: int, stop: int, scores: Scores, *, learn: bool) -> int:
        if self.options.personalise and len(batch.spaces) != len(batch.keys):
            raise AssertionError(
                f"expected a batch with spaces, as of HashedOptions.wanted_columns, found {len(batch.spaces)} for "
                f"{len(batch.keys)} features"
            )
        with np.errstate(over="ignore"):  # keys are multiplied modulo 2^64; only interpreted code would warn
            return process_hashed_rows(self._model, self._work, batch, scores, start, stop, learn)

    @staticmethod
    def _refuse(failed: int) -> None:
        if failed >= 0:
            raise ModelError(f"row {failed}: expected a finite score, found infinity or NaN", failed)
