"""The map that JSON lines and msgpack share with the stream's message: label, weight, id, features.

Unknown keys are ignored, as in the stream. Unlike there, the first example that can't be learned is an error, because
the user can mend a file.
"""

from collections.abc import Callable, Mapping
from functools import partial
from math import isfinite
from typing import Any, TypeAlias

from stream_apple.nearest_names import missing
from stream_apple.records.mapper import RecordMapper
from stream_apple.records.mapping import InputMapping
from stream_apple.records.message.example import Example, Features
from stream_apple.records.parsing import parsed_json
from stream_apple.records.spelling import LABELS, ParseError, are_values, in_json, refuse_value, refuse_weight
from stream_apple.records.times import milliseconds

_PACKED = frozenset({"indices", "values"})


ExampleReader: TypeAlias = Callable[[object], Example]
"""From one parsed map to its example; ParseError if there is none."""


def example_reader(
    mapping: InputMapping | None, timestamp_field: str | None, key_field: str | None, met: set[str] | None = None
) -> ExampleReader:
    """Return the reader of maps: by a mapping, or of maps with the keys of the stream's message.

    timestamp_field  the field that holds an example's time; None if there is none, or the mapping names it
    key_field        the field that holds the key of an example's record; None if there is none
    met              gets the paths of all fields, as in `ColumnRoles`
    """
    if mapping is None:
        return partial(example_of, timestamp_field=timestamp_field, key_field=key_field)
    mapper = RecordMapper(mapping if key_field is None else mapping._replace(ignore=(*mapping.ignore, key_field)))

    known = 0

    def read(record: object) -> Example:
        nonlocal known
        example = mapper.example(record).example
        if met is not None and known < len(mapper.meanings):
            known = len(mapper.meanings)
            met.update(mapper.meanings)
        if key_field is None or not isinstance(record, dict):
            return example
        return example._replace(key=key_in(key_field, _held("key", record, key_field)))

    return read


def example_of(record: object, timestamp_field: str | None = None, key_field: str | None = None) -> Example:
    """Return the example in one parsed map; ParseError if there is none.

    timestamp_field  the field that holds its time; None if there is none
    key_field        the field that holds the key of its record; None if there is none
    """
    if not isinstance(record, dict):
        raise ParseError("a map with label, weight, id and features", in_json(record))
    label = record.get("label")
    weight = _number("weight", record.get("weight", 1.0))
    if weight < 0:
        refuse_weight(weight)
    return Example(
        label=None if label is None else _number("label", label),
        weight=weight,
        id=identifier("id", record["id"]) if "id" in record else None,
        features=_features(record),
        timestamp_ms=None if timestamp_field is None else milliseconds(_held("timestamp", record, timestamp_field)),
        key=None if key_field is None else key_in(key_field, _held("key", record, key_field)),
    )


def parse_json_line(line: str, read: ExampleReader = example_of) -> Example | None:
    """Return the example of one line, or None for a blank line; ParseError if it is no JSON object with an example."""
    return read(parsed_json(line)) if line and not line.isspace() else None


def _held(what: str, record: Mapping[str, object], field: str) -> object:
    if field not in record:
        raise ParseError(f"the {what} field {field!r}", missing(field, list(map(str, record))))
    return record[field]


def key_in(field: str, value: object) -> str | int | bytes:
    """Return the value of this field as the key of a record; ParseError if it can't be one."""
    return identifier(f"key in {field!r}", value)


def identifier(what: str, value: object) -> str | int | bytes:
    """Return the value, if it may be an id or a key; ParseError otherwise."""
    if isinstance(value, bool) or not isinstance(value, str | int | bytes):
        raise ParseError(f"text, an integer or bytes as {what}", "none" if value is None else value)
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise ParseError(f"an integer of 64 bits, which msgpack can hold, as {what}", value)
    return value


def _number(what: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, float | int):
        hint = LABELS if what == "label" else ""
        raise ParseError(f"a finite number as {what}{hint}", in_json(value))
    try:
        converted = float(value)
    except OverflowError:
        raise ParseError(f"a finite number as {what}", value) from None
    if not isfinite(converted):
        raise ParseError(f"a finite number as {what}", value)
    return converted


def _features(record: Mapping[str, object]) -> Features:
    features = record.get("features")
    if "features" not in record:
        raise ParseError("a map under 'features' (or, where each field is a feature, --input 'features=*')", "none")
    if not isinstance(features, dict):
        raise ParseError("a map under 'features'", features)
    if isinstance(features.get("indices"), bytes):
        return _packed(features)
    if any(isinstance(value, dict) for value in features.values()):
        return {_name(name): _flat(value, f"{name}: ") for name, value in features.items()}
    return _flat(features, "")


def _packed(features: dict[str, Any]) -> Features:
    if not _PACKED.issuperset(features) or not all(isinstance(part, bytes) for part in features.values()):
        raise ParseError("packed features: indices and values as bytes and nothing else", features)
    return features


def _flat(features: object, where: str) -> dict[str, float]:
    if not isinstance(features, dict):
        raise ParseError(f"a map of values in namespace {where.removesuffix(': ')!r}, as in the others", features)
    kinds = set(map(type, features.values()))
    if kinds == {float} and are_values(features.values()):
        values: dict[str, float] = features
    else:
        namespaced = where not in {"", ": "}
        values = {
            _full_name(name, value, namespaced=namespaced): _value(f"{where}{name}", value)
            for name, value in features.items()
        }
        if len(values) < len(features):
            raise ParseError("each feature once", f"a text that makes the name of another in {in_json(features)}")
    for name in values:
        _name(name)
    return values


def _full_name(name: str, value: object, *, namespaced: bool) -> str:
    """Return the name of a feature: a category has one for each of its values."""
    if not isinstance(value, str):
        return name
    if name in _PACKED and not namespaced:
        raise ParseError(f"numbers, or bytes as packed features, under {name!r}", f"text: {value!r}")
    return f"{_name(name)}={value}"


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise ParseError("text as a name", name)
    return name


def _value(name: str, value: object) -> float:
    # true is 1, false is 0, and a category 1, as in the stream
    if isinstance(value, str):
        return 1.0
    if not isinstance(value, float | int):
        others = "a section `input` reads null, lists and deeper maps, too"
        raise ParseError(f"a number, true, false or a text as value of feature {name!r} ({others})", value)
    if not are_values([value]):
        refuse_value(name, value)
    return float(value)
