"""The reasons to refuse a record, a closed list, and their explanations for people.

The codes are a contract with the readers of the dead-letter topic: `schemas/dead_letter.schema.json` has the same list,
in the same order. New reasons are appended.
"""

from __future__ import annotations

import codecs
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import msgpack

from stream_apple.core.codec import json_faults
from stream_apple.core.codec import msgpack_tags as mp
from stream_apple.core.codec.first_bytes import framing, is_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stream_apple.core.batch import Limits

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_TYPES = {
    "label": "a number or nil",
    "weight": "a number",
    "id": "a str, bin or int",
    "features": "a map of names to numbers, bools or strs, of namespaces to such maps, or "
    "{indices: bin, values: bin}, and one of these forms throughout",
}
_JSON_TYPES = {
    "label": "a number or null",
    "weight": "a number",
    "id": "a string or an integer of 64 bits",
    "features": "an object of names to numbers, bools or strings, or of namespaces to such objects, "
    "and one of these forms throughout",
}
_KINDS = {
    mp.NIL: "nil",
    mp.BOOL: "a bool",
    mp.INT: "a number",
    mp.FLOAT: "a number",
    mp.STR: "a str",
    mp.BIN: "a bin",
    mp.EXT: "an extension",
    mp.ARRAY: "an array",
    mp.MAP: "a map",
}
_QUOTED = {mp.BOOL, mp.INT, mp.FLOAT, mp.STR, mp.BIN}


class Reason(IntEnum):
    """The reason why a record is refused; 0 is none."""

    OK = 0
    NULL_VALUE = 1
    RECORD_TOO_LARGE = 2
    MALFORMED = 3
    TOO_DEEP = 4
    WRONG_TYPE = 5
    DUPLICATE_KEY = 6
    NO_FEATURES = 7
    TOO_MANY_FEATURES = 8
    BAD_VALUE = 9
    BAD_WEIGHT = 10
    BAD_LABEL = 11
    BAD_ID = 12
    BAD_TIMESTAMP = 13
    FAR_FUTURE = 14
    OVERFLOW = 15
    SKIPPED = 16
    NO_ID = 17
    NO_LABEL = 18
    LATE = 19

    @property
    def code(self) -> str:
        """The reason as the headers of a dead letter have it."""
        return self.name.lower()


def explain(
    reason: Reason, place: int, value: bytes | None, limits: Limits, *, names: Mapping[str, str] | None = None
) -> str:
    """Explain in ASCII what was expected, what was found, and where; `place` is a byte of the record's `value`.

    names  key -> its name in the source, if `value` was made of a record of another shape, or of a line of a file. Then
           the text names no byte, since nobody has seen these bytes

    For reasons that are not in the record's value, `place` and `value` do not matter.
    """
    match reason:
        case Reason.BAD_TIMESTAMP:
            return "expected a record timestamp, found none"
        case Reason.FAR_FUTURE:
            return "expected a timestamp near those of earlier records, found one too far ahead of them"
        case Reason.SKIPPED:
            return "expected an example, found it named in worker.skip: it is neither decoded nor learned"
        case Reason.NO_ID:
            return (
                "expected a key 'id' with a str, bin or int, by which impression and outcomes are matched, found none"
            )
        case Reason.NO_LABEL:
            return "expected a key 'label' with a number in an outcome, found none"
        case Reason.LATE:
            return "expected a time near those of earlier records, found one whose impressions or outcomes have gone by"
        case Reason.RECORD_TOO_LARGE if value is not None:
            return f"expected at most {limits.max_record_bytes} bytes, found {len(value)}"
    if value is None or reason is Reason.NULL_VALUE:
        return "expected a msgpack map or a JSON object, found a null value"
    if is_json(value):
        key, ended = json_faults.enclosing_key(value, place)
        if reason is Reason.MALFORMED:
            whole = "a whole JSON object" if place >= len(value) else "JSON in UTF-8"
            expected = "the end of the record" if ended else whole
        else:
            expected = _expected(reason, key, place, limits, _JSON_TYPES)
        found = "more" if reason is Reason.TOO_MANY_FEATURES else json_faults.found_in(value, place)
    else:
        key = _enclosing_key(value, place)
        if reason is Reason.MALFORMED:
            expected = _expected_bytes(key, value, place)
        else:
            expected = _expected(reason, key, place, limits, _TYPES)
        found = _found(reason, value, place)
    where = [f"at byte {place}"] if names is None else []
    where += [] if key is None else [f"in {_shortened(ascii((names or {}).get(key, key)))}"]
    return ", ".join([f"expected {expected}, found {found}", *where])


def _shortened(quote: str) -> str:
    return quote if len(quote) <= json_faults.LONGEST_QUOTE else f"{quote[: json_faults.LONGEST_QUOTE]}..."


