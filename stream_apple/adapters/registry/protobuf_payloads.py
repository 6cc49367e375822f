"""Payloads of Protocol Buffers, by Google's library: the text of a schema is compiled when it is first met.

A field that its writer can leave unset is absent if it is. One that it can't (proto3 without `optional`) has the value
that the reader of any language would get: 0, false or an empty text.

Whoever writes the records may be hostile. So `protobuf_bounds.py` counts what a payload holds before it is read.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from stream_apple.adapters.registry.payloads import Parse, SchemaError, decimal_of, fault_of
from stream_apple.adapters.registry.protobuf_bounds import EXPECTED, ProtobufBounds
from stream_apple.adapters.registry.protobuf_compiler import ITSELF, compiled
from stream_apple.records.message.reasons import Reason
from stream_apple.records.parsing import RefusedError

_MOST_INDEXES = 16
_LONGEST_DECIMAL = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes", "List", "")
) | {"google.protobuf.Struct"}
"""The messages that stand for their one field; the last three hold what JSON holds."""

_Convert = Callable[[Any], object]
_Planned = tuple[str, bool, _Convert | None]
"""The name of a field, whether it always has a value, and what makes a value of what it holds; None: it is one."""


def protobuf_parser(schema: str, references: Mapping[str, str]) -> Parse:
    """Return the parser of the payloads of `schema`, the text of a .proto file; SchemaError if that is none.

    references  the files that it imports, by the names under which it does
    """
    files = compiled(schema, references)
    if any(map(_is_message_set, _message_types(files))):
        raise SchemaError("it has a message with the option message_set_wire_format, which is not read")
    pool = DescriptorPool()
    try:
        for file in files:
            pool.Add(file)
        top = pool.FindFileByName(ITSELF)
    except (TypeError, KeyError) as error:
        raise SchemaError(f"protobuf: {error}") from None
    messages = list(top.message_types_by_name.values())
    order = {message.name: number for number, message in enumerate(files[-1].message_type)}
    messages.sort(key=lambda message: order[message.name])
    bounds, reader = ProtobufBounds(messages, pool), _Reader()

    def parse(payload: bytes) -> object:
        indexes, at = _indexes(payload)
        kind = _message_type(messages, indexes)
        bounds.check(kind, payload, at)
        try:
            message = GetMessageClass(kind)()
            type(message).ParseFromString(message, payload[at:])
            return reader.fields(message)
        except Exception as error:  # noqa: BLE001  whatever the library finds, this one record does not fit its schema
            raise RefusedError(Reason.MALFORMED, EXPECTED, fault_of(error)) from None

    return parse


def _message_types(files: Iterable[FileDescriptorProto]) -> Iterator[DescriptorProto]:
    waiting = [kind for file in files for kind in file.message_type]
    while waiting:
        kind = waiting.pop()
        waiting.extend(kind.nested_type)
        yield kind


def _is_message_set(kind: DescriptorProto) -> bool:
    """Return whether the messages have an older format than all others, in which their parts can't be counted."""
    return bool(kind.options.message_set_wire_format)


def _indexes(payload: bytes) -> tuple[list[int], int]:
    """Return which message of the schema the payload is, by number within each level, and where the message begins."""
    count, at = _varint(payload, 0)
    if not 0 <= count <= _MOST_INDEXES:
        raise RefusedError(Reason.MALFORMED, f"at most {_MOST_INDEXES} numbers of a message", count)
    indexes = []
    for _ in range(count):
        index, at = _varint(payload, at)
        indexes.append(index)
    return indexes or [0], at


def _varint(payload: bytes, at: int) -> tuple[int, int]:
    """Return the zigzag-coded integer at `at`, and where it ends."""
    bits = shift = 0
    while at < len(payload) and shift < 35:
        byte = payload[at]
        bits |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (bits >> 1) ^ -(bits & 1), at
    raise RefusedError(Reason.MALFORMED, "the number of a message of its schema", "no such number")


