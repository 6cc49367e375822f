"""CSV: a first row with the columns' names, then an example a row; commas between the cells, or tabs.

What a column holds is read off the first rows: numbers, if all its cells there spell some, else categories. In a column
of numbers NA, NaN, null and the like are missing; an empty cell is missing everywhere.
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import BinaryIO

from stream_apple.core.codec.example import Example
from stream_apple.errors import InputFileError
from stream_apple.files.errors import ParseError, number, spelled_number
from stream_apple.files.input_stream import numbered_lines
from stream_apple.files.table import Cell, ColumnRoles, TableReader

_SAMPLED_ROWS = 1000
_MISSING = frozenset({"NA", "N/A", "NaN", "nan", "null", "NULL", "None"})


def read_csv(
    stream: BinaryIO, name: str, timestamp_field: str | None, key_field: str | None, roles: ColumnRoles
) -> Iterator[Example]:
    """The examples of `stream`, in order; InputFileError names the line.

    The first comes when a thousand rows are read, or all: they tell what the columns hold.
    """
    rows = _rows(stream, name)
    place, header = next(rows)
    try:
        reader = TableReader(_names(header), roles, timestamp_field, key_field)
    except ParseError as error:
        raise InputFileError(f"{name}:{place}: {error}") from None
    sample = list(islice(rows, _SAMPLED_ROWS))
    cells = _Cells(reader, header, [row for _, row in sample if len(row) == len(header)])
    for place, row in chain(sample, rows):
        try:
            example = reader.example(cells.of(row))
        except ParseError as error:
            raise InputFileError(f"{name}:{place}: {error}") from None
        yield example


def _names(header: list[str]) -> list[str]:
    if all(spelled_number(cell) is not None for cell in header):
        raise ParseError("a first row with the columns' names", ",".join(header))
    return header


def _rows(stream: BinaryIO, name: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that hold something, from the header on, and the line on which each ends."""
    lines = (f"{line}\n" for _, line in numbered_lines(stream, name))
    before = 0
    for header in lines:
        if header.strip() and not header.lstrip().startswith("#"):
            break
        before += 1
    delimiter = "\t" if header.count("\t") > header.count(",") else ","
    reader = csv.reader(chain([header], lines), delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        for row in reader:
            if row:
                yield before + reader.line_num, row
    except csv.Error as error:
        raise InputFileError(f"{name}:{before + reader.line_num}: expected CSV, found: {error}") from None


class _Cells:
    """Cells of rows as numbers and texts; None is missing.

    sample  rows that tell which columns hold numbers; one that is empty there is known by its first value
    """

    def __init__(self, reader: TableReader, header: Sequence[str], sample: Sequence[Sequence[str]]) -> None:
        self._header = header
        self._of_roles = reader.numbers
        self._is_text = [
            True
            if name in reader.texts
            else False
            if name in reader.numbers
            else _are_texts(row[place] for row in sample)
            for place, name in enumerate(header)
        ]

    def of(self, row: Sequence[str]) -> list[Cell]:
        """The cells of one row; ParseError if they are not those of the columns."""
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
        if name in self._of_roles:
            return number(f"{name!r}", cell)
        return number(f"{name!r}, which holds numbers so far (--column category={name} makes it categories)", cell)


def _are_texts(column: Iterable[str]) -> bool | None:
    """Whether these cells are categories; None if none of them tells."""
    telling = [cell for cell in column if cell and cell not in _MISSING]
    return any(spelled_number(cell) is None for cell in telling) if telling else None
