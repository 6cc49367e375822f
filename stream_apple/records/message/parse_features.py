"""The features of an example, in their three forms: names, namespaces of names, or packed indices.

Each function reads from a place on, and returns where it ended, or where the fault is, and the fault (OK if none).
"""

import numpy as np

from stream_apple.core.batch import TOO_LARGE, Columns
from stream_apple.core.jit import routine
from stream_apple.records.message import msgpack_tags as mp
from stream_apple.records.message.feature_hashing import category_key, index_key_of, name_key, short_name_key
from stream_apple.records.message.msgpack_reader import (
    OK,
    ZERO,
    Bytes,
    big_endian,
    byte,
    head,
    number_at,
    str_at,
    unlike,
    word_at,
    word_of,
)
from stream_apple.records.message.reasons import Reason

_EQUALS = ord("=")
_INDICES, _VALUES = word_of(b"indices"), word_of(b"values")


@routine
def _fault_of(value: np.float32) -> int:
    """Return the reason to refuse a feature's value that is not below TOO_LARGE: infinite, or too large."""
    return Reason.OVERFLOW if np.isfinite(value) else Reason.BAD_VALUE


@routine
def _is_packed_key(buffer: Bytes, start: int, stop: int) -> bool:
    size = stop - start
    return (size == 7 and word_at(buffer, start, 7) == _INDICES) or (size == 6 and word_at(buffer, start, 6) == _VALUES)


@routine
def _names(buffer: Bytes, at: int, end: int, count: int, seed: np.uint64, out: Columns, row: int) -> tuple[int, int]:
    """Parse `count` pairs of name and value from `at` on; return where they end or the fault is, and the fault.

    A str as value is a category: the feature has the name `name=value` and the value 1. Under the keys of the packed
    form a str is refused: a producer that writes the packed bytes as text would otherwise never notice. Nil and NaN are
    missing values, and leave no feature, as 0 does.
    """
    z = out.indptr[row + 1]
    for _ in range(count):
        if at >= end:
            return at, Reason.MALFORMED
        size = byte(buffer, at) - mp.TAG_FIXSTR
        name = at + 1
        if 0 <= size < 8 and name + 8 <= end:
            stop = name + size
            word = word_at(buffer, name, 8)
            key = short_name_key(word, size, seed)
        else:
            kind, name, size = head(buffer, at, end)
            if kind != mp.STR:
                return at, unlike(kind)
            stop = name + size
            key = name_key(buffer, name, stop, seed)
        if stop >= end:
            return stop, Reason.MALFORMED
        tag = byte(buffer, stop)
        # The usual encodings are read here; `number_at` takes twice the time.
        if tag in (mp.TAG_FALSE, mp.TAG_TRUE):
            value = np.float32(tag - mp.TAG_FALSE)
            at = stop + 1
        elif tag < mp.TAG_FIXMAP:
            value = np.float32(tag)
            at = stop + 1
        elif tag == mp.TAG_NIL:
            value = np.float32(0.0)
            at = stop + 1
        else:
            if tag == mp.TAG_FLOAT32 and end - stop > 4:
                value = np.uint32(big_endian(buffer, stop + 1, 4)).view(np.float32)
                at = stop + 5
            elif tag == mp.TAG_FLOAT64 and end - stop > 8:
                value = np.float32(np.uint64(big_endian(buffer, stop + 1, 8)).view(np.float64))
                at = stop + 9
            elif mp.KINDS[tag] == mp.STR:
                kind, start, size = head(buffer, stop, end)
                if kind != mp.STR:
                    return stop, Reason.MALFORMED
                at = start + size
                if seed == ZERO and _is_packed_key(buffer, name, stop):
                    return stop, Reason.WRONG_TYPE
                key = category_key(buffer, name, stop, start, at, seed)
                value = np.float32(1.0)
            else:
                number, at, fault = number_at(buffer, stop, end)
                if fault != OK:
                    return at, fault
                value = np.float32(number)
            if np.isnan(value):
                value = np.float32(0.0)
            elif not abs(value) < TOO_LARGE:
                return stop, _fault_of(value)
        out.keys[np.uint64(z)] = key
        out.values[np.uint64(z)] = value
        z += value != 0
    out.indptr[row + 1] = z
    return at, OK


@routine
def _note_origins(buffer: Bytes, at: int, end: int, count: int, seed: np.uint64, out: Columns, first: int) -> None:
    """Write namespaces and attributes of `count` good pairs of name and value from `at` on; keys begin at `first`.

    Only models that need these columns pay for them, by a second reading of the names. `seed` is the namespace's key,
    0 for none.
    """
    if out.spaces.size == 0 and out.attributes.size == 0:
        return
    z = first
    for _ in range(count):
        _, name, size = head(buffer, at, end)
        stop = name + size
        kind, start, size = head(buffer, stop, end)
        at = start + size
        value = np.float32(1.0)
        if kind == mp.BOOL:
            value = np.float32(byte(buffer, stop) - mp.TAG_FALSE)
        elif kind == mp.NIL:
            value = np.float32(0.0)
        elif kind != mp.STR:
            number, _, _ = number_at(buffer, stop, end)
            value = np.float32(number)
        if value == 0 or np.isnan(value):
            continue
        if out.spaces.size:
            out.spaces[np.uint64(z)] = seed
        if out.attributes.size:
            gap = name
            while gap < stop and byte(buffer, gap) != _EQUALS:
                gap += 1
            is_category = kind == mp.STR or gap < stop
            out.attributes[np.uint64(z)] = name_key(buffer, name, gap, seed) if is_category else out.keys[np.uint64(z)]
        z += 1


