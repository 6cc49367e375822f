"""What a user says of an example besides its features: its label and its weight, checked before they are learned.

A model learns in 32 bits, so it takes no larger ones than a worker can be configured to take.
"""

from collections.abc import Hashable, Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_apple.library.cells import is_missing, unmasked

LARGEST_LABEL = 1e18
"""The bound of `limits.min_label` and `limits.max_label`."""
LARGEST_WEIGHT = 1e12
"""The bound of `limits.max_weight`."""


def checked_label(y: Any) -> float:  # noqa: ANN401  anything that may be a number
    """Return a label of the squared loss; ValueError for what is no finite number, or above LARGEST_LABEL in size."""
    found = _number("y", y)
    if not abs(found) <= LARGEST_LABEL:
        raise ValueError(f"y: expected a finite number of at most 1e18 in size, found {y!r}")
    return found


def checked_weight(w: Any) -> float:  # noqa: ANN401  anything that may be a number
    """Return a weight; ValueError for what is no number from 0 to LARGEST_WEIGHT."""
    found = _number("w", w)
    if not 0.0 <= found <= LARGEST_WEIGHT:
        raise ValueError(f"w: expected a finite weight from 0 to 1e12, found {w!r}")
    return found


def checked_labels(y: Any) -> NDArray[np.float64]:  # noqa: ANN401  anything that may be a column of numbers
    """Return labels of the squared loss, float64[n]; ValueError names the first row that is none."""
    found = _numbers("y", y)
    wrong = np.flatnonzero(~(np.abs(found) <= LARGEST_LABEL))
    if len(wrong):
        row = int(wrong[0])
        raise ValueError(
            f"y: expected finite numbers (no NaN, no infinity) of at most 1e18 in size, found {found[row]} in row {row}"
        )
    return found


def checked_weights(name: str, w: Any) -> NDArray[np.float64]:  # noqa: ANN401  anything that may be a column of numbers
    """Return weights, float64[n]; ValueError names the first row that `checked_weight` would refuse."""
    found = _numbers(name, w)
    wrong = np.flatnonzero(~((found >= 0.0) & (found <= LARGEST_WEIGHT)))
    if len(wrong):
        row = int(wrong[0])
        raise ValueError(f"{name}: expected finite weights from 0 to 1e12, found {found[row]} in row {row}")
    return found


def classes_in(labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels of classes as they are, but objects that are numbers as numbers.

    labels  of any type, one-dimensional

    ValueError names the first row without a label, or the types of labels that have no order among them.
    """
    cells: list[Any] = labels.tolist() if labels.dtype.kind == "O" else []
    match labels.dtype.kind:
        case "O":
            missing = np.array([is_missing(cell) for cell in cells], np.bool_)
        case "f":
            missing = np.isnan(labels)
        case "m" | "M":
            missing = np.isnat(labels)
        case "V":
            raise ValueError(f"y: expected texts, numbers or booleans as classes, found records, {labels.dtype}")
        case _:
            return labels
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        raise ValueError(f"y: expected a class in each row, found {labels.tolist()[row]!r} in row {row}")
    kinds = {_kind_of(cell) for cell in cells}
    if len(kinds) > 1:
        raise ValueError(f"y: expected classes of one type, found {' and '.join(sorted(kinds))}")
    return np.array(cells) if kinds == {"number"} else labels


def _kind_of(cell: object) -> str:
    if isinstance(cell, str):
        return "text"
    return "number" if isinstance(cell, Real | np.bool_) else type(cell).__name__


def checked_classes(classes: Any) -> list[Any]:  # noqa: ANN401  anything that may be a list
    """Return all labels that there will be; ValueError unless they are a list or so, and none of them is missing."""
    if isinstance(classes, str | bytes | Mapping) or not hasattr(classes, "__len__"):
        raise ValueError(f"classes: expected a list of labels, found {classes!r}")
    found = classes.to_pylist() if hasattr(classes, "to_pylist") else list(classes)  # pyarrow's cells are no labels
    for label in found:
        if not isinstance(label, Hashable) or is_missing(label):
            raise ValueError(f"classes: expected texts, numbers or booleans, found {label!r} among them")
    return found


def _number(name: str, value: Any) -> float:  # noqa: ANN401
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name}: expected a number, found {value!r}") from None


def _numbers(name: str, column: Any) -> NDArray[np.float64]:  # noqa: ANN401
    try:
        cells = np.asarray(unmasked(column))
    except ValueError:  # lists of several lengths among them
        cells = np.empty(len(column), object)
        for row, cell in enumerate(column):
            cells[row] = cell
    if cells.ndim != 1:
        raise ValueError(f"{name}: expected one number for each row, found {cells.ndim} dimensions")
    if cells.dtype.kind in "mMcV":
        raise ValueError(f"{name}: expected numbers, found {cells.dtype}")
    try:
        found: NDArray[np.float64] = cells.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        for row, cell in enumerate(cells.tolist()):
            try:
                float(cell)
            except (TypeError, ValueError, OverflowError):
                raise ValueError(f"{name}: expected numbers, found {cell!r} in row {row}") from None
        raise
    return found
