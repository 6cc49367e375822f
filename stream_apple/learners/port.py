"""What the rest of the package may know of a learner: all three systems have it, and nobody reaches behind it.

A learner learns from one input partition's examples, in their order. It is a function of its options and of the
examples that it was given: neither of how they were cut into batches, nor of clocks, threads, or random numbers. So a
model that is restored from a snapshot, and learns what followed, equals the one that never stopped, to the bit.

Examples come as rows of a `Batch`: keys of features, uint64, values, float32, labels, float64 (NaN: none), and
importance weights, float64. A row without a label, or of weight zero, is scored and not learned.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.learners.progress.progressive_loss import ProgressiveLoss
from stream_apple.learners.scores import NO_EARLY, Scores
from stream_apple.learners.state import LearnerState


class LearnerOptions(Protocol):
    """What every learner's options say. They are frozen; a value out of bounds raises ValueError when they are made.

    loss     squared, logistic, or softmax
    classes  of softmax, else 0
    mixed    whether what is published is a mixture of predictors, so that the score of all features is another
    """

    @property
    def loss(self) -> str:
        """The loss that is minimised."""

    @property
    def classes(self) -> int:
        """The number of classes."""

    @property
    def mixed(self) -> bool:
        """Whether several predictors are mixed."""

    def identity(self) -> dict[str, Any]:
        """Return all that tells this model from others, by name, as msgpack gives it back: it names a model."""

    def model_bytes(self) -> int:
        """Return the bytes of a model when it is full, so that memory is known before a record is read."""

    def wanted_columns(self) -> frozenset[str]:
        """Return which of the optional fields of batches such a model needs: spaces, attributes."""


class Change(NamedTuple):
    """What the end of an epoch changed: how many features are learned from now on, and how many no longer are."""

    added: int = 0
    removed: int = 0


class Term(NamedTuple):
    """A feature of the model, or its part in one score.

    factors  the keys of the base features that are multiplied, uint64, ascending; of a base feature its own;
             () for the constant, and where the factors are not known
    weight   by which its value is multiplied
    value    in the example that is explained; the largest one so far where no example is
    """

    factors: tuple[int, ...]
    weight: float
    value: float


class Description(NamedTuple):
    """What metrics, the page, and `inspect` show of a model; making it changes nothing, and takes a few milliseconds.

    gauges   numbers by name, such as features_per_example or occupied_slots
    shares   how the published score is mixed: each predictor's share by name; empty if one predictor has it
    notes    words by name, such as how many tuples were selected
    """

    gauges: Mapping[str, float]
    shares: Mapping[str, float]
    notes: Mapping[str, str]


class ScoreParts(NamedTuple):
    """One score taken apart: the published score is `rest` plus the sum of weight times value over `parts`."""

    score: float
    parts: tuple[Term, ...]
    rest: float


class Learner(Protocol):
    """One model.

    options     all that defines it besides its examples
    progress    the progressive losses so far: part of the state
    generation  increases when arrays of the state are replaced by others
    """

    options: Any
    progress: ProgressiveLoss
    generation: int

    def score_rows(self, batch: Batch, start: int, stop: int, scores: Scores) -> None:
        """Write the scores of rows [start, stop); the model does not change. ModelError if one is not finite."""

    def learn(self, batch: Batch, start: int, stop: int, scores: Scores, early: NDArray[np.float32] = NO_EARLY) -> None:
        """Score, then learn, rows [start, stop) in order, and write these rows of `scores`.

        early  float32[n, EARLY], a row for each of the batch: what `Scores.early` held when the row's prediction was
               asked for, before its label came; NaN for other rows. A learner that does not use it ignores it.

        ModelError names the row whose score is not finite: it has changed nothing, and the rows before are learned.
        """

    def end_epoch(self) -> Change:
        """End an epoch: this is when features are chosen."""

    @property
    def state(self) -> LearnerState:
        """The whole state, the arrays themselves."""

    def restore(self, sums: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over `LearnerState.sums`; the caller has filled the rows. ValueError for other names or sizes."""

    @property
    def observed(self) -> dict[str, NDArray[np.generic]]:
        """What is counted for display only, by name: the arrays themselves. No score and no digest depends on them."""

    def restore_observed(self, observed: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the counts of `observed`; ValueError for arrays of other names, types, or sizes."""

    def digest(self) -> str:
        """Return a hash, 32 hex digits, of every bit of the state, see `state_digest.py`."""

    def describe(self) -> Description:
        """Return what is shown of the model."""

    def heaviest(self, most: int) -> tuple[Term, ...]:
        """Return the features with the largest weight times value, at most `most` of them, the heaviest first."""

    def explain(self, batch: Batch) -> ScoreParts:
        """Take the score of the batch's only row apart; the model does not change."""

    @property
    def examples(self) -> int:
        """The number of examples learned."""

    @property
    def features_per_example(self) -> float:
        """The mean number of features of the examples learned, with the constant; NaN before the first."""

    @property
    def truncated(self) -> int:
        """The number of examples whose features were cut off at `max_features_per_example`."""
