"""What one value of a field is: the rules that all entrances share. docs/wire-format.md has them as a table.

Readers turn their formats into values of Python: None, bool, int, float, Decimal, str, UUID, bytes, datetime, date,
time, dict, and list. A format with types, such as JSON or Parquet, gives each value its type. A format that spells
everything as text, such as CSV, has only cells; `records/columns.py` makes values of them.
"""

import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

MISSING_CELLS = frozenset({"", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>", "#N/A", "#NA", "\\N"})
"""The cells that mean a missing value in formats without types: what pandas, R, MySQL, and Hive write."""

TRUTHS: Mapping[str, bool] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
"""The cells that are booleans in formats without types."""

AS_CATEGORY: tuple[type, ...] = (str, bool, UUID)
"""The types whose values are categories without being asked."""

_DIGITS_BELOW = 2.0**64
"""Whole floats below this size are spelled like the integers that they equal."""
_MOST_DIGITS = 200
"""A decimal of more digits before the point, or zeros behind it, is spelled with an exponent."""
_SINGLE = struct.Struct("<f")
_SINGLE_BELOW = 3e38


def is_absent(value: object) -> bool:
    """Return whether a value of a format with types is null, NaN, or an empty text."""
    return value is None or value == "" or value != value  # noqa: PLR0124  only NaN differs from itself


def category_text(value: object) -> str | None:
    """Return the text of a value as a category; None if it can't be one, as a list, or bytes that are not UTF-8.

    Equal numbers have one text, whatever their type: 7.1, Decimal("7.10"), and the 32-bit float 7.1 are `7.1`, and 7.0
    is `7`.
    """
    spell = _SPELLED.get(type(value))
    return spell(value) if spell is not None else None


def float_of(value: object) -> float | None:
    """Return a number or a boolean as a float, infinity if it is too large for one; None for other values."""
    if not isinstance(value, int | float | Decimal):
        return None
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def _of_float(value: float) -> str:
    if value.is_integer() and abs(value) < _DIGITS_BELOW:
        return str(int(value))
    # A 32-bit float that was read as one of 64 bits keeps its own short text. No other value is likely to equal it.
    if abs(value) < _SINGLE_BELOW and _as_single(value) == value:
        return next(
            repr(short) for digits in range(1, 18) if _as_single(short := float(f"{value:.{digits}g}")) == value
        )
    return repr(value)


def _as_single(value: float) -> float:
    """Return the nearest 32-bit float."""
    found: float = _SINGLE.unpack(_SINGLE.pack(value))[0]
    return found


def _of_decimal(value: Decimal) -> str:
    # Python's context rounds to 28 digits, and 1E+999999999 would have a billion: neither is used here.
    if not value.is_finite() or abs(value.adjusted()) > _MOST_DIGITS:
        return str(value)
    if value == value.to_integral_value():
        return str(int(value))
    near = float(value)
    return _of_float(near) if Decimal(repr(near)) == value else format(value, "f").rstrip("0")


def _of_bytes(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _of_time(value: datetime) -> str:
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat().replace("+00:00", "Z")


_SPELLED: Mapping[type, Callable[[Any], str | None]] = {
    str: str,
    bool: lambda value: "true" if value else "false",
    int: str,
    float: _of_float,
    Decimal: _of_decimal,
    UUID: str,
    bytes: _of_bytes,
    date: date.isoformat,
    time: time.isoformat,
    datetime: _of_time,
}
