"""The parts that all stored models share: rows of arrays as bytes and back, to the bit; and named arrays.

A learner's state has arrays with the same number of rows (`LearnerState.rows`). A block is some of these rows, of one
array after another. What an element consists of is written column by column, in words of four bytes, or in bytes if it
has no whole number of words: so it compresses to half the size, whatever the learner keeps in it.
"""

from collections.abc import Mapping
from typing import Any

import msgpack
import numpy as np
import zstandard
from numpy.typing import NDArray

from stream_apple.errors import FormatError
from stream_apple.learners.state import Rows, bytes_of_rows, check_finite
from stream_apple.stream.positions.lineage import START_OVER
from stream_apple.untrusted import ArrayType, Stored

FORMAT = 2
"""Format of snapshots and merged models. Must change whenever their messages do; others are refused."""

_WORD = 4  # bytes
_LEVEL = -1  # of zstd: 1.8 GB/s, and within a tenth of the best ratio
MOST_OF_A_MANIFEST = 16 << 20
"""Bytes of a decompressed manifest. One with all first examples, all splines, and 1,000 classes takes a quarter."""

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


def encode_block(rows: Rows, start: int, stop: int) -> bytes:
    """Return rows [start, stop) as bytes; ModelError if a number is not finite: that is never kept."""
    contents = []
    for name, array in rows.items():
        part = np.ascontiguousarray(array[start:stop])
        check_finite({name: part})
        contents.append(_elements(part.reshape(-1).view(np.uint8), array.dtype).T.tobytes())
    return b"".join(contents)


def decode_block(data: bytes, rows: Rows, start: int, stop: int) -> None:
    """Write rows [start, stop) that `encode_block` has made; ValueError if the block has another size."""
    if len(data) != (expected := bytes_of_rows(rows, start, stop)):
        raise ValueError(f"{len(data)} bytes in a block of {expected}")
    at = 0
    for array in rows.values():
        part = array[start:stop]
        given = np.frombuffer(data, np.uint8, part.nbytes, at)
        columns = _elements(np.empty(part.nbytes, np.uint8), array.dtype)
        columns.T[:] = given.view(columns.dtype).reshape(columns.shape[::-1])
        part[...] = columns.reshape(-1).view(array.dtype).reshape(part.shape)
        at += part.nbytes


def _elements(content: NDArray[np.uint8], kind: np.dtype[Any]) -> NDArray[Any]:
    """Return a view of these bytes with a row for each element of this type, in words if it has a whole number."""
    words = content.view(np.uint32) if kind.itemsize % _WORD == 0 else content
    return words.reshape(-1, kind.itemsize // words.itemsize)


def packed(arrays: Mapping[str, NDArray[np.generic]]) -> dict[str, PackedArray]:
    """Return arrays of one dimension, by name, with their types."""
    return {name: (array.dtype.str, array.tobytes()) for name, array in arrays.items()}


def unpacked(arrays: Mapping[str, PackedArray]) -> dict[str, NDArray[Any]]:
    """Return read-only arrays made of `packed` ones; ValueError, TypeError if NumPy does not know a type."""
    return {name: np.frombuffer(data, form) for name, (form, data) in arrays.items()}
