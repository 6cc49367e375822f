"""The faults that published answers and merges can have: all are counted, and the first of each kind are kept."""

from collections import Counter
from enum import StrEnum
from typing import NamedTuple

LISTED = 10
"""How many faults are reported one by one; the others are only counted."""


class Kind(StrEnum):
    """Names what can be wrong with a published answer, or a merge."""

    MISSING = "missing"
    DUPLICATED = "duplicated"
    DIFFERENT = "different"
    OUT_OF_ORDER = "out of order"
    EXTRA = "extra"
    OTHER_MODEL = "of another model"
    MISPLACED = "misplaced"
    UNREADABLE = "unreadable"
    SNAPSHOT = "snapshot"
    ADOPTION_MISSING = "missing adoption"
    ADOPTED_TWICE = "adopted twice"
    ADOPTED_OTHERWISE = "adopted otherwise"
    ADOPTION_STRAY = "adoption at no boundary"
    MERGED = "merged model"
    MERGED_TWICE = "merged twice"
    ROSTER = "roster"


class Fault(NamedTuple):
    """Describes one fault, and where it was found.

    topic, partition  where it was found
    offset            of the message; None if a message is missing
    example           offset of the example that it is about; None if that is not known
    """

    kind: Kind
    topic: str
    partition: int
    offset: int | None
    example: int | None
    text: str


class Faults:
    """Counts all faults, and keeps the first LISTED of each kind."""

    def __init__(self) -> None:
        self.counts: Counter[Kind] = Counter()
        self._kept: dict[Kind, list[Fault]] = {kind: [] for kind in Kind}

    def add(self, fault: Fault) -> None:
        """Count a fault, and keep it if it is among the first of its kind."""
        self.counts[fault.kind] += 1
        if len(self._kept[fault.kind]) < LISTED:
            self._kept[fault.kind].append(fault)

    @property
    def first(self) -> list[Fault]:
        """Return at most LISTED faults, in the order of their examples; those without an example come first."""
        kept = [fault for faults in self._kept.values() for fault in faults]
        return sorted(kept, key=lambda fault: (-1 if fault.example is None else fault.example, fault.topic))[:LISTED]
