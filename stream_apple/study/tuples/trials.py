"""What is tried on a fold: selections of tuples and what they are compared with, each with its errors and its costs."""

import time
from collections.abc import Callable, Iterator
from math import comb
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.study.tuples.attributes import AttributeTable
from stream_apple.study.tuples.dependence import fit_dependence
from stream_apple.study.tuples.discretisation import BINS, DiscreteTable, Discretisation, discretised
from stream_apple.study.tuples.fitting import TupleChoice, TupleFitter, TupleScore, choose_order, draw_reservoir
from stream_apple.study.tuples.index import all_tuples
from stream_apple.study.tuples.measures import Worth, worth_of
from stream_apple.study.tuples.model import TupleModel, count_model

Baseline = Literal["majority", "AnJE", "KDB", "sKDB", "forest", "forest on bins"]

SHARES = (0.1, 0.2, 0.4, 0.6, 0.8, 0.9)
"""The paper's t."""
ORDERS = (1, 2, 3)
SCORES: tuple[TupleScore, ...] = ("mi", "cv", "random")
MOST_TUPLES = 1_000
"""An order with more of them is left out: each row of the training part keeps a number for each in memory."""
TREES = 100


class Trial(NamedTuple):
    """One thing that is tried.

    order           of the tuples; 0 where there are none
    method          a baseline, or a selection of tuples
    discretisation  how numbers become values
    """

    order: int
    method: Baseline | TupleChoice
    discretisation: Discretisation = "quantile"


class TrialResult(NamedTuple):
    """What came of it. NaN where there is no such thing.

    parameters  weights or probabilities of features
    step        of AdaGrad
    seconds     of selecting, counting, validating and learning
    """

    worth: Worth
    parameters: float
    step: float
    seconds: float


class Fold(NamedTuple):
    """One half of the rows teaches, the other tests."""

    table: AttributeTable
    trained: NDArray[np.int64]
    tested: NDArray[np.int64]
    seed: int


