"""What the rest of the package may know of a learner: all three systems have it, and nobody reaches behind it.

A learner learns from one input partition's examples, in their order. It is a function of its options and of the
examples that it was given: neither of how they were cut into batches, nor of clocks, threads, or random numbers. So a
model that is restored from a snapshot, and learns what followed, equals the one that never stopped, to the bit.

Examples come as rows of a `Batch`: keys of features, uint64, values, float32, labels, float64 (NaN: none), and
importance weights, float64. A row without a label, or of weight zero, is scored and not learned.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.learners.label_units import LabelUnits
from stream_apple.learners.losses import Loss
from stream_apple.learners.progress.progressive_loss import ProgressiveLoss
from stream_apple.learners.scores import NO_EARLY, Scores
from stream_apple.learners.state import LearnerState


class LearnerOptions(Protocol):
    """What every learner's options say. They are frozen; a value out of bounds raises ValueError when they are made.

    Those of a system that has no classes, no mixture, no n-grams, or keeps no example until its label comes, have what
    `declaration.SystemOptions` says.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def system(self) -> str:
        """The name of the system: apple, tuples, or hashed."""

    @property
    def name(self) -> str:
        """The name of what learns: the system's, or that of its method if it has several."""

    @property
    def loss(self) -> str:
        """The loss that is minimized: squared, logistic, or softmax."""

    @property
    def objective(self) -> Loss:
        """The same loss, with all that depends on it."""

    @property
    def classes(self) -> int:
        """The number of classes of softmax, else 0."""

    @property
    def mixed(self) -> bool:
        """Whether a mixture of predictors is published, so that the score of all features is another one."""

    @property
    def bits(self) -> Any:  # noqa: ANN401  an int, once the options are complete
        """The table has 2^bits slots."""

    @property
    def max_features_per_example(self) -> int:
        """The most features of an example after expansion."""

    @property
    def pending_labels(self) -> int:
        """How many examples of a partition are remembered until their labels come."""

    @property
    def ngrams(self) -> Any:  # noqa: ANN401  a table
        """Namespaces whose neighbors are features, too."""

    @property
    def longest_ngram(self) -> int:
        """The size of the longest n-gram; 1 without n-grams."""

    @property
    def why_not_merged(self) -> str:
        """Why models of these options can't be merged: expected, found, reason; "" if they can."""

    @property
    def why_not_started_from(self) -> str:
        """Why no model can start from one of these options, likewise; "" if one can."""

    def ngrams_of_namespaces(self) -> tuple[dict[str, int], int]:
        """Return the size of n-grams by namespace, and the size in all other namespaces."""

    def identity(self) -> dict[str, Any]:
        """Return all that tells this model from others, by name, as msgpack gives it back: it names a model."""

    def smallest(self) -> Self:
        """Return the same options with the smallest table, whose size changes no code."""

    def model_bytes(self) -> int:
        """Return the bytes of a model when it is full, so that memory is known before a record is read."""

    def wanted_columns(self) -> frozenset[str]:
        """Return which of the optional fields of batches such a model needs: spaces, attributes."""


class Census(NamedTuple):
    """The numbers of parents, and of monomials that are learned, of degree 0 (the constant: always one), 1, ...

    Both are int64[highest degree + 1]. A parent is multiplied with base features; a system may have none.
    """

    parents: NDArray[np.int64]
    monomials: NDArray[np.int64]


NO_CENSUS = Census(np.zeros(0, np.int64), np.zeros(0, np.int64))
"""The census where none was taken."""


class Change(NamedTuple):
    """What the end of an epoch changed.

    added    how many monomials became parents
    retired  how many monomials ceased to be parents, or are no longer learned
    census   the census afterwards; NO_CENSUS if none was taken
    """

    added: int = 0
    retired: int = 0
    census: Census = NO_CENSUS


class Factor(NamedTuple):
    """A base feature, or what a learner has derived of one.

    key     of the base feature, uint64: the key under which the feature's name is known
    ending  follows the name of a derived feature, such as "\u224831" of the spline of an age at 31; else ""
    """

    key: int
    ending: str = ""


class Term(NamedTuple):
    """A feature of the model, or its part in one score.

    factors  what is multiplied, ascending; a factor that occurs more than once is repeated; () for the constant
    weight   by which the feature's value is multiplied
    value    in the example that is explained; the largest one so far if no example is
    unknown  how many more factors there are that could not be found
    weights  of the feature in each of several predictors, in the order in which their names are given
    mark     a word about the feature, such as "parent"; "" if there is nothing to say
    """

    factors: tuple[Factor, ...]
    weight: float
    value: float
    unknown: int = 0
    weights: tuple[float, ...] = ()
    mark: str = ""

    @property
    def salience(self) -> float:
        """The most that the term adds to a score."""
        return abs(self.weight * self.value)


TermCell = Term | str | float | tuple[float, ...] | None
"""Of a table that is shown: a feature, by its name; a text, a number, several numbers; or nothing."""


