"""Tuples of attributes: what selecting them costs and saves, by the learner `tuples`.

Zaidi, Petitjean, and Webb select among all tuples of n attributes (sALR), or level by level (hsALR). The learner does
both on a stream: it counts and learns in one pass, and selects at the ends of epochs. Single attributes, the product's
default, and a random forest on the numbers as they are stand next to it.
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
from stream_apple.learners.port import LearnerOptions
from stream_apple.learners.tuples.options import TupleOptions
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

ALL_TUPLES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "all tuples": {"warm_start": "none"},
        "from naive Bayes": {"warm_start": "naive_bayes"},
        "cuts by MDL": {"warm_start": "none", "discretise": "mdl"},
    }
)
SELECTIONS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        f"{selection}{label}": {"warm_start": "none", "selection": selection, "hierarchical": by_level}
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
    options: LearnerOptions


def baselines() -> dict[str, LearnerOptions]:
    """Return, by name, what learns without tuples: single attributes, and the product."""
    return {"single attributes": TupleOptions(order=1, warm_start="none"), "apple": Options(loss="logistic")}


def planned_trials() -> list[Trial]:
    """Return the baselines; then for each order all tuples, and each share of them by each selection."""
    trials = [Trial(name, 0, 1.0, options) for name, options in baselines().items()]
    for order in ORDERS:
        trials += [Trial(name, order, 1.0, TupleOptions(order=order, **given)) for name, given in ALL_TUPLES.items()]
        trials += [
            Trial(name, order, share, TupleOptions(order=order, selection_share=share, **given))
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


def _mean(found: list[Result], measure: str) -> float | None:
    values = [getattr(each, measure) for each in found]
    return None if None in values else fmean(values)


def _by_share(name: str, order: int, found: Mapping[Trial, list[Result]], forest: float) -> StudyFinding:
    """Return the paper's figure: test error by the share of tuples that is kept."""
    errors = {(trial.name, trial.order, trial.share): _mean(each, "test_error") for trial, each in found.items()}
    everything = errors["all tuples", order, 1.0]
    rows = [(f"{share:g}", *(errors[each, order, share] for each in SELECTIONS)) for share in SHARES]
    rows.append(("1", *[everything] * len(SELECTIONS)))
    x = (*SHARES, 1.0)
    curves = [PlotLine(each, x, _heights(row[place] for row in rows)) for place, each in enumerate(SELECTIONS, 1)]
    levels = {trial.name: errors[trial.name, 0, 1.0] for trial in found if not trial.order} | {FOREST: forest}
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
    for trial, figures in found.items():
        tuples = (trial.order, trial.share) if trial.order else (None, None)
        rows.append((trial.name, *tuples, *(_mean(figures, measure) for measure in measures)))
    rows.append((FOREST, None, None, forest, *[None] * (len(measures) - 1)))
    columns = ("learner", "order", "share", *(measure.replace("_", " ") for measure in measures))
    return StudyFinding(f"{slug(name)}-all", f"{name}: all that was tried", columns, tuple(rows))


EXPERIMENT = Experiment(_run, ("covtype", "letter", "magic04", "poker"), ("sklearn",))
