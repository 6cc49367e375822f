"""What the payloads of all formats have in common: how much one may hold, decimals, and what a dead letter says.

A payload of a few bytes can stand for millions of values. So a format counts the parts of a payload before a library
makes values of it, and refuses a payload that has too many.
"""

from collections.abc import Callable
from decimal import Context, Decimal
from typing import NoReturn

from stream_apple.records.message.json_text import MOST_NESTED
from stream_apple.records.message.reasons import Reason
from stream_apple.records.parsing import RefusedError

Parse = Callable[[bytes], object]
"""Returns what a payload of one schema holds, in Python's own types; RefusedError if it does not fit the schema."""

MOST_PARTS = 70_000
"""The most values of one payload: each record, message, list, map, field, key, and item is one. There is room for
65,536 features, the most that `limits.max_features` allows."""
MOST_DECIMAL_BYTES = 64
"""The time to read a decimal is quadratic in its size."""

# Python's own context rounds to 28 digits, which would make one category of many long identifiers.
_EXACT = Context(prec=3 * MOST_DECIMAL_BYTES)


class SchemaError(Exception):
    """No payload of this schema can be read; the text says why, after "schema 5 can't be read:"."""


def decimal_of(unscaled: bytes, scale: int) -> Decimal:
    """Return unscaled / 10^scale exactly; `unscaled` is a big-endian integer in two's complement.

    ValueError if it has more than MOST_DECIMAL_BYTES, ArithmeticError if `scale` is too large for a decimal.
    """
    if len(unscaled) > MOST_DECIMAL_BYTES:
        raise ValueError(f"expected a decimal of at most {MOST_DECIMAL_BYTES} bytes, found {len(unscaled)}")
    return Decimal(int.from_bytes(unscaled, "big", signed=True)).scaleb(-scale, _EXACT)


def refuse_parts(expected: str) -> NoReturn:
    """Raise RefusedError: a payload has more than MOST_PARTS parts."""
    raise RefusedError(Reason.TOO_MANY_FEATURES, f"{expected} with at most {MOST_PARTS:,} values", "more")


def refuse_depth(expected: str) -> NoReturn:
    """Raise RefusedError: the records, lists, and maps of a payload are nested more than MOST_NESTED deep."""
    raise RefusedError(Reason.TOO_DEEP, f"{expected} nested at most {MOST_NESTED} deep", "more")


def fault_of(error: Exception) -> str:
    """Return what a library has found in a payload, in words that no version of the library changes."""
    if isinstance(error, EOFError):
        return "bytes that end within a value"
    if isinstance(error, UnicodeDecodeError):
        return "text that is not UTF-8"
    if isinstance(error, ArithmeticError):
        return "a date, a time, or a decimal out of range"
    return "bytes that do not fit it"
