"""The option that makes n-grams, neighbours in a text, features of their own."""

from collections.abc import Mapping
from typing import Any, SupportsIndex

from stream_apple.learners.declaration import IntegerBounds

NGRAM = IntegerBounds(1, 5)
ALL_NAMESPACES = "*"
"""In place of a namespace: all that are not named."""

Ngrams = tuple[tuple[str, int], ...]
"""(namespace, n), sorted by the namespace: what a learner keeps of the option."""


def checked_ngrams(given: Mapping[str, int] | Ngrams) -> Ngrams:
    """Return the sizes that have an effect; ValueError if one is out of bounds."""
    try:
        found: dict[Any, Any] = dict(given)
    except (TypeError, ValueError):
        raise ValueError(f"ngrams: expected namespaces and numbers, as in {{'text': 2}}, found {given!r}") from None
    others = found.get(ALL_NAMESPACES, 1)
    for name, size in found.items():
        bounds = IntegerBounds(NGRAM.low if name != ALL_NAMESPACES and others != 1 else 2, NGRAM.high)
        # An integer of NumPy is no int, but has an index, as its type in Python would be.
        whole = isinstance(size, SupportsIndex) and type(size) is not bool
        if not isinstance(name, str) or not whole or not bounds.hold(size.__index__()):
            raise ValueError(f"ngrams: expected {bounds} for {name!r}, found {size!r}")
    kept = {name: size for name, size in found.items() if name == ALL_NAMESPACES or size != others}
    return tuple(sorted(kept.items()))


def parse_ngrams(text: str) -> dict[str, int]:
    """Parse `text=2,title=3`, or the same as a table of TOML; ValueError for anything else.

    A name that has a comma can't be given so.
    """
    found: dict[str, int] = {}
    inner = text.strip()
    if inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1]
    for part in inner.split(",") if inner.strip() else ():
        name, equals, number = (each.strip() for each in part.rpartition("="))
        name = name[1:-1] if len(name) > 1 and name[0] == name[-1] == '"' else name
        if not equals or name in found or not number.isdecimal():
            raise ValueError(f"expected namespaces and numbers as in 'text=2,title=3', found {text!r}")
        found[name] = int(number)
    return found
