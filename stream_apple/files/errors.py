"""What is wrong with a piece of a file, and the numbers that a text may spell.

A `ParseError` says what was expected and what was found. The reader that catches it adds where that is.
"""

from collections.abc import Iterable
from math import isfinite
from typing import NoReturn

_LONGEST_SHOWN = 80
_TOO_LARGE = 2.0**60 - 2.0**35  # from here on a number becomes 2^60 as a 32-bit float, which is too large for a value


class ParseError(Exception):
    """A piece of a file is not what it must be. Whoever knows the file makes an InputFileError of it.

    expected  in words
    found     as it stands in the file; long text is cut
    """

    def __init__(self, expected: str, found: object) -> None:
        shown = found if isinstance(found, str) else repr(found)
        if len(shown) > _LONGEST_SHOWN:
            shown = f"{shown[:_LONGEST_SHOWN]}..."
        super().__init__(f"expected {expected}, found {shown}")


def number(what: str, text: str) -> float:
    """The finite number that `text` spells; ParseError otherwise."""
    value = spelled_number(text)
    if value is None or not isfinite(value):
        raise ParseError(f"a finite number as {what}", repr(text))
    return value


def refuse_value(name: str, found: object) -> NoReturn:
    """Raise ParseError: `found` is no value of a feature."""
    raise ParseError(f"a number below 2^60 in size as value of feature {name!r}", found)


def value_of(name: str, text: str) -> float:
    """The value of feature `name` that `text` spells, below 2^60 in size; ParseError otherwise."""
    value = spelled_number(text)
    if value is None or not are_values([value]):
        refuse_value(name, repr(text))
    return value


def are_values(numbers: Iterable[float]) -> bool:
    """Whether all `numbers` are below 2^60 in size as 32-bit floats."""
    # Written so that the loop is in C, and so that NaN fails.
    return all(map(_TOO_LARGE.__gt__, map(abs, numbers)))


def spelled_number(text: str) -> float | None:
    """The number that `text` spells, or None if it spells none."""
    try:
        return float(text) if spells_plainly(text) else None
    except ValueError:
        return None


def spells_plainly(text: str) -> bool:
    """Whether `text` has nothing that float() and int() accept beyond plain digits: 1_000, Arabic digits, space."""
    return text.isascii() and text.isprintable() and "_" not in text and " " not in text


def weight_of(text: str) -> float:
    """The importance that `text` spells: finite and not negative; ParseError otherwise."""
    value = number("weight", text)
    if value < 0:
        refuse_weight(text)
    return value


def refuse_weight(found: object) -> NoReturn:
    """Raise ParseError: `found` is a negative weight."""
    raise ParseError("a weight of at least 0", found)
