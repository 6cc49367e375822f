"""Tuples of attributes: what selecting them costs and saves, by method `tuples` of the learner.

Zaidi, Petitjean and Webb select among all tuples of n attributes (sALR), or level by level (hsALR). The learner does
both on a stream: it counts and learns in one pass, and selects at the ends of epochs. Beside it stand its other methods
on the same intervals, and a random forest on the numbers as they are.
"""

from collections.abc import Iterator, Mapping
from statistics import fmean
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.errors import InputFileError
from stream_apple.learners.apple.options import Options
from stream_apple.offline.evaluation import Result, evaluate, split
from stream_apple.offline.schedule import Schedule
from study.experiments.experiment import Experiment, Inquiry, Plot, PlotLine, StudyFinding, TableCell, slug
from study.preparation import load_set

ORDERS = (2, 3)
SHARES = (0.1, 0.2, 0.4, 0.6, 0.8, 0.9)
"""The shares of the tuples that are kept: the paper's t."""
MOST_FEATURES = 512
"""A wider set has words for features: it has too many tuples."""
TREES = 100
FOREST = "random forest"

_INTERVALS: Mapping[str, Any] = MappingProxyType({"loss": "logistic", "discretise": "quantile", "bins": 16})
"""So many bins give each of a few whole numbers, such as the ranks of cards, an interval of its own."""
_BY_DESCRIPTION: Mapping[str, Any] = MappingProxyType({"discretise": "mdl", "bins": None})

BASELINES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {name: {"method": name} for name in ("linear", "quadratic", "apple")}
)
ALL_TUPLES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {"all tuples": {}, "from naive Bayes": {"warm_start": "naive_bayes"}, "cuts by MDL": _BY_DESCRIPTION}
)
SELECTIONS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        f"{selection}{label}": {"selection": selection, "hierarchical": by_level}
        for label, by_level in (("", False), (", by level", True))
        for selection in ("mi", "cv")
    }
)
"""Each mapping has a name for the tables, and options of the learner."""


class Trial(NamedTuple):
    """One way to learn. The order is 0 for methods without tuples."""

    name: str
    order: int
    share: float
    options: Options


def planned_trials() -> list[Trial]:
    """Return the baselines; then for each order all tuples, and each share of them by each selection."""
    trials = [Trial(name, 0, 1.0, Options(**_INTERVALS, **given)) for name, given in BASELINES.items()]
    for order in ORDERS:
        tuples = {**_INTERVALS, "method": "tuples", "order": order}
        trials += [Trial(name, order, 1.0, Options(**{**tuples, **given})) for name, given in ALL_TUPLES.items()]
        trials += [
            Trial(name, order, share, Options(**tuples, **given, selection_share=share))
            for name, given in SELECTIONS.items()
            for share in SHARES
        ]
    return trials


def _run(inquiry: Inquiry) -> Iterator[StudyFinding]:
    trials = planned_trials()
    for name, data_set in inquiry.sets.items():
        batch = load_set(data_set, inquiry.rows, inquiry.out / "sets", frozenset({"attributes"}))
        if (features := len(np.unique(batch.keys))) > MOST_FEATURES:
            raise InputFileError(f"{data_set.path}: expected at most {MOST_FEATURES} features, found {features:,}")
        found: dict[Trial, list[Result]] = {}
        for done, trial in enumerate(trials):
            inquiry.tell(name, done, len(trials) + 1)
            schedules = [Schedule(seed=seed) for seed in range(inquiry.seeds)]
            found[trial] = [evaluate(batch, trial.options, schedule).result for schedule in schedules]
        inquiry.tell(name, len(trials), len(trials) + 1)
        forest = fmean(forest_error(batch, seed) for seed in range(inquiry.seeds))
        inquiry.tell(name, len(trials) + 1, len(trials) + 1)
        for order in ORDERS:
            yield _by_share(name, order, found, forest)
        yield _everything(name, found, forest)


def forest_error(batch: Batch, seed: int) -> float:
    """Return the test error of a random forest on the same split, on the numbers as they are."""
    from sklearn.ensemble import RandomForestClassifier

    columns = np.unique(batch.keys)
    trained, tested = split(batch, Schedule(seed=seed))
    forest = RandomForestClassifier(TREES, random_state=seed)
    forest.fit(_dense(trained, columns), trained.labels)
    return float((forest.predict(_dense(tested, columns)) != tested.labels).mean())


def _dense(batch: Batch, columns: NDArray[np.uint64]) -> NDArray[np.float32]:
    matrix = np.zeros((len(batch.labels), len(columns)), np.float32)
    rows = np.repeat(np.arange(len(batch.labels)), np.diff(batch.indptr))
    matrix[rows, np.searchsorted(columns, batch.keys)] = batch.values
    return matrix


def _mean(results: list[Result], measure: str) -> float | None:
    values = [getattr(result, measure) for result in results]
    return None if None in values else fmean(values)


def _by_share(name: str, order: int, found: Mapping[Trial, list[Result]], forest: float) -> StudyFinding:
    """Return the paper's figure: test error by the share of tuples that is kept."""
    errors = {(trial.name, trial.order, trial.share): _mean(results, "test_error") for trial, results in found.items()}
    everything = errors["all tuples", order, 1.0]
    rows = [(f"{share:g}", *(errors[each, order, share] for each in SELECTIONS)) for share in SHARES]
    rows.append(("1", *[everything] * len(SELECTIONS)))
    x = (*SHARES, 1.0)
    curves = [PlotLine(each, x, _heights(row[place] for row in rows)) for place, each in enumerate(SELECTIONS, 1)]
    levels = {each: errors[each, 0, 1.0] for each in BASELINES} | {FOREST: forest}
    curves += [PlotLine(each, (0.0,), _heights([error])) for each, error in levels.items()]
    return StudyFinding(
        f"{slug(name)}-by-share-{order}",
        f"{name}: test error by the share of the tuples of {order} attributes that is kept",
        ("share", *SELECTIONS),
        tuple(rows),
        plot=Plot("share", "test error", tuple(curves)),
    )


def _heights(cells: Iterator[TableCell] | list[float | None]) -> tuple[float, ...]:
    return tuple(cell if isinstance(cell, float) else float("nan") for cell in cells)


def _everything(name: str, found: Mapping[Trial, list[Result]], forest: float) -> StudyFinding:
    measures = ("test_error", "test_loss", "progressive_loss", "features_per_example", "seconds")
    rows: list[tuple[TableCell, ...]] = []
    for trial, results in found.items():
        tuples = (trial.order, trial.share) if trial.order else (None, None)
        rows.append((trial.name, *tuples, *(_mean(results, measure) for measure in measures)))
    rows.append((FOREST, None, None, forest, *[None] * (len(measures) - 1)))
    columns = ("learner", "order", "share", *(measure.replace("_", " ") for measure in measures))
    return StudyFinding(f"{slug(name)}-all", f"{name}: all that was tried", columns, tuple(rows))


EXPERIMENT = Experiment(_run, ("covtype", "letter", "magic04", "poker"), ("sklearn",))