def two_folds(table: AttributeTable, seed: int) -> Iterator[Fold]:
    """Random halves, each of which tests once."""
    shuffled = np.random.default_rng(seed).permutation(len(table.labels))
    halves = np.sort(shuffled[: len(shuffled) // 2]), np.sort(shuffled[len(shuffled) // 2 :])
    for place in (0, 1):
        yield Fold(table, halves[place], halves[1 - place], seed)


def orders_of(attributes: int) -> tuple[int, ...]:
    """Those that are tried of so many attributes."""
    return tuple(order for order in ORDERS if order <= attributes and comb(attributes, order) <= MOST_TUPLES)


def planned_trials(orders: tuple[int, ...]) -> list[Trial]:
    """Everything that is tried: baselines, no selection, every score at every share, at once and level by level."""
    trials = [Trial(0, "majority"), Trial(0, "forest"), Trial(0, "forest on bins")]
    for order in orders:
        trials += [Trial(order, name) for name in ("AnJE", "KDB", "sKDB")]
        trials.append(Trial(order, TupleChoice(order)))
        for share in SHARES:
            trials += [Trial(order, TupleChoice(order, score, share)) for score in SCORES]
            if order > 1:
                trials += [Trial(order, TupleChoice(order, score, share, by_level=True)) for score in SCORES[:2]]
                trials.append(Trial(order, TupleChoice(order, "mi", share, of_features=True)))
        for choice in variants(order):
            trials += [Trial(order, choice._replace(validation="reservoir")), Trial(order, choice, "mdl")]
    return trials


def variants(order: int) -> list[TupleChoice]:
    """Choices of which it is tried what the paper's validation, or other cuts, would change."""
    some = [TupleChoice(order, score, share) for share in (0.6, 0.1) for score in SCORES[:2]]
    return [TupleChoice(order), *some]


class FoldRunner:
    """Does trials on one fold; tables and scores are made once."""

    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._fitters: dict[Discretisation, tuple[DiscreteTable, TupleFitter]] = {}
        self._baselines: dict[Baseline, Callable[[int], TrialResult]] = {
            "majority": self._majority,
            "AnJE": self._anje,
            "KDB": lambda order: self._dependence(order, selective=False),
            "sKDB": lambda order: self._dependence(order, selective=True),
            "forest": lambda _order: self._forest(fold.table.values),
            "forest on bins": lambda _order: self._forest(self.discrete("quantile").codes.astype(np.float64)),
        }

    def run(self, trial: Trial) -> TrialResult:
        """Learn, and test."""
        if not isinstance(trial.method, TupleChoice):
            return self._baselines[trial.method](trial.order)
        table, fitter = self._fitter(trial.discretisation)
        # Where nothing can be cut, there may be fewer attributes than elsewhere.
        fitted = fitter.fit(trial.method._replace(order=min(trial.order, len(table.cardinalities))))
        return TrialResult(self._tested(fitted.model, table), fitted.model.parameters, fitted.step, fitted.seconds)

    def discrete(self, how: Discretisation) -> DiscreteTable:
        """The fold's rows, by cuts of those that teach."""
        return self._fitter(how)[0]

    def chosen_order(self) -> int:
        """The order that AnJE's error on a reservoir would choose."""
        table = self.discrete("quantile")
        folds = draw_reservoir(table.labels, self._fold.trained, self._fold.seed)
        return choose_order(table, folds, max(orders_of(len(table.cardinalities))))

    def _fitter(self, how: Discretisation) -> tuple[DiscreteTable, TupleFitter]:
        if how not in self._fitters:
            table = discretised(self._fold.table, self._fold.trained, how, BINS)
            folds = draw_reservoir(table.labels, self._fold.trained, self._fold.seed)
            self._fitters[how] = table, TupleFitter(table, folds)
        return self._fitters[how]

    def _tested(self, model: TupleModel, table: DiscreteTable) -> Worth:
        rows = model.prepare(table, self._fold.tested)
        return worth_of(model.log_probabilities(rows), rows.labels)

    def _majority(self, _order: int) -> TrialResult:
        labels, classes = self._fold.table.labels, len(self._fold.table.classes)
        shares = np.bincount(labels[self._fold.trained], minlength=classes) + 1.0
        logs = np.tile(np.log(shares / shares.sum()), (len(self._fold.tested), 1))
        return TrialResult(worth_of(logs, labels[self._fold.tested]), classes, np.nan, 0.0)

    def _anje(self, order: int) -> TrialResult:
        table, started = self.discrete("quantile"), time.perf_counter()
        attributes = len(table.cardinalities)
        model = count_model(table, self._fold.trained, all_tuples(attributes, min(order, attributes)))
        seconds = time.perf_counter() - started
        return TrialResult(self._tested(model, table), model.parameters, np.nan, seconds)

    def _dependence(self, order: int, *, selective: bool) -> TrialResult:
        """With one parent less than tuples of the order have attributes: both then see as many at once."""
        table, started = self.discrete("quantile"), time.perf_counter()
        fit = fit_dependence(table, self._fold.trained, self._fold.tested, order - 1, selective=selective)
        return TrialResult(fit.worth, fit.parameters, np.nan, time.perf_counter() - started)

    def _forest(self, values: NDArray[np.float64]) -> TrialResult:
        from sklearn.ensemble import RandomForestClassifier

        started = time.perf_counter()
        fold, classes = self._fold, len(self._fold.table.classes)
        forest = RandomForestClassifier(TREES, random_state=fold.seed)
        forest.fit(values[fold.trained], fold.table.labels[fold.trained])
        seconds = time.perf_counter() - started
        shares = np.zeros((len(fold.tested), classes))
        shares[:, forest.classes_] = forest.predict_proba(values[fold.tested])
        # A class for which no tree speaks is unlikely, and not impossible.
        logs = np.log((shares + 0.01 / classes) / 1.01)
        return TrialResult(worth_of(logs, fold.table.labels[fold.tested]), np.nan, np.nan, seconds)
