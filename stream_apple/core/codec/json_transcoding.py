"""Records that are JSON become msgpack before they are parsed, so that there is one format to parse.

A JSON object and the msgpack map of the same content therefore give the same bits. Records that are msgpack already are
copied. A record that is no JSON is refused as a whole, whatever it holds, before its content is looked at.
"""

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.codec import msgpack_tags as mp
from stream_apple.core.codec.json_reader import (
    CLOSE_ARRAY,
    CLOSE_OBJECT,
    COLON,
    COMMA,
    MINUS,
    OPEN_ARRAY,
    OPEN_OBJECT,
    QUOTE,
    after_space,
    begins_object,
    number_text,
    put,
    string_at,
)
from stream_apple.core.codec.msgpack_reader import MAX_DEPTH, OK, ZERO, Bytes, byte
from stream_apple.core.codec.rejects import Reason
from stream_apple.core.jit import kernel

_MALFORMED = int(Reason.MALFORMED)
_TOO_DEEP = int(Reason.TOO_DEEP)
_RECORD_TOO_LARGE = int(Reason.RECORD_TOO_LARGE)

_TAG_ARRAY32, _TAG_MAP32 = 0xDD, 0xDF
_HEADER = 5  # bytes of either, with the count
_WORDS = (b"true", b"false", b"null")
_TRUE, _FALSE, _NULL = (np.frombuffer(word, np.uint8) for word in _WORDS)
# 0.5 becomes 9 bytes, and nothing that is whole grows more; an array or object that is open has its header beyond that.
_GROWTH, _OPEN_HEADERS = 3, _HEADER * MAX_DEPTH
_FEW = 16
_NOWHERE = -1


@kernel
def _spells(source: Bytes, at: int, end: int, word: Bytes) -> bool:
    same = end - at >= word.size
    for step in range(word.size if same else 0):
        same &= source[np.uint64(at + step)] == word[np.uint64(step)]
    return same


@kernel
def _key(source: Bytes, at: int, end: int, out: Bytes, to: int) -> tuple[int, int, int]:
    """A key and its colon at `at`: where they end or the fault is, where the key's msgpack ends, and the fault."""
    if at >= end or byte(source, at) != QUOTE:
        return at, to, _MALFORMED
    at, to, fault = string_at(source, at, end, out, to)
    if fault != OK:
        return at, to, fault
    at = after_space(source, at, end)
    if at >= end or byte(source, at) != COLON:
        return at, to, _MALFORMED
    return after_space(source, at + 1, end), to, OK


@kernel
def _value(
    source: Bytes,
    first: int,
    end: int,
    out: Bytes,
    start: int,
    unsettled: NDArray[np.int64],
    known: int,
    opened: NDArray[np.int64],
    watched: int,
) -> tuple[int, int, int, int, int]:
    """The record [first, end) as msgpack in `out` from `start` on.

    unsettled  int64[..., 3]: where numbers start and stop whose floats are missing, and where these go; written as far
               as there is room, from row `known` on.
    opened     int64[2, MAX_DEPTH], scratch: where each open array or object starts in `out`, and its items so far.
    watched    a byte of the msgpack, counted from `start`.

    Returns where the record ends or the fault is, where the msgpack ends, the fault, the rows of `unsettled`, and where
    the key or value starts that `watched` belongs to.
    """
    at, to = after_space(source, first, end), start
    seen = at
    depth = 0
    while True:
        # A value begins here, or the end of an empty array does.
        if to - start <= watched:
            seen = at
        sign = byte(source, at) if at < end else 0
        if sign in (OPEN_OBJECT, OPEN_ARRAY):
            if depth == MAX_DEPTH:
                return at, to, _TOO_DEEP, known, seen
            opened[0, depth], opened[1, depth] = to, 0
            depth += 1
            # The count is written when it is known; until then it is more than what follows.
            is_object = sign == OPEN_OBJECT
            to = put(out, to, _TAG_MAP32 if is_object else _TAG_ARRAY32, np.uint64(0xFFFFFF), _HEADER - 1)
            at = after_space(source, at + 1, end)
            if at >= end or byte(source, at) != (CLOSE_OBJECT if is_object else CLOSE_ARRAY):
                if is_object:
                    if to - start <= watched:
                        seen = at
                    at, to, fault = _key(source, at, end, out, to)
                    if fault != OK:
                        return at, to, fault, known, seen
                continue
        elif sign == QUOTE:
            at, to, fault = string_at(source, at, end, out, to)
            if fault != OK:
                return at, to, fault, known, seen
        elif sign == MINUS or ord("0") <= sign <= ord("9"):
            number = at
            at, to, fault, settled = number_text(source, at, end, out, to)
            if fault != OK:
                return at, to, fault, known, seen
            if not settled:
                if known < len(unsettled):
                    unsettled[known, 0], unsettled[known, 1], unsettled[known, 2] = number, at, to - 8
                known += 1
        elif _spells(source, at, end, _TRUE):
            at, to = at + 4, put(out, to, mp.TAG_TRUE, ZERO, 0)
        elif _spells(source, at, end, _FALSE):
            at, to = at + 5, put(out, to, mp.TAG_FALSE, ZERO, 0)
        elif _spells(source, at, end, _NULL):
            at, to = at + 4, put(out, to, mp.TAG_NIL, ZERO, 0)
        else:
            return at, to, _MALFORMED, known, seen
        # After a value: arrays and objects end until there is another one.
        while True:
            at = after_space(source, at, end)
            if depth == 0:
                if to - start <= watched:
                    seen = end
                return at, to, OK if at == end else _MALFORMED, known, seen
            head = opened[0, depth - 1]
            is_object = byte(out, head) == _TAG_MAP32
            sign = byte(source, at) if at < end else 0
            if to > head + _HEADER:
                opened[1, depth - 1] += 1
            if sign == COMMA and to > head + _HEADER:
                at = after_space(source, at + 1, end)
                if is_object:
                    if to - start <= watched:
                        seen = at
                    at, to, fault = _key(source, at, end, out, to)
                    if fault != OK:
                        return at, to, fault, known, seen
                break
            if sign != (CLOSE_OBJECT if is_object else CLOSE_ARRAY):
                return at, to, _MALFORMED, known, seen
            put(out, head, _TAG_MAP32 if is_object else _TAG_ARRAY32, np.uint64(opened[1, depth - 1]), _HEADER - 1)
            depth -= 1
            at += 1


