"""Small batches with all columns that any learner may want, and copies of learners by what the port offers."""

import itertools
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.learners.port import Learner
from stream_apple.learners.scores import Scores

CATEGORIES, NUMBERS = 4, 2
"""How many attributes of an example have categories, of which there are VALUES each, and how many are numbers."""
VALUES = 5
WIDE = 40
"""How many features an example of `wide_batch` has."""


def key_of(name: str) -> int:
    """Return the key of a feature or an attribute; any good 64-bit hash will do."""
    return xxhash.xxh64_intdigest(name.encode())


def drawn_batch(rows: int, seed: int = 0, *, loss: str = "logistic", classes: int = 0) -> Batch:
    """Return examples of CATEGORIES categories and NUMBERS numbers, whose label depends on one of each.

    Of 20 examples, one has no label on average, and one has the weight 0. The other weights are from 0.5 to 2.
    """
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, VALUES, (rows, CATEGORIES))
    numbers = generator.normal(size=(rows, NUMBERS))
    truth = (codes[:, 0] + codes[:, 1]) % VALUES / VALUES + 0.3 * numbers[:, 0]
    labels = labels_of(truth, loss, classes)
    weights = generator.uniform(0.5, 2.0, rows)
    chance = generator.uniform(size=rows)
    labels[chance < 0.05] = np.nan
    weights[chance > 0.95] = 0.0
    names = [
        [f"c{at}={code}" for at, code in enumerate(row)] + [f"n{at}" for at in range(NUMBERS)] for row in codes.tolist()
    ]
    values = np.concatenate([np.ones((rows, CATEGORIES)), numbers], axis=1).astype(np.float32)
    return batch_of(names, values, labels, weights)


def labels_of(truth: NDArray[np.float64], loss: str, classes: int) -> NDArray[np.float64]:
    """Return labels that the loss can learn, float64[n], which increase with `truth`."""
    if loss == "squared":
        return truth.copy()
    if loss == "logistic":
        return np.where(truth > np.median(truth), 1.0, -1.0)
    edges = np.quantile(truth, np.arange(1, classes) / classes)
    return np.searchsorted(edges, truth).astype(np.float64)


def batch_of(
    names: list[list[str]], values: NDArray[np.float32], labels: NDArray[np.float64], weights: NDArray[np.float64]
) -> Batch:
    """Return the batch of these rows; a feature's attribute is its name up to "=", and so is its namespace."""
    flat = [name for row in names for name in row]
    attributes = np.array([key_of(name.partition("=")[0]) for name in flat], np.uint64)
    return Batch(
        np.cumsum([0, *map(len, names)]).astype(np.int64),
        np.array([key_of(name) for name in flat], np.uint64),
        values.reshape(-1).astype(np.float32),
        labels,
        weights,
        spaces=attributes,
        attributes=attributes,
    )


def wide_batch(rows: int, seed: int = 0, *, loss: str = "logistic", classes: int = 0) -> Batch:
    """Return examples of WIDE features each, nearly all of which occur once in the batch."""
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, 1 << 40, (rows, WIDE)).tolist()
    names = [[f"w{at}={code}" for at, code in enumerate(row)] for row in codes]
    labels = labels_of(generator.normal(size=rows), loss, classes)
    return batch_of(names, np.ones((rows, WIDE), np.float32), labels, np.ones(rows))


def with_value(batch: Batch, feature: int, value: float) -> Batch:
    """Return the batch with another value of one of its features, counted over all rows."""
    values = batch.values.copy()
    values[feature] = value
    return batch._replace(values=values)


def overflow(learner: Learner) -> None:
    """Make all floating-point numbers of the learner's rows infinite, as weights would be after an overflow."""
    for array in learner.state.rows.values():
        for field in array.dtype.names or (Ellipsis,):
            if array[field].dtype.kind == "f":
                array[field] = np.inf


def copy_of(learner: Learner) -> Learner:
    """Return a new learner that has taken over the state, as one that is restored from a snapshot does."""
    make: Any = type(learner)
    other: Learner = make(learner.options)
    rows = other.state.rows
    for name, array in learner.state.rows.items():
        rows[name][...] = array
    other.restore({name: array.copy() for name, array in learner.state.sums.items()})
    other.restore_observed({name: array.copy() for name, array in learner.observed.items()})
    return other


def scores_of(learner: Learner, batch: Batch) -> Scores:
    """Return the scores of all rows, which are not learned."""
    scores = Scores.empty(len(batch.labels), learner.options.classes)
    learner.score_rows(batch, 0, len(batch.labels), scores)
    return scores


def learn_all(learner: Learner, batch: Batch, ends: tuple[int, ...] = (), parts: tuple[int, ...] = ()) -> Scores:
    """Learn all rows and return their scores.

    ends   the rows before which an epoch ends, as far as there are such rows
    parts  the rows at which a call of `learn` ends, in addition
    """
    size = len(batch.labels)
    scores = Scores.empty(size, learner.options.classes)
    bounds = sorted({0, size, *(bound for bound in (*ends, *parts) if bound < size)})
    for start, stop in itertools.pairwise(bounds):
        if start in ends:
            learner.end_epoch()
        learner.learn(batch, start, stop, scores)
    return scores


def same_scores(one: Scores, other: Scores) -> bool:
    """Return whether all columns are equal to the bit; NaN equals NaN."""
    columns: Any = zip(one, other, strict=True)
    return all(np.array_equal(left, right, equal_nan=True) for left, right in columns)
