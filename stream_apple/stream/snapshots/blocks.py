"""The parts that all stored models share: a table as bytes and back, block by block and to the bit; and named arrays.

A block (`blocks_of`) holds in this order: its slots, column by column (which compress to half the size of rows); the
tags and the admission filter of their buckets; the companions of the base features among them, column by column; and
the sides of the slots that are taken, row by row (`sides_of`).
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgpack
import numpy as np
import zstandard
from numpy.typing import NDArray

from stream_apple.errors import FormatError
from stream_apple.learners.apple.state.table import BUCKET, COMPANION, Table, base_features, sides_of
from stream_apple.stream.positions.lineage import START_OVER
from stream_apple.untrusted import ArrayType, Stored

FORMAT = 1
"""Format of snapshots, references, and merged models. Must change whenever their messages do; others are refused."""

COLUMNS = (
    ("key", "<u8"),
    ("weight", "<f4"),
    ("gradient", "<f4"),
    ("scale", "<f4"),
    ("linear_weight", "<f4"),
    ("linear_gradient", "<f4"),
    ("degree", "u1"),
    ("parent", "u1"),
    ("sights", "u1"),
)
"""Name and type of each column of a block's slots, in order."""

_LEVEL = -1  # of zstd: 1.8 GB/s, and within a tenth of the best ratio
MOST_OF_A_MANIFEST = 16 << 20
"""Bytes of a decompressed manifest. One with a full reservoir, all intervals and 1,000 classes takes a quarter."""

DAMAGES = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    msgpack.UnpackException,
    zstandard.ZstdError,
)
"""The exceptions that reading damaged bytes may raise. Types are checked first; the parts of a learner check the
contents of arrays when they take them over."""

PackedArray = tuple[ArrayType, bytes]
"""Type and bytes of an array of one dimension."""


class StoredSums(Stored):
    """The part that the manifests of all stored models have: the state outside the blocks, by name."""

    constant: dict[str, bytes]
    companion: bytes
    sides: dict[str, bytes]
    arrays: dict[str, PackedArray]


def check_format(found: int) -> None:
    """Raise FormatError unless the format is this version's."""
    if found != FORMAT:
        raise FormatError(f"expected a message of format {FORMAT}, found {found}; {START_OVER}")


def compressor() -> zstandard.ZstdCompressor:
    """Return a compressor that makes frames with a checksum."""
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)


def decompressed(data: bytes, most: int) -> bytes:
    """Return the content of a frame, at most `most` bytes; zstandard.ZstdError, ValueError if it is damaged or larger.

    The frame's header says how much it holds, and the decompressor allocates that before it reads on, whatever limit it
    is given: so the header is checked first. A frame without that in its header is refused, as is data behind a frame.
    """
    declared: int = zstandard.get_frame_parameters(data).content_size
    if declared == zstandard.CONTENTSIZE_UNKNOWN or declared > most:
        found = "none that says so" if declared == zstandard.CONTENTSIZE_UNKNOWN else f"{declared:,}"
        raise ValueError(f"expected a frame of at most {most:,} bytes, found {found}")
    return zstandard.ZstdDecompressor().decompress(data, max_output_size=most, allow_extra_data=False)


def most_of_a_block(block: Table) -> int:
    """Return the largest size in bytes of this block: that of all slots taken, by base features."""
    each: int = sum(np.dtype(form).itemsize for _, form in COLUMNS)
    each += COMPANION.itemsize if len(block.companions) else 0
    size = len(block.slots)
    sides: int = sum(side.nbytes for side in sides_of(block, 0, size).values())
    kept: int = block.tags.nbytes + block.admission_filter.nbytes
    return size * each + kept + sides


def encode_block(block: Table) -> bytes:
    """Return a block as bytes."""
    return b"".join(_columns(block))


def _columns(block: Table) -> Iterator[bytes]:
    slots = block.slots
    for name, _ in COLUMNS:
        yield slots[name].tobytes()
    yield block.tags.tobytes()
    yield block.admission_filter.tobytes()
    if len(block.companions):
        companions = block.companions[base_features(slots)]
        for name in COMPANION.names or ():
            yield companions[name].tobytes()
    for side in sides_of(block, 0, len(slots)).values():
        yield side[slots["key"] != 0].tobytes()


