"""Which of the known names somebody may have meant who has written another: settings, columns, keys."""

import difflib
from collections.abc import Iterable
from itertools import islice

_MOST_COMPARED = 100_000  # of a table of millions of columns, so that the message comes at once


def nearest_names(name: str, known: Iterable[str], most: int = 1) -> list[str]:
    """At most so many of the known names that look like `name`, capital or not, the nearest first."""
    by_form: dict[str, str] = {}
    for each in islice(known, _MOST_COMPARED):
        by_form.setdefault(each.casefold(), each)
    return [by_form[form] for form in difflib.get_close_matches(name.casefold(), by_form, most)]
