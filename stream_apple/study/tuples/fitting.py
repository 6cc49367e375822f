"""sALR and hsALR from discretised rows to a model: reservoir, selection, counting, step size, passes.

Two ways to validate. The paper's trains on nine tenths of the reservoir and tests on the last tenth: its steps are
those of few rows, too small for many, and a tenth of the reservoir can't tell them apart. Ours trains as the model
itself will, and tests on the whole reservoir; it takes as many times longer as there are more rows.
"""

import time
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.study.tuples.attributes import Codes
from stream_apple.study.tuples.discretisation import DiscreteTable
from stream_apple.study.tuples.index import Members, all_tuples, index_features
from stream_apple.study.tuples.measures import worth_of
from stream_apple.study.tuples.model import TupleModel, count_known, count_model
from stream_apple.study.tuples.selection import (
    errors_without,
    mutual_information,
    select_by_level,
    select_features,
    select_tuples,
)
from stream_apple.study.tuples.step_search import search_step

TupleScore = Literal["mi", "cv", "random"]
Validation = Literal["learned", "reservoir"]

PASSES = 5
RESERVOIR = 0.05
"""Share of the training rows that validate, and are not learned from."""
LEAST_RESERVOIR = 2_000
"""Of fewer rows, a tenth says little: 47 of them chose a step whose error was a third above that of a good one."""
MOST_RESERVOIR = 0.2
"""Share of the training rows that the reservoir has at most, however few they are."""

_LEARNED = 0.9  # of the reservoir, in the paper's way, while a step size is tried; the rest says how good it was
_CV_LEARNED, _CV_TRIED = 0.6, 0.7  # while tuples are scored: learned up to here, steps are tested up to here


class TupleChoice(NamedTuple):
    """Which tuples a model is to have, and how that is found out.

    order        how many attributes each has
    score        what tuples are selected by
    share        of the tuples that is kept, t of the paper; 1 is no selection
    by_level     hsALR: candidates of an order are what was kept of the order before
    of_features  hsALR(*): the same, but it is features that are kept, by information; `score` says nothing then
    validation   which rows teach the models that are only tried
    """

    order: int
    score: TupleScore = "mi"
    share: float = 1.0
    by_level: bool = False
    of_features: bool = False
    validation: Validation = "learned"


class Folds(NamedTuple):
    """Rows that a model is made from, each in the order in which it is learned.

    learned    int64[m]
    reservoir  int64[r]: validates step sizes, and what tuples are worth
    seed       of what is drawn
    """

    learned: NDArray[np.int64]
    reservoir: NDArray[np.int64]
    seed: int


class FittedModel(NamedTuple):
    """A model, the step size it has learned with, and the seconds that all of it took."""

    model: TupleModel
    step: float
    seconds: float


def draw_reservoir(labels: Codes, rows: NDArray[np.int64], seed: int) -> Folds:
    """Shuffle the rows, and take the reservoir out: of each class the same share, which see RESERVOIR."""
    shuffled = np.random.default_rng(seed).permutation(rows)
    wanted = max(RESERVOIR * len(rows), min(LEAST_RESERVOIR, MOST_RESERVOIR * len(rows)))
    is_drawn = np.zeros(len(rows), np.bool_)
    for each in np.unique(labels[rows]):
        of_class = np.flatnonzero(labels[shuffled] == each)
        is_drawn[of_class[: round(len(of_class) * wanted / len(rows))]] = True
    return Folds(shuffled[~is_drawn], shuffled[is_drawn], seed)


class TupleFitter:
    """Makes models of one table from the same rows; what was scored once is not scored again."""

    def __init__(self, table: DiscreteTable, folds: Folds) -> None:
        self._table = table
        self._folds = folds
        self._scored: dict[tuple[str, str, int, bytes], tuple[NDArray[np.float64], float]] = {}

    def fit(self, choice: TupleChoice, passes: int = PASSES) -> FittedModel:
        """A model of the tuples that are chosen, learned in so many passes; seconds are as if nothing had been kept."""
        started, saved = time.perf_counter(), 0.0

        def score(members: Members) -> NDArray[np.float64]:
            nonlocal saved
            key = (choice.score, choice.validation, members.shape[1], members.tobytes())
            known = key in self._scored
            if not known:
                begun = time.perf_counter()
                scores = score_tuples(self._table, self._folds, choice, members)
                self._scored[key] = scores, time.perf_counter() - begun
            scores, seconds = self._scored[key]
            saved += seconds if known else 0.0
            return scores

        learned = self._folds.learned
        if choice.of_features:
            known = select_features(self._table, learned, choice.order, choice.share)
        else:
            select = select_by_level if choice.by_level else select_tuples
            members = select(self._table, choice.order, choice.share, score)
            known = index_features(self._table, learned, members)
        model = count_known(self._table, learned, known)
        reservoir = self._folds.reservoir
        cut = int(_LEARNED * len(reservoir))
        tried, tested = (learned, reservoir) if choice.validation == "learned" else (reservoir[:cut], reservoir[cut:])
        step = best_step(model, self._table, tried, tested)
        model.learn(model.prepare(self._table, learned), step, passes)
        return FittedModel(model, step, time.perf_counter() - started + saved)


def best_step(model: TupleModel, table: DiscreteTable, learned: NDArray[np.int64], tested: NDArray[np.int64]) -> float:
    """The step size with which a model that learns some rows has the least error on others."""
    learning, testing = model.prepare(table, learned), model.prepare(table, tested)

    def error_of(step: float) -> float:
        tried = model.unlearned()
        tried.learn(learning, step, PASSES)
        return worth_of(tried.log_probabilities(testing), testing.labels).rmse

    return search_step(error_of)


def score_tuples(table: DiscreteTable, folds: Folds, choice: TupleChoice, members: Members) -> NDArray[np.float64]:
    """float64[t]: what each of the tuples is worth, the greater the more.

    mi      mutual information with the class, by the counts of the rows that are learned
    cv      the error without it on rows of the reservoir, by a model that has learned all of them on other rows
    random  drawn
    """
    if choice.score == "random":
        return np.random.default_rng([folds.seed, members.shape[1]]).random(len(members))
    model = count_model(table, folds.learned, members)
    if choice.score == "mi":
        return mutual_information(model, np.bincount(table.labels[folds.learned], minlength=table.classes))
    learned, tried, tested = folds.learned, folds.reservoir, folds.reservoir
    if choice.validation == "reservoir":
        ends = [int(part * len(folds.reservoir)) for part in (_CV_LEARNED, _CV_TRIED)]
        learned, tried, tested = np.split(folds.reservoir, ends)
    step = best_step(model, table, learned, tried)
    model.learn(model.prepare(table, learned), step, PASSES)
    return errors_without(model, model.prepare(table, tested))


def choose_order(table: DiscreteTable, folds: Folds, most: int) -> int:
    """The order up to which AnJE becomes better, by its error on the reservoir; at most `most`."""
    best, chosen = np.inf, 0
    for order in range(1, min(most, len(table.cardinalities)) + 1):
        model = count_model(table, folds.learned, all_tuples(len(table.cardinalities), order))
        rows = model.prepare(table, folds.reservoir)
        error = worth_of(model.log_probabilities(rows), rows.labels).rmse
        if error >= best:
            break
        best, chosen = error, order
    return chosen
