"""What stands at a byte of a refused record, in a few words, quoted where that helps.

This code is slow and plain, as it runs for dead letters only.
"""

import codecs
from typing import Any

import msgpack

from stream_apple.records.message import msgpack_tags as mp
from stream_apple.records.message.first_bytes import framing

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONGEST_QUOTE = 40
LOOKED_AT = 4 * LONGEST_QUOTE
"""How many bytes of what is quoted are looked at."""
_MSGPACK_KINDS = {
    mp.NIL: "null",
    mp.BOOL: "a boolean",
    mp.INT: "a number",
    mp.FLOAT: "a number",
    mp.STR: "a string",
    mp.BIN: "bytes",
    mp.EXT: "an extension",
    mp.ARRAY: "an array",
    mp.MAP: "a map",
}
_QUOTED_KINDS = {mp.BOOL, mp.INT, mp.FLOAT, mp.STR, mp.BIN}


def found_in_msgpack(value: bytes, place: int) -> str:
    """Describe what stands at byte `place` of a record of msgpack."""
    if place >= len(value):
        return "the end of the record"
    kind = int(mp.KINDS[value[place]])
    if place == 0 and kind != mp.MAP and (found := foreign(value)):
        return found
    if kind == mp.BROKEN:
        return f"byte 0x{value[place]:02x}"
    if kind not in _QUOTED_KINDS:
        return _MSGPACK_KINDS[kind]
    start = place + 1 + int(mp.LENGTH_BYTES[value[place]])
    size = int(mp.LENGTHS[value[place]])
    if start > place + 1:
        size = int.from_bytes(value[place + 1 : start], "big")
    if start + size > len(value):
        return f"{_MSGPACK_KINDS[kind]} that is cut short"
    content = value[start : start + min(size, LOOKED_AT)]
    match kind:
        case mp.STR:
            quote = ascii(content.decode(errors="replace"))
        case mp.BIN:
            quote = ascii(content)
        case mp.BOOL:
            quote = "true" if value[place] == mp.TAG_TRUE else "false"
        case _:
            quote = ascii(lenient_unpacker(value[place : start + size]).unpack())
    return f"{_MSGPACK_KINDS[kind]}: {shortened(quote)}"


def foreign(value: bytes) -> str | None:
    """Describe a record that is neither msgpack nor an object of JSON; None if it may be msgpack."""
    if frame := framing(value):
        return frame
    if value.startswith(_BYTE_ORDER_MARK):
        return "a byte order mark, which JSON must not have"
    if _is_text(value):
        return f"text: {quoted(value)}"
    # Most bytes are integers of msgpack, but nobody sends an integer with more bytes after it.
    if len(value) > 1 and mp.KINDS[value[0]] == mp.INT and not mp.LENGTHS[value[0]]:
        return f"byte 0x{value[0]:02x}"
    return None


def _is_text(value: bytes) -> bool:
    """Return whether the value begins as readable text: no msgpack but an integer does."""
    try:
        # An incremental decoder does not refuse a character that is cut off at the end.
        text = codecs.getincrementaldecoder("utf-8")().decode(value[:LOOKED_AT])
    except UnicodeDecodeError:
        return False
    # One byte that begins a character, and no more, is a value of msgpack: a bool.
    return bool(text) and "".join(text.split()).isprintable()


def quoted(text: bytes) -> str:
    """Return the beginning of a text as Python would quote it, in ASCII."""
    quote = ascii(text[:LOOKED_AT].decode(errors="replace"))
    return quote if len(quote) <= LONGEST_QUOTE else f"{quote[:LONGEST_QUOTE]}...{quote[0]}"


def shortened(quote: str) -> str:
    """Return a quote, cut if it is long."""
    return quote if len(quote) <= LONGEST_QUOTE else f"{quote[:LONGEST_QUOTE]}..."


def lenient_unpacker(value: bytes) -> Any:  # noqa: ANN401  msgpack has no types
    """Return a reader of msgpack's values that takes any key, however often, and text that is not UTF-8."""
    unpacker = msgpack.Unpacker(unicode_errors="replace", object_pairs_hook=list, strict_map_key=False)
    unpacker.feed(value)
    return unpacker
