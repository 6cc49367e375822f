"""From what frames, arrays, and maps hold to values of Python, as `records/values.py` has them.

What a value becomes is not decided here, but by the mapper (`records/mapper.py`).
"""

import math
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from stream_apple.records.arrow_values import arrow_values, readable_type
from stream_apple.records.mapper import DEEPEST
from stream_apple.records.values import category_text

SCALARS = frozenset({bool, int, float, Decimal, UUID, date, time, datetime})
"""The types of single values of Python, other than text and bytes."""
_PLAIN = SCALARS | {str, bytes, type(None)}


class UnreadableCellError(ValueError):
    """A cell can't be read. The message says where it is, what was expected, and what was found."""


def python_value(cell: Any, depth: int = 1) -> Any:  # noqa: ANN401  anything that a cell may be
    """Return a cell as a value of Python, None if it is missing; other objects as they are, which the mapper refuses.

    depth  of the map that holds the cell; maps that are too deep for the mapper stay as they are
    """
    if type(cell) in _PLAIN:
        return cell
    if is_missing(cell):
        return None
    match cell:
        case np.generic():
            return _of_numpy(cell)
        case str():
            return str.__str__(cell)  # without what a subclass makes of it
        case int():
            return int(cell)
        case float():
            return float(cell)
        case datetime():  # pandas' have nanoseconds, which are cut as in Parquet
            return cell.to_pydatetime(warn=False) if hasattr(cell, "to_pydatetime") else cell
        case np.ndarray() if not cell.ndim:
            return python_value(cell[()], depth)
        case list() | tuple() | np.ndarray():
            return [python_value(item, depth + 1) for item in cell] if depth <= DEEPEST else list(cell)
        case Mapping():
            return python_record(cell, depth + 1) if depth <= DEEPEST else dict(cell)
    return cell


def python_record(row: Mapping[Any, Any], depth: int = 1) -> dict[str, Any]:
    """Return a map of values of Python, whose names are text; UnreadableCellError for two names of the same text."""
    found = {field_name(name): python_value(cell, depth) for name, cell in row.items()}
    if len(found) < len(row):
        names = [field_name(name) for name in row]
        refuse_repeated(next(name for place, name in enumerate(names) if name in names[:place]))
    return found


def refuse_repeated(name: str) -> None:
    """Raise UnreadableCellError for a name that occurs twice."""
    raise UnreadableCellError(f"expected each name once, found {name!r} again")


def _of_numpy(cell: np.generic) -> object:
    if isinstance(cell, np.bool_ | np.bytes_ | np.str_):
        return cell.item()
    if isinstance(cell, np.datetime64):
        found = cell.item()  # nanoseconds as an integer
        found = found if isinstance(found, date) else cell.astype("datetime64[us]").item()
        return found if isinstance(found, date) else cell
    if isinstance(cell, np.integer) and not isinstance(cell, np.timedelta64):
        return int(cell)
    return float(cell) if isinstance(cell, np.floating) else cell


def field_name(name: object) -> str:
    """Return the name of a column or of a map's field as text.

    Numbers, booleans, and times are spelled as categories are. The parts of a tuple, such as an n-gram of River or a
    column of pandas' MultiIndex, have spaces between them, as n-grams of scikit-learn have; empty parts are left out.
    """
    if type(name) is str:
        return name
    if isinstance(name, tuple):
        return " ".join(part for part in map(field_name, name) if part)
    found = None if is_missing(name) else category_text(python_value(name))
    if found is None:
        raise UnreadableCellError(
            f"expected a text, a number, a boolean, or a tuple of these as name of a feature, found {name!r}"
        )
    return found


def is_missing(value: object) -> bool:
    """Return whether a cell is None, NaN, pandas' NA or NaT."""
    if value is None:
        return True
    if isinstance(value, float | np.floating):
        return math.isnan(value)
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return type(value).__name__ in {"NAType", "NaTType"}


def unmasked(cells: Any) -> Any:  # noqa: ANN401  a table, or a column, of any kind
    """Return a masked array as one whose masked cells are missing, as NumPy's functions overlook masks; all else as is.

    Texts of any length become objects, too, as scikit-learn does not know their type.
    """
    if isinstance(cells, np.ndarray) and cells.dtype.kind == "T":
        cells = cells.astype(object)
    if not np.ma.is_masked(cells) or cells.dtype.kind == "V":
        return cells
    found = np.array(cells.data, np.float64 if cells.dtype.kind in "biuf" else object)
    found[np.ma.getmaskarray(cells)] = None  # of floats NaN
    return found


def dense_column(column: Any) -> Any:  # noqa: ANN401  a Series of narwhals
    """Return the column; of pandas' sparse ones, whose type says nothing of their cells, a dense one."""
    if str(column.dtype) != "Unknown" or not hasattr(native := column.to_native(), "sparse"):
        return column
    import narwhals.stable.v2 as nw

    return nw.from_native(native.sparse.to_dense(), series_only=True)


def distinct_values(column: Any, name: str) -> tuple[list[Any], NDArray[np.intp]]:  # noqa: ANN401
    """Return the different cells of a column, and the place of each cell among these, int[n]; -1 may be a missing one.

    UnreadableCellError as of `python_values`.
    """
    native = column.to_native()
    if hasattr(native, "factorize"):  # pandas does this without an object of Python for each cell
        codes, cells = native.factorize()
        found = list(cells)
        return _spelled(found) if _is_categorical(column) else found, codes
    values = python_values(column, name)
    places = {cell: place for place, cell in enumerate(dict.fromkeys(values))}
    return list(places), np.fromiter(map(places.__getitem__, values), np.intp, len(values))


def python_values(column: Any, name: str) -> list[Any]:  # noqa: ANN401  a Series of narwhals
    """Return the cells of a column; UnreadableCellError for those that Python can't hold.

    A cell of a type for categories is its text, as if the setting `categories` named the column.
    """
    if _is_categorical(column):
        return _spelled(column.to_list())
    native = column.to_native()
    if type(getattr(native, "dtype", None)).__name__ == "ArrowDtype":
        native = native.array.__arrow_array__()
    if not type(native).__module__.startswith("pyarrow"):
        found: list[Any] = column.to_list()
        return found
    try:
        kind = readable_type(native.type)
        return [value for chunk in native.chunks for value in arrow_values(chunk, kind)]
    except (ValueError, OverflowError, LookupError, NotImplementedError, TypeError):
        raise UnreadableCellError(
            f"column {name!r}: expected values of {native.type} that Python can hold, such as times from the year 1 to "
            f"9999, found others: ignore=[{name!r}] leaves the column out"
        ) from None


def _is_categorical(column: Any) -> bool:  # noqa: ANN401
    return str(column.dtype).startswith(("Categorical", "Enum"))


def _spelled(cells: list[Any]) -> list[Any]:
    """Return cells as the texts of categories; those that have none as they are."""
    values = (None if is_missing(cell) else python_value(cell) for cell in cells)
    return [value if (text := category_text(value)) is None else text for value in values]
