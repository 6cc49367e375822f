"""The parser of examples: msgpack is read, checked and hashed in one pass over the bytes of many records.

Owns the example format as `schemas/README.md` has it, and the hashes that give features their identity. A
record becomes a row or gets a `Reason`; faults are looked for in the order of the bytes, the first one counts.
No byte outside a record is read for it, whatever lengths the record claims.

All kernels are in this file, because Numba's cache does not see edits in other files; `decode.py` wraps them.
Positions are signed and become unsigned only to index, which spares Numba's test for negative indices.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_apple.core import msgpack_tags as mp
from stream_apple.core.jit import kernel
from stream_apple.core.rejects import Reason

Bytes: TypeAlias = NDArray[np.uint8]

MAX_DEPTH = 16  # maps and arrays within each other, the example itself included

_OK = int(Reason.OK)
_NULL_VALUE = int(Reason.NULL_VALUE)
_RECORD_TOO_LARGE = int(Reason.RECORD_TOO_LARGE)
_MALFORMED = int(Reason.MALFORMED)
_TOO_DEEP = int(Reason.TOO_DEEP)
_WRONG_TYPE = int(Reason.WRONG_TYPE)
_DUPLICATE_KEY = int(Reason.DUPLICATE_KEY)
_NO_FEATURES = int(Reason.NO_FEATURES)
_TOO_MANY_FEATURES = int(Reason.TOO_MANY_FEATURES)
_BAD_VALUE = int(Reason.BAD_VALUE)
_BAD_WEIGHT = int(Reason.BAD_WEIGHT)
_BAD_LABEL = int(Reason.BAD_LABEL)
_BAD_ID = int(Reason.BAD_ID)

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_ZERO = np.uint64(0)
_NOT_ZERO = np.uint64(0x9E3779B97F4A7C15)  # the key of whatever hashes to 0, which marks a free slot
_LOW_32 = np.uint64(0xFFFFFFFF)
_LOW_8 = np.uint64(0xFF)


def _word_of(name: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(name, "little"))


_LABEL, _WEIGHT, _ID = _word_of(b"label"), _word_of(b"weight"), _word_of(b"id")
_FEATURES, _INDICES, _VALUES = _word_of(b"features"), _word_of(b"indices"), _word_of(b"values")
_FEATURES_BIT, _LABEL_BIT, _WEIGHT_BIT, _ID_BIT = 1, 2, 4, 8


class Limits(NamedTuple):
    """What a record may hold. `binary`: labels are 1 and -1 (0 is read as -1), instead of a range."""

    max_features: int
    max_record_bytes: int
    max_weight: float
    min_label: float
    max_label: float
    binary: bool


class Columns(NamedTuple):
    """Where the rows are written: `n` records, `m` of them good, with `z` features in all.

    indptr   int64[n + 1]   written up to m + 1; the element after a row being read is where it stops so far
    keys     uint64[...]    as many as the records' sum of min(max_features, size // 2); written up to z
    values   float32[...]   as many as keys
    labels   float64[n]     written up to m, and so are weights, rows and ids
    weights  float64[n]
    rows     int64[n]       index of the record
    ids      int64[n, 2]    start and stop of the raw msgpack of `id`
    """

    indptr: NDArray[np.int64]
    keys: NDArray[np.uint64]
    values: NDArray[np.float32]
    labels: NDArray[np.float64]
    weights: NDArray[np.float64]
    rows: NDArray[np.int64]
    ids: NDArray[np.int64]


@kernel
def _byte(buffer: Bytes, at: int) -> int:
    return np.int64(buffer[np.uint64(at)])  # type: ignore[return-value]


@kernel
def _word(buffer: Bytes, at: int, size: int) -> np.uint64:
    """`size` <= 8 bytes, little-endian, the rest zero. For a constant size LLVM makes one load of it."""
    word = _ZERO
    for step in range(size):
        word |= np.uint64(buffer[np.uint64(at) + np.uint64(step)]) << np.uint64(8 * step)
    return word


@kernel
def _big_endian(buffer: Bytes, at: int, size: int) -> np.uint64:
    word = _ZERO
    for step in range(size):
        word = (word << np.uint64(8)) | np.uint64(buffer[np.uint64(at + step)])
    return word


@kernel
def _length(buffer: Bytes, at: int, size: int) -> int:
    """`size` <= 4 bytes, big-endian."""
    return np.int64(_big_endian(buffer, at, size))  # type: ignore[return-value]


@kernel
def _rotate(word: np.uint64, bits: int) -> np.uint64:
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@kernel
def _avalanche(word: np.uint64) -> np.uint64:
    """The end of xxh64; a hash of 0 is replaced, because key 0 marks a free slot."""
    word = (word ^ (word >> np.uint64(33))) * _P2
    word = (word ^ (word >> np.uint64(29))) * _P3
    word ^= word >> np.uint64(32)
    return word if word != _ZERO else _NOT_ZERO


@kernel
def _hash_tail(state: np.uint64, word: np.uint64, size: int) -> np.uint64:
    """Take in the last `size` < 8 bytes, which are the low ones of `word`."""
    if size & 4:
        state = _rotate(state ^ ((word & _LOW_32) * _P1), 23) * _P2 + _P3
        word >>= np.uint64(32)
    for _ in range(size & 3):
        state = _rotate(state ^ ((word & _LOW_8) * _P5), 11) * _P1
        word >>= np.uint64(8)
    return state


@kernel
def name_key(buffer: Bytes, at: int, stop: int, seed: np.uint64) -> np.uint64:
    """xxh64 of the bytes [at, stop) with `seed`, never 0."""
    size = stop - at
    if size >= 32:
        a, b, c, d = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while stop - at >= 32:
            a = _rotate(a + _word(buffer, at, 8) * _P2, 31) * _P1
            b = _rotate(b + _word(buffer, at + 8, 8) * _P2, 31) * _P1
            c = _rotate(c + _word(buffer, at + 16, 8) * _P2, 31) * _P1
            d = _rotate(d + _word(buffer, at + 24, 8) * _P2, 31) * _P1
            at += 32
        state = _rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)
        for lane in (a, b, c, d):
            state = (state ^ (_rotate(lane * _P2, 31) * _P1)) * _P1 + _P4
    else:
        state = seed + _P5
    state += np.uint64(size)
    while stop - at >= 8:
        state = _rotate(state ^ (_rotate(_word(buffer, at, 8) * _P2, 31) * _P1), 27) * _P1 + _P4
        at += 8
    return _avalanche(_hash_tail(state, _word(buffer, at, stop - at), stop - at))


@kernel
def index_key_of(index: np.uint64) -> np.uint64:
    """The finalizer of splitmix64, so that keys of small integers do not add up to each other; never 0."""
    index = (index ^ (index >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    index = (index ^ (index >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    index ^= index >> np.uint64(31)
    return index if index != _ZERO else _NOT_ZERO


@kernel
def _is_timestamp(buffer: Bytes, start: int, size: int) -> bool:
    """Whether the data of an extension of type -1 has one of its three layouts, and less than 1e9 ns."""
    if size == 8:
        return _length(buffer, start, 4) >> 2 < 1_000_000_000
    return size == 4 or (size == 12 and _length(buffer, start, 4) < 1_000_000_000)


@kernel
def _head(buffer: Bytes, at: int, end: int) -> tuple[int, int, int]:
    """Kind of the value at `at`, where its content starts, and its size: bytes, or items of an array or map.

    The content of what is not an array or map lies before `end`; a value cut short is `BROKEN`.
    """
    if at >= end:
        return mp.BROKEN, at, 0
    tag = _byte(buffer, at)
    kind, width, size = _byte(mp.KINDS, tag), _byte(mp.LENGTH_BYTES, tag), _byte(mp.LENGTHS, tag)
    start = at + 1 + width
    if start > end:
        return mp.BROKEN, at, 0
    if width:
        size = _length(buffer, at + 1, width)
    if kind == mp.EXT:
        # The fixed sizes are of the data; the byte of the type comes first.
        if size + 1 > end - start or (_byte(buffer, start) == 0xFF and not _is_timestamp(buffer, start + 1, size)):
            return mp.BROKEN, at, 0
        return kind, start, size + 1
    if kind < mp.ARRAY and size > end - start:
        return mp.BROKEN, at, 0
    return kind, start, size


@kernel
def _unlike(kind: int) -> int:
    """The reason for a value of the wrong `kind`."""
    return _MALFORMED if kind == mp.BROKEN else _WRONG_TYPE


@kernel
def _number(buffer: Bytes, at: int, end: int) -> tuple[float, int, int]:
    """The int or float at `at` as float64, where it ends, and the fault."""
    kind, start, size = _head(buffer, at, end)
    after = start + size
    if kind == mp.INT:
        tag = _byte(buffer, at)
        if size == 0:
            return np.float64(tag if tag < mp.TAG_NEGATIVE_FIXINT else tag - 256), after, _OK
        bits = _big_endian(buffer, start, size)
        if tag < mp.TAG_INT8:
            return np.float64(bits), after, _OK
        unused = 64 - 8 * size
        return np.float64(np.uint64(bits << np.uint64(unused)).view(np.int64) >> unused), after, _OK
    if kind == mp.FLOAT:
        bits = _big_endian(buffer, start, size)
        if size == 4:
            return np.float64(np.uint32(bits).view(np.float32)), after, _OK
        return np.uint64(bits).view(np.float64), after, _OK
    return 0.0, at, _unlike(kind)


@kernel
def _is_utf8(buffer: Bytes, at: int, stop: int) -> bool:
    """Whether [at, stop) is UTF-8 as of table 3-7 of the Unicode standard: no overlong form, no surrogate."""
    while at < stop:
        lead = _byte(buffer, at)
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
            if not low <= _byte(buffer, at) <= high:
                return False
            low, high = 0x80, 0xBF
            at += 1
    return True


@kernel
def _skip(buffer: Bytes, at: int, end: int, pending: NDArray[np.int64]) -> tuple[int, int]:
    """Step over a value inside the example, of any kind: where it ends, or where the fault is, and the fault.

    pending  int64[MAX_DEPTH], scratch: values still to come at each depth.
    """
    depth = 0
    pending[0] = 1
    while depth >= 0:
        if pending[depth] == 0:
            depth -= 1
            continue
        pending[depth] -= 1
        kind, start, size = _head(buffer, at, end)
        if kind == mp.BROKEN:
            return at, _MALFORMED
        if kind < mp.ARRAY:
            at = start + size
            continue
        depth += 1
        if depth == MAX_DEPTH:
            return at, _TOO_DEEP
        pending[depth] = size if kind == mp.ARRAY else 2 * size
        at = start
    return at, _OK


@kernel
def _name(buffer: Bytes, at: int, end: int) -> tuple[int, int, int, np.uint64]:
    """A str at `at`: where it starts and stops, the fault, and if of at most 8 bytes, they as a word."""
    kind, start, size = _head(buffer, at, end)
    if kind != mp.STR:
        return at, at, _unlike(kind), _ZERO
    return start, start + size, _OK, _word(buffer, start, size) if size <= 8 else _ZERO


@kernel
def _names(buffer: Bytes, at: int, end: int, count: int, seed: np.uint64, out: Columns, row: int) -> tuple[int, int]:
    """`count` pairs of name and value from `at` on: where they end or the fault is, and the fault."""
    z = out.indptr[row + 1]
    for _ in range(count):
        if at >= end:
            return at, _MALFORMED
        size = _byte(buffer, at) - mp.TAG_FIXSTR
        name = at + 1
        if 0 <= size < 8 and name + 8 <= end:
            stop = name + size
            word = _word(buffer, name, 8)
            key = _avalanche(_hash_tail(seed + _P5 + np.uint64(size), word, size))
        else:
            kind, name, size = _head(buffer, at, end)
            if kind != mp.STR:
                return at, _unlike(kind)
            stop = name + size
            key = name_key(buffer, name, stop, seed)
        if stop >= end:
            return stop, _MALFORMED
        tag = _byte(buffer, stop)
        # The usual encodings are read here; `_number` takes twice the time.
        if tag in (mp.TAG_FALSE, mp.TAG_TRUE):
            value = np.float32(tag - mp.TAG_FALSE)
            at = stop + 1
        elif tag < mp.TAG_FIXMAP:
            value = np.float32(tag)
            at = stop + 1
        else:
            if tag == mp.TAG_FLOAT32 and end - stop > 4:
                value = np.uint32(_big_endian(buffer, stop + 1, 4)).view(np.float32)
                at = stop + 5
            elif tag == mp.TAG_FLOAT64 and end - stop > 8:
                value = np.float32(np.uint64(_big_endian(buffer, stop + 1, 8)).view(np.float64))
                at = stop + 9
            else:
                number, at, fault = _number(buffer, stop, end)
                if fault != _OK:
                    return at, fault
                value = np.float32(number)
            if not np.isfinite(value):
                return stop, _BAD_VALUE
        out.keys[np.uint64(z)] = key
        out.values[np.uint64(z)] = value
        z += value != 0
    out.indptr[row + 1] = z
    return at, _OK


@kernel
def _namespaces(
    buffer: Bytes, first: int, end: int, count: int, max_features: int, out: Columns, row: int
) -> tuple[int, int]:
    """`count` pairs of namespace and map from `first` on: where they end or the fault is, and the fault."""
    at = first
    entries = 0
    for _ in range(count):
        kind, start, size = _head(buffer, at, end)
        if kind != mp.STR:
            return at, _unlike(kind)
        at = start + size
        seed = name_key(buffer, start, at, _ZERO) if size else _ZERO
        kind, start, size = _head(buffer, at, end)
        if kind != mp.MAP:
            return at, _unlike(kind)
        entries += size
        if entries > max_features:
            return at, _TOO_MANY_FEATURES
        at, fault = _names(buffer, start, end, size, seed, out, row)
        if fault != _OK:
            return at, fault
    if entries == 0:
        return first, _NO_FEATURES
    return at, _OK


@kernel
def _packed(
    buffer: Bytes, first: int, end: int, count: int, max_features: int, out: Columns, row: int
) -> tuple[int, int]:
    """`count` pairs of the packed form from `first` on: where they end or the fault is, and the fault."""
    at = first
    indices = numbers = -1
    index_bytes = number_bytes = 0
    for _ in range(count):
        start, stop, fault, word = _name(buffer, at, end)
        if fault != _OK:
            return at, fault
        is_indices = stop - start == 7 and word == _INDICES
        if not is_indices and not (stop - start == 6 and word == _VALUES):
            return at, _WRONG_TYPE
        if (indices if is_indices else numbers) >= 0:
            return at, _DUPLICATE_KEY
        kind, start, size = _head(buffer, stop, end)
        if kind != mp.BIN:
            return stop, _unlike(kind)
        if is_indices:
            indices, index_bytes = start, size
        else:
            numbers, number_bytes = start, size
        at = start + size
    if indices < 0:
        return first, _WRONG_TYPE
    entries = number_bytes // 4 if numbers >= 0 else index_bytes // 8
    width = 4 if numbers >= 0 and index_bytes == 4 * entries else 8
    if index_bytes != width * entries or (numbers >= 0 and number_bytes != 4 * entries):
        return first, _MALFORMED
    if entries == 0:
        return first, _NO_FEATURES
    if entries > max_features:
        return first, _TOO_MANY_FEATURES
    z = out.indptr[row + 1]
    value = np.float32(1.0)
    for step in range(entries):
        if numbers >= 0:
            place = numbers + 4 * step
            value = np.uint32(_word(buffer, place, 4)).view(np.float32)
            if not np.isfinite(value):
                return place, _BAD_VALUE
        place = indices + width * step
        out.keys[np.uint64(z)] = index_key_of(_word(buffer, place, 8) if width == 8 else _word(buffer, place, 4))
        out.values[np.uint64(z)] = value
        z += value != 0
    out.indptr[row + 1] = z
    return at, _OK


@kernel
def _features(buffer: Bytes, at: int, end: int, max_features: int, out: Columns, row: int) -> tuple[int, int]:
    """The features at `at`, in the form that their first value tells: where they end, and the fault."""
    kind, first, count = _head(buffer, at, end)
    if kind != mp.MAP:
        return at, _unlike(kind)
    if count == 0:
        return at, _NO_FEATURES
    kind, start, size = _head(buffer, first, end)
    if kind != mp.STR:
        return first, _unlike(kind)
    kind, _, _ = _head(buffer, start + size, end)
    if kind == mp.MAP:
        return _namespaces(buffer, first, end, count, max_features, out, row)
    if kind == mp.BIN:
        return _packed(buffer, first, end, count, max_features, out, row)
    if kind not in (mp.BOOL, mp.INT, mp.FLOAT):
        return start + size, _unlike(kind)
    if count > max_features:
        return at, _TOO_MANY_FEATURES
    return _names(buffer, first, end, count, _ZERO, out, row)


@kernel
def _id(buffer: Bytes, at: int, end: int, out: Columns, row: int) -> tuple[int, int]:
    """The id at `at`: where it ends or the fault is, and the fault."""
    kind, start, size = _head(buffer, at, end)
    if kind not in (mp.STR, mp.BIN, mp.INT):
        return at, _unlike(kind)
    stop = start + size
    if kind == mp.STR and not _is_utf8(buffer, start, stop):
        return at, _BAD_ID
    out.ids[row, 0], out.ids[row, 1] = at, stop
    return stop, _OK


@kernel
def _label(buffer: Bytes, at: int, end: int, limits: Limits, out: Columns, row: int) -> tuple[int, int]:
    """The label at `at`: where it ends or the fault is, and the fault."""
    if at < end and _byte(buffer, at) == mp.TAG_NIL:
        return at + 1, _OK
    label, stop, fault = _number(buffer, at, end)
    if fault != _OK:
        return at, fault
    if limits.binary:
        if label not in (-1.0, 0.0, 1.0):
            return at, _BAD_LABEL
        out.labels[row] = 1.0 if label > 0.0 else -1.0
        return stop, _OK
    # NaN fails every comparison; the infinities are no labels, whatever the range.
    if not (limits.min_label <= label <= limits.max_label and np.isfinite(label)):
        return at, _BAD_LABEL
    out.labels[row] = label
    return stop, _OK


@kernel
def _weight(buffer: Bytes, at: int, end: int, max_weight: float, out: Columns, row: int) -> tuple[int, int]:
    """The weight at `at`: where it ends or the fault is, and the fault."""
    weight, stop, fault = _number(buffer, at, end)
    if fault != _OK:
        return at, fault
    if not (0.0 <= weight <= max_weight and np.isfinite(weight)):
        return at, _BAD_WEIGHT
    out.weights[row] = weight
    return stop, _OK


@kernel
def _known_key(word: np.uint64, size: int) -> int:
    """The bit of a known key, from its bytes as of `_name`; 0 for any other."""
    if size == 8 and word == _FEATURES:
        return _FEATURES_BIT
    if size == 5 and word == _LABEL:
        return _LABEL_BIT
    if size == 6 and word == _WEIGHT:
        return _WEIGHT_BIT
    if size == 2 and word == _ID:
        return _ID_BIT
    return 0


@kernel
def _record(
    buffer: Bytes,
    first: int,
    end: int,
    limits: Limits,
    out: Columns,
    row: int,
    pending: NDArray[np.int64],
) -> tuple[int, int]:
    """The record [first, end) as `row`: the place of the fault, and the fault."""
    out.labels[row] = np.nan
    out.weights[row] = 1.0
    out.ids[row, 0] = out.ids[row, 1] = first
    out.indptr[row + 1] = out.indptr[row]
    kind, at, count = _head(buffer, first, end)
    if kind != mp.MAP:
        return first, _unlike(kind)
    seen = 0
    for _ in range(count):
        key_at = at
        start, at, fault, word = _name(buffer, key_at, end)
        if fault != _OK:
            return key_at, fault
        known = _known_key(word, at - start)
        if seen & known:
            return key_at, _DUPLICATE_KEY
        seen |= known
        if known == _FEATURES_BIT:
            at, fault = _features(buffer, at, end, limits.max_features, out, row)
        elif known == _LABEL_BIT:
            at, fault = _label(buffer, at, end, limits, out, row)
        elif known == _WEIGHT_BIT:
            at, fault = _weight(buffer, at, end, limits.max_weight, out, row)
        elif known == _ID_BIT:
            at, fault = _id(buffer, at, end, out, row)
        else:
            at, fault = _skip(buffer, at, end, pending)
        if fault != _OK:
            return at, fault
    if at != end:
        return at, _MALFORMED
    if not seen & _FEATURES_BIT:
        return at, _NO_FEATURES
    return at, _OK


@kernel
def parse(
    buffer: Bytes,
    sizes: NDArray[np.int64],
    limits: Limits,
    out: Columns,
    reasons: Bytes,
    places: NDArray[np.int64],
) -> int:
    """Parse the records that lie one after another in `buffer`; returns the number of good ones.

    sizes            int64[n], bytes of each record; -1 = null, which takes no bytes.
    reasons, places  [n], written: the fault of each record and the byte in the record; -1 if good.
    """
    pending = np.empty(MAX_DEPTH, np.int64)
    first = 0
    row = 0
    out.indptr[0] = 0
    for record in range(sizes.size):
        size = sizes[record]
        end = first + max(size, 0)
        place, reason = first, _OK
        if size < 0:
            reason = _NULL_VALUE
        elif size > limits.max_record_bytes:
            reason = _RECORD_TOO_LARGE
        else:
            place, reason = _record(buffer, first, end, limits, out, row, pending)
        reasons[record] = reason
        places[record] = place - first
        if reason == _OK:
            places[record] = -1
            out.rows[row] = record
            row += 1
        first = end
    return row
