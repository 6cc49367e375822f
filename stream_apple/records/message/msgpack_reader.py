"""A reader of unchecked msgpack.

Every function takes the place where a value starts and the place where its record ends, and reads no byte at or after
that end. Places are signed, and become unsigned only to index, which saves Numba's test for negative indices.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import part, routine
from stream_apple.records.message import msgpack_tags as mp
from stream_apple.records.message.reasons import Reason

Bytes: TypeAlias = NDArray[np.uint8]

MAX_DEPTH = 16  # maps and arrays within each other, the example itself included

OK: int = Reason.OK

ZERO = np.uint64(0)


def word_of(name: bytes) -> np.uint64:
    """Return a name of at most 8 bytes as a word, as `str_at` returns strings."""
    return np.uint64(int.from_bytes(name, "little"))


@routine
def byte(buffer: Bytes, at: int) -> int:
    """Return the byte at `at`, signed so that arithmetic on it stays in integers."""
    return np.int64(buffer[np.uint64(at)])  # type: ignore[return-value]


@part
def word_at(buffer: Bytes, at: int, size: int) -> np.uint64:
    """Return `size` <= 8 bytes as a little-endian word. For a constant size LLVM makes one load of it."""
    word = ZERO
    for step in range(size):
        word |= np.uint64(buffer[np.uint64(at) + np.uint64(step)]) << np.uint64(8 * step)
    return word


@routine
def big_endian(buffer: Bytes, at: int, size: int) -> np.uint64:
    """Return `size` <= 8 bytes as a big-endian word, as msgpack orders them."""
    word = ZERO
    for step in range(size):
        word = (word << np.uint64(8)) | np.uint64(buffer[np.uint64(at + step)])
    return word


@routine
def _length(buffer: Bytes, at: int, size: int) -> int:
    """Return the big-endian length that is `size` <= 4 bytes long."""
    return np.int64(big_endian(buffer, at, size))  # type: ignore[return-value]


@routine
def _is_timestamp(buffer: Bytes, start: int, size: int) -> bool:
    """Return whether an extension of type -1 has one of its three layouts, and less than 1e9 ns."""
    if size == 8:
        return _length(buffer, start, 4) >> 2 < 1_000_000_000
    return size == 4 or (size == 12 and _length(buffer, start, 4) < 1_000_000_000)


@routine
def head(buffer: Bytes, at: int, end: int) -> tuple[int, int, int]:
    """Return the kind of the value at `at`, where its content starts, and its size: bytes, or items of an array or map.

    A value that is not an array or map lies before `end` as a whole; one that is cut short has the kind `BROKEN`.
    """
    if at >= end:
        return mp.BROKEN, at, 0
    tag = byte(buffer, at)
    kind, width, size = byte(mp.KINDS, tag), byte(mp.LENGTH_BYTES, tag), byte(mp.LENGTHS, tag)
    start = at + 1 + width
    if start > end:
        return mp.BROKEN, at, 0
    if width:
        size = _length(buffer, at + 1, width)
    if kind == mp.EXT:
        # The fixed sizes are of the data; the byte of the type comes first.
        if size + 1 > end - start or (byte(buffer, start) == 0xFF and not _is_timestamp(buffer, start + 1, size)):
            return mp.BROKEN, at, 0
        return kind, start, size + 1
    if kind < mp.ARRAY and size > end - start:
        return mp.BROKEN, at, 0
    return kind, start, size


@routine
def unlike(kind: int) -> int:
    """Return the reason for a value of the wrong `kind`."""
    return Reason.MALFORMED if kind == mp.BROKEN else Reason.WRONG_TYPE


@routine
def number_at(buffer: Bytes, at: int, end: int) -> tuple[float, int, int]:
    """Return the int or float at `at` as float64, where it ends, and the fault."""
    kind, start, size = head(buffer, at, end)
    after = start + size
    if kind == mp.INT:
        tag = byte(buffer, at)
        if size == 0:
            return np.float64(tag if tag < mp.TAG_NEGATIVE_FIXINT else tag - 256), after, OK
        bits = big_endian(buffer, start, size)
        if tag < mp.TAG_INT8:
            return np.float64(bits), after, OK
        unused = 64 - 8 * size
        return np.float64(np.uint64(bits << np.uint64(unused)).view(np.int64) >> unused), after, OK
    if kind == mp.FLOAT:
        bits = big_endian(buffer, start, size)
        if size == 4:
            return np.float64(np.uint32(bits).view(np.float32)), after, OK
        return np.uint64(bits).view(np.float64), after, OK
    return 0.0, at, unlike(kind)


@routine
def is_utf8(buffer: Bytes, at: int, stop: int) -> bool:
    """Return whether [at, stop) is UTF-8 as of table 3-7 of the Unicode standard: no overlong form, no surrogate."""
    while at < stop:
        lead = byte(buffer, at)
        at += 1
        if lead < 0x80:
            continue
        low, high, more = 0x80, 0xBF, 1
        if 0xC2 <= lead <= 0xDF:
            pass
        elif 0xE0 <= lead <= 0xEF:
            more = 2
            low = 0xA0 if lead == 0xE0 else 0x80
            high = 0x9F if lead == 0xED else 0xBF
        elif 0xF0 <= lead <= 0xF4:
            more = 3
            low = 0x90 if lead == 0xF0 else 0x80
            high = 0x8F if lead == 0xF4 else 0xBF
        else:
            return False
        if more > stop - at:
            return False
        for _ in range(more):
            if not low <= byte(buffer, at) <= high:
                return False
            low, high = 0x80, 0xBF
            at += 1
    return True


@routine
def skip(buffer: Bytes, at: int, end: int, pending: NDArray[np.int64]) -> tuple[int, int]:
    """Skip a value inside the example, of any kind; return where it ends, or where the fault is, and the fault.

    pending  int64[MAX_DEPTH], scratch: values still to come at each depth.
    """
    depth = 0
    pending[0] = 1
    while depth >= 0:
        if pending[depth] == 0:
            depth -= 1
            continue
        pending[depth] -= 1
        kind, start, size = head(buffer, at, end)
        if kind == mp.BROKEN:
            return at, Reason.MALFORMED
        if kind < mp.ARRAY:
            at = start + size
            continue
        depth += 1
        if depth == MAX_DEPTH:
            return at, Reason.TOO_DEEP
        pending[depth] = size if kind == mp.ARRAY else 2 * size
        at = start
    return at, OK


@routine
def str_at(buffer: Bytes, at: int, end: int) -> tuple[int, int, int, np.uint64]:
    """Read the str at `at`; return where it starts and stops, the fault, and as a word its bytes, if at most 8."""
    kind, start, size = head(buffer, at, end)
    if kind != mp.STR:
        return at, at, unlike(kind), ZERO
    return start, start + size, OK, word_at(buffer, start, size) if size <= 8 else ZERO
