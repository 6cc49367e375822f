"""Examples of attributes and values, as batches with attributes, for method tuples."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from stream_apple.core.batch import Batch

Features = Sequence[tuple[str, float]]
"""Names and values of an example; a name is `attribute=value`, or an attribute that has no values."""


class Case(NamedTuple):
    """One example."""

    features: Features
    label: float


def key_of_name(name: str) -> int:
    """Any good 64-bit hash will do."""
    return xxhash.xxh64_intdigest(name.encode())


def attribute_of(name: str) -> str:
    """What it is a value of."""
    return name.partition("=")[0]


def sum_of_keys(names: Sequence[str]) -> int:
    """The identity of a product, and of a tuple."""
    return sum(map(key_of_name, names)) % 2**64


def batch_of_cases(cases: Sequence[Case]) -> Batch:
    """Their arrays, with the attribute of each feature."""
    names = [name for case in cases for name, _ in case.features]
    return Batch(
        np.cumsum([0, *(len(case.features) for case in cases)]).astype(np.int64),
        np.array([key_of_name(name) for name in names], np.uint64),
        np.array([value for case in cases for _, value in case.features], np.float32),
        np.array([case.label for case in cases]),
        np.ones(len(cases)),
        attributes=np.array([key_of_name(attribute_of(name)) for name in names], np.uint64),
    )


def cases_of_codes(codes: NDArray[np.int64], positive: NDArray[np.bool_]) -> list[Case]:
    """Rows of whole numbers, int64[n, attributes], as examples of attributes `a0`, `a1`, ..."""
    return [
        Case([(f"a{at}={code}", 1.0) for at, code in enumerate(row)], 1.0 if label else -1.0)
        for row, label in zip(codes.tolist(), positive.tolist(), strict=True)
    ]