def decode_block(data: bytes, block: Table) -> None:
    """Write a block that `encode_block` has made; ValueError if its size is wrong."""
    size, at = len(block.slots), 0
    columns: dict[str, NDArray[Any]] = {}
    layout = [(name, np.dtype(form), size) for name, form in COLUMNS]
    layout += [("tags", np.dtype("<u8"), size // BUCKET)]
    layout += [("admission_filter", np.dtype("u1"), len(block.admission_filter))]
    if len(data) < (needed := sum(form.itemsize * count for _, form, count in layout)):
        raise ValueError(f"{len(data)} bytes in a block of at least {needed}")
    for name, form, count in layout:
        columns[name] = np.frombuffer(data, form, count, at)
        at += form.itemsize * count
    block.tags[:] = columns.pop("tags")
    block.admission_filter[:] = columns.pop("admission_filter")
    for name, column in columns.items():
        block.slots[name] = column
    at = _write_companions(data, at, block)
    _write_sides(data, at, block)


def _write_companions(data: bytes, at: int, block: Table) -> int:
    """Write the companions that begin at byte `at`; return where they end."""
    used = base_features(block.slots)[: len(block.companions)]
    if len(data) - at < (needed := len(used) * COMPANION.itemsize):
        raise ValueError(f"{len(data) - at} bytes of companions, not {needed}")
    companions = np.zeros(len(used), COMPANION)
    columns = np.frombuffer(data, "<f4", needed // 4, at).reshape(len(COMPANION.names or ()), len(used))
    for name, column in zip(COMPANION.names or (), columns, strict=True):
        companions[name] = column
    if len(used):
        block.companions[used] = companions
    return at + needed


def _write_sides(data: bytes, at: int, block: Table) -> None:
    """Write the rest of a block, from byte `at` on: the sides of the slots that are taken."""
    taken = block.slots["key"] != 0
    for side in sides_of(block, 0, len(block.slots)).values():
        at = _take_rows(side, taken, data, at)
    if at != len(data):
        raise ValueError(f"{len(data)} bytes in a block of {at}")


def constant_of(table: Table) -> dict[str, Any]:
    """Return the last slot, its companion and its sides, by the names that they have in manifests."""
    size = len(table.slots)
    return {
        "constant": {name: table.slots[name][-1:].tobytes() for name, _ in COLUMNS},
        "companion": table.companions[-1:].tobytes(),
        "sides": {name: side.tobytes() for name, side in sides_of(table, size - 1, size).items()},
    }


def write_constant(table: Table, stored: StoredSums) -> None:
    """Write the last slot from a manifest; ValueError, KeyError if a part is missing or wrong."""
    for name, form in COLUMNS:
        table.slots[name][-1:] = np.frombuffer(stored.constant[name], form)
    table.companions[-1:] = np.frombuffer(stored.companion, COMPANION)
    size = len(table.slots)
    for name, side in sides_of(table, size - 1, size).items():
        _take_rows(side, np.ones(1, np.bool_), stored.sides[name], 0)


def _take_rows(side: NDArray[Any], taken: NDArray[np.bool_], data: bytes, at: int) -> int:
    """Write the rows that are taken from the bytes that begin at `at`; return where these end."""
    rows = side[taken]
    side[taken] = np.frombuffer(data, side.dtype, rows.size, at).reshape(rows.shape)
    return at + rows.nbytes


def packed(arrays: Mapping[str, NDArray[np.generic]]) -> dict[str, PackedArray]:
    """Return arrays of one dimension, by name, with their types."""
    return {name: (array.dtype.str, array.tobytes()) for name, array in arrays.items()}


def unpacked(arrays: Mapping[str, PackedArray]) -> dict[str, NDArray[Any]]:
    """Return read-only arrays made of `packed` ones; ValueError, TypeError if NumPy does not know a type."""
    return {name: np.frombuffer(data, form) for name, (form, data) in arrays.items()}
