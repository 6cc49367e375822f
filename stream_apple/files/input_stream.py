"""A file as a stream of bytes: plain, gzipped, or standard input; and its lines, numbered, of bounded length.

Nothing here seeks, so a pipe works like a file.
"""

import gzip
import io
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from stream_apple.errors import InputFileError

STDIN = Path("-")
MAX_LINE_BYTES = 64 << 20
"""The longest line that is read: a file without line ends must not fill the memory."""

_GZIP_MAGIC = b"\x1f\x8b"
_BUFFER_BYTES = 256 << 10


class _Joined(io.RawIOBase):
    """A stream of `head`, which was already read, and then the rest of `stream`."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        super().__init__()
        self._head = io.BytesIO(head)
        self._stream = cast("io.BufferedIOBase", stream)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        # A slow pipe hands over what it has: read1 does not wait for more. readinto1 does, whatever its
        # documentation says, when `buffer` is larger than the stream's own.
        data = self._head.read(len(buffer)) or self._stream.read1(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def rejoined(head: bytes, stream: BinaryIO) -> io.BufferedReader:
    """Return a stream that begins with `head`, bytes that were taken from `stream` before."""
    return io.BufferedReader(_Joined(head, stream), _BUFFER_BYTES)


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedReader]:
    """Open `path` ("-" is standard input) as a context; the content is unpacked if it is gzipped."""
    with ExitStack() as closing:
        raw = sys.stdin.buffer if path == STDIN else closing.enter_context(path.open("rb"))
        magic = raw.read(len(_GZIP_MAGIC))
        stream = rejoined(magic, raw)
        if magic == _GZIP_MAGIC:
            unpacked = closing.enter_context(gzip.GzipFile(fileobj=stream))
            # GzipFile.readline is a Python function; a buffer in C above it reads lines 2.5 times as fast.
            stream = rejoined(b"", cast("BinaryIO", unpacked))
        yield stream


def numbered_lines(stream: BinaryIO, name: str, *, keep_ends: bool = False) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text); InputFileError for a line too long or not UTF-8.

    keep_ends  the text has its line end
    """
    for place, line in enumerate(iter(partial(stream.readline, MAX_LINE_BYTES + 1), b""), 1):
        if len(line) > MAX_LINE_BYTES:
            raise InputFileError(
                f"{name}:{place}: expected a line of at most {MAX_LINE_BYTES} bytes, found a longer one"
            )
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            found = f"byte 0x{line[error.start]:02x} at column {error.start + 1}"
            raise InputFileError(f"{name}:{place}: expected UTF-8, found {found}") from None
        yield place, text if keep_ends else text.rstrip("\r\n")
