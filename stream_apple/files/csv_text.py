"""CSV: a first row with the columns' names, then a record a row; commas, tabs, or semicolons between the cells.

`sep=;` in the first line names another sign between the cells, as Excel writes it. Spaces around a cell are no part of
it unless quotes hold them. `records/columns.py` says what the cells are.
"""

import csv
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from tempfile import SpooledTemporaryFile
from typing import IO, BinaryIO, TypeAlias

from stream_apple.errors import InputFileError
from stream_apple.files.input_stream import MAX_LINE_BYTES, numbered_lines
from stream_apple.files.rows import FileRows, Row
from stream_apple.files.shape import FileShape, in_options
from stream_apple.records.columns import SpelledColumns
from stream_apple.records.spelling import MOST_PARTS, ParseError, refuse_too_many_parts, spelled_number

_SAMPLED_ROWS = 1000
_SAMPLED_CHARACTERS = 1 << 30  # at most, however long the rows are
_KEPT_IN_MEMORY = 16 << 20  # bytes of the sampled rows; more wait on disk
_SEPARATOR = re.compile(r'\s*"?sep=([^"])"?\s*')

_Row: TypeAlias = tuple[int, list[str]]
"""The line on which it ends, and its cells."""


@contextmanager
def csv_rows(stream: BinaryIO, name: str, shape: FileShape, key: str) -> Iterator[FileRows]:
    """Open the rows of `stream`, in order, as a context; InputFileError names the line.

    key  the column that holds the records' keys; "" = none

    A thousand rows, or all, are read before, as these show what the columns hold.
    """
    text = _Text(stream, name)
    with SpooledTemporaryFile(_KEPT_IN_MEMORY, "w+", encoding="utf-8", newline="\n") as kept:
        sample = text.rows(text.keeping(kept))
        place, header = next(sample)
        where = partial("{}:{}".format, name)
        try:
            mapper = shape.of_columns(_names(header), key=key)
        except ParseError as error:
            raise InputFileError(f"{where(place)}: {in_options(str(error))}") from None
        columns = SpelledColumns(header, mapper, text.delimiter)
        for line, row in islice(sample, _SAMPLED_ROWS):
            columns.look_at(line, row)
        fault = columns.decide()
        if fault is not None:
            raise InputFileError(f"{where(fault.line)}: {in_options(str(fault.error))}")
        # The sampled rows are kept as text, and parsed again: the cells of a thousand wide rows would fill the memory.
        kept.seek(0)
        lines = islice(text.rows(chain(kept, text.lines)), 1, None)
        yield FileRows(mapper, _rows(lines, columns, header.index(key) if key else None, where), where)
        for note in columns.notes():
            shape.note(note)


def _rows(
    lines: Iterable[_Row], columns: SpelledColumns, key_at: int | None, where: Callable[[int], str]
) -> Iterator[Row]:
    for place, cells in lines:
        try:
            record = columns.record(cells)
        except ParseError as error:
            raise InputFileError(f"{where(place)}: {error}") from None
        yield Row(place, record, None if key_at is None else cells[key_at] or None)


def _names(header: list[str]) -> list[str]:
    if all(spelled_number(cell) is not None for cell in header):
        raise ParseError("a first row with the columns' names", ",".join(header))
    return header


class _Text:
    """A table as text; `lines` yields the lines not read yet, the header first."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._name = name
        self._before = self._size = self._parts = 0
        self._lines_of_row: list[str] = []
        lines = (line for _, line in numbered_lines(stream, name, keep_ends=True))
        delimiter = None
        for header in lines:
            said = None if delimiter else _SEPARATOR.fullmatch(header)
            if said is not None:
                delimiter = said.group(1)
            elif header.strip() and not header.lstrip().startswith("#"):
                break
            self._before += 1
        self.lines = chain([header], lines)
        if delimiter is None:
            delimiter = "\t" if header.count("\t") > header.count(",") else "," if "," in header else ";"
        self.delimiter = delimiter
        between = re.escape(delimiter)
        self._cell = re.compile(rf' *+(?:"((?:[^"]|"")*+)" *+|[^{between}]*+)(?:{between}|\Z)')

    def keeping(self, kept: IO[str]) -> Iterator[str]:
        """Yield the next lines, and write each to `kept`; end after _SAMPLED_CHARACTERS."""
        written = 0
        while written < _SAMPLED_CHARACTERS and (line := next(self.lines, "")):
            written += kept.write(line)
            yield line

    def rows(self, lines: Iterable[str]) -> Iterator[_Row]:
        """Yield the rows of these lines that are not empty; InputFileError for one that is malformed or too large."""
        reader = csv.reader(self._bounded(lines), delimiter=self.delimiter, skipinitialspace=True, strict=True)
        first = 1
        try:
            for row in reader:
                self._size = self._parts = 0
                first = reader.line_num + 1
                if row:
                    yield self._before + reader.line_num, self._trimmed(row)
                self._lines_of_row.clear()
        except csv.Error as error:
            fault = f"{error}"
            if reader.line_num > first:
                fault += f"; the row begins on line {self._before + first}: is a quote left open there?"
            raise InputFileError(
                f"{self._name}:{self._before + reader.line_num}: expected CSV, found: {fault}"
            ) from None
        except ParseError as error:
            raise InputFileError(f"{self._name}:{self._before + first}: {error}") from None

    def _trimmed(self, row: list[str]) -> list[str]:
        """Return the cells without the spaces behind them; the library has skipped those before them."""
        if not any(cell.endswith(" ") for cell in row):
            return row
        # Spaces within quotes belong to the cell, and the library does not say which cells had quotes.
        text = "".join(self._lines_of_row).rstrip("\r\n")
        quoted = [found.group(1) is not None for found in self._cell.finditer(text)] if '"' in text else []
        return [cell if place < len(quoted) and quoted[place] else cell.rstrip(" ") for place, cell in enumerate(row)]

    def _bounded(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the lines; ParseError for a row that spans so many that its cells would fill the memory."""
        for line in lines:
            self._size += len(line)
            self._lines_of_row.append(line)
            if self._size > MOST_PARTS:
                self._parts += line.count(self.delimiter)
                if self._parts > MOST_PARTS:
                    refuse_too_many_parts("cells", self._parts)
                if self._size > MAX_LINE_BYTES:
                    raise ParseError(f"a row of at most {MAX_LINE_BYTES} characters", "a longer one")
            yield line
