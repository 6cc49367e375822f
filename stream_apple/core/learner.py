"""The learner: three verbs, and the caller owns their order. One learner is one model, of one input partition."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from stream_apple.core.apple import process
from stream_apple.core.batch import Batch
from stream_apple.core.expansion import (
    DEFERRED,
    EVICTED,
    EXAMPLES,
    FEATURES,
    MAX_DEGREE,
    OCCUPIED,
    REFUSED,
    TRUNCATED,
    Rule,
    empty_work,
)
from stream_apple.core.growth import Growth, grow, monomials_by_degree, parents_by_degree
from stream_apple.core.progress import Progress
from stream_apple.core.table import Table, empty_table
from stream_apple.core.update import empty_totals
from stream_apple.errors import ModelError

Method = Literal["apple", "linear", "quadratic", "cubic"]
Loss = Literal["squared", "logistic"]

_MAX_DEGREES: dict[Method, int] = {"apple": MAX_DEGREE, "linear": 1, "quadratic": 2, "cubic": 3}


@dataclass(frozen=True)
class Options:
    """What defines a model, besides its examples. Two learners of equal options and examples are equal to the bit."""

    method: Method = "apple"
    loss: Loss = "squared"
    bits: int = 18
    alpha: float = 1.0
    learning_rate: float = 0.5
    max_features_per_example: int = 65_536

    def __post_init__(self) -> None:
        for name, value, expected, fine in (
            ("method", self.method, f"one of {', '.join(_MAX_DEGREES)}", self.method in _MAX_DEGREES),
            ("loss", self.loss, "squared or logistic", self.loss in {"squared", "logistic"}),
            ("bits", self.bits, "an integer from 3 to 30", 3 <= self.bits <= 30),
            ("alpha", self.alpha, "a number from 0 to 4", 0.0 <= self.alpha <= 4.0),
            ("learning_rate", self.learning_rate, "a positive number", 0.0 < self.learning_rate < float("inf")),
            (
                "max_features_per_example",
                self.max_features_per_example,
                "at least 2",
                self.max_features_per_example >= 2,
            ),
        ):
            if not fine:
                raise ValueError(f"Options.{name}: expected {expected}, found {value!r}")


class Scores(NamedTuple):
    """What `learn` writes, one element a row of the batch.

    predictions  float64[n]  the score given before learning: the expected label (squared loss) or the log-odds of
                             label 1 (logistic loss)
    losses       float64[n]  loss of the prediction, not weighted; NaN without a label
    linear       float64[n]  the linear predictor's score
    """

    predictions: NDArray[np.float64]
    losses: NDArray[np.float64]
    linear: NDArray[np.float64]

    @classmethod
    def empty(cls, size: int) -> "Scores":
        """Room for `size` rows."""
        return cls(np.full(size, np.nan), np.full(size, np.nan), np.full(size, np.nan))


class Learner:
    """A model that predicts, learns, and grows at the end of epochs."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.progress = Progress(logistic=options.loss == "logistic")
        self._table = empty_table(options.bits)
        self._totals = empty_totals()
        self._longest = 0
        self._work = empty_work(options.max_features_per_example, 0)
        self._rule = Rule(
            logistic=options.loss == "logistic",
            rate=options.learning_rate,
            exhaustive=options.method in {"quadratic", "cubic"},
            max_degree=_MAX_DEGREES[options.method],
            max_features=options.max_features_per_example,
            alongside=options.method != "linear",
        )

    def warm_up(self) -> None:
        """Compile everything on a throw-away model (some seconds, once per machine)."""
        batch = Batch(
            np.array([0, 2], np.int64),
            np.array([1, 2], np.uint64),
            np.ones(2, np.float32),
            np.ones(1),
            np.ones(1),
        )
        trial = Learner(self.options)
        trial.learn(batch, 0, 1, Scores.empty(1))
        trial.end_epoch()
        trial.predict(batch)

    def predict(self, batch: Batch) -> NDArray[np.float64]:
        """Scores float64[n] of all rows, whatever their labels. The model is not changed by a single bit."""
        scores = Scores.empty(len(batch.labels))
        self._process(batch, 0, len(batch.labels), scores, learn=False)
        return scores.predictions

    def learn(self, batch: Batch, start: int, stop: int, scores: Scores) -> None:
        """Score, then learn, rows [start, stop) in order; writes these rows of `scores`.

        A row without a label, or of weight zero, is only scored. Raises ModelError where a score is not finite; rows
        before it were learned, so the model is to be dropped.
        """
        self._process(batch, start, stop, scores, learn=True)
        self.progress.add(batch, scores.predictions, scores.linear, scores.losses, start, stop)

    def end_epoch(self) -> Growth:
        """Make the heaviest monomials parents (method apple; the others have theirs from the start)."""
        self.progress.end_epoch()
        if self.options.method != "apple":
            return Growth(0, parents_by_degree(self._table))
        return grow(self._table, self._totals, self.options.alpha, MAX_DEGREE)

    @property
    def table(self) -> Table:
        """The table itself, not a copy: for those who write or restore a snapshot between two calls."""
        return self._table

    @property
    def sums(self) -> dict[str, NDArray[np.generic]]:
        """All other state, by name: the arrays themselves."""
        return {**self._totals._asdict(), **self.progress.arrays()}

    def restore(self, sums: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the other state, when the table has been written; ValueError if it is not this learner's kind."""
        own = self.sums
        if (found := sorted(sums)) != sorted(own):
            raise ValueError(f"expected arrays {', '.join(sorted(own))}, found {', '.join(found)}")
        for name, array in own.items():
            given = sums[name]
            if given.dtype != array.dtype or given.shape != array.shape:
                raise ValueError(f"{name}: expected {array.dtype}[{array.size}], found {given.dtype}[{given.size}]")
            array[:] = given

    def digest(self) -> str:
        """32 hex digits over every bit that future scores and sums depend on."""
        state = xxhash.xxh3_128()
        for array in (*self._table, *self.sums.values()):
            state.update(array.view(np.uint8).data)
        return state.hexdigest()

    def check_finite(self) -> None:
        """ModelError if a weight is infinite or NaN. Reads the whole table."""
        for field in ("weight", "linear_weight"):
            column = self._table.slots[field]
            if not np.isfinite(column).all():
                found = column[~np.isfinite(column)][0]
                raise ModelError(f"expected finite weights, found {found} among the values of {field}")

    def slots(self) -> NDArray[np.void]:
        """A copy of the table, SLOT[2^bits + 1]; the constant is the last."""
        return self._table.slots.copy()

    @property
    def examples(self) -> int:
        """Examples learned."""
        return int(self._totals.counts[EXAMPLES])

    @property
    def features_per_example(self) -> float:
        """Mean number of features of the examples learned, the constant included; NaN before the first."""
        return int(self._totals.counts[FEATURES]) / self.examples if self.examples else float("nan")

    @property
    def truncated(self) -> int:
        """Examples whose expansion stopped at `max_features_per_example`."""
        return int(self._totals.counts[TRUNCATED])

    @property
    def capacity(self) -> int:
        """Slots of the table."""
        return len(self._table.slots) - 1

    @property
    def occupied(self) -> int:
        """Slots that hold a monomial."""
        return int(self._totals.counts[OCCUPIED])

    @property
    def evicted(self) -> int:
        """Monomials that lost their slot to another."""
        return int(self._totals.counts[EVICTED])

    @property
    def deferred(self) -> int:
        """Times a monomial found its bucket full and was told to knock again."""
        return int(self._totals.counts[DEFERRED])

    @property
    def refused(self) -> int:
        """Times a monomial found none but parents, and monomials of its own example, in its bucket."""
        return int(self._totals.counts[REFUSED])

    def parents_by_degree(self) -> NDArray[np.int64]:
        """int64[d]: parents of degree 0 (the constant), 1, ... of method apple. Reads the whole table."""
        return parents_by_degree(self._table)

    def monomials_by_degree(self) -> NDArray[np.int64]:
        """int64[d]: monomials with a slot, of degree 0 (the constant), 1, ... Reads the whole table."""
        return monomials_by_degree(self._table)

    def _process(self, batch: Batch, start: int, stop: int, scores: Scores, *, learn: bool) -> None:
        """Run the kernel, with scratch that fits the longest row."""
        longest = int(np.diff(batch.indptr).max(initial=0))
        if longest > self._longest:
            self._longest = longest
            self._work = empty_work(self.options.max_features_per_example, longest)
        row = process(
            self._table, self._totals, self._rule, self._work, *batch, start, stop, learn,
            scores.predictions, scores.linear, scores.losses,
        )  # fmt: skip
        if row >= 0:
            raise ModelError(
                f"expected a finite score, found infinity or NaN at row {row}: weights or values overflow", row
            )