@kernel
def _records(
    buffer: Bytes,
    sizes: NDArray[np.int64],
    max_record_bytes: int,
    out: Bytes,
    out_sizes: NDArray[np.int64],
    reasons: Bytes,
    places: NDArray[np.int64],
    unsettled: NDArray[np.int64],
    opened: NDArray[np.int64],
) -> tuple[int, int]:
    """All records into `out`, those that are no JSON as they are, refused ones as nothing.

    reasons, places  [n], written where a record is refused.

    Returns where the last ends, and how many rows `unsettled` has, or should have room for.
    """
    first = to = known = 0
    for record in range(sizes.size):
        size = sizes[record]
        end = first + max(size, 0)
        start = to
        if size > max_record_bytes:
            reasons[record], places[record] = _RECORD_TOO_LARGE, 0
        elif begins_object(buffer, first, end):
            at, to, fault, rows, _ = _value(buffer, first, end, out, start, unsettled, known, opened, _NOWHERE)
            if fault == OK:
                known = rows
            else:
                reasons[record], places[record] = fault, at - first
                to = start
        else:
            for step in range(end - first):
                out[np.uint64(to + step)] = buffer[np.uint64(first + step)]
            to += end - first
        out_sizes[record] = to - start if size >= 0 else size
        first = end
    return to, known


def _room(source: Bytes) -> Bytes:
    """For the msgpack of all that is in `source`."""
    return np.empty(_GROWTH * source.size + _OPEN_HEADERS, np.uint8)


def transcode(
    buffer: Bytes, sizes: NDArray[np.int64], max_record_bytes: int, reasons: Bytes, places: NDArray[np.int64]
) -> tuple[Bytes, NDArray[np.int64]]:
    """The records of `buffer` as msgpack, uint8[...], and how many bytes each has, int64[n]; -1 = null.

    sizes            int64[n], bytes of each record; -1 = null, which takes no bytes.
    reasons, places  [n], written where a record is refused: no JSON, or larger than `max_record_bytes`; such a record
                     has no bytes afterwards.
    """
    out, out_sizes = _room(buffer), np.empty_like(sizes)
    opened, unsettled = np.empty((2, MAX_DEPTH), np.int64), np.empty((_FEW, 3), np.int64)
    while True:
        stop, known = _records(buffer, sizes, max_record_bytes, out, out_sizes, reasons, places, unsettled, opened)
        if known <= len(unsettled):
            break
        unsettled = np.empty((known, 3), np.int64)
    _settle(buffer, out, unsettled[:known])
    out.setflags(write=False)  # as records from Kafka are, so that kernels are compiled once
    return out[:stop], out_sizes


def _settle(buffer: Bytes, out: Bytes, unsettled: NDArray[np.int64]) -> None:
    """Write the floats that only more than 128 bits can tell; Python's own are rounded correctly on every platform."""
    for start, stop, to in unsettled.tolist():
        nearest = np.array(float(buffer[start:stop].tobytes()), ">f8")
        out[to : to + 8] = nearest.reshape(1).view(np.uint8)


def place_in_json(value: bytes, place: int) -> int:
    """Where the key or value starts in the JSON `value`, to which byte `place` of its msgpack belongs."""
    source = np.frombuffer(value, np.uint8)
    out, opened = _room(source), np.empty((2, MAX_DEPTH), np.int64)
    return int(_value(source, 0, source.size, out, 0, np.empty((0, 3), np.int64), 0, opened, place)[-1])


def as_msgpack(value: bytes) -> bytes:
    """A record as the parser sees it; nothing of JSON that is none."""
    reasons, places = np.zeros(1, np.uint8), np.zeros(1, np.int64)
    whole, _ = transcode(np.frombuffer(value, np.uint8), np.array([len(value)]), len(value), reasons, places)
    return whole.tobytes()
