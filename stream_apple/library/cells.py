"""From one cell of a table, or one value of a map, to the key and the value of a feature, or to nothing.

The rules are those of the section `input` (`records/mapper.py`) or those of the product's own message, as
`CellRules` says; the keys are the codec's.
"""

import math
import reprlib
from collections.abc import Callable
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn

import numpy as np

from stream_apple.core.batch import TOO_LARGE
from stream_apple.records.message.feature_hashing import feature_key
from stream_apple.records.values import category_text

_MOST_REMEMBERED = 1 << 18  # texts of one column whose keys are kept: a column of identifiers has ever more
_PACKED = frozenset({"indices", "values"})
ABSENT = 0
"""The key of a cell that its row does not have."""
TIMES = date | time | timedelta | np.datetime64 | np.timedelta64
"""The types of times, of Python, pandas and NumPy; NumPy takes its spans of time for integers."""


class CellRules(NamedTuple):
    """How cells are read where the section `input` and the product's own message differ.

    booleans_are_categories  true is the category `name=true`, else the number 1
    empty_is_absent          an empty text is a missing cell, else the category `name=`
    may_be_packed            `indices` and `values` may be the bytes of packed features, and a text there is refused
    """

    booleans_are_categories: bool = True
    empty_is_absent: bool = True
    may_be_packed: bool = False


RECORD = CellRules()
"""The rules by which the section `input` reads a record of another shape."""
MESSAGE = CellRules(booleans_are_categories=False, empty_is_absent=False, may_be_packed=True)
"""The rules by which the stream's own message is read."""


class UnreadableCellError(ValueError):
    """A cell can't be the value of a feature. The message says which column, what was expected, and what was found."""


def text_of(value: object, where: str) -> str:
    """Return a category's text, as the section `input` spells it; UnreadableCellError for what has no spelling."""
    cell = value.item() if isinstance(value, np.generic) else str(value) if isinstance(value, str) else value
    if isinstance(cell, str | int | float | Decimal):
        text = category_text(cell)
        if text is not None:
            return text
    raise UnreadableCellError(f"{where}: expected a text, a number or a boolean as category, found {value!r}")


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


class ColumnKeys(dict[Any, int]):
    """The keys of one column's categories by cell, made when a cell first occurs; ABSENT for a missing cell.

    Cells are texts and booleans.

    note  is called with key and name of each new category
    """

    def __init__(self, name: str, reading: CellRules, note: Callable[[int, str], None]) -> None:
        super().__init__()
        self._name = name
        self._reading = reading
        self._note = note

    def __missing__(self, cell: object) -> int:
        if is_missing(cell) or (cell == "" and self._reading.empty_is_absent):
            return ABSENT
        if self._reading.may_be_packed and self._name in _PACKED:
            raise UnreadableCellError(
                f"column {self._name!r}: expected numbers, or bytes as packed features, found the text {cell!r}"
            )
        full = f"{self._name}={text_of(cell, f'column {self._name!r}')}"
        key = key_of_name(full)
        self._note(key, full)
        if len(self) < _MOST_REMEMBERED:
            self[cell] = key
        return key


def key_of_name(name: str) -> int:
    """Return the key of a feature of this name; UnreadableCellError if UTF-8 can't hold the name."""
    try:
        return feature_key(name)
    except UnicodeEncodeError as error:
        refuse_surrogate(error)


def refuse_surrogate(error: UnicodeEncodeError) -> NoReturn:
    """Raise UnreadableCellError for a text with half a character, which no message can hold."""
    half = error.object[error.start]
    raise UnreadableCellError(
        f"feature {error.object!a}: expected text that UTF-8 can hold, found the lone surrogate {half!a}"
    ) from error


def number_of(value: Any, where: str) -> np.float32:  # noqa: ANN401  any number
    """Return the value of a feature; UnreadableCellError if it is infinite, or 2^60 or more in size."""
    try:
        with np.errstate(over="ignore"):  # what overflows is refused below, in words
            number = np.float32(value)
    except OverflowError:  # an integer that no float holds
        refuse_number(value, where)
    if not abs(number) < TOO_LARGE and not math.isnan(number):
        refuse_number(value, where)
    return number


def refuse_number(value: object, where: str) -> NoReturn:
    """Raise UnreadableCellError for a number that can't be the value of a feature."""
    found = value.item() if isinstance(value, np.generic) else value
    raise UnreadableCellError(
        f"{where}: expected a finite number below 2^60 (1.15e18) in size, found {reprlib.repr(found)}"
    )


def refuse_time(where: str, found: object) -> NoReturn:
    """Raise UnreadableCellError for a time: only the user knows which part of it matters."""
    raise UnreadableCellError(
        f"{where}: expected a number, a text, a category or a boolean, found {found}: say what of the time matters, "
        f"such as its hour and its weekday, as features of their own"
    )
