"""What readers refuse of a piece of a file: more parts than any example has, and names that it has not."""

from collections.abc import Collection
from typing import NoReturn

from stream_apple.core.input.spelling import ParseError
from stream_apple.nearest_names import nearest_names

MOST_PARTS = 1 << 20
"""Words, cells or values of one example, features or not: they take up to a hundred times the bytes that spell them."""

_LONGEST_SHOWN = 80
_LONGEST_NAME = 16  # of several that are shown


def refuse_too_many_parts(what: str, found: int) -> NoReturn:
    """Raise ParseError: an example has more parts than any may have."""
    raise ParseError(f"at most {MOST_PARTS:,} {what} in an example", f"{found:,}")


def check_parts(text: str, what: str, separators: str) -> None:
    """Raise ParseError for a text that would split into too many parts, before any of them is made.

    separators  characters between which a part may lie
    """
    if len(text) > MOST_PARTS and (found := sum(map(text.count, separators))) > MOST_PARTS:
        refuse_too_many_parts(what, found)


def missing(wanted: str, known: Collection[str]) -> str:
    """Return, for an error, what was found for the column or key `wanted`: all that there are, or the nearest."""
    listed = ", ".join(map(repr, known)) if len(known) <= _LONGEST_SHOWN // 2 else ""
    if known and 0 < len(listed) < _LONGEST_SHOWN - len("only "):
        return f"only {listed}"
    near = nearest_names(wanted, known, 3)
    if near:
        return f"{len(known):,} others, the nearest {', '.join(map(_shortened, near))}"
    names = list(known)
    return f"{len(names):,} others, from {_shortened(names[0])} to {_shortened(names[-1])}" if names else "none"


def _shortened(name: str) -> str:
    return repr(name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}...")
