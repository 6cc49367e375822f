"""Records that are JSON become msgpack before they are parsed, so that there is one format to parse.

What the parser reads becomes msgpack of the same content, which gives the same row, to the bit, and is less than one
and a half times as long as the JSON. What the parser would skip, or refuse for its kind alone, is only checked for its
syntax, so that it costs little time and no memory. Records that are msgpack already are copied. A record whose JSON is
malformed is refused before its content is looked at.
"""

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel, routine
from stream_apple.records.message import msgpack_tags as mp
from stream_apple.records.message.json_numbers import EXACT, number_text
from stream_apple.records.message.json_reader import (
    CLOSE_OBJECT,
    COMMA,
    FALSE,
    NULL,
    OPEN_ARRAY,
    OPEN_OBJECT,
    QUOTE,
    TRUE,
    after_colon,
    after_space,
    after_value,
    begins_number,
    begins_object,
    spells,
    string_at,
)
from stream_apple.records.message.msgpack_reader import MAX_DEPTH, OK, ZERO, Bytes, byte, word_at
from stream_apple.records.message.msgpack_writer import put
from stream_apple.records.message.parse import FEATURES_BIT, known_key
from stream_apple.records.message.reasons import Reason

_TAG_MAP32, _HEADER = 0xDF, 5  # bytes of it, with the count
_EMPTY_ARRAY = 0x90
_WRITTEN_DEPTH = 3  # the example, its features, those of a namespace
# In an object the 7 bytes `"":0.5,` become 10, and no complete value grows by more; the headers of the objects that are
# open come on top.
_OPEN_HEADERS = _HEADER * (_WRITTEN_DEPTH + 1)
_NOWHERE = -1


@routine
def _known_key(out: Bytes, start: int, stop: int) -> int:
    """Return the bit of the key that is written in `out` as msgpack; 0 if the parser skips its value."""
    size = stop - start - 1
    return known_key(word_at(out, start + 1, size), size) if size <= 8 else 0


@routine
def _key(source: Bytes, at: int, end: int, out: Bytes, to: int) -> tuple[int, int, int]:
    """Transcode a key and skip its colon.

    Returns where they end or the fault is, where the key's msgpack ends, and the fault.
    """
    if at >= end or byte(source, at) != QUOTE:
        return at, to, Reason.MALFORMED
    at, to, fault = string_at(source, at, end, out, to)
    if fault != OK:
        return at, to, fault
    at, fault = after_colon(source, at, end)
    return at, to, fault


@routine
def _value(
    source: Bytes,
    first: int,
    end: int,
    out: Bytes,
    start: int,
    opened: NDArray[np.int64],
    scratch: NDArray[np.uint64],
    watched: int,
) -> tuple[int, int, int, int]:
    """Transcode the record [first, end), which begins an object, to msgpack in `out` from `start` on.

    opened   int64[2, MAX_DEPTH], scratch: where each open object starts in `out`, and its items so far.
    scratch  as of `exact_float`.
    watched  a byte of the msgpack, counted from `start`.

    Returns where the record ends or the fault is, where the msgpack ends, the fault, and where in the JSON the key or
    value starts to which the byte `watched` belongs.
    """
    at, to = after_space(source, first, end), start
    seen = at
    depth = known = 0
    while True:
        # A value begins here.
        if to - start <= watched:
            seen = at
        ended = True
        fault = OK
        sign = byte(source, at) if at < end else 0
        if sign == OPEN_OBJECT and (depth == 0 or (known == FEATURES_BIT and depth < _WRITTEN_DEPTH)):
            opened[0, depth], opened[1, depth] = to, 0
            depth += 1
            # The count is overwritten when it is known; until then it is larger than any true count.
            to = put(out, to, _TAG_MAP32, np.uint64(0xFFFFFF), _HEADER - 1)
            at = after_space(source, at + 1, end)
            ended = at < end and byte(source, at) == CLOSE_OBJECT
        elif sign == QUOTE:
            at, to, fault = string_at(source, at, end, out, to)
        elif begins_number(sign):
            at, to, fault = number_text(source, at, end, out, to, scratch)
        elif spells(source, at, end, TRUE):
            at, to = at + 4, put(out, to, mp.TAG_TRUE, ZERO, 0)
        elif spells(source, at, end, FALSE):
            at, to = at + 5, put(out, to, mp.TAG_FALSE, ZERO, 0)
        elif spells(source, at, end, NULL):
            at, to = at + 4, put(out, to, mp.TAG_NIL, ZERO, 0)
        elif sign in (OPEN_OBJECT, OPEN_ARRAY):
            # The parser refuses any object or array here, so an empty one will do.
            to = put(out, to, mp.TAG_FIXMAP if sign == OPEN_OBJECT else _EMPTY_ARRAY, ZERO, 0)
            at, fault = after_value(source, at, end, depth, opened[0])
        else:
            fault = Reason.MALFORMED
        if fault != OK:
            return at, to, fault, seen
        # After a value: close objects, and skip members, until there is a key whose value the parser reads.
        while True:
            while ended:
                at = after_space(source, at, end)
                if depth == 0:
                    if to - start <= watched:
                        seen = end
                    return at, to, OK if at == end else Reason.MALFORMED, seen
                sign = byte(source, at) if at < end else 0
                if sign == COMMA:
                    at = after_space(source, at + 1, end)
                    ended = False
                elif sign == CLOSE_OBJECT:
                    depth -= 1
                    put(out, opened[0, depth], _TAG_MAP32, np.uint64(opened[1, depth]), _HEADER - 1)
                    at += 1
                else:
                    return at, to, Reason.MALFORMED, seen
            if to - start <= watched:
                seen = at
            key = to
            at, to, fault = _key(source, at, end, out, key)
            if fault != OK:
                return at, to, fault, seen
            if depth == 1:
                known = _known_key(out, key, to)
            if known:
                opened[1, depth - 1] += 1
                break
            to = key
            at, fault = after_value(source, at, end, depth, opened[0])
            if fault != OK:
                return at, to, fault, seen
            ended = True


