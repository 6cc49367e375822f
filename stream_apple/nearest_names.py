"""Which of the known names somebody may have meant who has written another: settings, columns, keys."""

import difflib
from collections.abc import Collection, Iterable
from itertools import islice

_LONGEST_SHOWN = 80
_LONGEST_NAME = 16  # of several that are shown
_MOST_COMPARED = 100_000  # of a table of millions of columns, so that the message comes at once


def nearest_names(name: str, known: Iterable[str], most: int = 1) -> list[str]:
    """At most so many of the known names that look like `name`, capital or not, the nearest first."""
    by_form: dict[str, str] = {}
    for each in islice(known, _MOST_COMPARED):
        by_form.setdefault(each.casefold(), each)
    return [by_form[form] for form in difflib.get_close_matches(name.casefold(), by_form, most)]


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
