"""Parse errors, which say what was expected and what was found, and the numbers that texts spell.

Code that catches a `ParseError` adds the place.
"""

import json
from collections.abc import Iterable
from datetime import date, time
from decimal import Decimal
from math import isfinite, isnan
from typing import NoReturn
from uuid import UUID

LABELS = " (1 for yes, 0 for no; classes are 0, 1, 2 ...; input.label_map numbers words, as in no=0,yes=1)"
"""A hint about labels that are words: only the user knows which of them is 1."""
MOST_PARTS = 1 << 20
"""The most words, cells or values of one example: in memory they take up to a hundred times the bytes of their text."""

_LONGEST_SHOWN = 80
_TRUTHS = {"true": 1.0, "false": 0.0}
_TOO_LARGE = 2.0**60 - 2.0**35  # from here on a number becomes 2^60 as a 32-bit float, which is too large for a value


class ParseError(Exception):
    """A fault in a piece of input. Readers of files, which know the place, make an InputFileError of it.

    expected  what was expected, in words
    found     what was found, as it is in the input; long text is cut
    """

    def __init__(self, expected: str, found: object) -> None:
        shown = found if isinstance(found, str) else in_json(found)
        if len(shown) > _LONGEST_SHOWN:
            shown = f"{shown[:_LONGEST_SHOWN]}..."
        super().__init__(f"expected {expected}, found {shown}")
        self.expected = expected


def in_json(value: object) -> str:
    """Return a value as JSON writes it, or as Python writes it if JSON can't."""
    if isinstance(value, int | float | bytes) and not isinstance(value, bool):
        return repr(value)
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):  # times, keys that are no text, or a map that holds itself
        return str(value) if isinstance(value, date | time | UUID | Decimal) else repr(value)


def number(what: str, text: str) -> float:
    """Return the finite number that `text` spells; ParseError otherwise."""
    value = spelled_number(text)
    if value is None or not isfinite(value):
        raise ParseError(f"a finite number as {what}", repr(text))
    return value


def are_values(numbers: Iterable[float]) -> bool:
    """Return whether all `numbers` are below 2^60 in size as 32-bit floats."""
    # In this form the loop runs in C, and NaN fails.
    return all(map(_TOO_LARGE.__gt__, map(abs, numbers)))


def refuse_value(name: str, found: object) -> NoReturn:
    """Raise ParseError: `found` is no value of a feature."""
    raise ParseError(f"a number below 2^60 in size as value of feature {name!r}", found)


def spelled_number(text: str) -> float | None:
    """Return the number that `text` spells, or None if it spells none."""
    try:
        return float(text) if spells_plainly(text) else None
    except ValueError:
        return None


def spells_plainly(text: str) -> bool:
    """Return whether `text` has none of what float() accepts beyond plain numbers: 1_000, other digits, spaces."""
    return text.isascii() and text.isprintable() and "_" not in text and " " not in text


def spelled_label(text: str) -> float | None:
    """Return the label that `text` spells, a finite number, or true or false as 1 and 0; None if it spells none."""
    value = _TRUTHS.get(text.lower())
    if value is None:
        value = spelled_number(text)
    return value if value is not None and isfinite(value) else None


def label_of(text: str) -> float | None:
    """Return the label that `text` spells, None for NaN; ParseError unless it is a number that is finite or NaN."""
    value = spelled_number(text)
    return None if value is not None and isnan(value) else number("label", text)


def weight_of(text: str) -> float:
    """Return the importance that `text` spells: finite and not negative; ParseError otherwise."""
    value = number("weight", text)
    if value < 0:
        refuse_weight(text)
    return value


def refuse_weight(found: object) -> NoReturn:
    """Raise ParseError: `found` is a negative weight."""
    raise ParseError("a weight of at least 0", found)


def refuse_too_many_parts(what: str, found: int) -> NoReturn:
    """Raise ParseError: an example has more parts than MOST_PARTS."""
    raise ParseError(f"at most {MOST_PARTS:,} {what} in an example", f"{found:,}")


def check_parts(text: str, what: str, separators: str) -> None:
    """Raise ParseError for a text that would split into more than MOST_PARTS parts, before it is split.

    separators  characters that separate parts
    """
    if len(text) > MOST_PARTS and (found := sum(map(text.count, separators))) > MOST_PARTS:
        refuse_too_many_parts(what, found)
