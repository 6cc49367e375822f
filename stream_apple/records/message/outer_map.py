"""The outer map of messages: where id, label and weight are, so that a label can be put in without reading the rest.

The bytes of a message are checked to be one whole map of msgpack, or object of JSON. The contents of its other fields
are not looked at, and stay as they are.
"""

from collections.abc import Mapping, Sequence
from math import isnan
from typing import NamedTuple

import msgpack

from stream_apple.records.message import msgpack_tags as mp
from stream_apple.records.message.first_bytes import is_json
from stream_apple.records.message.json_text import JsonError, as_msgpack, with_members
from stream_apple.records.message.reasons import Reason

_KINDS = mp.KINDS.tobytes()
_OF_IDS = frozenset({mp.STR, mp.BIN, mp.INT})
_BUFFER_BYTES = 1 << 10  # to begin with: by default each reader would take 16 KB

_NO_UTF8 = b"\xc1"
"""A byte that never occurs in UTF-8: the keys of ids that are not str begin with it."""


_FIELDS = frozenset({b"id", b"label", b"weight"})


class Field(NamedTuple):
    """Where a field is in its message: where its key starts, where its value starts, and where it stops, in bytes."""

    start: int
    value: int
    stop: int


class OuterMap(NamedTuple):
    """One message that has an id, and where its fields are.

    value   the message, as msgpack, to which the places belong
    id      `key_of_id` of the message's id
    body    the first byte after the header of the map
    label   where the label is, if there is one
    weight  where the weight is, if there is one
    source  the message as JSON, if it came so; else None
    """

    value: bytes
    id: bytes
    body: int
    pairs: int
    label: Field | None
    weight: Field | None
    source: bytes | None

    @property
    def has_label(self) -> bool:
        """Whether the message has a label; nil and NaN are none."""
        return self.label is not None and not self.is_missing(self.label)

    @property
    def as_it_is(self) -> bytes:
        """The message as it came."""
        return self.value if self.source is None else self.source

    def number(self, field: Field) -> int | float | None:
        """Return the number that a field of this message holds; None for anything else, which msgpack may not read."""
        if _kind(self.value, field.value) not in {mp.INT, mp.FLOAT}:
            return None
        found: int | float = msgpack.unpackb(self.value[field.value : field.stop])
        return found

    def is_missing(self, field: Field) -> bool:
        """Return whether a field of this message holds nil or NaN, which are as good as absent."""
        number = self.number(field)
        return self.value[field.value] == mp.TAG_NIL or (number is not None and isnan(number))

    def labelled(self, numbers: "LabelAndWeight") -> bytes:
        """Return the message with these numbers in place of its own; all else stays as it is."""
        if self.source is not None:
            return with_members(self.source, numbers.named)
        label, weight = self.label, None if numbers.weight is None else self.weight
        pairs = self.pairs + len(numbers.named)
        if label is None and weight is None:
            header = _SHORT_HEADERS[pairs] if pairs < len(_SHORT_HEADERS) else map_header(pairs)
            return header + self.value[self.body :] + numbers.packed
        parts, at = [], self.body
        for field in sorted(field for field in (label, weight) if field is not None):
            parts.append(self.value[at : field.start])
            at = field.stop
        parts.append(self.value[at:])
        return b"".join((map_header(pairs - len(parts) + 1), *parts, numbers.packed))


class Opened(NamedTuple):
    """The outer maps of `n` messages, and their faults.

    maps    one for each message; None where there is a fault
    faults  number of the message -> the reason, and the byte of the fault in the message, of JSON in its msgpack
    """

    maps: Sequence[OuterMap | None]
    faults: Mapping[int, tuple[Reason, int]]


class _FaultError(Exception):
    """A message has a fault, at this byte."""

    def __init__(self, reason: Reason, place: int) -> None:
        super().__init__(reason, place)
        self.fault = reason, place


def open_maps(values: Sequence[bytes | None], max_bytes: int) -> Opened:
    """Find the fields of messages; one that is no map, or has no id, has a fault."""
    maps: list[OuterMap | None] = []
    faults: dict[int, tuple[Reason, int]] = {}
    for number, value in enumerate(values):
        try:
            maps.append(_opened(value, max_bytes))
        except _FaultError as error:
            maps.append(None)
            faults[number] = error.fault
    return Opened(maps, faults)


