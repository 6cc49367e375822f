"""Explanations of refused records for people: what was expected, what was found, and where."""

from __future__ import annotations

from sys import float_info
from typing import TYPE_CHECKING

import msgpack

from stream_apple.records.message.enclosing_key import enclosing_key_of_json, enclosing_key_of_msgpack
from stream_apple.records.message.first_bytes import is_json
from stream_apple.records.message.found import LOOKED_AT, found_in_json, found_in_msgpack, lenient_unpacker, shortened
from stream_apple.records.message.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stream_apple.core.batch import Limits

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
    if not value:
        return "expected a msgpack map or a JSON object, found no bytes"
    if is_json(value):
        key, ended = enclosing_key_of_json(value, place)
        if reason is Reason.MALFORMED:
            whole = "a whole JSON object" if place >= len(value) else "JSON in UTF-8"
            expected = "the end of the record" if ended else whole
        else:
            expected = _expected(reason, key, place, limits, _JSON_TYPES)
        found = found_in_json(value, place)
    else:
        key = enclosing_key_of_msgpack(value, place)
        found = found_in_msgpack(value, place)
        if reason is not Reason.MALFORMED:
            expected = _expected(reason, key, place, limits, _TYPES)
        elif 0 < place < len(value) and _size_of_first(value) == place:
            expected, found = "the end of the record", _left_over(value[place:])
        elif place < len(value) and _size_of_first(value[place:]):
            expected = "indices and values whose lengths fit each other"
        else:
            expected = "a whole msgpack value"
    if reason is Reason.TOO_MANY_FEATURES:
        found = "more"
    where = [f"at byte {place}"] if names is None else []
    where += [] if key is None else [f"in {shortened(ascii((names or {}).get(key, key)))}"]
    return ", ".join([f"expected {expected}, found {found}", *where])


def _expected(reason: Reason, key: str | None, place: int, limits: Limits, types: dict[str, str]) -> str:
    if reason is Reason.WRONG_TYPE:
        if key is None:
            return "a msgpack map or a JSON object" if place == 0 else "a str as key"
        return types.get(key, types["features"])
    labels = f"a label from {limits.min_label:g} to {limits.max_label:g} (limits.min_label, limits.max_label)"
    weights = f"a weight from 0 to {limits.max_weight:g} (limits.max_weight)"
    if limits.max_weight == float_info.max:  # a joiner leaves the limits to workers
        labels, weights = "a label that is finite", "a weight from 0 on that is finite"
    elif limits.binary:
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
        Reason.BAD_WEIGHT: weights,
        Reason.BAD_LABEL: labels,
        Reason.BAD_ID: "an id in UTF-8",
    }[reason]


def _left_over(rest: bytes) -> str:
    """Describe the bytes behind a whole example, as of a line end: they may look like a value."""
    return f"bytes left over behind the example ({len(rest)}): {shortened(ascii(rest[:LOOKED_AT]))}"


def _size_of_first(value: bytes) -> int:
    """Return how many bytes the first value of msgpack has; 0 if it is not whole."""
    unpacker = lenient_unpacker(value)
    try:
        unpacker.skip()
    except (ValueError, msgpack.UnpackException):
        return 0
    return int(unpacker.tell())
