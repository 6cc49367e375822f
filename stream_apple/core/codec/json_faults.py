"""What is said of a JSON record that can't be used: where its faults lie, and what stands there.

Slow and plain, for dead letters only.
"""

import re

_SPACE = b" \t\n\r"
_PIECE = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[{}\[\]:,]', re.DOTALL)
_NUMBER = re.compile(rb"-?[0-9][0-9.eE+-]*")
_WORD = re.compile(rb"-?[A-Za-z][A-Za-z0-9]*")
_LONGEST_QUOTE = 40
_KINDS = {b"{": "an object", b"[": "an array"}
_WORDS = {b"true": "a bool", b"false": "a bool", b"null": ""}


def is_json(value: bytes) -> bool:
    """Whether the record is meant to be JSON: no map of msgpack begins so."""
    return value.lstrip(_SPACE).startswith(b"{")


def enclosing_key(value: bytes, place: int) -> tuple[str | None, bool]:
    """The key of the outermost object in whose value byte `place` lies, if any; and whether the object ends before."""
    depth = 0
    key = last = None
    ended = False
    for piece in _PIECE.finditer(value, 0, place):
        match piece.group():
            case b"{" | b"[":
                depth += 1
            case b"}" | b"]":
                depth -= 1
                ended |= depth <= 0
            case b":" if depth == 1:
                key = last
            case b"," if depth == 1:
                key = None
            case other:
                last = other
    return None if key is None or ended else key.strip(b'"').decode(errors="replace"), ended


def found_in(value: bytes, place: int) -> str:
    """A few words on what stands at byte `place`."""
    if place >= len(value):
        return "the end of the record"
    first = value[place : place + 1]
    if first in _KINDS:
        return _KINDS[first]
    if first == b'"':
        found = _PIECE.match(value, place)
        assert found is not None
        return f"a string: {_quoted(found.group()[1:].removesuffix(first))}"
    number = _NUMBER.match(value, place)
    if number is not None:
        return f"a number: {_quoted(number.group())[1:-1]}"
    word = _WORD.match(value, place)
    if word is not None:
        kind = _WORDS.get(word.group(), "")
        quote = _quoted(word.group())[1:-1]
        return f"{kind}: {quote}" if kind else quote
    return f"byte 0x{value[place]:02x}" if not 0x20 < value[place] < 0x7F else _quoted(first)


def _quoted(text: bytes) -> str:
    quote = ascii(text[: 4 * _LONGEST_QUOTE].decode(errors="replace"))
    return quote if len(quote) <= _LONGEST_QUOTE else f"{quote[:_LONGEST_QUOTE]}...{quote[0]}"
