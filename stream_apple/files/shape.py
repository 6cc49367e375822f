"""What the user says about the records of files, and what the readers of files have to say about them."""

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from stream_apple.nearest_names import missing
from stream_apple.records.census import FieldCensus
from stream_apple.records.mapper import RecordMapper
from stream_apple.records.mapping import ALL, OWN_MESSAGE, InputMapping, is_row_number
from stream_apple.records.parsing import repeated
from stream_apple.records.spelling import ParseError

_SETTING = re.compile(r"\binput\.([a-z_]+)( = )?")


class FileNotes:
    """What is said on standard error about files, each text once; and what the fields of the first of them hold.

    census  None: no file has been read whose fields have names
    """

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}
        self._mappers: list[RecordMapper] = []
        self.census: FieldCensus | None = None

    def add(self, text: str) -> None:
        """Remember a text about a file."""
        self._texts[in_options(text)] = None

    @property
    def texts(self) -> list[str]:
        """All texts, in the order in which they came."""
        return list(self._texts)

    @property
    def met(self) -> set[str]:
        """The paths below the features of all fields of all files."""
        return {path for mapper in self._mappers for path in mapper.meanings}

    def look_at(self, record: Mapping[Any, Any], mapper: RecordMapper) -> None:
        """Look at a record that is read by this mapper."""
        if not self._mappers or self._mappers[-1] is not mapper:
            self._mappers.append(mapper)
        if self.census is None:
            self.census = FieldCensus(mapper)
        self.census.add(record)


class FileShape(NamedTuple):
    """How the records of files are read: a row of a table is a record, too.

    mapping        which field is what
    says_features  whether the user says where the features are; else all fields of a file without `features` are some
    notes          gets what there is to say about the files; None: nobody listens
    """

    mapping: InputMapping = OWN_MESSAGE
    says_features: bool = False
    notes: FileNotes | None = None

    def note(self, text: str) -> None:
        """Say something about a file."""
        if self.notes is not None:
            self.notes.add(text)

    def of_columns(
        self, columns: Collection[str], maps: Collection[str] = (), index: Collection[str] = (), key: str = ""
    ) -> RecordMapper:
        """Return the mapper of the rows of a table.

        columns  their names
        maps     paths of those that are maps, and of the fields in them
        index    columns that hold the numbers of rows, as the file says
        key      the column that holds the records' keys; "" = none

        ParseError if a column has no name, or the name of another, or if a column with a role is missing.
        """
        _check_names(columns)
        mapping = self.mapping
        known = {*columns, *maps}
        for role in ("label", "weight", "id", "timestamp"):
            name = getattr(mapping, role)
            optional = role in {"weight", "id"} and name == getattr(OWN_MESSAGE, role)
            if name and not optional and name not in known:
                hint = " (input.label names another, input.label '' says that there is none)" if role == "label" else ""
                raise ParseError(f"a column {name!r}{hint}", missing(name, sorted(known)))
        if key and key not in known:
            raise ParseError(f"a column {key!r}", missing(key, sorted(known)))
        return self._mapper(columns, index, in_map=mapping.features in maps)

    def of_record(self, record: Mapping[object, object]) -> RecordMapper:
        """Return the mapper of the records of a file that begins with this one."""
        names = [name for name in record if isinstance(name, str)]
        return self._mapper(names, (), in_map=self.mapping.features in names)

    def _mapper(self, names: Collection[str], index: Collection[str], *, in_map: bool) -> RecordMapper:
        """Return the mapper of records with these fields; `in_map`: they have the field `features`."""
        mapping = self.mapping
        own = in_map and mapping == OWN_MESSAGE
        below = mapping.features + mapping.separator
        if not (in_map or self.says_features or any(name.startswith(below) for name in names)):
            mapping = mapping._replace(features=ALL)
        for name in names:
            if (is_row_number(name) or name in index) and not mapping.lists(name):
                self.note(f"column {name!r} holds row numbers, and is no feature (input.numbers {name} makes it one)")
                if not is_row_number(name):
                    mapping = mapping._replace(ignore=(*mapping.ignore, name))
        return RecordMapper(mapping, own_message=own)


BY_NAME = FileShape()
"""The fields label, weight, and id have these roles; the features are in `features`, or are all other fields."""


def in_options(text: str) -> str:
    """Return a text with the options of commands in place of the settings of [input]."""
    return _SETTING.sub(lambda found: f"--{found[1].replace('_', '-')}{' ' if found[2] else ''}", text)


def _check_names(columns: Collection[str]) -> None:
    if "" in columns:
        raise ParseError(
            "a name for each column (pandas writes an index without one unless it is told index=False)",
            f"none for column {list(columns).index('') + 1} of {len(columns)}",
        )
    twice = repeated(columns)
    if twice is not None:
        raise ParseError("each column's name once", f"{twice!r} again")
