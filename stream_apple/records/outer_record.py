"""Records of any shape into which a label is put: their id is read, and all else stays as it is.

The label becomes a field of the record's outer map, whose name is the mapping's whole path of the label. If a nested
field has the same path, the mapping prefers the outer one. So readers by the mapping find it, and nobody has to search
nested fields.

A framed record loses its frame, because its schema has no such field. It becomes msgpack with the same fields, of which
the mapping makes the same example as of the framed record.
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import msgpack

from stream_apple.records.framing import Schemas, frame_of
from stream_apple.records.mapper import RecordMapper, fields_of
from stream_apple.records.mapping import FieldKind, InputMapping
from stream_apple.records.message.first_bytes import is_json
from stream_apple.records.message.json_text import with_members
from stream_apple.records.message.outer_map import LabelAndWeight, key_of_id, map_header
from stream_apple.records.message.reasons import Reason
from stream_apple.records.parsing import RefusedError, check_size, parsed_record
from stream_apple.records.values import category_text, float_of

_UNREADABLE = 1
"""The msgpack extension type for values that no format can make a feature of, such as a time of day."""
_INTEGERS = range(-(1 << 63), 1 << 64)


class OuterRecord(NamedTuple):
    """One record that has an id.

    value      the record without a frame
    id         `key_of_id` of its id
    has_label  whether it has a label of its own
    names      which of its outer fields have the paths of label and weight as their names
    mapping    how it is read
    """

    value: bytes
    id: bytes
    has_label: bool
    names: frozenset[str]
    mapping: InputMapping

    @property
    def as_it_is(self) -> bytes:
        """The record without a frame, and with its own label."""
        return self.value

    def labelled(self, numbers: LabelAndWeight) -> bytes:
        """Return the record with these numbers in place of its own; RefusedError if no text stands for the label."""
        mapping = self.mapping
        added: dict[str, object] = {mapping.label: spelling_of(numbers.label, mapping)}
        if numbers.weight is not None:
            added[mapping.weight] = numbers.weight
        if is_json(self.value):
            return with_members(self.value, added)
        if self.names.isdisjoint(added):
            return _added_to_msgpack(self.value, added)
        return _msgpack(fields_of(parsed_record(self.value)) | added)


def spelling_of(label: float, mapping: InputMapping) -> object:
    """Return a label as records of this mapping spell it; RefusedError if `label_map` has no text for this number."""
    if not mapping.label_map:
        return label
    for text, number in mapping.label_map.items():
        if number == label:
            return text
    known = ", ".join(f"{number:g}" for number in mapping.label_map.values())
    raise RefusedError(Reason.BAD_LABEL, f"one of the numbers of input.label_map ({known}) as label", label)


class OuterRecords:
    """Opens records of one mapping.

    schemas  the schemas of a registry, for framed records; None: such records are refused
    """

    def __init__(self, mapping: InputMapping, schemas: Schemas | None = None) -> None:
        self._mapping = mapping
        self._mapper = RecordMapper(mapping)
        self._schemas = schemas

    def opened(self, value: bytes, max_bytes: int) -> tuple[OuterRecord, int | None]:
        """Return the record in a value, and its time in milliseconds since 1970 if a field holds it, else None.

        max_bytes  of the value, and of the msgpack that a framed record becomes

        RefusedError if the value is too large, is not a record, or has no id; BrokerError as of `Schemas.parsed`.
        """
        check_size(value, max_bytes)
        fields = fields_of(parsed_record(value, self._schemas))
        name, time_ms = self._mapper.name_and_time(fields)
        mapping = self._mapping
        if name is None:
            raise RefusedError(Reason.NO_ID, f"an id as {mapping.id!r}, by which outcomes are matched", "none")
        if frame_of(value) is not None:
            value = packed_record(fields, self._mapper)
            check_size(value, max_bytes)
        names = frozenset(name for name in (mapping.label, mapping.weight) if name in fields)
        return OuterRecord(value, key_of_id(name), self._mapper.has_label(fields), names, mapping), time_ms


def packed_record(record: Mapping[str, Any], mapper: RecordMapper) -> bytes:
    """Return a record as msgpack, of which the mapper makes the same example as of these values of Python."""
    return _msgpack(_plain(record, "", mapper))


def _plain(value: Any, path: str, mapper: RecordMapper) -> object:  # noqa: ANN401  what parsers give
    """Return a value in types that msgpack has, of which the mapping makes the same features."""
    kind = type(value)
    if kind is str or kind is float or value is None or kind is bool or kind is bytes:
        return value
    if isinstance(value, dict):
        separator = mapper.mapping.separator
        return {
            name: _plain(each, f"{path}{separator}{name}" if path else str(name), mapper)
            for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_plain(each, path, mapper) for each in value]
    if isinstance(value, int) and value in _INTEGERS:
        return value
    kind_of_field = mapper.kind_of(path)
    if isinstance(value, UUID) or kind_of_field is FieldKind.CATEGORY:
        return category_text(value)
    if isinstance(value, Decimal | int):
        # No time can be such a number.
        return _nothing(value) if kind_of_field is FieldKind.TIME else float_of(value)
    if isinstance(value, time):
        return value.isoformat() if kind_of_field is FieldKind.TIME else _nothing(value)
    if isinstance(value, date):
        moment = value if isinstance(value, datetime) else datetime.combine(value, time())
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return _nothing(value)


def _nothing(value: object) -> msgpack.ExtType:
    return msgpack.ExtType(_UNREADABLE, str(value).encode())


def _msgpack(fields: object) -> bytes:
    packed: bytes = msgpack.packb(fields, datetime=True)
    return packed


def _added_to_msgpack(value: bytes, added: Mapping[str, object]) -> bytes:
    """Return a map of msgpack with further pairs, whose keys it does not have; its other bytes stay."""
    tag = value[0]
    size = {0xDE: 2, 0xDF: 4}.get(tag, 0)
    pairs = int.from_bytes(value[1 : 1 + size], "big") if size else tag & 0x0F
    header = map_header(pairs + len(added))
    return b"".join((header, value[1 + size :], *(msgpack.packb(part) for pair in added.items() for part in pair)))