def _message_type(messages: list[Descriptor], indexes: list[int]) -> Descriptor:
    found, level = None, messages
    for index in indexes:
        if not 0 <= index < len(level):
            raise RefusedError(Reason.MALFORMED, f"one of {len(level)} messages of its schema", f"number {index}")
        found = level[index]
        level = list(found.nested_types)
    assert found is not None
    return found


class _Reader:
    """Reads the fields of messages, by a plan for each of their types."""

    def __init__(self) -> None:
        self._plans: dict[type[Message], list[_Planned]] = {}

    def fields(self, message: Message) -> dict[str, object]:
        """Return what the fields of a message hold."""
        # Its class is asked: a field may be called like an attribute of the message, and hides that.
        kind = type(message)
        plan = self._plans.get(kind)
        if plan is None:
            plan = self._plans[kind] = [self._planned(field) for field in kind.DESCRIPTOR.fields]
        is_set = kind.HasField
        return {
            name: getattr(message, name) if convert is None else convert(getattr(message, name))
            for name, always, convert in plan
            if always or is_set(message, name)
        }

    def _planned(self, field: FieldDescriptor) -> _Planned:
        kind = field.message_type
        convert: _Convert | None
        if kind is not None and kind.GetOptions().map_entry:
            convert = self._map(kind.fields_by_name["value"])
        else:
            convert = self._value(field)
            if field.is_repeated:
                convert = list if convert is None else _listed(convert)
        return field.name, not field.has_presence, convert

    def _map(self, field: FieldDescriptor) -> _Convert:
        convert = self._value(field)
        if convert is None:
            return lambda items: {_key(key): each for key, each in items.items()}
        return lambda items: {_key(key): convert(each) for key, each in items.items()}

    def _value(self, field: FieldDescriptor) -> _Convert | None:
        """Return what makes a value of what a field, or an item of it, holds; None: it is one already."""
        if field.enum_type is not None:
            if field.enum_type.full_name == "google.protobuf.NullValue":
                return lambda _: None
            names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
            return lambda value: names.get(value, value)
        if field.message_type is None:
            return None
        name = field.message_type.full_name
        return self._wrapped if name in _WRAPPERS else _CONVERTED.get(name, self.fields)

    def _wrapped(self, message: Message) -> object:
        """Return what a message holds that stands for its one field; None if that is not set."""
        return next(iter(self.fields(message).values()), None)


def _listed(convert: _Convert) -> _Convert:
    return lambda items: [convert(each) for each in items]


def _key(key: object) -> str:
    if isinstance(key, bytes):  # so the library gives a text of proto2 that is not UTF-8
        return key.decode()
    return str(key).lower() if isinstance(key, bool) else str(key)


def _timestamp(message: Any) -> datetime:  # noqa: ANN401  a generated class
    return _EPOCH + timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)


def _seconds(message: Any) -> float:  # noqa: ANN401  a generated class
    found: float = message.seconds + message.nanos / 1e9
    return found


def _confluent_decimal(message: Any) -> Decimal:  # noqa: ANN401  a generated class
    return decimal_of(message.value, message.scale)


def _google_decimal(message: Any) -> Decimal | None:  # noqa: ANN401  a generated class
    if not message.value:
        return None
    if len(message.value) > _LONGEST_DECIMAL or not (found := Decimal(message.value)).is_finite():
        raise ValueError("expected the text of a decimal")
    return found


def _date(message: Any) -> date | None:  # noqa: ANN401  a generated class
    parts = message.year, message.month, message.day
    return date(*parts) if all(parts) else None  # a birthday without its year, or a month, is no date


def _time_of_day(message: Any) -> time:  # noqa: ANN401  a generated class
    # 24:00 is the end of a day, and the second 60 a leap second.
    return time(message.hours % 24, message.minutes, min(message.seconds, 59), message.nanos // 1000)


_CONVERTED: Mapping[str, _Convert] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Duration": _seconds,
    "google.type.Date": _date,
    "google.type.TimeOfDay": _time_of_day,
    "google.type.Decimal": _google_decimal,
    "confluent.type.Decimal": _confluent_decimal,
}
"""Full name of a type -> what makes a value of one of its messages; the messages of most other types are maps."""
