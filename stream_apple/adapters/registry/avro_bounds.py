"""Counts the parts of a payload of Avro before fastavro makes values of them.

A payload that is too short to have too many parts is not counted: `AvroBounds` derives from the schema how many parts a
payload of n bytes can have at most. In Avro, items that take no byte, such as null, can come in any number.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from stream_apple.adapters.registry.payloads import MOST_PARTS, SchemaError, refuse_depth, refuse_parts
from stream_apple.records.message.json_text import MOST_NESTED
from stream_apple.records.message.reasons import Reason
from stream_apple.records.parsing import RefusedError

EXPECTED = "Avro of its schema"
_UNBOUNDED = float("inf")
_WIDTHS = {"boolean": 1, "float": 4, "double": 8}
_TEXTS = frozenset({"string", "bytes"})
_RECORDS = frozenset({"record", "error"})
_LOGICAL_PARTS = 4
"""What a value of a logical type counts more: it takes as much more time to make a decimal or a date of it."""
_LONGEST_VARINT = 10
_CONTINUED = bytes(range(0x80, 0x100))
"""The bytes of an integer that are not its last."""

_Skip = Callable[["_Payload"], None]


class _Size(NamedTuple):
    """How large values of one type are.

    smallest  the fewest bytes that a value takes
    parts     how many parts a value has at most, in addition to `per_byte` for each of its bytes
    """

    smallest: int
    parts: float
    per_byte: float


class _Payload:
    """A payload while its parts are counted.

    at     where the next value begins
    left   how many further parts it may have
    depth  of the records, lists, and maps around the next value
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = self.depth = 0
        self.left = MOST_PARTS

    def take(self, parts: int) -> None:
        """Count further parts; RefusedError if there are too many."""
        self.left -= parts
        if self.left < 0:
            refuse_parts(EXPECTED)

    def enter(self) -> None:
        """Begin a record, a list, or a map; RefusedError if it is nested too deep."""
        self.depth += 1
        if self.depth > MOST_NESTED:
            refuse_depth(EXPECTED)

    def skip(self, count: int) -> None:
        """Pass over bytes; RefusedError if they are not there."""
        self.at += count
        if count < 0 or self.at > len(self.data):
            raise _malformed("bytes that end within a value")

    def number(self) -> int:
        """Return the next integer, and pass over it."""
        at = self.at
        if at < len(self.data) and (first := self.data[at]) < 0x80:
            self.at = at + 1
            return (first >> 1) ^ -(first & 1)
        bits = shift = 0
        for byte in self.data[self.at : self.at + _LONGEST_VARINT]:
            bits |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                self.at += shift // 7
                return (bits >> 1) ^ -(bits & 1)
        raise _malformed("bytes that are no integer")

    def skip_numbers(self, count: int) -> None:
        """Pass over integers, many at a time."""
        while count:
            chunk = self.data[self.at : self.at + count]
            if not chunk:
                raise _malformed("bytes that end within a value")
            self.at += len(chunk)
            count -= len(chunk.translate(None, _CONTINUED))

    def blocks(self, parts: int) -> Iterator[int]:
        """Yield how many items each block of a list or map has; each item has this number of parts of its own."""
        while count := self.number():
            if count < 0:
                count = -count
                self.number()  # the size of the block in bytes
            self.take(count * parts)
            yield count


