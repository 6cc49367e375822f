"""What the fields of some records hold, and what the mapping makes of them: for people, who see what it comes to.

A mapping that fits badly is no fault: a text that spells a number is a category, and a time may be one. So whoever
starts with a topic or a file is told what each field becomes, and what else it may be meant to be.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from math import isnan
from typing import Any, NamedTuple

from stream_apple.records.mapper import DEEPEST, RecordMapper
from stream_apple.records.mapping import FieldKind
from stream_apple.records.spelling import in_json, spelled_number
from stream_apple.records.times import looks_like_time
from stream_apple.records.values import AS_CATEGORY, float_of, is_absent

LOOKED_AT = 1000
"""So many records are looked at, at most."""
_MOST_PATHS = 10_000
_LIKE = 0.9
"""A share of a field's values so large is taken for all of them, where a hint costs nothing."""
_LONGEST_EXAMPLE = 30


class FieldFacts(NamedTuple):
    """What is known of one field.

    path     its path in the records
    becomes  what the mapping makes of it, in words
    missing  the share of records without a value
    example  its first value as JSON writes it; "" if it has none
    warning  what it may be meant to be; "" if there is nothing to say
    """

    path: str
    becomes: str
    missing: float
    example: str
    warning: str


class _Field:
    """Counts the values of one field: how many are present, of which kinds, spell numbers, and look like times."""

    def __init__(self) -> None:
        self.present = self.spelled = self.timed = 0
        self.kinds: Counter[str] = Counter()
        self.clocked = False
        self.example = ""


class FieldCensus:
    """Looks at the fields of the first records, LOOKED_AT at most, which are read by one mapper."""

    def __init__(self, mapper: RecordMapper) -> None:
        self.mapper = mapper
        self.records = 0
        self._fields: dict[str, _Field] = {}
        self._maps: set[str] = set()

    def add(self, record: Mapping[Any, Any]) -> None:
        """Look at a record."""
        if self.records < LOOKED_AT:
            self.records += 1
            self._walk(record, "", 1)

    @property
    def paths(self) -> set[str]:
        """The paths of all fields, and of the maps around them, from the record on."""
        return self._fields.keys() | self._maps

    @property
    def features(self) -> set[str]:
        """The paths of `paths` that lie below the features, from there on."""
        below = self.mapper.below_features
        return {path.removeprefix(below) for path in self.paths if path.startswith(below)}

    @property
    def spaces(self) -> set[str]:
        """The paths below the features that may be namespaces: of maps, of lists, and of times."""
        below, kinds = self.mapper.below_features, self._fields.items()
        found = {path for path, field in kinds if "list" in field.kinds or self._kind(path) is FieldKind.TIME}
        return {path.removeprefix(below) for path in found | self._maps if path.startswith(below)}

    def facts(self) -> Iterator[FieldFacts]:
        """Yield what is known of each field, in the order in which they came."""
        for path, field in self._fields.items():
            if field.present or path not in self._maps:
                missing = 1 - field.present / self.records
                yield FieldFacts(path, self._becomes(path, field), missing, field.example, self._warning(path, field))

    def spelled_numbers(self) -> list[str]:
        """Return the fields whose every value is a text that spells a number, by their paths below the features."""
        return [self._below(path) for path, field in self._fields.items() if self._spells(path, field)]

    def like_times(self) -> dict[str, bool]:
        """Return the fields that look like times of nearly all records, and are taken as others.

        path below the features -> whether they have times of day; dates have none
        """
        return {self._below(path): field.clocked for path, field in self._fields.items() if self._is_timed(path, field)}

    def _walk(self, record: Mapping[Any, Any], prefix: str, depth: int) -> None:
        for name, value in record.items():
            path = f"{prefix}{name}"
            field = self._fields.get(path)
            if field is None:
                if len(self._fields) >= _MOST_PATHS:
                    continue
                field = self._fields[path] = _Field()
            if isinstance(value, dict):
                self._maps.add(path)
                if depth < DEEPEST:
                    self._walk(value, path + self.mapper.mapping.separator, depth + 1)
            elif not is_absent(value):
                field.present += 1
                field.kinds[_kind_of(value)] += 1
                field.spelled += isinstance(value, str) and (spelled_number(value) is not None)
                field.timed += looks_like_time(path, value)
                field.clocked |= isinstance(value, datetime | int | float) or ":" in str(value)
                field.example = field.example or _shown(value)

    def _below(self, path: str) -> str:
        return path.removeprefix(self.mapper.below_features)

    def _kind(self, path: str) -> FieldKind:
        return self.mapper.kind_of(path)

    def _spells(self, path: str, field: _Field) -> bool:
        return 0 < field.present == field.spelled and self._kind(path) is FieldKind.BY_VALUE

    def _is_timed(self, path: str, field: _Field) -> bool:
        return 0 < _LIKE * self.records <= field.timed and self._kind(path) is FieldKind.BY_VALUE

    def _becomes(self, path: str, field: _Field) -> str:
        mapping = self.mapper.mapping
        kind = self._kind(path)
        roles = [role for role in ("label", "weight", "id", "timestamp") if path == getattr(mapping, role)]
        if kind is FieldKind.TIME:
            return " and ".join([*roles, "hour, weekday, month"])
        if roles:
            return roles[0]
        if kind is FieldKind.IGNORED:
            return "nothing"
        if not field.present:
            return "nothing so far"
        if kind is FieldKind.NUMBER:
            return "number"
        if kind is FieldKind.CATEGORY:
            return "category"
        words = {"number": "number", "text": "category", "list": "list", "other": "unreadable"}
        if self.mapper.own_message:
            words["truth"] = "number"
        return " or ".join(dict.fromkeys(words.get(kind, "category") for kind in field.kinds))

    def _warning(self, path: str, field: _Field) -> str:
        if self._spells(path, field):
            return spelled_number_hint(self._below(path))
        if self._is_timed(path, field):
            return f"looks like a time: input.times {self._below(path)} makes hour, weekday, and month of it"
        return ""


def spelled_number_hint(path: str) -> str:
    """Return what to say about a field whose every value is a text that spells a number."""
    return f"every value is text that spells a number; input.numbers {path} reads it as one"


def table_of(facts: Sequence[FieldFacts]) -> list[str]:
    """Return the lines of a table of fields, its header first."""
    rows = [("field", "becomes", "missing", "example", "")]
    rows += [(each.path, each.becomes, f"{each.missing:.0%}", each.example, each.warning) for each in facts]
    widths = [max(len(row[place]) for row in rows) for place in range(4)]
    lines = (zip(row[:4], widths, strict=True) for row in rows)
    return [
        "  ".join([*(cell.ljust(width) for cell, width in line), row[4]]).rstrip()
        for line, row in zip(lines, rows, strict=True)
    ]


def _kind_of(value: object) -> str:
    if isinstance(value, bool):
        return "truth"
    if isinstance(value, AS_CATEGORY):
        return "text"
    if isinstance(value, list | tuple):
        return "list"
    number = float_of(value)
    return "other" if number is None or isnan(number) else "number"


def _shown(value: object) -> str:
    text = in_json(value)
    return text if len(text) <= _LONGEST_EXAMPLE else f"{text[: _LONGEST_EXAMPLE - 3]}..."
