"""Counts the parts of a payload of Protocol Buffers before the library makes values of them.

An empty message takes two bytes, and becomes a map with a value for each of its fields. A payload that is too short to
have too many parts is not counted: `ProtobufBounds` derives from the types how many parts a byte can stand for.
"""

from collections.abc import Mapping, Sequence

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool

from stream_apple.adapters.registry.payloads import MOST_PARTS, refuse_depth, refuse_parts
from stream_apple.records.message.json_text import MOST_NESTED
from stream_apple.records.message.reasons import Reason
from stream_apple.records.parsing import RefusedError

EXPECTED = "a Protocol Buffers message of its schema"
_VARINT, _EIGHT_BYTES, _SIZED, _GROUP, _END_OF_GROUP, _FOUR_BYTES = range(6)
_LONGEST_VARINT = 10
_WIDTHS = {
    **dict.fromkeys((FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FIXED64, FieldDescriptor.TYPE_SFIXED64), 8),
    **dict.fromkeys((FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_FIXED32, FieldDescriptor.TYPE_SFIXED32), 4),
}
"""The bytes of each item of a packed list; items of other types are varints."""
_TEXTS = frozenset({FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES})
_CONTINUED = bytes(range(0x80, 0x100))


class _Type:
    """A type of messages.

    parts     how many parts a message without content has: itself, and its fields
    messages  tag -> the type of the messages in that field
    packed    tag -> the bytes of each item of the list that may be packed in that field; 0: they are varints
    """

    def __init__(self, descriptor: Descriptor, pool: DescriptorPool) -> None:
        self.parts = 1 + len(descriptor.fields)
        # The library reads extensions, too.
        self.fields = [*descriptor.fields, *pool.FindAllExtensions(descriptor)]
        self.messages: dict[int, _Type] = {}
        self.packed: dict[int, int] = {}

    def refer(self, types: Mapping[str, "_Type"]) -> None:
        """Note in which fields there are messages, and of which of these types, and in which there are lists."""
        for field in self.fields:
            if field.message_type is not None:
                wire = _GROUP if field.type == FieldDescriptor.TYPE_GROUP else _SIZED
                self.messages[field.number << 3 | wire] = types[field.message_type.full_name]
            elif field.is_repeated and field.type not in _TEXTS:
                self.packed[field.number << 3 | _SIZED] = _WIDTHS.get(field.type, 0)


class ProtobufBounds:
    """Checks messages of these types, and of those within them."""

    def __init__(self, messages: Sequence[Descriptor], pool: DescriptorPool) -> None:
        self._types: dict[str, _Type] = {}
        self._per_byte: dict[str, float] = {}
        # All types at once: several threads check messages.
        waiting = list(messages)
        while waiting:
            each = waiting.pop()
            kind = self._types.setdefault(each.full_name, _Type(each, pool))
            for inner in (*each.nested_types, *filter(None, (field.message_type for field in kind.fields))):
                if inner.full_name not in self._types:
                    self._types[inner.full_name] = _Type(inner, pool)
                    waiting.append(inner)
        for kind in self._types.values():
            kind.refer(self._types)

    def check(self, descriptor: Descriptor, payload: bytes, at: int) -> None:
        """Raise RefusedError for a message, from byte `at` on, that has too many parts, or nests them too deep."""
        kind = self._types[descriptor.full_name]
        per_byte = self._per_byte.get(descriptor.full_name)
        if per_byte is None:
            per_byte = self._per_byte[descriptor.full_name] = self._most_per_byte(kind)
        if kind.parts + per_byte * (len(payload) - at) > MOST_PARTS:
            _Message(payload, at).scan(kind, len(payload), 1)

    @staticmethod
    def _most_per_byte(top: _Type) -> float:
        """Return how many parts a byte of such a message can stand for at most."""
        seen, waiting, most = {id(top)}, [top], 1.0
        while waiting:
            for each in waiting.pop().messages.values():
                # A tag, and a size or the end of a group: an empty message takes two bytes, and counts as a field.
                most = max(most, (1 + each.parts) / 2)
                if id(each) not in seen:
                    seen.add(id(each))
                    waiting.append(each)
        return most


class _Message:
    """A payload while its parts are counted."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at
        self._left = MOST_PARTS

    def scan(self, kind: _Type | None, end: int, depth: int, group: int = 0) -> None:
        """Pass over the fields of a message that ends at `end`, or with the end of its group.

        kind   None: of an unknown type
        depth  1 for the outermost message
        group  the number of the field whose group it is; 0 for none
        """
        if depth > MOST_NESTED:
            refuse_depth(EXPECTED)
        self._take(1 if kind is None else kind.parts)
        messages, packed = ({}, {}) if kind is None else (kind.messages, kind.packed)
        while self._at < end:
            tag = self._varint(end)
            self._left -= 1
            if self._left < 0:
                refuse_parts(EXPECTED)
            wire = tag & 7
            if wire == _VARINT:
                self._varint(end)
            elif wire == _SIZED:
                size = self._varint(end)
                stop = self._at + size
                if stop > end:
                    raise _malformed()
                if tag in messages:
                    self.scan(messages[tag], stop, depth + 1)
                elif tag in packed:
                    self._take(self._items(stop, packed[tag]))
                self._at = stop
            elif wire == _EIGHT_BYTES:
                self._at += 8
            elif wire == _FOUR_BYTES:
                self._at += 4
            elif wire == _GROUP:
                self.scan(messages.get(tag), end, depth + 1, tag >> 3)
            elif wire == _END_OF_GROUP and group == tag >> 3:
                return
            else:
                raise _malformed()
        if group or self._at > end:
            raise _malformed()

    def _take(self, parts: int) -> None:
        self._left -= parts
        if self._left < 0:
            refuse_parts(EXPECTED)

    def _items(self, stop: int, width: int) -> int:
        """Return how many items a packed list has."""
        if width:
            return (stop - self._at) // width
        return len(self._data[self._at : stop].translate(None, _CONTINUED))

    def _varint(self, end: int) -> int:
        at = self._at
        if at < end and (first := self._data[at]) < 0x80:
            self._at = at + 1
            return first
        bits = shift = 0
        for byte in self._data[self._at : min(self._at + _LONGEST_VARINT, end)]:
            bits |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                self._at += shift // 7
                return bits
        raise _malformed()


def _malformed() -> RefusedError:
    return RefusedError(Reason.MALFORMED, EXPECTED, "bytes that do not fit it")