class AvroBounds:
    """Checks payloads of one schema.

    schema  as fastavro parses it
    named   the types that it refers to, by their names

    SchemaError if no payload can be read by it.
    """

    def __init__(self, schema: object, named: Mapping[str, Any]) -> None:
        self._named = named
        self._sizes: dict[str, _Size] = {}
        self._skips: dict[str, _Skip] = {}
        size = self._size(schema, ())
        self._most_bytes = (MOST_PARTS - size.parts) / size.per_byte if size.per_byte else _UNBOUNDED
        if size.parts > MOST_PARTS:
            self._most_bytes = -1.0
        self._skip = self._skipper(schema)

    def check(self, payload: bytes) -> None:
        """Raise RefusedError for a payload that has too many parts, or nests them too deep."""
        if len(payload) > self._most_bytes:
            self._skip(_Payload(payload))

    def _size(self, schema: Any, within: tuple[str, ...]) -> _Size:  # noqa: ANN401  as fastavro parses JSON
        """Return the size of values of a type; `within` are the names of the types around it."""
        size = self._size_of_plain(schema, within)
        return size._replace(parts=size.parts + _LOGICAL_PARTS) if _is_logical(schema) else size

    def _size_of_plain(self, schema: Any, within: tuple[str, ...]) -> _Size:  # noqa: ANN401  as above
        if isinstance(schema, list):
            each = [self._size(branch, within) for branch in schema]
            parts = _parts_of_union(schema) + max((size.parts for size in each), default=0)
            return _Size(1, parts, max((size.per_byte for size in each), default=0))
        kind = schema["type"] if isinstance(schema, Mapping) else schema
        if kind in _WIDTHS:
            return _Size(_WIDTHS[kind], 0, 0)
        if kind == "null":
            return _Size(0, 0, 0)
        if kind == "fixed":
            return _Size(_width_of(schema), 0, 0)
        if kind in {"array", "map"}:
            item = self._size(schema["items" if kind == "array" else "values"], within)
            own, smallest = (1, item.smallest) if kind == "array" else (2, item.smallest + 1)
            density = (own + item.parts) / smallest if smallest else _UNBOUNDED
            return _Size(1, 1, item.per_byte + density)
        if kind in _RECORDS:
            return self._size_of_record(schema, within)
        if kind in self._named:
            return _Size(0, 0, _UNBOUNDED) if kind in within else self._size_of_name(kind, within)
        return _Size(1, 0, 0)

    def _size_of_name(self, name: str, within: tuple[str, ...]) -> _Size:
        found = self._sizes.get(name)
        return self._size(self._named[name], within) if found is None else found

    def _size_of_record(self, schema: Mapping[str, Any], within: tuple[str, ...]) -> _Size:
        name = schema["name"]
        fields = [self._size(field["type"], (*within, name)) for field in schema["fields"]]
        own = 1 + len(fields)
        found = _Size(
            sum(size.smallest for size in fields),
            own + sum(size.parts for size in fields),
            max((size.per_byte for size in fields), default=0),
        )
        self._sizes[name] = found
        return found

    def _skipper(self, schema: Any) -> _Skip:  # noqa: ANN401  as fastavro parses JSON
        """Return what passes over a value of a type, and counts its parts."""
        skip = self._skipper_of_plain(schema)
        return _logical(skip) if _is_logical(schema) else skip

    def _skipper_of_plain(self, schema: Any) -> _Skip:  # noqa: ANN401  as above
        if isinstance(schema, list):
            return _union([self._skipper(branch) for branch in schema])
        kind = schema["type"] if isinstance(schema, Mapping) else schema
        if kind in _TEXTS:
            return _skip_text
        if kind == "null":
            return _skip_nothing
        width = _width_of(schema) if kind == "fixed" else _WIDTHS.get(kind)
        if width is not None:
            return lambda payload: payload.skip(width)
        if kind == "array":
            return _array(self._skipper(schema["items"]))
        if kind == "map":
            return _map(self._skipper(schema["values"]))
        if kind in _RECORDS:
            return self._record(schema)
        if kind in self._named:
            return self._reference(kind)
        return _skip_number

    def _record(self, schema: Mapping[str, Any]) -> _Skip:
        fields: list[_Skip] = []
        own = 1 + len(schema["fields"])

        def skip(payload: _Payload) -> None:
            payload.take(own)
            payload.enter()
            for each in fields:
                each(payload)
            payload.depth -= 1

        # Before its fields, one of which may hold such a record.
        self._skips[schema["name"]] = skip
        fields.extend(self._skipper(field["type"]) for field in schema["fields"])
        return skip

    def _reference(self, name: str) -> _Skip:
        return self._skips[name] if name in self._skips else self._skipper(self._named[name])


def _is_logical(schema: object) -> bool:
    return isinstance(schema, Mapping) and "logicalType" in schema


def _logical(skip: _Skip) -> _Skip:
    def skip_logical(payload: _Payload) -> None:
        payload.take(_LOGICAL_PARTS)
        skip(payload)

    return skip_logical


def _array(skip_item: _Skip) -> _Skip:
    def skip(payload: _Payload) -> None:
        payload.take(1)
        payload.enter()
        for count in payload.blocks(1):
            if skip_item is _skip_number:
                payload.skip_numbers(count)
            else:
                for _ in range(count):
                    skip_item(payload)
        payload.depth -= 1

    return skip


def _map(skip_value: _Skip) -> _Skip:
    def skip(payload: _Payload) -> None:
        payload.take(1)
        payload.enter()
        for count in payload.blocks(2):
            for _ in range(count):
                _skip_text(payload)
                skip_value(payload)
        payload.depth -= 1

    return skip


def _parts_of_union(branches: Sequence[object]) -> int:
    """Return what a union counts, in addition to what it holds: fastavro looks at each of its branches."""
    return len(branches) // 8


def _union(branches: Sequence[_Skip]) -> _Skip:
    own = _parts_of_union(branches)

    def skip(payload: _Payload) -> None:
        payload.take(own)
        branch = payload.number()
        if not 0 <= branch < len(branches):
            raise _malformed(f"branch {branch} of a union of {len(branches)}")
        branches[branch](payload)

    return skip


def _skip_nothing(payload: _Payload) -> None:
    pass


def _skip_number(payload: _Payload) -> None:
    payload.number()


def _skip_text(payload: _Payload) -> None:
    payload.skip(payload.number())


def _width_of(schema: Mapping[str, Any]) -> int:
    width = schema["size"]
    if not isinstance(width, int) or width < 0:
        raise SchemaError(f"expected a size of at least 0 of the type {schema['name']!r}, found {width!r}")
    return width


def _malformed(found: str) -> RefusedError:
    return RefusedError(Reason.MALFORMED, EXPECTED, found)
