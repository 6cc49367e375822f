"""What a user says of the fields of a record: which have a role, and how the others become features."""

from collections.abc import Mapping
from datetime import UTC, tzinfo
from enum import Enum, auto
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

ALL = "*"
"""As `features`: every field that has no role."""

Unreadable: TypeAlias = Literal["refuse", "leave_out"]


class FieldKind(Enum):
    """Says what becomes of a field that has no role."""

    BY_VALUE = auto()  # numbers are numbers, texts and booleans are categories
    CATEGORY = auto()
    NUMBER = auto()
    TIME = auto()
    IGNORED = auto()


class Feature(NamedTuple):
    """What a path stands for: `space` is all of it before the last separator, `name` what comes after."""

    kind: FieldKind
    space: str
    name: str


class InputMapping(NamedTuple):
    """Says what the fields of a record are; the defaults are the names of the product's own message.

    Fields are named by paths: the names of the maps around them and their own, with `separator` between them. A field
    whose own name holds separators has the path, and so the features, of a nested one.

    label, weight, id, timestamp  paths of fields; "" = none; without a timestamp the record's own time counts
    label_map    text of a label -> number; empty: labels are numbers, or true and false
    features     path of the map that holds the features; or ALL
    ignore, categories, numbers, times   paths below `features`, or patterns of them as of a shell
    time_zone    of the hours, weekdays and months that `times` become
    unreadable   whether a feature that can't be read costs the record, or is left out and counted
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

    def feature(self, path: str) -> Feature:
        """Return what the field at `path`, below `features`, stands for; the more specific list comes first."""
        space, _, name = path.rpartition(self.separator)
        for kind, patterns in (
            (FieldKind.IGNORED, (*self._roles(), *self.ignore)),
            (FieldKind.TIME, self.times),
            (FieldKind.CATEGORY, self.categories),
            (FieldKind.NUMBER, self.numbers),
        ):
            if any(path == pattern or fnmatchcase(path, pattern) for pattern in patterns):
                return Feature(kind, space, name)
        return Feature(FieldKind.BY_VALUE, space, name)

    def _roles(self) -> list[str]:
        """Return the paths of the fields that have a role, counted from where the features begin."""
        paths = [path for path in (self.label, self.weight, self.id, self.timestamp) if path]
        if self.features == ALL:
            return paths
        below = self.features + self.separator
        return [path.removeprefix(below) for path in paths if path.startswith(below)]


OWN_MESSAGE = InputMapping()
"""The product's own message, which `codec/parse.py` reads without any mapping."""


def zone_of(name: str) -> tzinfo:
    """Return the time zone of this name; KeyError, ValueError or OSError if there is none. UTC needs no database."""
    return UTC if name == OWN_MESSAGE.time_zone else ZoneInfo(name)
