"""From a record to an example, by the mapping that the user has given.

A record is a map of Python's own values, as the reader of a format returns it; `records/values.py` says what each value
is. The same content gives the same example in every format.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from math import isfinite, isnan
from typing import Any, NamedTuple, NoReturn
from uuid import UUID

from stream_apple.records.mapping import ALL, Feature, FieldKind, InputMapping, zone_of
from stream_apple.records.message.example import Example, Features
from stream_apple.records.message.reasons import Reason
from stream_apple.records.own_features import own_features, packed_features
from stream_apple.records.parsing import RefusedError, repeated
from stream_apple.records.spelling import LABELS, ParseError, are_values, in_json, spelled_label, spelled_number
from stream_apple.records.times import hour_of, milliseconds
from stream_apple.records.values import AS_CATEGORY, category_text, float_of, is_absent

DEEPEST = 16
"""How deep maps may be nested, the record included."""
_MOST_KEPT = 1 << 16  # paths whose meaning is remembered: a stream may have any number
_LARGE = 2.0**59  # smaller numbers need no further check as values of features
_NUMBERS = frozenset({int, float})
_TIMES = (date, time)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Looking up a member in its enumeration costs as much as all else that is done with a field.
_BY_VALUE = FieldKind.BY_VALUE

_Spaces = dict[str, dict[str, float]]


class Mapped(NamedTuple):
    """An example, and how many of its features could not be read and were left out."""

    example: Example
    left_out: int


class RecordMapper:
    """Makes examples of records by one mapping. Several threads may use it at once.

    own_message  the records are messages of the product's own, in which true is a number, and a point is no separator
    """

    def __init__(self, mapping: InputMapping, *, own_message: bool = False) -> None:
        self.mapping = mapping
        self.own_message = own_message
        self._zone = zone_of(mapping.time_zone)
        self.meanings = _Meanings(mapping)

    def example(self, record: object) -> Mapped:
        """Return the example in one parsed record; RefusedError if there is none.

        record  a map, as the parser of a format returns it: from texts to maps, lists, texts, numbers, booleans, None,
                and to bytes, Decimal, UUID, datetime if the format has them
        """
        fields = fields_of(record)
        features, left_out = self._features(fields)
        label, weight, name, timestamp_ms = self.labelling(fields)
        return Mapped(Example(label, 1.0 if weight is None else weight, name, features, timestamp_ms), left_out)

    def labelling(
        self, fields: Mapping[str, Any]
    ) -> tuple[float | None, float | None, str | int | bytes | None, int | None]:
        """Return label, weight, id and time in the fields of a record, None for each that is absent.

        RefusedError if one of them is invalid.
        """
        label, weight = self._held(fields, self.mapping.label), self._held(fields, self.mapping.weight)
        return self._label(label), self._weight(weight), *self.name_and_time(fields)

    def name_and_time(self, fields: Mapping[str, Any]) -> tuple[str | int | bytes | None, int | None]:
        """Return the id of a record, and its time if a field holds it, else None; RefusedError if one is invalid."""
        mapping = self.mapping
        name = self._id(self._held(fields, mapping.id))
        return name, self._time(self._held(fields, mapping.timestamp)) if mapping.timestamp else None

    def has_label(self, fields: Mapping[str, Any]) -> bool:
        """Return whether a record has a label, valid or not."""
        return not is_absent(self._held(fields, self.mapping.label))

    def _held(self, record: Mapping[str, Any], path: str) -> object:
        return held_at(record, path, self.mapping.separator)

    def _label(self, value: object) -> float | None:
        if is_absent(value):
            return None
        field, known = self.mapping.label, self.mapping.label_map
        if known:
            text = category_text(value)
            if text is None or text not in known:
                raise RefusedError(Reason.BAD_LABEL, f"one of {', '.join(map(repr, known))} as {field!r}", value)
            return known[text]
        if isinstance(value, str):
            spelled = spelled_label(value)
            if spelled is None:
                _refuse(Reason.BAD_LABEL, f"a number, true or false as {field!r}{LABELS}", value)
            return spelled
        number = float_of(value)
        if number is None:
            return _refuse(Reason.WRONG_TYPE, f"a number, a boolean or a text as {field!r}", value)
        if not isfinite(number):
            return _refuse(Reason.BAD_LABEL, f"a finite number as {field!r}", value)
        return number

    def _weight(self, value: object) -> float | None:
        if is_absent(value):
            return None
        number = spelled_number(value) if isinstance(value, str) else None if value is True else float_of(value)
        if number is None or number < 0 or not isfinite(number):
            raise RefusedError(Reason.BAD_WEIGHT, f"a number of at least 0 as {self.mapping.weight!r}", value)
        return number

    def _id(self, value: object) -> str | int | bytes | None:
        if value != "" and is_absent(value):
            return None
        if isinstance(value, UUID):
            return str(value)
        if isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 64:
            return value
        if isinstance(value, str | bytes):
            return value
        raise RefusedError(Reason.BAD_ID, f"text, bytes or an integer of 64 bits as {self.mapping.id!r}", value)

    def _time(self, value: object) -> int:
        try:
            return milliseconds(value)
        except ParseError as error:
            found = "none" if value is None else value
            raise RefusedError(Reason.BAD_TIMESTAMP, f"{error.expected} as {self.mapping.timestamp!r}", found) from None

    def _features(self, record: dict[str, Any]) -> tuple[Features, int]:
        where = self.mapping.features
        features = record if where == ALL else self._below(record, where)
        if not isinstance(features, dict):
            wanted = f'a map as {where!r} (input.features = "*" takes all fields that have no role)'
            raise RefusedError(Reason.NO_FEATURES, wanted, "none" if features is None else features)
        if self.own_message:
            return own_features(features), 0
        if where != ALL and isinstance(features.get("indices"), bytes):
            return packed_features(features), 0
        walk = _Walk(self)
        walk.map("", features, 1)
        return walk.spaces, walk.left_out

    def _below(self, record: dict[Any, Any], where: str) -> object:
        """Return the map at the path, or a map of all fields whose paths lie below it; None if there are none."""
        prefix = where + self.mapping.separator
        held = self._held(record, where)
        flat = any(name.startswith(prefix) for name in record if isinstance(name, str))
        if held is not None and not flat:
            return held
        found = list(_fields_below(record, where, self.mapping.separator))
        names = dict(found)
        if len(names) < len(found):
            _refuse_again(f"{prefix}{repeated(name for name, _ in found)}")
        return names or None

    @property
    def below_features(self) -> str:
        """What the paths of all features begin with."""
        where = self.mapping.features
        return "" if where == ALL else where + self.mapping.separator

    def kind_of(self, path: str) -> FieldKind:
        """Return what the field at `path` becomes; the path begins at the record."""
        below = self.below_features
        return self.meanings[path.removeprefix(below)].kind if path.startswith(below) else FieldKind.IGNORED

    def reads(self, name: str) -> bool:
        """Return whether the mapping reads anything in the outer field of this name."""
        mapping = self.mapping
        paths = (mapping.label, mapping.weight, mapping.id, mapping.timestamp)
        if any(path == name or path.startswith(name + mapping.separator) for path in paths):
            return True
        if mapping.features == name or mapping.features.startswith(name + mapping.separator):
            return True
        return self.kind_of(name) is not FieldKind.IGNORED

    def parts_of_time(self, value: object) -> list[str]:
        """Return hour, weekday and month of a time in the mapping's zone as categories; ParseError if it is no time.

        A time of day has an hour alone.
        """
        hour = hour_of(value)
        if hour is not None:
            return [f"hour={hour}"]
        try:
            local = (_EPOCH + timedelta(milliseconds=milliseconds(value))).astimezone(self._zone)
        except OverflowError:
            raise ParseError(f"a time that is before the year 10000 in {self.mapping.time_zone}, too", value) from None
        return [f"hour={local.hour}", f"weekday={_WEEKDAYS[local.weekday()]}", f"month={local.month}"]


class _Meanings(dict[str, Feature]):
    """A cache of `InputMapping.feature` by path, filled when a path is first needed."""

    def __init__(self, mapping: InputMapping) -> None:
        super().__init__()
        self._mapping = mapping

    def __missing__(self, path: str) -> Feature:
        found = self._mapping.feature(path)
        if len(self) < _MOST_KEPT:
            self[path] = found
        return found


class _Walk:
    """Gathers the features of one record.

    spaces    namespace -> name -> value
    left_out  how many features could not be read
    """

    def __init__(self, mapper: RecordMapper) -> None:
        self._mapper = mapper
        self._separator = mapper.mapping.separator
        self._strict = mapper.mapping.unreadable == "refuse"
        self.spaces: _Spaces = {}
        self.left_out = 0

    def map(self, path: str, fields: Mapping[Any, Any], depth: int) -> None:
        """Add all that the map at `path` holds."""
        if depth > DEEPEST:
            raise RefusedError(Reason.TOO_DEEP, f"maps at most {DEEPEST} deep", f"more at {_cut(path)!r}")
        prefix = f"{path}{self._separator}" if path else ""
        meanings, spaces = self._mapper.meanings, self.spaces
        for name, value in fields.items():
            if not isinstance(name, str):
                raise RefusedError(Reason.WRONG_TYPE, "text as the name of a field", name)
            whole = prefix + name
            feature = meanings[whole]
            kind, space, plain = feature
            # The most frequent kinds are handled here: with a call for each field the walk would take thrice as long.
            if kind is _BY_VALUE and type(value) is str and value:
                plain, number = f"{plain}={value}", 1.0
            elif kind is _BY_VALUE and type(value) in _NUMBERS and -_LARGE < value < _LARGE:
                number = float(value)
            else:
                self._field(feature, whole, value, depth)
                continue
            names = spaces.get(space)
            if names is None:
                spaces[space] = {plain: number}
            elif plain in names:
                _refuse_again(whole)
            else:
                names[plain] = number

    def _field(self, feature: Feature, path: str, value: object, depth: int) -> None:
        if feature.kind is FieldKind.IGNORED or is_absent(value):
            return
        if isinstance(value, dict):
            self.map(path, value, depth + 1)
        elif feature.kind is FieldKind.TIME:
            self._time(path, value)
        elif isinstance(value, list | tuple):
            self._list(path, feature, value)
        else:
            self._scalar(feature, path, value)

    def _scalar(self, feature: Feature, path: str, value: object) -> None:
        text = category_text(value) if feature.kind is FieldKind.CATEGORY or isinstance(value, AS_CATEGORY) else None
        if feature.kind is FieldKind.CATEGORY and text is None:
            self._unreadable(Reason.WRONG_TYPE, "a category in UTF-8 (input.ignore leaves it out)", path, value)
        elif feature.kind is FieldKind.NUMBER and text is not None:
            number = spelled_number(value) if isinstance(value, str) else float_of(value)
            self._number(feature.space, feature.name, path, value, number)
        elif text is not None:
            self._put(feature.space, f"{feature.name}={text}", 1.0, path)
        else:
            self._number(feature.space, feature.name, path, value, float_of(value))

    def _number(self, space: str, name: str, path: str, value: object, number: float | None) -> None:
        if number is None:
            self._unreadable(Reason.WRONG_TYPE, f"a number, a text or a boolean{_hint(value)}", path, value)
        elif are_values([number]):
            self._put(space, name, number, path)
        elif not isnan(number):
            reason = Reason.OVERFLOW if isfinite(number) else Reason.BAD_VALUE
            self._unreadable(reason, "a number below 2^60 (1.15e18) in size", path, value)

    def _list(self, path: str, feature: Feature, items: Iterable[object]) -> None:
        there = [(number, item) for number, item in enumerate(items) if not is_absent(item)]
        if all(isinstance(item, AS_CATEGORY) for _, item in there) or feature.kind is FieldKind.CATEGORY:
            texts = [category_text(item) for _, item in there]
            if None in texts:
                self._unreadable(Reason.WRONG_TYPE, "texts or numbers in a list of categories", path, items)
                return
            for text in dict.fromkeys(texts):
                self._put(feature.space, f"{feature.name}={text}", 1.0, path)
            return
        numbers = [None if isinstance(item, AS_CATEGORY) else float_of(item) for _, item in there]
        if None in numbers:
            self._unreadable(Reason.WRONG_TYPE, "a list of texts, or one of numbers", path, items)
            return
        for (number, item), value in zip(there, numbers, strict=True):
            self._number(path, str(number), f"{path}{self._separator}{number}", item, value)

    def _time(self, path: str, value: object) -> None:
        try:
            parts = self._mapper.parts_of_time(value)
        except ParseError as error:
            self._unreadable(Reason.BAD_VALUE, error.expected, path, value)
            return
        for part in parts:
            self._put(path, part, 1.0, path)

    def _put(self, space: str, name: str, value: float, path: str) -> None:
        names = self.spaces.get(space)
        if names is None:
            names = self.spaces[space] = {}
        elif name in names:
            _refuse_again(path)
        names[name] = value

    def _unreadable(self, reason: Reason, expected: str, path: str, found: object) -> None:
        if self._strict:
            raise RefusedError(reason, f"{expected} as {_cut(path)!r}", found)
        self.left_out += 1


def held_at(record: Mapping[Any, Any], path: str, separator: str) -> object:
    """Return the value at the path, None if there is none; an outer field with a longer part of it comes first."""
    if not path:
        return None
    if path in record:
        return record[path]
    at = path.rfind(separator)
    while at > 0:
        inner = record.get(path[:at])
        if isinstance(inner, dict) and (found := held_at(inner, path[at + len(separator) :], separator)) is not None:
            return found
        at = path.rfind(separator, 0, at)
    return None


def _fields_below(record: Mapping[Any, Any], path: str, separator: str) -> Iterator[tuple[Any, Any]]:
    """Yield all fields whose paths lie below this one, with the rest of their paths."""
    for name, value in record.items():
        if name == path and isinstance(value, dict):
            yield from value.items()
        elif isinstance(name, str) and name.startswith(path + separator):
            yield name.removeprefix(path + separator), value
        elif isinstance(name, str) and path.startswith(name + separator) and isinstance(value, dict):
            yield from _fields_below(value, path.removeprefix(name + separator), separator)


def fields_of(record: object) -> dict[str, Any]:
    """Return a parsed record as a map of fields; RefusedError if it is not a map."""
    if not isinstance(record, dict):
        raise RefusedError(Reason.WRONG_TYPE, "a map of fields", in_json(record))
    return record


def _hint(value: object) -> str:
    """Return what to do about a value that is no feature by itself."""
    if isinstance(value, _TIMES):
        return " (times are for input.times, timestamp, categories, or ignore)"
    return " (bytes are for input.id, categories, or ignore)" if isinstance(value, bytes) else ""


def _refuse(reason: Reason, expected: str, found: object) -> NoReturn:
    raise RefusedError(reason, expected, in_json(found))


def _refuse_again(path: str) -> NoReturn:
    raise RefusedError(Reason.DUPLICATE_KEY, "each field once", f"{_cut(path)!r} again")


def _cut(path: str) -> str:
    return path if len(path) <= 80 else f"{path[:80]}..."