def _opened(value: bytes | None, max_bytes: int) -> OuterMap:
    if value is None:
        raise _FaultError(Reason.NULL_VALUE, 0)
    if len(value) > max_bytes:
        raise _FaultError(Reason.RECORD_TOO_LARGE, 0)
    if not is_json(value):
        return _read(value, None)
    try:
        return _read(as_msgpack(value), value)
    except JsonError as error:
        raise _FaultError(error.reason, 0) from None


def _read(message: bytes, source: bytes | None) -> OuterMap:
    """Return the map that a message of msgpack is; fields other than id, label and weight are read over."""
    if _kind(message, 0) != mp.MAP:
        raise _unlike(message, 0)
    reader = msgpack.Unpacker(raw=True, max_buffer_size=0, read_size=_BUFFER_BYTES)
    reader.feed(message)
    at, found = 0, dict[bytes, Field]()
    name: str | bytes | int | None = None
    try:
        pairs = reader.read_map_header()
        body = at = reader.tell()
        for _ in range(pairs):
            start = at
            if _kind(message, start) != mp.STR:
                raise _unlike(message, start)
            key = reader.unpack()
            at = value = reader.tell()
            if key == b"id":
                name = _id(message, value, reader.unpack() if _kind(message, value) in _OF_IDS else reader.skip())
            else:
                reader.skip()
            at = reader.tell()
            if key in _FIELDS:
                if key in found:
                    raise _FaultError(Reason.DUPLICATE_KEY, start)
                found[key] = Field(start, value, at)
    except msgpack.StackError:
        raise _FaultError(Reason.TOO_DEEP, at) from None
    except (ValueError, msgpack.UnpackException):
        raise _FaultError(Reason.MALFORMED, at) from None
    if at != len(message):
        raise _FaultError(Reason.MALFORMED, at)
    if name is None:
        raise _FaultError(Reason.NO_ID, 0)
    return OuterMap(message, key_of_id(name), body, pairs, found.get(b"label"), found.get(b"weight"), source)


def _kind(message: bytes, at: int) -> int:
    return _KINDS[message[at]] if at < len(message) else mp.BROKEN


def _unlike(message: bytes, at: int) -> _FaultError:
    """Return the fault of a value of the wrong kind."""
    return _FaultError(Reason.MALFORMED if _kind(message, at) == mp.BROKEN else Reason.WRONG_TYPE, at)


def _id(message: bytes, at: int, content: bytes | int | None) -> str | bytes | int | None:
    """Return the id at a byte of a message, whose content has been read if it may be one; None if it is nil."""
    kind = _kind(message, at)
    if kind not in _OF_IDS and kind != mp.NIL:
        raise _unlike(message, at)
    if kind != mp.STR or not isinstance(content, bytes):
        return content
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise _FaultError(Reason.BAD_ID, at) from None


def key_of_id(name: str | int | bytes) -> bytes:
    """Return bytes that are equal for equal ids, and only for these: an integer never equals a text."""
    if isinstance(name, str):
        return name.encode()
    return _NO_UTF8 + (b"i%d" % name if isinstance(name, int) else b"b" + name)


class LabelAndWeight:
    """A label, and a weight unless it is None, to be put into messages in place of their own.

    named   both by name
    packed  the pairs of a map of msgpack that they are
    """

    def __init__(self, label: float, weight: float | None = None) -> None:
        self.label, self.weight = label, weight
        self.named = {"label": label} if weight is None else {"label": label, "weight": weight}
        self.packed = b"".join(msgpack.packb(name) + msgpack.packb(number) for name, number in self.named.items())


def map_header(pairs: int) -> bytes:
    """Return the bytes with which a map of so many pairs begins."""
    if pairs < 16:
        return bytes([mp.TAG_FIXMAP | pairs])
    return b"\xde" + pairs.to_bytes(2, "big") if pairs < 1 << 16 else b"\xdf" + pairs.to_bytes(4, "big")


_SHORT_HEADERS = [map_header(pairs) for pairs in range(16)]
