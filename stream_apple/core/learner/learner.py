"""The learner: three verbs, and the caller owns their order. One learner is one model, of one input partition."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.learner.growth import Growth, grow
from stream_apple.core.learner.kernels.apple import Scores, process
from stream_apple.core.learner.kernels.decay import (
    decay_rule,
    no_decay_yet,
    release_zeros,
    settle,
    stamps_of,
)
from stream_apple.core.learner.kernels.mixture import effective_weights, empty_mixture
from stream_apple.core.learner.kernels.model import (
    DEFERRED,
    EVICTED,
    EXAMPLES,
    FEATURES,
    MAX_DEGREE,
    OCCUPIED,
    REFUSED,
    TRUNCATED,
    ExpansionRule,
    Kept,
    LearningRule,
    Model,
    empty_scalars,
)
from stream_apple.core.learner.kernels.recent import empty_recent, longest_recent
from stream_apple.core.learner.kernels.table import Extent, Table, empty_table
from stream_apple.core.learner.kernels.work import empty_work
from stream_apple.core.learner.options import Method, Options
from stream_apple.core.learner.parent_selection import Census, take_census
from stream_apple.core.learner.progressive_loss import ProgressiveLoss
from stream_apple.core.learner.settled_view import view_settled
from stream_apple.core.learner.state_digest import StateDigest
from stream_apple.errors import ModelError

__all__ = ["Learner", "Scores"]

_MAX_DEGREES: dict[Method, int] = {"apple": MAX_DEGREE, "linear": 1, "quadratic": 2, "cubic": 3}


class Learner:
    """A model that predicts, learns, and grows at the end of epochs."""

    def __init__(self, options: Options) -> None:
        self.options = options
        mixed = options.mixed
        self.progress = ProgressiveLoss(logistic=options.loss == "logistic", mixed=mixed)
        decays = decay_rule(*((options.l2, options.l1) if options.descent == "adaptive" else (0.0, 0.0)))
        extent = Extent(
            mixed=mixed,
            residuals=options.selection == "ssm",
            stamps=stamps_of(mixed=mixed) if decays.l1 > 0.0 else 0,
        )
        self._table = empty_table(int(options.bits or 0), extent)
        self._scalars = empty_scalars()
        self._mixture = empty_mixture(mixed=mixed)
        self._recent = empty_recent(mixed=mixed)
        self._decay = no_decay_yet(decays, mixed=mixed)
        self._longest = 0
        self._work = empty_work(options.max_features_per_example, 0)
        self._rule = LearningRule(
            logistic=options.loss == "logistic",
            rate=options.learning_rate,
            expansion=ExpansionRule(
                exhaustive=options.method in {"quadratic", "cubic"},
                max_degree=_MAX_DEGREES[options.method],
                max_features=options.max_features_per_example,
            ),
            alongside=options.method != "linear",
            mixed=mixed,
            kept=Kept(residuals=extent.residuals),
            plain_l2=float(options.l2) if options.descent == "plain" else 0.0,
            decay=decays,
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
        return self.score(batch).predictions

    def score(self, batch: Batch) -> Scores:
        """The same, with losses and the linear predictor's scores."""
        scores = Scores.empty(len(batch.labels))
        self._process(batch, 0, len(batch.labels), scores, learn=False)
        return scores

    def learn(self, batch: Batch, start: int, stop: int, scores: Scores) -> None:
        """Score, then learn, rows [start, stop) in order; writes these rows of `scores`.

        A row without a label, or of weight zero, is only scored. Raises ModelError where a score is not finite; rows
        before it were learned, so the model is to be dropped.
        """
        self._process(batch, start, stop, scores, learn=True)
        self.progress.add(batch, scores, start, stop)

    def end_epoch(self) -> Growth:
        """Make the heaviest monomials parents (method apple; the others have theirs from the start)."""
        self.progress.end_epoch()
        self._settle()
        if self.options.method != "apple":
            return Growth(0, 0, take_census(self._table))
        # The latest examples are looked at again, and a model that was restored has not seen them in this process.
        self._make_room(longest_recent(self._recent) if self.options.mixed else 0)
        return grow(self._model, self._work, self.options)

    @property
    def table(self) -> Table:
        """The table itself, not a copy: for those who write or restore a snapshot between two calls."""
        return self._table

    @property
    def sums(self) -> dict[str, NDArray[np.generic]]:
        """All other state, by name: the arrays themselves."""
        sums = {**self._scalars._asdict(), **self.progress.arrays()}
        if self._rule.decay.active:
            sums |= {f"decay_{name}": array for name, array in self._decay._asdict().items()}
        if self.options.mixed:
            sums |= self._mixture._asdict() | {
                f"recent_{name}": array for name, array in self._recent._asdict().items()
            }
        return sums

    def restore(self, sums: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the other state, when the table has been written; ValueError if it is not this learner's kind."""
        _take_over(self.sums, sums)
        self.progress.observe_anew()

    @property
    def observed(self) -> dict[str, NDArray[np.generic]]:
        """What is counted only to be shown, by name: the arrays themselves. No score and no digest depends on it."""
        return self.progress.observed()

    def restore_observed(self, observed: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over, after `restore`, what an older model has counted; if it lacks any of it, all begins anew.

        ValueError for an array of another type or size.
        """
        own = self.observed
        if own.keys() <= observed.keys():
            _take_over(own, {name: observed[name] for name in own})

    def digest(self) -> str:
        """32 hex digits over every bit that future scores and sums depend on."""
        digest = StateDigest()
        digest.add_slots(self._table, 0, len(self._table.slots))
        return digest.finish(self._table, self.sums)

    def slots(self) -> NDArray[np.void]:
        """A copy of the table, SLOT[2^bits + 1], with decayed weights; the constant is the last."""
        settled = self.settled_table()
        return settled.slots.copy() if settled is self._table else settled.slots

    def settled_table(self) -> Table:
        """The table, to be read; if weights decay, with a copy of its slots that has them as they are by now."""
        return view_settled(self._table, self._decay, self._rule.decay)

    @property
    def examples(self) -> int:
        """Examples learned."""
        return int(self._scalars.counts[EXAMPLES])

    @property
    def features_per_example(self) -> float:
        """Mean number of features of the examples learned, the constant included; NaN before the first."""
        return int(self._scalars.counts[FEATURES]) / self.examples if self.examples else float("nan")

    @property
    def truncated(self) -> int:
        """Examples whose expansion stopped at `max_features_per_example`."""
        return int(self._scalars.counts[TRUNCATED])

    @property
    def capacity(self) -> int:
        """Slots of the table."""
        return len(self._table.slots) - 1

    @property
    def occupied(self) -> int:
        """Slots that hold a monomial."""
        return int(self._scalars.counts[OCCUPIED])

    @property
    def evicted(self) -> int:
        """Monomials that lost their slot to another."""
        return int(self._scalars.counts[EVICTED])

    @property
    def deferred(self) -> int:
        """Times a monomial found its bucket full and the admission filter did not let it in yet."""
        return int(self._scalars.counts[DEFERRED])

    @property
    def refused(self) -> int:
        """Times a monomial found none but parents, and monomials of its own example, in its bucket."""
        return int(self._scalars.counts[REFUSED])

    def mixture_weights(self) -> NDArray[np.float64]:
        """float64[6]: how much of each predictor's score is in what is published, see `kernels/mixture.py`.

        float64[0] if predictors are not mixed.
        """
        return effective_weights(self._mixture) if self.options.mixed else np.zeros(0)

    def mixture_shares(self) -> NDArray[np.float64]:
        """float64[3]: the shares of linear, average and stack in what is published; float64[0] if nothing is mixed."""
        return self._mixture.shares.copy()

    def census(self) -> Census:
        """How many monomials and parents there are of each degree. Reads the whole table."""
        return take_census(self._table)

    @property
    def _model(self) -> Model:
        return Model(self._table, self._scalars, self._rule, self._mixture, self._recent, self._decay)

    def _settle(self) -> None:
        """Have the table hold decayed weights, and drop the products that have none left: an epoch has ended."""
        rule = self._rule.decay
        if not rule.active:
            return
        settle(self._table, self._decay, rule)
        if rule.l1 > 0.0 and self.options.method == "apple" and self.options.selection != "ssm":
            self._scalars.counts[OCCUPIED] -= release_zeros(self._table)

    def _process(self, batch: Batch, start: int, stop: int, scores: Scores, *, learn: bool) -> None:
        """Run the kernel, with scratch that fits the longest row."""
        self._make_room(int(np.diff(batch.indptr).max(initial=0)))
        row = process(self._model, self._work, batch, scores, start, stop, learn)
        if row >= 0:
            raise ModelError(
                f"expected a finite score, found infinity or NaN at row {row}: weights or values overflow", row
            )

    def _make_room(self, longest: int) -> None:
        """Have scratch for examples of so many base features: kernels check no bounds."""
        if longest > self._longest:
            self._longest = longest
            self._work = empty_work(self.options.max_features_per_example, longest)


def _take_over(own: Mapping[str, NDArray[np.generic]], given: Mapping[str, NDArray[np.generic]]) -> None:
    """Write what is given into one's own arrays, whose names, types and sizes it must have."""
    if (found := sorted(given)) != sorted(own):
        raise ValueError(f"expected arrays {', '.join(sorted(own))}, found {', '.join(found)}")
    for name, array in own.items():
        new = given[name]
        if new.dtype != array.dtype or new.shape != array.shape:
            raise ValueError(f"{name}: expected {array.dtype}[{array.size}], found {new.dtype}[{new.size}]")
        array[:] = new
