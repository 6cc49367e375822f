"""Detection of a file's format, by its first line that is neither blank nor a comment.

    a byte that begins a msgpack map   msgpack
    PAR1                               Parquet
    {                                  JSON lines
    number index:value ... [# ...]     svmlight
    anything with a bar                Vowpal Wabbit text, unless it is a header of CSV
    anything else with a comma, tab or semicolon   CSV

A bar in a comment of svmlight does not count: a line that is whole without its comment is svmlight. A name of a column
may have a bar, too. Such a header begins with neither a label nor a tag in quotes, and has no feature behind the bar,
or spaces and more than one cell before it. Where that says nothing, as a tag may have a comma, the next line does: a
row of cells has no bar.
"""

import re
from collections.abc import Callable
from enum import Enum
from typing import BinaryIO

from stream_apple.files.input_stream import MAX_LINE_BYTES
from stream_apple.files.parquet import MAGIC
from stream_apple.records.message.first_bytes import framing
from stream_apple.records.spelling import ParseError

_BOM = b"\xef\xbb\xbf"
_MSGPACK_MAPS = frozenset({*range(0x80, 0x90), 0xDE, 0xDF})
_LIST = re.compile(rb"\s*+\[\s*+(?:\{|$)")
# Possessive: otherwise the matcher would remember a line of millions of words word by word, to backtrack.
_SVMLIGHT = re.compile(rb"\s*+[+-]?[0-9.][^\s:|#,]*+(?:\s++[^\s:|#]++:[^\s:|#]++)*+\s*+(?:#.*+)?+", re.DOTALL)

_DELIMITER = re.compile(rb"[,\t;]")
_LABELLED = re.compile(rb"[-+.0-9']|$")

_PACKED = {
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd"),
    "bzip2": re.compile(rb"BZh[1-9]1AY&SY"),
    "xz": re.compile(rb"\xfd7zXZ\0"),
    "zip": re.compile(rb"PK\x03\x04"),
}
"""How files begin that only gzip would have made readable. Their bytes may look like a format."""


class FileFormat(Enum):
    """The formats that can be read, by their names in messages to the user."""

    SVMLIGHT = "svmlight"
    VOWPAL_WABBIT = "Vowpal Wabbit text"
    JSON_LINES = "JSON lines"
    MSGPACK = "msgpack"
    CSV = "CSV"
    PARQUET = "Parquet"


def detect_format(stream: BinaryIO) -> tuple[FileFormat | None, bytes]:
    """Return the format, and the bytes that were read to detect it, without a byte order mark.

    The format is None for a stream with only blank lines and comments; ParseError if it is unknown. No more lines are
    read than needed.
    """
    first = stream.read(1)
    if first and first[0] in _MSGPACK_MAPS:
        return FileFormat.MSGPACK, first
    if first == MAGIC[:1]:
        first += stream.read(len(MAGIC) - 1)
        if first == MAGIC:
            return FileFormat.PARQUET, first
    line = first if first.endswith(b"\n") else first + stream.readline(MAX_LINE_BYTES)
    line = line.removeprefix(_BOM)
    head = bytearray(line)

    def following() -> bytes:
        more = stream.readline(MAX_LINE_BYTES)
        head.extend(more)
        return more

    while line:
        if line.strip() and not line.lstrip().startswith(b"#"):
            return _of_line(line, following), bytes(head)
        line = following()
        if len(head) > MAX_LINE_BYTES:
            raise ParseError(f"an example in the first {MAX_LINE_BYTES} bytes", "blank lines and comments only")
    return None, bytes(head)


def _of_line(line: bytes, following: Callable[[], bytes]) -> FileFormat:
    if frame := framing(line):
        raise _unknown(frame)
    for packing, magic in _PACKED.items():
        if magic.match(line):
            raise ParseError("a file that is gzipped or not packed (- reads what another program unpacks)", packing)
    if _LIST.match(line):
        raise ParseError("JSON lines, an object a line (`jq -c '.[]'` makes them of a list)", "a list")
    if line.strip() == b"{":
        raise ParseError("JSON lines, an object a line (`jq -c .` makes them)", "an object of several lines")
    if line.lstrip().startswith(b"{"):
        return FileFormat.JSON_LINES
    if _SVMLIGHT.fullmatch(line):
        return FileFormat.SVMLIGHT
    if b"|" in line and not _is_header(line, following):
        return FileFormat.VOWPAL_WABBIT
    if _DELIMITER.search(line):
        return FileFormat.CSV
    raise _unknown(line[:200].rstrip().decode(errors="backslashreplace"))


def _is_header(line: bytes, following: Callable[[], bytes]) -> bool:
    """Return whether a line with a bar is a header of CSV, see above."""
    head, _, body = line.strip().partition(b"|")
    if _LABELLED.match(head) or not _DELIMITER.search(line):
        return False
    if b" " not in body or (b" " in head and _DELIMITER.search(head)):
        return True
    row = following().strip()
    return bool(row) and b"|" not in row


def _unknown(found: str) -> ParseError:
    known = ", ".join(known.value for known in FileFormat)
    return ParseError(f"a first example in one of {known}", found)
