"""The default beside River's adaptive random forest of ten trees, on the sets that scikit-learn and River carry.

Both learn the same examples in the same order, in one pass, with no setting but the loss. The forest is given what is
absent as zeros, since its trees ask for each feature; sets of more than MOST_FEATURES are left out, for they would take
it hours. Where it fails (its trees of real-valued labels may be without bounds), the ratio counts as LEAST.

A SMALL set is learned in ORDERS orders, by as many seeds of the forest, and the means are compared: in one order of 150
examples chance has much to say. Sets of River's keep their order, which may be that of time.
"""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from study.carried_sets import CarriedSet, carried_sets, set_of_file
from study.experiments.defaults import SETS
from study.experiments.experiment import Experiment, Inquiry, StudyFinding, TableCell
from study.runs.carried_pass import pass_over_carried

MOST_FEATURES, TREES, LEAST = 500, 10, 0.1
SMALL, ORDERS = ("titanic", "digits", "wine", "iris", "breast cancer", "diabetes"), 20
_NO_ERROR = 1e-4  # is added to both errors of a ratio, so that an error of 0 counts as one in ten thousand


def _run(inquiry: Inquiry) -> Iterator[StudyFinding]:
    files = {name: set_of_file(data_set.path, inquiry.rows) for name, data_set in inquiry.sets.items()}
    given = {
        name: each
        for name, each in {**files, **dict(carried_sets(inquiry.rows))}.items()
        if len(np.unique(each.batch.keys)) <= MOST_FEATURES
    }
    rows: list[tuple[TableCell, ...]] = []
    ratios, speeds = list[float](), list[float]()
    for done, (name, each) in enumerate(given.items()):
        inquiry.tell(name, done, len(given))
        orders = list(in_orders(each, ORDERS if name in SMALL else 1))
        ours = [pass_over_carried(order, {}) for order in orders]
        theirs = [grown_forest(order, seed) for seed, order in enumerate(orders, 1)]
        own, own_time = np.mean([(one.error, one.microseconds) for one in ours], axis=0).tolist()
        error, microseconds = np.mean(theirs, axis=0).tolist()
        ratios.append(max((own + _NO_ERROR) / (error + _NO_ERROR), LEAST))
        speeds.append(microseconds / own_time)
        rows.append((name, own, error, ratios[-1], 1e6 / own_time, 1e6 / microseconds, speeds[-1]))
    inquiry.tell("all sets", len(given), len(given))
    rows.append(("geometric mean", None, None, geometric(ratios), None, None, geometric(speeds)))
    as_good = f"{sum(ratio <= 1.0 for ratio in ratios)} of {len(ratios)}"
    rows.append(("error at most the forest's", None, None, as_good, None, None, None))
    yield StudyFinding(
        "forest",
        f"Progressive error and examples a second, at most {inquiry.rows:,} examples a set",
        ("set", "error", "the forest's", "ratio", "examples/s", "the forest's examples/s", "ratio of speeds"),
        tuple(rows),
    )


def geometric(ratios: list[float]) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.log(ratios).mean()))


def rows_of(given: CarriedSet) -> Iterator[dict[int, float]]:
    """Yield each example by the numbers of its features, with zeros."""
    batch = given.batch
    names, numbers = np.unique(batch.keys, return_inverse=True)
    none = dict.fromkeys(range(len(names)), 0.0)
    for row in range(len(batch.labels)):
        span = slice(batch.indptr[row], batch.indptr[row + 1])
        yield none | dict(zip(numbers[span].tolist(), batch.values[span].tolist(), strict=True))


def grown_forest(given: CarriedSet, seed: int) -> tuple[float, float]:
    """Return the forest's progressive error, and microseconds of processor time an example."""
    from river import forest

    regression = given.loss == "squared"
    model: Any = (forest.ARFRegressor if regression else forest.ARFClassifier)(n_models=TREES, seed=seed)
    total, seconds = 0.0, 0.0
    for x, label in zip(rows_of(given), given.batch.labels.tolist(), strict=True):
        began = time.process_time()
        found = model.predict_one(x)
        model.learn_one(x, label)
        seconds += time.process_time() - began
        total += (float(found or 0.0) - label) ** 2 if regression else found != label
    return total / len(given.batch.labels), 1e6 * seconds / len(given.batch.labels)


def in_orders(given: CarriedSet, count: int) -> Iterator[CarriedSet]:
    """Yield the set as it is, and in `count` - 1 random orders."""
    yield given
    for seed in range(1, count):
        order = np.random.default_rng(seed).permutation(len(given.batch.labels))
        yield given._replace(batch=given.batch.select(order))


EXPERIMENT = Experiment(_run, SETS, ("river", "sklearn"))