@kernel
def _records(
    buffer: Bytes,
    sizes: NDArray[np.int64],
    max_record_bytes: int,
    out: Bytes,
    out_sizes: NDArray[np.int64],
    reasons: Bytes,
    places: NDArray[np.int64],
    opened: NDArray[np.int64],
    scratch: NDArray[np.uint64],
) -> int:
    """Transcode all records to `out`: copy those that are not JSON, leave out refused ones; return where the last ends.

    reasons, places  [n], written where a record is refused.
    """
    first = to = 0
    for record in range(sizes.size):
        size = sizes[record]
        end = first + max(size, 0)
        start = to
        if size > max_record_bytes:
            reasons[record], places[record] = Reason.RECORD_TOO_LARGE, 0
        elif begins_object(buffer, first, end):
            at, to, fault, _ = _value(buffer, first, end, out, start, opened, scratch, _NOWHERE)
            if fault != OK:
                reasons[record], places[record] = fault, at - first
                to = start
        else:
            for step in range(end - first):
                out[np.uint64(to + step)] = buffer[np.uint64(first + step)]
            to += end - first
        out_sizes[record] = to - start if size >= 0 else size
        first = end
    return to


def _room(source: Bytes) -> Bytes:
    """Return an array that holds the msgpack of all that is in `source`."""
    return np.empty(source.size + source.size // 2 + _OPEN_HEADERS, np.uint8)


def _scratch() -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return the arrays `opened` and `scratch` of `_value`."""
    return np.empty((2, MAX_DEPTH), np.int64), np.empty(EXACT, np.uint64)


def transcode(
    buffer: Bytes, sizes: NDArray[np.int64], max_record_bytes: int, reasons: Bytes, places: NDArray[np.int64]
) -> tuple[Bytes, NDArray[np.int64]]:
    """Transcode the records of `buffer`; return the msgpack, uint8[...], and each record's size, int64[n], -1 = null.

    sizes            int64[n], bytes of each record; -1 = null, which takes no bytes.
    reasons, places  [n], written where a record is refused, as malformed JSON or as larger than `max_record_bytes`;
                     such a record has no bytes afterwards.
    """
    out, out_sizes = _room(buffer), np.empty_like(sizes)
    stop = _records(buffer, sizes, max_record_bytes, out, out_sizes, reasons, places, *_scratch())
    out.setflags(write=False)  # like the bytes of records from Kafka, so that kernels are compiled for one type
    return out[:stop], out_sizes


def place_in_json(value: bytes, place: int) -> int:
    """Return where the key or value starts in the JSON `value`, to which byte `place` of its msgpack belongs."""
    source = np.frombuffer(value, np.uint8)
    return _start_of(source, _room(source), *_scratch(), place)


@kernel
def _start_of(source: Bytes, out: Bytes, opened: NDArray[np.int64], scratch: NDArray[np.uint64], watched: int) -> int:
    return int(_value(source, 0, source.size, out, 0, opened, scratch, watched)[3])


def as_msgpack(value: bytes) -> bytes:
    """Return a record as the parser sees it; b"" for JSON that is broken."""
    reasons, places = np.zeros(1, np.uint8), np.zeros(1, np.int64)
    whole, _ = transcode(np.frombuffer(value, np.uint8), np.array([len(value)]), len(value), reasons, places)
    return whole.tobytes()
