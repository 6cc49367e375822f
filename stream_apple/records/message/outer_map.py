"""The outer map of messages: where id, label and weight are, so that a label can be put in without reading the rest.

The bytes of a message are checked to be one whole map of msgpack, or object of JSON. The contents of its other fields
are not looked at, and stay as they are.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgpack
import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel, routine
from stream_apple.records.message import msgpack_tags as mp
from stream_apple.records.message.first_bytes import is_json
from stream_apple.records.message.json_text import JsonError, as_msgpack, with_members
from stream_apple.records.message.msgpack_reader import (
    MAX_DEPTH,
    OK,
    Bytes,
    head,
    is_utf8,
    skip,
    str_at,
    unlike,
    word_of,
)
from stream_apple.records.message.reasons import Reason

_ID, _LABEL, _WEIGHT = word_of(b"id"), word_of(b"label"), word_of(b"weight")
# Columns of the kernel's output; places are bytes from the start of the message. Label and weight have three columns
# each, as of Field, which are 0 if the field is absent.
_BODY, _PAIRS, _ID_KIND, _ID_START, _ID_STOP, _LABEL_AT, _WEIGHT_AT = 0, 1, 2, 3, 4, 5, 8
_COLUMNS = 11

_NO_UTF8 = b"\xc1"
"""A byte that never occurs in UTF-8: the keys of ids that are not str begin with it."""


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
        """Whether the message has a label; nil is no label."""
        return self.label is not None and self.value[self.label.value] != mp.TAG_NIL

    @property
    def as_it_is(self) -> bytes:
        """The message as it came."""
        return self.value if self.source is None else self.source

    def number(self, field: Field) -> int | float | None:
        """Return the number that a field of this message holds; None for anything else, which msgpack may not read."""
        if mp.KINDS[self.value[field.value]] not in {mp.INT, mp.FLOAT}:
            return None
        found: int | float = msgpack.unpackb(self.value[field.value : field.stop])
        return found

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


@routine
def _fields(buffer: Bytes, first: int, end: int, out: NDArray[np.int64], pending: NDArray[np.int64]) -> tuple[int, int]:
    """Find the fields of the message [first, end); return the place of the fault, and the fault."""
    out[:] = 0
    kind, at, count = head(buffer, first, end)
    if kind != mp.MAP:
        return first, unlike(kind)
    out[_BODY], out[_PAIRS] = at - first, count
    for _ in range(count):
        key_at = at
        start, value, fault, word = str_at(buffer, key_at, end)
        if fault != OK:
            return key_at, fault
        size = value - start
        at, fault = skip(buffer, value, end, pending)
        if fault != OK:
            return at, fault
        if size == 2 and word == _ID:
            if out[_ID_STOP]:
                return key_at, Reason.DUPLICATE_KEY
            kind, start, size = head(buffer, value, end)
            if kind not in (mp.STR, mp.BIN, mp.INT):
                return value, unlike(kind)
            if kind == mp.STR and not is_utf8(buffer, start, at):
                return value, Reason.BAD_ID
            # A small integer is in its tag.
            out[_ID_KIND], out[_ID_START], out[_ID_STOP] = (
                kind,
                (value if kind == mp.INT else start) - first,
                at - first,
            )
        elif (size == 5 and word == _LABEL) or (size == 6 and word == _WEIGHT):
            field = _LABEL_AT if size == 5 else _WEIGHT_AT
            if out[field + 2]:
                return key_at, Reason.DUPLICATE_KEY
            out[field], out[field + 1], out[field + 2] = key_at - first, value - first, at - first
    if at != end:
        return at, Reason.MALFORMED
    if not out[_ID_STOP]:
        return first, Reason.NO_ID
    return at, OK


@kernel
def _find(
    buffer: Bytes,
    sizes: NDArray[np.int64],
    out: NDArray[np.int64],
    reasons: Bytes,
    places: NDArray[np.int64],
    pending: NDArray[np.int64],
) -> None:
    """Write `out`, int64[n, _COLUMNS], and the fault of each message that has no fault yet."""
    first = 0
    for row in range(sizes.size):
        end = first + sizes[row]
        if reasons[row] == OK:
            place, fault = _fields(buffer, first, end, out[row], pending)
            reasons[row], places[row] = fault, place - first
        first = end


class Opened(NamedTuple):
    """The outer maps of `n` messages, and their faults.

    maps    one for each message; None where there is a fault
    faults  number of the message -> the reason, and the byte of the fault in the message, of JSON in its msgpack
    """

    maps: Sequence[OuterMap | None]
    faults: Mapping[int, tuple[Reason, int]]


def open_maps(values: Sequence[bytes | None], max_bytes: int) -> Opened:
    """Find the fields of messages; one that is no map, or has no id, has a fault."""
    messages = [value or b"" for value in values]
    reasons, places = np.zeros(len(values), np.uint8), np.zeros(len(values), np.int64)
    sources: list[bytes | None] = [None] * len(values)
    for number, value in enumerate(values):
        if value is None or len(value) > max_bytes:
            messages[number], reasons[number] = b"", Reason.NULL_VALUE if value is None else Reason.RECORD_TOO_LARGE
        elif is_json(value):
            sources[number] = value
            try:
                messages[number] = as_msgpack(value)
            except JsonError as error:
                messages[number], reasons[number] = b"", error.reason
    sizes = np.fromiter(map(len, messages), np.int64, len(messages))
    out = np.empty((len(values), _COLUMNS), np.int64)
    buffer = np.frombuffer(b"".join(messages), np.uint8)
    _find(buffer, sizes, out, reasons, places, np.empty(MAX_DEPTH, np.int64))
    maps: list[OuterMap | None] = [
        OuterMap(
            message,
            message[row[_ID_START] : row[_ID_STOP]] if row[_ID_KIND] == mp.STR else _other_id(message, row),
            row[_BODY],
            row[_PAIRS],
            Field(*row[_LABEL_AT : _LABEL_AT + 3]) if row[_LABEL_AT + 2] else None,
            Field(*row[_WEIGHT_AT : _WEIGHT_AT + 3]) if row[_WEIGHT_AT + 2] else None,
            source,
        )
        if reason == OK
        else None
        for message, row, source, reason in zip(messages, out.tolist(), sources, reasons.tolist(), strict=True)
    ]
    refused = np.flatnonzero(reasons).tolist()
    return Opened(maps, {number: (Reason(int(reasons[number])), int(places[number])) for number in refused})


def warm_up_outer_maps() -> None:
    """Compile, or load from the cache, all that `open_maps` runs."""
    open_maps([b"\x81\xa2id\x01"], 100)


def _other_id(message: bytes, row: Sequence[int]) -> bytes:
    content = message[row[_ID_START] : row[_ID_STOP]]
    return key_of_id(msgpack.unpackb(content) if row[_ID_KIND] == mp.INT else content)


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
