"""From the cells of a table that spells everything as text, such as CSV, to values.

The first rows show what a column holds. It holds numbers if at least 95 % of its present cells there spell some. Its
other cells are missing then, also those that come later, and the report counts them. A cell of any other column is a
text, true, false, or missing. What the user says about a column comes first.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from enum import Enum, auto
from typing import Any, NamedTuple

from stream_apple.records.mapper import RecordMapper
from stream_apple.records.mapping import FieldKind
from stream_apple.records.spelling import ParseError, spelled_number
from stream_apple.records.values import MISSING_CELLS, TRUTHS, category_text

_SHARE_OF_NUMBERS = 0.95
_MOST_COUNTED = 1000  # different cells of a column of numbers that spell none
_SHOWN = 3
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?")


class _Holds(Enum):
    """What the cells of a column become."""

    UNKNOWN = auto()  # all of the first cells are missing
    NUMBERS = auto()
    NUMBERS_AND_TRUTHS = auto()  # the user says that these are numbers
    TEXTS = auto()
    CATEGORIES = auto()  # a number is spelled as other formats spell the same number
    AS_WRITTEN = auto()  # weights, ids, and times
    LABELS = auto()


class _Column:
    """One column that is read.

    missing      how many cells are missing
    others       cell -> how often, of those that spell no number in a column of numbers
    plain_texts  whether one of the first cells is neither a number nor spelled like one of another country
    otherwise    the first cell that is, and the line on which its row ends
    """

    def __init__(self, place: int, name: str, holds: _Holds) -> None:
        self.place = place
        self.name = name
        self.holds = holds
        self.missing = 0
        self.others: Counter[str] = Counter()
        self.numbers_seen = self.texts_seen = 0
        self.plain_texts = False
        self.otherwise: tuple[int, str] | None = None


class OtherwiseSpelled(NamedTuple):
    """What is wrong with a column whose numbers are spelled as in another country, and the line that shows it."""

    line: int
    error: ParseError


class SpelledColumns:
    """Makes records of the rows of one table.

    names      of its columns
    mapper     says which columns are what
    delimiter  what stands between cells, as a number with a decimal comma can't stand between commas
    """

    def __init__(self, names: Sequence[str], mapper: RecordMapper, delimiter: str) -> None:
        self._width = len(names)
        self._delimiter = delimiter
        self._label_map = mapper.mapping.label_map
        self._rows = 0
        self._columns = [
            _Column(place, name, holds)
            for place, name in enumerate(names)
            if (holds := _declared(name, mapper)) is not None
        ]
        self._asked = [column for column in self._columns if column.holds is _Holds.UNKNOWN]

    def look_at(self, line: int, cells: Sequence[str]) -> None:
        """Look at a row, one of the first, for what the columns hold; `line` is where it ends."""
        if len(cells) != self._width:
            return
        for column in self._asked:
            cell = cells[column.place]
            if cell in MISSING_CELLS:
                continue
            if spelled_number(cell) is not None:
                column.numbers_seen += 1
                continue
            column.texts_seen += 1
            if not _is_otherwise_a_number(cell, self._delimiter):
                column.plain_texts = True
            elif column.otherwise is None:
                column.otherwise = line, cell

    def decide(self) -> OtherwiseSpelled | None:
        """Decide what the columns hold, after all rows were looked at.

        Returns a column whose numbers are spelled in a way that is not read here, as 1,000 or 5%; None: there is none.
        As categories such numbers would say little.
        """
        for column in self._asked:
            seen = column.numbers_seen + column.texts_seen
            if column.otherwise is not None and not column.plain_texts:
                line, cell = column.otherwise
                expected = (
                    f"numbers with a decimal point, and no other sign, in column {column.name!r} "
                    f"(input.categories {column.name} makes it categories)"
                )
                return OtherwiseSpelled(line, ParseError(expected, repr(cell)))
            if seen:
                numbers = column.numbers_seen >= _SHARE_OF_NUMBERS * seen
                column.holds = _Holds.NUMBERS if numbers else _Holds.TEXTS
        self._asked = []
        return None

    def record(self, cells: Sequence[str]) -> dict[str, Any]:
        """Return the record of a row, without what is missing; ParseError for a row of another length."""
        if len(cells) != self._width:
            raise ParseError(f"{self._width} cells, as in the first row", len(cells))
        self._rows += 1
        found: dict[str, Any] = {}
        for column in self._columns:
            cell, holds = cells[column.place], column.holds
            if cell in MISSING_CELLS and not (holds is _Holds.LABELS and cell in self._label_map):
                column.missing += 1
                continue
            if holds is _Holds.UNKNOWN:
                holds = column.holds = _Holds.TEXTS if spelled_number(cell) is None else _Holds.NUMBERS
            if holds is _Holds.NUMBERS or holds is _Holds.NUMBERS_AND_TRUTHS:
                number: float | bool | None = spelled_number(cell)
                if number is None and holds is _Holds.NUMBERS_AND_TRUTHS:
                    number = TRUTHS.get(cell)
                if number is None or number != number:  # noqa: PLR0124  -nan, which few write
                    self._count(column, cell)
                else:
                    found[column.name] = number
            elif holds is _Holds.TEXTS:
                found[column.name] = TRUTHS.get(cell, cell)
            elif holds is _Holds.CATEGORIES or (holds is _Holds.LABELS and self._is_unmapped(cell)):
                found[column.name] = _category(cell)
            else:
                found[column.name] = cell
        return found

    def notes(self) -> Iterator[str]:
        """Yield a text for each column of numbers, some of whose cells were none and were read as missing."""
        for column in self._columns:
            others = sum(column.others.values())
            if not others:
                continue
            present = self._rows - column.missing
            shown = [f"{cell!r} ({count:,})" for cell, count in column.others.most_common(_SHOWN)]
            rest = others - sum(count for _, count in column.others.most_common(_SHOWN))
            shown += [f"others ({rest:,})"] if rest else []
            yield (
                f"column {column.name!r}: {present - others:,} of {present:,} values are numbers; {', '.join(shown)} "
                f"{'is' if len(shown) == 1 else 'are'} read as missing"
            )

    def _is_unmapped(self, cell: str) -> bool:
        return bool(self._label_map) and cell not in self._label_map

    @staticmethod
    def _count(column: _Column, cell: str) -> None:
        known = cell in column.others or len(column.others) < _MOST_COUNTED
        column.others[cell if known else ""] += 1


def _declared(name: str, mapper: RecordMapper) -> _Holds | None:
    """Return what a column holds as far as the mapping says; None if it is not read."""
    mapping = mapper.mapping
    if name == mapping.label:
        return _Holds.LABELS
    kind = mapper.kind_of(name)
    if name in {mapping.weight, mapping.id, mapping.timestamp}:
        return _Holds.AS_WRITTEN
    return {
        FieldKind.BY_VALUE: _Holds.UNKNOWN,
        FieldKind.NUMBER: _Holds.NUMBERS_AND_TRUTHS,
        FieldKind.CATEGORY: _Holds.CATEGORIES,
        FieldKind.TIME: _Holds.AS_WRITTEN,
        FieldKind.IGNORED: None,
    }[kind]


def _category(cell: str) -> object:
    """Return a cell as a category: a number in the spelling of JSON is one, though 007 is none."""
    if cell in TRUTHS:
        return TRUTHS[cell]
    return category_text(Decimal(cell)) if _JSON_NUMBER.fullmatch(cell) else cell


def _is_otherwise_a_number(cell: str, delimiter: str) -> bool:
    """Whether a cell is a number with a percent sign, with a comma after each thousand, or with a decimal comma.

    Between commas a comma is no decimal one.
    """
    plain = cell.removesuffix("%").rstrip(" ")
    if _THOUSANDS.fullmatch(plain):
        return True
    return spelled_number(plain if delimiter == "," else plain.replace(",", ".", 1)) is not None