@routine
def _note_no_origins(out: Columns, first: int, stop: int) -> None:
    """Write 0 as namespace and attribute of packed features, which have neither."""
    if out.spaces.size:
        out.spaces[first:stop] = ZERO
    if out.attributes.size:
        out.attributes[first:stop] = ZERO


@routine
def _namespaces(
    buffer: Bytes, first: int, end: int, count: int, max_features: int, out: Columns, row: int
) -> tuple[int, int]:
    """Parse `count` pairs of namespace and map, or nil; return where they end or the fault is, and the fault."""
    at = first
    entries = 0
    for _ in range(count):
        kind, start, size = head(buffer, at, end)
        if kind != mp.STR:
            return at, unlike(kind)
        at = start + size
        seed = name_key(buffer, start, at, ZERO) if size else ZERO
        kind, start, size = head(buffer, at, end)
        z = out.indptr[row + 1]
        if kind == mp.NIL:
            at = start
            continue
        if kind != mp.MAP:
            return at, unlike(kind)
        entries += size
        if entries > max_features:
            return at, Reason.TOO_MANY_FEATURES
        at, fault = _names(buffer, start, end, size, seed, out, row)
        if fault != OK:
            return at, fault
        _note_origins(buffer, start, end, size, seed, out, z)
    return at, OK


@routine
def _packed(
    buffer: Bytes, first: int, end: int, count: int, max_features: int, out: Columns, row: int
) -> tuple[int, int]:
    """Parse `count` pairs of the packed form from `first` on; return where they end or the fault is, and the fault."""
    at = first
    indices = numbers = -1
    index_bytes = number_bytes = 0
    for _ in range(count):
        start, stop, fault, word = str_at(buffer, at, end)
        if fault != OK:
            return at, fault
        is_indices = stop - start == 7 and word == _INDICES
        if not is_indices and not (stop - start == 6 and word == _VALUES):
            return at, Reason.WRONG_TYPE
        if (indices if is_indices else numbers) >= 0:
            return at, Reason.DUPLICATE_KEY
        kind, start, size = head(buffer, stop, end)
        if kind == mp.NIL:
            at = start
            continue
        if kind != mp.BIN:
            return stop, unlike(kind)
        if is_indices:
            indices, index_bytes = start, size
        else:
            numbers, number_bytes = start, size
        at = start + size
    if indices < 0:
        return first, Reason.WRONG_TYPE
    entries = number_bytes // 4 if numbers >= 0 else index_bytes // 8
    width = 4 if numbers >= 0 and index_bytes == 4 * entries else 8
    if index_bytes != width * entries or (numbers >= 0 and number_bytes != 4 * entries):
        return first, Reason.MALFORMED
    if entries > max_features:
        return first, Reason.TOO_MANY_FEATURES
    z = out.indptr[row + 1]
    value = np.float32(1.0)
    for step in range(entries):
        if numbers >= 0:
            place = numbers + 4 * step
            value = np.uint32(word_at(buffer, place, 4)).view(np.float32)
            if np.isnan(value):
                value = np.float32(0.0)
            elif not abs(value) < TOO_LARGE:
                return place, _fault_of(value)
        place = indices + width * step
        out.keys[np.uint64(z)] = index_key_of(word_at(buffer, place, 8) if width == 8 else word_at(buffer, place, 4))
        out.values[np.uint64(z)] = value
        z += value != 0
    _note_no_origins(out, out.indptr[row + 1], z)
    out.indptr[row + 1] = z
    return at, OK


@routine
def read_features(buffer: Bytes, at: int, end: int, max_features: int, out: Columns, row: int) -> tuple[int, int]:
    """Parse the features at `at`, whose first value but nil shows their form; return where they end, and the fault.

    If there is a fault, its place is returned instead.
    """
    kind, first, count = head(buffer, at, end)
    if kind != mp.MAP:
        return at, unlike(kind)
    if count == 0:  # a row of zeros
        return first, OK
    shown, kind = first, mp.NIL
    for _ in range(count):
        kind, start, size = head(buffer, shown, end)
        if kind != mp.STR:
            return shown, unlike(kind)
        kind, shown, _ = head(buffer, start + size, end)
        if kind != mp.NIL:
            break
    if kind == mp.MAP:
        return _namespaces(buffer, first, end, count, max_features, out, row)
    if kind == mp.BIN:
        return _packed(buffer, first, end, count, max_features, out, row)
    if kind not in (mp.NIL, mp.BOOL, mp.INT, mp.FLOAT, mp.STR):
        return start + size, unlike(kind)
    if count > max_features:
        return at, Reason.TOO_MANY_FEATURES
    z = out.indptr[row + 1]
    at, fault = _names(buffer, first, end, count, ZERO, out, row)
    if fault == OK:
        _note_origins(buffer, first, end, count, ZERO, out, z)
    return at, fault
