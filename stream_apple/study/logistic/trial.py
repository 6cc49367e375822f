"""How a model of this folder, or the product's learner on the same examples, is tried: rows, split, one pass, error."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.learner.learner import Learner, Scores
from stream_apple.core.learner.options import Options
from stream_apple.offline.evaluation import Schedule
from stream_apple.study.data_sets import DataSet
from stream_apple.study.logistic.hashing import mixed
from stream_apple.study.logistic.sparse_rows import SparseRows, rows_of
from stream_apple.study.preparation import load_arrays, prepare


def load_rows(data_set: DataSet, most: int, folder: Path) -> tuple[SparseRows, NDArray[np.uint64]]:
    """The set as rows of columns, at most so many, and the columns' keys.

    folder  keeps it as arrays
    InputFileError for what can't be read, and for labels that are not two.
    """
    return rows_of(load_arrays(prepare(data_set, most, "logistic", folder).arrays))


def parts_of(count: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows to learn, in the order learned, and those to test on: the split of all the study's runs."""
    order = np.random.default_rng(seed).permutation(count)
    learned = count - int(count * Schedule().test_fraction)
    return order[:learned], order[learned:]


def share_wrong(scores: NDArray[np.float64], labels: NDArray[np.float64]) -> float:
    """Of scores, log-odds, those on the wrong side; labels are 0 and 1."""
    return float(((scores > 0.0) != (labels > 0.5)).mean())


def product_scores(learned: SparseRows, tested: SparseRows, options: Options) -> NDArray[np.float64]:
    """Scores float64[n] of the rows to test, after one pass of the product's learner over the others."""
    logistic = options.loss == "logistic"
    batch = batch_of(learned, logistic=logistic)
    learner = Learner(options)
    learner.learn(batch, 0, len(batch.labels), Scores.empty(len(batch.labels)))
    return learner.predict(batch_of(tested, logistic=logistic))


def batch_of(rows: SparseRows, *, logistic: bool) -> Batch:
    """The same examples for the product; logistic: labels are -1 and 1.

    A column's key is a hash of its number: the table takes its buckets from keys, and expects them to be even.
    """
    keys = mixed(rows.columns.astype(np.uint64), seed=2)
    values = rows.values.astype(np.float32)
    labels = 2.0 * rows.labels - 1.0 if logistic else rows.labels
    return Batch(rows.indptr, keys, values, labels, np.ones(len(labels)))