class TermTable(NamedTuple):
    """A table that is shown, for people alone.

    title    what its rows are
    columns  the headings
    rows     a cell for each column
    note     what the columns mean, in a sentence or two; "" if that is plain
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[TermCell, ...], ...]
    note: str = ""


class Description(NamedTuple):
    """What metrics, the page, and `inspect` show of a model; it is made every second, in some tens of microseconds.

    kind     which kind of model it is, in a few words
    gauges   numbers by name; GAUGES are those that have a metric of their own
    weights  how much of each predictor's score is in the published one, by name; they may be negative, and need not sum
             to 1; empty if one predictor's score is published
    shares   how far the predictors are trusted whose scores are mixed, by name; they sum to 1, or are none
    notes    further sentences
    """

    kind: str
    gauges: Mapping[str, float]
    weights: Mapping[str, float] = MappingProxyType({})
    shares: Mapping[str, float] = MappingProxyType({})
    notes: tuple[str, ...] = ()


GAUGES = {
    "table_slots": "Slots of the model's table.",
    "table_occupied_slots": "Slots that hold a feature.",
    "table_evictions": "Features that lost their slot to another.",
    "table_refusals": "Times that a feature got no slot, since none could be given up.",
    "drift_restarts": "Times that losses had risen, and what no longer held was forgotten.",
}
"""Gauges that have a metric of their own, and what they are; a learner leaves out those that it does not have."""


class Findings(NamedTuple):
    """What a model has found, for the page and `inspect`; making it takes up to a second.

    heaviest    the features of the largest salience, the largest first
    products    the same of those with more than one factor
    predictors  the names of the predictors whose weights these terms have
    tables      what else this learner has to show
    """

    heaviest: tuple[Term, ...]
    products: tuple[Term, ...]
    predictors: tuple[str, ...] = ()
    tables: tuple[TermTable, ...] = ()


class ScoreParts(NamedTuple):
    """One score taken apart: the weights of features in the whole score, and in each predictor's.

    score   the published one; with classes the logarithm of the class's probability, less the mean of all classes'
    terms   with their values in the example. The sum of weight times value is the score, but for what is not
            proportional to a feature: that scores are bounded, and that probabilities are mixed, not scores
    shares  how much of each predictor's score is in it, to first order, by name, in the order of `Term.weights`; empty
            if there is one predictor, and so are `Term.weights`
    label   the class that has this score; None if there are no classes
    """

    score: float
    terms: tuple[Term, ...]
    shares: Mapping[str, float] = MappingProxyType({})
    label: int | None = None


NO_KEYS = np.zeros(0, np.uint64)


class RowInPlace(Protocol):
    """Room for one example: the caller writes it to these arrays, and then calls `score` or `learn`.

    room          how many features there is room for
    keys, values  uint64[room], float32[room]  the features
    indptr        int64[2]  0, and how many features there are
    label, weight  float64[1]
    scores        of the example, one row; `predictions` is the column of it
    generation    the learner's; once that differs, this room must not be used any more
    """

    room: int
    keys: NDArray[np.uint64]
    values: NDArray[np.float32]
    indptr: NDArray[np.int64]
    label: NDArray[np.float64]
    weight: NDArray[np.float64]
    scores: Scores
    predictions: NDArray[np.float64]
    generation: int

    def score(self) -> None:
        """Write the scores of the example; the model does not change. ModelError if they are not finite."""

    def learn(self) -> None:
        """Score the example, then learn it, if it has a label and a weight. ModelError if scores are not finite."""


class Learner(Protocol):
    """One model.

    options     all that defines it besides its examples
    progress    the progressive losses so far: part of the state
    units       in which labels are learned
    generation  increases when arrays of the state are replaced by others
    """

    options: Any
    progress: ProgressiveLoss
    units: LabelUnits
    generation: int

    def score_rows(self, batch: Batch, start: int, stop: int, scores: Scores) -> None:
        """Write the scores of rows [start, stop); the model does not change. ModelError if one is not finite."""

    def learn(self, batch: Batch, start: int, stop: int, scores: Scores, early: NDArray[np.float32] = NO_EARLY) -> None:
        """Score, then learn, rows [start, stop) in order, and write these rows of `scores`.

        early  float32[n, EARLY], a row for each of the batch: what `Scores.early` held when the row's prediction was
               asked for, before its label came; NaN for other rows. A learner that does not use it ignores it.

        ModelError names the row whose score is not finite: it has changed nothing, and the rows before are learned.
        """

    def single_row(self, features: int) -> RowInPlace | None:
        """Return room for one example of up to `features` features, which costs less than a batch of one row.

        None if there is no such way, or not yet.
        """

    def end_epoch(self, *, nominate: bool = False, counted: bool = True) -> Change:
        """End an epoch: this is when features are chosen.

        nominate  the model will be merged with others, which vote on what it has chosen
        counted   return a census in any case, even if that takes a reading of the whole table
        """

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

    def census(self) -> Census:
        """Return how many monomials and parents there are of each degree; this may read the whole table."""

    def describe(self) -> Description:
        """Return what is shown of the model all the time; nothing changes. Other threads may call this and `find`.

        It may be called while the model learns: then a number may be a moment older than another.
        """

    def find(self, most: int, known: NDArray[np.uint64] = NO_KEYS) -> Findings:
        """Return what the model has found, at most `most` of each kind; nothing changes.

        known  keys of base features that may be factors, too, though they have lost their own slots
        """

    def explain(self, batch: Batch) -> tuple[ScoreParts, ...]:
        """Take the score of the batch's only row apart, or the score of each class; the model does not change."""

    @property
    def examples(self) -> int:
        """The number of examples learned."""

    @property
    def features_per_example(self) -> float:
        """The mean number of features of the examples learned, with the constant; NaN before the first."""

    @property
    def truncated(self) -> int:
        """The number of examples whose features were cut off at `max_features_per_example`."""
