"""Explanations of refused records for people: what was expected, what was found, and where."""

from __future__ import annotations

from sys import float_info
from typing import TYPE_CHECKING

import msgpack

from stream_apple.records.message.enclosing_key import enclosing_keys
from stream_apple.records.message.first_bytes import is_json
from stream_apple.records.message.found import LOOKED_AT, found_in_msgpack, lenient_unpacker, shortened
from stream_apple.records.message.json_text import JsonError, as_msgpack
from stream_apple.records.message.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stream_apple.core.batch import Limits

_TYPES = {
    "label": "a number or null",
    "weight": "a number or null",
    "id": "a string, bytes, an integer of 64 bits, or null",
    "features": "a map of names to numbers, booleans, or strings, of namespaces to such maps, or "
    "{indices: bytes, values: bytes}, and one of these forms throughout",
}


def explain(
    reason: Reason, place: int, value: bytes | None, limits: Limits, *, names: Mapping[str, str] | None = None
) -> str:
    """Explain in ASCII what was expected, what was found, and where.

    place  a byte of the record's `value`, or of its msgpack if it is JSON, as in `Decoded.places`
    names  key -> its name in the source, if `value` was made of a record of another shape, or of a line of a file;
           then, as for JSON, the text names no byte

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
                "expected a key 'id' with a string, bytes, or an integer, by which impressions and outcomes are "
                "matched, found none"
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
        try:
            value, names = as_msgpack(value), names or {}
        except JsonError as error:
            return str(error)
    keys = enclosing_keys(value, place)
    found = found_in_msgpack(value, place)
    if reason is not Reason.MALFORMED:
        expected = _expected(reason, keys, place, limits)
    elif 0 < place < len(value) and _size_of_first(value) == place:
        expected, found = "the end of the record", _left_over(value[place:])
    elif place < len(value) and _size_of_first(value[place:]):
        expected = "indices and values whose lengths fit each other"
    else:
        expected = "a whole msgpack value"
    if reason is Reason.TOO_MANY_FEATURES:
        found = "more"
    where = [f"at byte {place}"] if names is None else []
    if keys:
        shown = [(names or {}).get(keys[0], keys[0]), *keys[1:]]
        where.append(f"in {' of '.join(shortened(ascii(key)) for key in reversed(shown))}")
    return ", ".join([f"expected {expected}, found {found}", *where])


def _expected(reason: Reason, keys: list[str], place: int, limits: Limits) -> str:
    if reason is Reason.WRONG_TYPE:
        if not keys:
            return "a msgpack map or a JSON object" if place == 0 else "a string as key"
        return _TYPES.get(keys[0], _TYPES["features"])
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
