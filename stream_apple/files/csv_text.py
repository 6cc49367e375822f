"""CSV: a first row with the columns' names, then an example a row; commas, tabs or semicolons between the cells.

The first rows show what a column holds: numbers, if all of its cells there spell numbers, else categories. In a column
of numbers NA, NaN, null and the like are missing; an empty cell is missing in every column.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from tempfile import SpooledTemporaryFile
from typing import IO, BinaryIO, TypeAlias

from stream_apple.errors import InputFileError
from stream_apple.files.input_stream import MAX_LINE_BYTES, numbered_lines
from stream_apple.files.table import Cell, ColumnRoles, RowReader, row_reader
from stream_apple.records.message.example import Example
from stream_apple.records.spelling import (
    MOST_PARTS,
    ParseError,
    number,
    refuse_too_many_parts,
    spelled_label,
    spelled_number,
)

_SAMPLED_ROWS = 1000
_SAMPLED_CHARACTERS = 1 << 30  # at most, however long the rows are
_KEPT_IN_MEMORY = 16 << 20  # bytes of the sampled rows; more wait on disk
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?")
_MISSING = frozenset({"NA", "N/A", "NaN", "nan", "null", "NULL", "None"})

_Row: TypeAlias = tuple[int, list[str]]
"""The line on which it ends, and its cells."""


def read_csv(
    stream: BinaryIO, name: str, timestamp_field: str | None, key_field: str | None, roles: ColumnRoles
) -> Iterator[Example]:
    """Yield the examples of `stream`, in order; InputFileError names the line.

    The first one comes after a thousand rows, or all, have been read, as these show what the columns hold.
    """
    text = _Text(stream, name)
    with SpooledTemporaryFile(_KEPT_IN_MEMORY, "w+", encoding="utf-8", newline="\n") as kept:
        sample = text.rows(text.keeping(kept))
        place, header = next(sample)
        try:
            reader = row_reader(_names(header), roles, timestamp_field, key_field)
        except ParseError as error:
            raise InputFileError(f"{name}:{place}: {error}") from None
        cells = _Cells(reader, header, _kinds(reader, header, sample, text.delimiter, name))
        # The sampled rows are kept as text, and parsed again: the cells of a thousand wide rows would fill the memory.
        kept.seek(0)
        for place, row in islice(text.rows(chain(kept, text.lines)), 1, None):
            try:
                example = reader.example(cells.of(row))
            except ParseError as error:
                raise InputFileError(f"{name}:{place}: {error}") from None
            yield example


def _names(header: list[str]) -> list[str]:
    if all(spelled_number(cell) is not None for cell in header):
        raise ParseError("a first row with the columns' names", ",".join(header))
    return header


class _Text:
    """A table as text; `lines` yields the lines not read yet, the header first."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._name = name
        self._before = self._size = self._parts = 0
        lines = (f"{line}\n" for _, line in numbered_lines(stream, name))
        for header in lines:
            if header.strip() and not header.lstrip().startswith("#"):
                break
            self._before += 1
        self.lines = chain([header], lines)
        self.delimiter = "\t" if header.count("\t") > header.count(",") else ","
        if self.delimiter not in header:
            self.delimiter = ";"

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
                    # The library skips spaces before a cell; those behind it mean as little.
                    yield self._before + reader.line_num, [cell.rstrip(" ") for cell in row]
        except csv.Error as error:
            fault = f"{error}"
            if reader.line_num > first:
                fault += f"; the row begins on line {self._before + first}: is a quote left open there?"
            raise InputFileError(
                f"{self._name}:{self._before + reader.line_num}: expected CSV, found: {fault}"
            ) from None
        except ParseError as error:
            raise InputFileError(f"{self._name}:{self._before + first}: {error}") from None

    def _bounded(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the lines; ParseError for a row that spans so many that its cells would fill the memory."""
        for line in lines:
            self._size += len(line)
            if self._size > MOST_PARTS:
                self._parts += line.count(self.delimiter)
                if self._parts > MOST_PARTS:
                    refuse_too_many_parts("cells", self._parts)
                if self._size > MAX_LINE_BYTES:
                    raise ParseError(f"a row of at most {MAX_LINE_BYTES} characters", "a longer one")
            yield line


def _kinds(
    reader: RowReader, header: Sequence[str], sample: Iterator[_Row], delimiter: str, name: str
) -> list[bool | None]:
    """Return for each column whether it holds texts; None if no row shows it. Reads a thousand rows of the sample.

    InputFileError for a column whose numbers are written otherwise, see `_is_otherwise_a_number`: as categories they
    would be of little use.
    """
    kinds = [True if each in reader.texts else False if each in reader.numbers else None for each in header]
    asked = [place for place, kind in enumerate(kinds) if kind is None]
    otherwise: dict[int, tuple[int, str]] = {}
    for line, row in islice(sample, _SAMPLED_ROWS):
        if len(row) != len(header):
            continue
        for place in asked:
            cell = row[place]
            if not cell or cell in _MISSING:
                continue
            if spelled_number(cell) is not None:
                kinds[place] = False
            elif _is_otherwise_a_number(cell, delimiter):
                otherwise.setdefault(place, (line, cell))
            else:
                kinds[place] = True
        asked = [place for place in asked if not kinds[place]]
    for place in asked:
        if place in otherwise:
            column, (line, cell) = header[place], otherwise[place]
            raise InputFileError(
                f"{name}:{line}: expected numbers with a decimal point, and no other sign, in column {column!r} "
                f"(--column category={column} makes it categories), found {cell!r}"
            )
    return kinds


def _is_otherwise_a_number(cell: str, delimiter: str) -> bool:
    """Whether a cell is a number with a percent sign, with a comma after each thousand, or with a decimal comma.

    Between commas a comma is no decimal one.
    """
    plain = cell.removesuffix("%").rstrip(" ")
    if _THOUSANDS.fullmatch(plain):
        return True
    return spelled_number(plain if delimiter == "," else plain.replace(",", ".", 1)) is not None


class _Cells:
    """Converts the cells of rows to numbers and texts; None is missing.

    kinds  see `_kinds`; a column that no sampled row shows takes the kind of its first value
    """

    def __init__(self, reader: RowReader, header: Sequence[str], kinds: list[bool | None]) -> None:
        self._header = header
        self._label = reader.label
        self._of_roles = reader.numbers
        self._is_text = kinds

    def of(self, row: Sequence[str]) -> list[Cell]:
        """Return the cells of one row; ParseError if they do not fit the columns."""
        if len(row) != len(self._header):
            raise ParseError(f"{len(self._header)} cells, as in the first row", len(row))
        cells: list[Cell] = []
        for place, cell in enumerate(row):
            is_text = self._is_text[place]
            if not cell or (not is_text and cell in _MISSING):
                cells.append(None)
                continue
            if is_text is None:
                is_text = self._is_text[place] = spelled_number(cell) is None
            cells.append(cell if is_text else self._number(place, cell))
        return cells

    def _number(self, place: int, cell: str) -> float:
        name = self._header[place]
        if name == self._label:
            return spelled_label(f"{name!r}", cell)
        if name in self._of_roles:
            return number(f"{name!r}", cell)
        return number(f"{name!r}, which holds numbers so far (--column category={name} makes it categories)", cell)
