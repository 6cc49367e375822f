"""JSON, which msgspec reads: what a text holds, and what is wrong with one, in words.

JSON is that of RFC 8259 in UTF-8, and nothing beyond: no NaN, no comments, no lone surrogates. If an object has a name
twice, its last value counts. A number without point and exponent is an integer; any other becomes the nearest 64-bit
float, which may be infinite.
"""

import re
from collections.abc import Mapping
from math import inf
from typing import Any, NoReturn

import msgspec

from stream_apple.records.message.found import quoted
from stream_apple.records.message.reasons import Reason

MOST_NESTED = 64
"""How deep maps and lists may be nested, the record included, also where no feature is made of them.

Without a bound it would be the interpreter's version, and how deep its stack is just then, that decide which record is
refused.
"""
MOST_HOLDERS = 65_536
"""How many signs `{` and `[` a text may have, in strings too: a map or a list takes about 1 µs. No record may have more
features."""
MOST_BYTES = 50_000_000
"""The most memory that the values of a record may take as Python's objects."""

_HOLDER, _NAME, _ITEM = 184, 128, 32  # bytes of a map with one entry, of another entry, and of a number in a list

# Numbers that are hard to round, as 1e308 is, take msgspec 7 µs each, and Python 0.2; others take msgspec 0.02.
_MOST_EXPONENTS = 1000
_NO_MORE_EXPONENTS = 5000  # bytes of text

_decode = msgspec.json.Decoder().decode
_decode_exponents = msgspec.json.Decoder(float_hook=float).decode
_encode = msgspec.msgpack.Encoder().encode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_write = msgspec.json.Encoder().encode

_PLACE = re.compile(r"\(byte (\d+)\)$")
_LONG = re.compile(rb"[0-9]{4301,}+")
_HALF = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)


class JsonError(ValueError):
    """A text is not JSON that a record may be.

    reason    the reason in a dead letter
    expected  what was expected, in words
    found     what was found, and where
    """

    def __init__(self, reason: Reason, expected: str, found: str) -> None:
        super().__init__(f"expected {expected}, found {found}")
        self.reason, self.expected, self.found = reason, expected, found


def parsed(text: bytes) -> object:
    """Return what a text of JSON holds, in Python's own types.

    JsonError if it is not JSON, nests more than MOST_NESTED deep, has more than MOST_HOLDERS maps and lists, or would
    take more than MOST_BYTES of memory.
    """
    try:
        found = _parsed(text)
    except RecursionError:
        _refuse_deep()
    if _holders_in(text) > MOST_NESTED and is_nested(found):
        _refuse_deep()
    return found


def as_msgpack(text: bytes) -> bytes:
    """Return the msgpack of a text of JSON; JsonError as of `parsed`.

    An integer of more than 64 bits, which msgpack can't hold, becomes the nearest 64-bit float. Depth is left to those
    who read the msgpack, and who allow less of it.
    """
    try:
        found = _parsed(text)
        try:
            return _encode(found)
        except OverflowError:
            return _encode(_of_64_bits(found))
    except RecursionError:
        _refuse_deep()


def with_members(text: bytes, members: Mapping[str, object]) -> bytes:
    """Return an object of JSON with these members, in place of its own; the values of all others keep their bytes."""
    return _write({**_members(text), **members})


def is_nested(found: object) -> bool:
    """Return whether maps and lists are nested more than MOST_NESTED deep."""
    level: list[Any] = [found] if isinstance(found, dict | list | tuple) else []
    for _ in range(MOST_NESTED):
        level = [
            each
            for holder in level
            for each in (holder.values() if isinstance(holder, dict) else holder)
            if isinstance(each, dict | list | tuple)
        ]
        if not level:
            return False
    return True


def _refuse_deep() -> NoReturn:
    """Raise JsonError: maps and lists are nested more than MOST_NESTED deep."""
    raise JsonError(Reason.TOO_DEEP, f"maps and lists nested at most {MOST_NESTED} deep", "more")


def _parsed(text: bytes) -> object:
    if len(text) > MOST_HOLDERS:
        _check_size(text)
    exponents = 0 if len(text) <= _NO_MORE_EXPONENTS else text.count(b"e") + text.count(b"E")
    try:
        return _decode(text) if exponents <= _MOST_EXPONENTS else _decode_exponents(text)
    except msgspec.ValidationError:
        pass  # msgspec refuses a number that no finite float is near to, which others read as infinite
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _fault(text, error) from None
    try:
        return _decode_exponents(text)
    except msgspec.DecodeError as error:
        raise _fault(text, error) from None


def _holders_in(text: bytes) -> int:
    return text.count(b"{") + text.count(b"[")


def _check_size(text: bytes) -> None:
    """Raise JsonError if what a text holds could be too large, before any of it is made."""
    if (holders := _holders_in(text)) > MOST_HOLDERS:
        raise JsonError(Reason.TOO_MANY_FEATURES, f"at most {MOST_HOLDERS:,} signs {{ and [", f"{holders:,}")
    size = holders * _HOLDER + text.count(b":") * _NAME + text.count(b",") * _ITEM
    if size > MOST_BYTES:
        expected = f"values that take at most {MOST_BYTES // 1_000_000} MB of memory"
        raise JsonError(Reason.TOO_MANY_FEATURES, expected, f"some that may take {size // 1_000_000} MB")


def _fault(text: bytes, error: Exception) -> JsonError:
    """Say what is wrong with a text that msgspec has refused, by its error."""
    said, expected = str(error), "JSON in UTF-8"
    if isinstance(error, UnicodeDecodeError):
        at = _first_byte_that_is_no_utf8(text)
        return JsonError(Reason.MALFORMED, expected, f"byte 0x{text[at]:02x}, at byte {at}")
    if isinstance(error, msgspec.ValidationError):
        long = _LONG.search(text)
        return _refusal("integers of at most 4,300 digits", text, len(text) if long is None else long.end() - 1)
    place = _PLACE.search(said)
    if ("surrogate" in said or place is None) and (half := _HALF.search(text)):
        return _refusal("whole characters, and no half of a surrogate pair", text, half.end() - 1)
    if place is None:
        found = f"the end of the record, at byte {len(text)}"
        return JsonError(Reason.MALFORMED, "a whole JSON object", found)
    return _refusal("the end of the record" if "trailing char" in said else expected, text, int(place[1]))


def _refusal(expected: str, text: bytes, at: int) -> JsonError:
    """Return the refusal of a text whose byte `at` is the first that is wrong, or one of the first."""
    return JsonError(Reason.MALFORMED, expected, f"{quoted(text[max(0, at - 20) : at + 5])}, near byte {at}")


def _first_byte_that_is_no_utf8(text: bytes) -> int:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.start
    return 0


def _of_64_bits(item: object) -> object:
    """Return the same, with a float in place of each integer of more than 64 bits."""
    if isinstance(item, dict):
        return {name: _of_64_bits(inner) for name, inner in item.items()}
    if isinstance(item, list):
        return [_of_64_bits(inner) for inner in item]
    if type(item) is int and not -(1 << 63) <= item < 1 << 64:
        try:
            return float(item)
        except OverflowError:
            return inf if item > 0 else -inf
    return item