def _expected_bytes(key: str | None, value: bytes, place: int) -> str:
    if place >= len(value) or not _is_whole(value, place):
        return "a whole msgpack value"
    return "the end of the record" if key is None else "indices and values whose lengths fit each other"


def _expected(reason: Reason, key: str | None, place: int, limits: Limits, types: dict[str, str]) -> str:
    if reason is Reason.WRONG_TYPE:
        if key is None:
            return "a msgpack map or a JSON object" if place == 0 else "a str as key"
        return types.get(key, types["features"])
    labels = f"a label from {limits.min_label:g} to {limits.max_label:g} (limits.min_label, limits.max_label)"
    if limits.binary:
        labels = "a label of 1 or -1 (0 is read as -1)"
    elif limits.classes:
        labels = f"a label that is a whole number from 0 to {limits.classes - 1}"
    return {
        Reason.TOO_DEEP: "maps and arrays at most 16 deep",
        Reason.DUPLICATE_KEY: "each key once",
        Reason.NO_FEATURES: "a key 'features' with a map, which may be empty",
        Reason.TOO_MANY_FEATURES: f"at most {limits.max_features} features",
        Reason.BAD_VALUE: "a value that is finite as a 32-bit float",
        Reason.OVERFLOW: "a value below 2^60 (1.15e18) in size",
        Reason.BAD_WEIGHT: f"a weight from 0 to {limits.max_weight:g} (limits.max_weight)",
        Reason.BAD_LABEL: labels,
        Reason.BAD_ID: "an id in UTF-8",
    }[reason]


def _found(reason: Reason, value: bytes, place: int) -> str:
    """Describe in a few words what stands at byte `place`, quoted where that helps."""
    if place >= len(value):
        return "the end of the record"
    kind = int(mp.KINDS[value[place]])
    if place == 0 and kind != mp.MAP and (found := foreign(value)):
        return found
    if kind == mp.BROKEN:
        return f"byte 0x{value[place]:02x}"
    if kind == mp.MAP and reason is Reason.TOO_MANY_FEATURES:
        return "more"
    if kind not in _QUOTED:
        return _KINDS[kind]
    start = place + 1 + int(mp.LENGTH_BYTES[value[place]])
    size = int(mp.LENGTHS[value[place]])
    if start > place + 1:
        size = int.from_bytes(value[place + 1 : start], "big")
    if start + size > len(value):
        return f"{_KINDS[kind]} that is cut short"
    content = value[start : start + min(size, json_faults.LOOKED_AT)]
    match kind:
        case mp.STR:
            quote = ascii(content.decode(errors="replace"))
        case mp.BIN:
            quote = ascii(content)
        case _:
            quote = ascii(_unpacker(value[place : start + size]).unpack())
    return f"{_KINDS[kind]}: {_shortened(quote)}"


def foreign(value: bytes) -> str | None:
    """Describe a record that is neither msgpack nor an object of JSON; None if it may be msgpack."""
    if frame := framing(value):
        return frame
    if value.startswith(_BYTE_ORDER_MARK):
        return "a byte order mark, which JSON must not have"
    if _is_text(value):
        return f"text: {json_faults.quoted(value)}"
    # Most bytes are integers of msgpack, but nobody sends an integer with more bytes after it.
    if len(value) > 1 and mp.KINDS[value[0]] == mp.INT and not mp.LENGTHS[value[0]]:
        return f"byte 0x{value[0]:02x}"
    return None


def _is_text(value: bytes) -> bool:
    """Return whether the value begins as readable text: no msgpack but an integer does."""
    try:
        # An incremental decoder does not refuse a character that is cut off at the end.
        text = codecs.getincrementaldecoder("utf-8")().decode(value[: json_faults.LOOKED_AT])
    except UnicodeDecodeError:
        return False
    return "".join(text.split()).isprintable()


def _is_whole(value: bytes, place: int) -> bool:
    try:
        _unpacker(value[place:]).skip()
    except (ValueError, msgpack.UnpackException):
        return False
    return True


def _enclosing_key(value: bytes, place: int) -> str | None:
    """Return the key of the example in whose value byte `place` lies; None if it lies in no value."""
    unpacker = _unpacker(value)
    key: str | None = None
    try:
        for _ in range(unpacker.read_map_header()):
            key = None
            if place <= unpacker.tell() or mp.KINDS[value[unpacker.tell()]] != mp.STR:
                return None  # a key that is not a str is the first fault
            found = unpacker.unpack()
            if place < unpacker.tell():
                return None
            key = found
            unpacker.skip()
            if place < unpacker.tell():
                return key
    except (ValueError, msgpack.UnpackException):
        return key  # the fault is at or before the first bytes that are not msgpack
    return None


def _unpacker(value: bytes) -> Any:  # noqa: ANN401  msgpack has no types
    unpacker = msgpack.Unpacker(unicode_errors="replace", object_pairs_hook=list, strict_map_key=False)
    unpacker.feed(value)
    return unpacker
