"""Neighbours in a text as features of their own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from stream_apple.core.learner.options.bounds import IntegerBounds
from stream_apple.core.learner.options.personalisation import BY_KEY

NGRAM = IntegerBounds(1, 5)
ALL_NAMESPACES = "*"
"""In place of a namespace: all that are not named."""


@dataclass(frozen=True)
class Ngrams:
    """The option of n-grams; out of bounds, and in contradictions, it raises ValueError.

    ngrams  namespace -> n: each two neighbours among its features, in the order of the message, are a base feature too,
            and so are each three, up to n. "" is the namespace of features without, "*" all that are not named; with
            it, 1 leaves a namespace out. Kept as pairs, by name, without what says nothing
    """

    FIRST: ClassVar[dict[str, object]] = {"ngrams": ()}

    ngrams: Mapping[str, int] | tuple[tuple[str, int], ...] = ()

    def _check_ngrams(self, method: str, users: str) -> None:
        found = dict(self.ngrams)
        others = found.get(ALL_NAMESPACES, 1)
        for name, size in found.items():
            low = NGRAM.low if name != ALL_NAMESPACES and others > 1 else 2
            if not IntegerBounds(low, NGRAM.high).hold(size):
                raise ValueError(
                    f"Options.ngrams: expected {IntegerBounds(low, NGRAM.high)} for {name!r}, found {size!r}"
                )
        if found and method == "tuples":
            raise ValueError(
                "Options.ngrams: expected none with method tuples, since a text's words are no attributes, "
                f"found {found!r}"
            )
        if users and users != BY_KEY and found.get(users, 1) > 1:
            raise ValueError(f"Options.ngrams: expected none of {users!r}, which names users, found {found[users]!r}")
        kept = {name: size for name, size in found.items() if name == ALL_NAMESPACES or size != others}
        object.__setattr__(self, "ngrams", tuple(sorted(kept.items())))

    def ngrams_of_namespaces(self, users: str) -> tuple[dict[str, int], int]:
        """By name; and of all other namespaces. Of that of users there are none: a pair of users is no user."""
        sizes = dict(self.ngrams)
        others = sizes.pop(ALL_NAMESPACES, 1)
        if users and users != BY_KEY:
            sizes[users] = 1
        return sizes, others

    @property
    def longest_ngram(self) -> int:
        """So many features at most: an example gets fewer than so many times its features. 1 without n-grams."""
        return max(dict(self.ngrams).values(), default=1)


def parse_ngrams(text: str) -> dict[str, int]:
    """Of `text=2,title=3`, or of the same as a table of TOML; ValueError for anything else.

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
