"""What a user says about the fields of a record: which have a role, and how the others become features."""

import re
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, tzinfo
from enum import Enum, auto
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

ALL = "*"
"""The value of `features` for which every field without a role is a feature."""

_ROW_NUMBER = re.compile(r"__index_level_[0-9]+__|Unnamed: [0-9]+")
"""The names that pandas gives to row numbers: it writes the first, and reads the second from CSV."""

Unreadable: TypeAlias = Literal["refuse", "leave_out"]


class FieldKind(Enum):
    """What a field without a role becomes."""

    BY_VALUE = auto()  # numbers are numbers, texts and booleans are categories
    CATEGORY = auto()
    NUMBER = auto()
    TIME = auto()
    IGNORED = auto()


class Feature(NamedTuple):
    """What a path becomes: `space` is the part of the path before the last separator, `name` the part after it."""

    kind: FieldKind
    space: str
    name: str


class InputMapping(NamedTuple):
    """What the fields of a record are; the defaults are the names of the product's own message.

    Fields are named by paths: the names of the maps around them and their own name, with `separator` between them. A
    field whose own name contains separators has the same path, and so the same feature, as a nested field.

    label, weight, id, timestamp  paths of fields; "" = none; without a timestamp the record's own time counts
    label_map    text of a label -> number; empty: labels are numbers, or true and false
    features     path of the map that holds the features; or ALL
    ignore, categories, numbers, times   paths below `features`, or shell patterns of such paths; `ignore` also
                 leaves out all that lies below these paths
    time_zone    the zone of the hours, weekdays and months that `times` become
    unreadable   what to do about a feature that can't be read: "refuse" the record, or "leave_out" and count it
    """

    label: str = "label"
    weight: str = "weight"
    id: str = "id"
    timestamp: str = ""
    label_map: Mapping[str, float] = MappingProxyType({})
    features: str = "features"
    separator: str = "."
    ignore: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    time_zone: str = "UTC"
    unreadable: Unreadable = "refuse"

    @property
    def names(self) -> Mapping[str, str]:
        """Return key of a message -> what that field is called in the records; its features have many names."""
        return {"label": self.label, "weight": self.weight, "id": self.id}

    def feature(self, path: str) -> Feature:
        """Return what the field at `path`, below `features`, becomes.

        If several lists name it, `ignore` wins, then `times`, `categories`, and `numbers`. A field with a role is no
        feature, except that `times` may name the timestamp, too. A row number of pandas is none unless a list names it.
        """
        space, _, name = path.rpartition(self.separator)
        if any(_lies_at(path, pattern, self.separator) for pattern in self.ignore):
            return Feature(FieldKind.IGNORED, space, name)
        kinds = ((FieldKind.TIME, self.times), (FieldKind.CATEGORY, self.categories), (FieldKind.NUMBER, self.numbers))
        kind = next(
            (kind for kind, listed in kinds if any(_matches(path, each) for each in listed)), FieldKind.BY_VALUE
        )
        for role in ("label", "weight", "id", "timestamp"):
            if path == self._below(getattr(self, role)) and not (role == "timestamp" and kind is FieldKind.TIME):
                return Feature(FieldKind.IGNORED, space, name)
        hidden = kind is FieldKind.BY_VALUE and is_row_number(path)
        return Feature(FieldKind.IGNORED if hidden else kind, space, name)

    def lists(self, path: str) -> bool:
        """Return whether a field, by its path in the record, has a role or is named by a list such as `numbers`."""
        if path in {self.label, self.weight, self.id, self.timestamp}:
            return True
        below = self._below(path)
        listed = (*self.ignore, *self.times, *self.categories, *self.numbers)
        return below is not None and any(_matches(below, each) for each in listed)

    def idle_patterns(self, paths: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield each pattern that matches none of these paths below `features`, after the name of its list."""
        for setting in ("ignore", "categories", "numbers", "times"):
            for pattern in getattr(self, setting):
                below = setting == "ignore"
                if not any(
                    _lies_at(path, pattern, self.separator) if below else _matches(path, pattern) for path in paths
                ):
                    yield setting, pattern

    def _below(self, path: str) -> str | None:
        """Return a path of the record as a path below `features`; None if it lies elsewhere, or is empty."""
        below = "" if self.features == ALL else self.features + self.separator
        return path.removeprefix(below) if path and path.startswith(below) else None


def is_row_number(name: str) -> bool:
    """Return whether a field is called as pandas calls the numbers of rows."""
    return _ROW_NUMBER.fullmatch(name) is not None


def _lies_at(path: str, pattern: str, separator: str) -> bool:
    """Return whether the pattern matches the path, or the path of a map around it."""
    while path:
        if _matches(path, pattern):
            return True
        path = path.rpartition(separator)[0]
    return False


def _matches(path: str, pattern: str) -> bool:
    return path == pattern or fnmatchcase(path, pattern)


OWN_MESSAGE = InputMapping()
"""The product's own message, which `codec/parse.py` reads without any mapping."""


def zone_of(name: str) -> tzinfo:
    """Return the time zone of this name; KeyError, ValueError or OSError if there is none. UTC needs no database."""
    return UTC if name == OWN_MESSAGE.time_zone else ZoneInfo(name)
