"""The identity of a base feature: a 64-bit key that is never 0.

A name's key is its xxh64, seeded with the key of its namespace; a category's key is that of the name `name=value`; an
index's key is a hash of the index. Models and replays depend on keys, so these functions must never change.
"""

import numpy as np
import xxhash

from stream_apple.core.jit import kernel, part, routine
from stream_apple.core.splitmix64 import GOLDEN, finalize
from stream_apple.records.message.msgpack_reader import ZERO, Bytes, word_at

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_NOT_ZERO = GOLDEN  # the key of whatever hashes to 0, which marks a free slot
_LOW_32 = np.uint64(0xFFFFFFFF)
_LOW_8 = np.uint64(0xFF)
_EQUALS = np.uint64(ord("="))


@routine
def _rotate(word: np.uint64, bits: int) -> np.uint64:
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@routine
def _avalanche(word: np.uint64) -> np.uint64:
    """Finish xxh64; a hash of 0 is replaced, because key 0 marks a free slot."""
    word = (word ^ (word >> np.uint64(33))) * _P2
    word = (word ^ (word >> np.uint64(29))) * _P3
    word ^= word >> np.uint64(32)
    return word if word != ZERO else _NOT_ZERO


@routine
def _hash_tail(state: np.uint64, word: np.uint64, size: int) -> np.uint64:
    """Hash the last `size` < 8 bytes, which are the low ones of `word`."""
    # All steps are always made: lengths of names are too irregular for the processor to predict branches.
    after = _rotate(state ^ ((word & _LOW_32) * _P1), 23) * _P2 + _P3
    state = after if size & 4 else state
    word >>= np.uint64((size & 4) << 3)
    more = size & 3
    for step in range(3):
        after = _rotate(state ^ ((word & _LOW_8) * _P5), 11) * _P1
        word >>= np.uint64(8)
        state = after if step < more else state
    return state


@routine
def _lane(lane: np.uint64, word: np.uint64) -> np.uint64:
    return _rotate(lane + word * _P2, 31) * _P1


@routine
def _merged(a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64) -> np.uint64:
    state = _rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)
    for lane in (a, b, c, d):
        state = (state ^ (_rotate(lane * _P2, 31) * _P1)) * _P1 + _P4
    return state


@routine
def _hash_word(state: np.uint64, word: np.uint64) -> np.uint64:
    return _rotate(state ^ (_rotate(word * _P2, 31) * _P1), 27) * _P1 + _P4


@routine
def short_name_key(word: np.uint64, size: int, seed: np.uint64) -> np.uint64:
    """Return `name_key` of the low `size` < 8 bytes of `word`; its other bytes do not matter."""
    return _avalanche(_hash_tail(seed + _P5 + np.uint64(size), word, size))


@routine
def name_key(buffer: Bytes, at: int, stop: int, seed: np.uint64) -> np.uint64:
    """Return the xxh64 of the bytes [at, stop) with `seed`, never 0."""
    size = stop - at
    if size >= 32:
        a, b, c, d = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while stop - at >= 32:
            a = _lane(a, word_at(buffer, at, 8))
            b = _lane(b, word_at(buffer, at + 8, 8))
            c = _lane(c, word_at(buffer, at + 16, 8))
            d = _lane(d, word_at(buffer, at + 24, 8))
            at += 32
        state = _merged(a, b, c, d)
    else:
        state = seed + _P5
    state += np.uint64(size)
    while stop - at >= 8:
        state = _hash_word(state, word_at(buffer, at, 8))
        at += 8
    return _avalanche(_hash_tail(state, word_at(buffer, at, stop - at), stop - at))


@part
def _category_word(buffer: Bytes, name: int, gap: int, value: int, at: int, size: int) -> np.uint64:
    """Return `word_at` of a text in pieces: the bytes from `name` to `gap`, a "=", and the bytes from `value` on."""
    equals = gap - name
    if at + size <= equals:
        return word_at(buffer, name + at, size)
    if at > equals:
        return word_at(buffer, value + at - equals - 1, size)
    word = ZERO
    for step in range(size):
        place = at + step
        sign = _EQUALS
        if place != equals:
            sign = np.uint64(buffer[np.uint64(name + place if place < equals else value + place - equals - 1)])
        word |= sign << np.uint64(8 * step)
    return word


@routine
def category_key(buffer: Bytes, name: int, gap: int, value: int, stop: int, seed: np.uint64) -> np.uint64:
    """Return `name_key` of a text in pieces: the bytes [name, gap), a sign of equality, and the bytes [value, stop)."""
    size = gap - name + 1 + stop - value
    at = 0
    if size >= 32:
        a, b, c, d = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while size - at >= 32:
            a = _lane(a, _category_word(buffer, name, gap, value, at, 8))
            b = _lane(b, _category_word(buffer, name, gap, value, at + 8, 8))
            c = _lane(c, _category_word(buffer, name, gap, value, at + 16, 8))
            d = _lane(d, _category_word(buffer, name, gap, value, at + 24, 8))
            at += 32
        state = _merged(a, b, c, d)
    else:
        state = seed + _P5
    state += np.uint64(size)
    while size - at >= 8:
        state = _hash_word(state, _category_word(buffer, name, gap, value, at, 8))
        at += 8
    tail = size - at
    return _avalanche(_hash_tail(state, _category_word(buffer, name, gap, value, at, tail), tail))


@routine
def index_key_of(index: np.uint64) -> np.uint64:
    """Return a hash of an index, by splitmix64's finalizer, never 0: plain small indices would sum to one another."""
    index = finalize(index)
    return index if index != ZERO else _NOT_ZERO


def feature_key(name: str | bytes, namespace: str = "") -> int:
    """Return the 64-bit key of a named feature: xxh64 of the name, seeded with that of the namespace if any."""
    raw = name if isinstance(name, bytes) else name.encode()
    seed = np.uint64(_hash(namespace.encode(), np.uint64(0)) if namespace else 0)
    return _hash(raw, seed)


def index_key(index: int) -> int:
    """Return the 64-bit key of a feature of the packed form."""
    return int(_key_of_index(np.uint64(index)))


@kernel
def _key_of_index(index: np.uint64) -> np.uint64:
    return index_key_of(index)


def _hash(raw: bytes, seed: np.uint64) -> int:
    return xxhash.xxh64_intdigest(raw, int(seed)) or int(_NOT_ZERO)
