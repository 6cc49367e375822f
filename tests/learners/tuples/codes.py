"""Examples of attributes whose values are small whole numbers."""

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
from learners.batches import batch_of, key_of
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.learners.tuples.learner import TupleLearner
from stream_apple.learners.tuples.options import TupleOptions


def drawn_codes(size: int, cardinalities: list[int], seed: int) -> NDArray[np.int64]:
    """Return int64[size, attributes], uniform."""
    return np.random.default_rng(seed).integers(0, cardinalities, (size, len(cardinalities)))


def coded_batch(codes: NDArray[np.int64], positive: NDArray[np.bool_]) -> Batch:
    """Return rows of the categories `a0=...`, `a1=...`, and so on, with the labels 1 and -1."""
    names = [[f"a{at}={code}" for at, code in enumerate(row)] for row in codes.tolist()]
    return batch_of(names, np.ones(codes.shape, np.float32), np.where(positive, 1.0, -1.0), np.ones(len(codes)))


def number_batch(numbers: NDArray[np.float64], labels: NDArray[np.float64]) -> Batch:
    """Return rows of the numbers `n0`, `n1`, and so on; zeros are left out, as in sparse files."""
    rows = [np.flatnonzero(row) for row in numbers]
    names = [[f"n{at}" for at in row] for row in rows]
    values = np.concatenate([row[at] for row, at in zip(numbers, rows, strict=True)]).astype(np.float32)
    return batch_of(names, values, labels, np.ones(len(numbers)))


def tuple_key(*attributes: int) -> int:
    """Return the key of the tuple of these attributes of `coded_batch`."""
    return sum(key_of(f"a{at}") for at in attributes) % 2**64


def tuple_keys(attributes: Iterable[int], order: int) -> list[int]:
    """Return the keys of all tuples of so many of these attributes, ascending."""
    return sorted(tuple_key(*each) for each in itertools.combinations(attributes, order))


def tuple_learner(**given: Any) -> TupleLearner:
    """Return a learner of pairs that starts from 0, unless other options are given."""
    return TupleLearner(TupleOptions(**{"warm_start": "none", "bits": 14, **given}))
