"""The kinds of tables that estimators and models take, and what is no table."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, time, timedelta
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from stream_apple.library.cells import UnreadableCellError

_NO_NUMBERS = (date, time, timedelta, str, bytes, bool, np.bool_, np.complexfloating, np.datetime64, np.timedelta64)


def rows_of_maps(X: Any) -> list[Any] | None:  # noqa: ANN401, N803  scikit-learn's
    """Return the rows of a list, an array or a series whose first one is a map; None for any other table.

    UnreadableCellError for what is no table: a single map, an iterator, a text, a frame that has not been read yet.
    """
    if hasattr(X, "tocsr"):  # one kind of sparse matrices is a map
        return None
    if isinstance(X, Mapping | Iterator | AbstractSet | str | bytes) or type(X).__name__ == "LazyFrame":
        refuse_table(X)
    if type(X).__name__ == "Series" or (isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1):
        X = list(X)  # noqa: N806
    return list(X) if isinstance(X, Sequence) and X and isinstance(X[0], Mapping) else None


def refuse_table(X: object, expected: str = "a frame, an array, a sparse matrix or a list of maps") -> NoReturn:  # noqa: N803  scikit-learn's
    """Raise UnreadableCellError for what is no table."""
    raise UnreadableCellError(f"X: expected {expected}, found a {type(X).__name__}")


def array_of(rows: Sequence[Any]) -> NDArray[Any]:
    """Return a list of rows as an array whose cells have their own types; UnreadableCellError for different lengths."""
    try:
        cells = np.asarray(rows)
    except ValueError:
        lengths = [len(row) if isinstance(row, Sequence | np.ndarray) else 0 for row in rows]
        wrong = next((number for number, length in enumerate(lengths) if length != lengths[0]), 0)
        raise UnreadableCellError(
            f"X: expected rows of one length, found {lengths[0]} cells in row 0 and {lengths[wrong]} in row {wrong}"
        ) from None
    if cells.dtype.kind not in "US":
        return cells
    objects = np.asarray(rows, object)  # beside a text NumPy makes texts of numbers, too
    return cells if all(isinstance(cell, bytes) for cell in objects.flat) else objects


def are_numbers(cells: NDArray[Any]) -> bool:
    """Return whether all cells of an array are numbers, or it is one of booleans; UnreadableCellError for records."""
    if cells.dtype.kind == "V":
        raise UnreadableCellError(
            f"X: expected an array of numbers or texts, found one of records, {cells.dtype}: make a frame of it"
        )
    if cells.dtype.kind != "O":
        return cells.dtype.kind not in "USmM"
    return all(hasattr(cell, "__float__") and not isinstance(cell, _NO_NUMBERS) for cell in cells.flat)


def check_rows(cells: Any) -> None:  # noqa: ANN401  SciPy has no types
    """Raise UnreadableCellError for an array, or a sparse one, without rows of cells, such as a list of texts."""
    if cells.ndim != 2:
        raise UnreadableCellError(f"X: expected rows of cells, a two-dimensional array, found {cells.ndim} dimensions")


def maps_of(cells: NDArray[Any], names: Sequence[object] | None = None) -> list[dict[object, Any]]:
    """Return the rows of a two-dimensional array as maps from columns' names.

    names  None: the columns' numbers
    """
    try:
        texts = np.char.decode(cells, "utf-8") if cells.dtype.kind == "S" else cells
    except UnicodeDecodeError as error:
        raise UnreadableCellError(f"the array: expected texts in UTF-8, found {error.object!r}") from None
    known = range(cells.shape[1]) if names is None else names
    # NumPy makes integers of its own times in a list.
    rows = texts if cells.dtype.kind in "mM" else texts.tolist()
    return [dict(zip(known, row, strict=True)) for row in rows]
