"""From a row of a table to an example: what CSV and Parquet share.

A column is a feature of its own name. A number is its value; a text is a category, `city=Rome`, whose value is 1; a
missing cell is absent from the example. Three columns have a role instead, by default those that are named like the
keys of the message: label, weight and id.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from stream_apple.files.field_mapping import example_of, key_in
from stream_apple.nearest_names import missing
from stream_apple.records.mapper import RecordMapper
from stream_apple.records.mapping import ALL, FieldKind, InputMapping
from stream_apple.records.message.example import Example
from stream_apple.records.parsing import repeated
from stream_apple.records.spelling import ParseError
from stream_apple.records.times import milliseconds

ROLES = ("label", "weight", "id")

Cell: TypeAlias = object
"""A float, an int, a str, or for a time a datetime; None if it is missing."""


class ColumnRoles(NamedTuple):
    """What the columns of a table are for, where their names do not say it.

    named       role -> column; "" = none has the role
    categories  columns whose values are categories, whatever they look like
    mapping     which fields are what, as in the section `input`; then the other fields here are empty
    met         with a mapping: gets the paths of all fields below `features` that are read, up to MOST_MET; None: no
    """

    named: Mapping[str, str] = MappingProxyType({})
    categories: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    mapping: InputMapping | None = None
    met: set[str] | None = None

    @property
    def names(self) -> Mapping[str, str]:
        """Return role -> the field that has it, as far as it is told here."""
        return self.named if self.mapping is None else self.mapping.names


BY_NAME = ColumnRoles()
MOST_MET = 1 << 16
"""So many paths are remembered, of any number that records may have."""


class RowReader(NamedTuple):
    """Makes examples of the rows of one table, and says how its cells have to be read.

    example      returns the example of one row, a cell for each column; ParseError if there is none
    as_they_are  whether cells keep their types, as a mapping needs lists, maps, times and booleans
    times        columns that hold times
    categories   columns whose cells are read as text, whatever they hold
    numbers      columns that must hold numbers, features or not
    texts        columns that are read as they are spelled
    label        the column that is the label, if it is read as one
    key_field    the column that holds the record's key, if one does
    """

    example: Callable[[Sequence[Cell]], Example]
    as_they_are: bool
    times: frozenset[str | None]
    categories: frozenset[str]
    ignored: frozenset[str | None]
    numbers: frozenset[str]
    texts: frozenset[str | None]
    label: str | None
    key_field: str | None


def row_reader(
    columns: Sequence[str], roles: ColumnRoles, timestamp_field: str | None, key_field: str | None = None
) -> RowReader:
    """Return the reader of a table with these columns, in order.

    timestamp_field  the column that holds the time; None if there is none, or the mapping names it
    key_field        the column that holds the record's key; None if there is none. It is no feature, unless it is among
                     the categories

    ParseError if a column has no name, or the name of another, or if a column that is named here is missing.
    """
    _check_names(columns)
    if roles.mapping is not None:
        if roles.met is not None:
            roles.met.update(columns[:MOST_MET])
        return _mapped(columns, roles.mapping, key_field)
    return _named(columns, roles, timestamp_field, key_field)


def _mapped(columns: Sequence[str], mapping: InputMapping, key_field: str | None) -> RowReader:
    """Return the reader of rows by a mapping: all columns that have no role are features."""
    for name in (mapping.label, mapping.timestamp, key_field):
        if name and name not in columns:
            raise ParseError(f"a column {name!r} (label= says that there is no label)", missing(name, columns))
    apart = () if key_field is None else (key_field,)
    kept = mapping._replace(features=ALL, ignore=(*mapping.ignore, *apart))
    mapper, kinds = RecordMapper(kept), {name: kept.feature(name).kind for name in columns}
    roles = {mapping.label, mapping.weight, mapping.id, mapping.timestamp, key_field}

    def example(row: Sequence[Cell]) -> Example:
        cells = {name: cell for name, cell in zip(columns, row, strict=True) if cell is not None}
        found = mapper.example(cells).example
        return found if key_field is None else found._replace(key=key_in(key_field, cells.get(key_field)))

    return RowReader(
        example,
        as_they_are=True,
        times=frozenset({mapping.timestamp, *(name for name, kind in kinds.items() if kind is FieldKind.TIME)}),
        categories=frozenset(),
        ignored=frozenset({name for name, kind in kinds.items() if kind is FieldKind.IGNORED} - roles),
        numbers=frozenset(),
        texts=frozenset({*roles, *(name for name, kind in kinds.items() if kind is not FieldKind.BY_VALUE)}),
        label=None,
        key_field=key_field,
    )


def _named(columns: Sequence[str], roles: ColumnRoles, timestamp_field: str | None, key_field: str | None) -> RowReader:
    """Return the reader of rows whose columns are named like the keys of the message, or by `roles`."""
    place = {name: place for place, name in enumerate(columns)}
    found = {role: role for role in ROLES if role in place} | dict(roles.named)
    if "label" not in found:
        raise ParseError(
            "a column 'label' (--column label=NAME names another, --column label= says that there is none)",
            missing("label", place),
        )
    named = {role: name for role, name in found.items() if name}
    for name in (*named.values(), *roles.categories, *roles.ignored, timestamp_field, key_field):
        if name is not None and name not in place:
            raise ParseError(f"a column {name!r}", missing(name, columns))
    apart = {*named.values(), *roles.ignored, timestamp_field, *({key_field} - roles.categories)}
    features = [name for name in columns if name not in apart]

    def example(row: Sequence[Cell]) -> Example:
        cells = {name: row[place[name]] for name in features}
        record = {role: row[place[name]] for role, name in named.items()}
        record = {role: cell for role, cell in record.items() if cell is not None}
        record["features"] = {name: cell for name, cell in cells.items() if cell is not None}
        made = example_of(record)
        if key_field is not None:
            made = made._replace(key=key_in(key_field, row[place[key_field]]))
        if timestamp_field is None:
            return made
        return made._replace(timestamp_ms=milliseconds(row[place[timestamp_field]]))

    return RowReader(
        example,
        as_they_are=False,
        times=frozenset({timestamp_field}),
        categories=roles.categories,
        ignored=frozenset(roles.ignored - {key_field}),
        numbers=frozenset(name for role, name in named.items() if role != "id"),
        texts=frozenset({named.get("id"), timestamp_field, key_field, *roles.categories, *roles.ignored}),
        label=named.get("label"),
        key_field=key_field,
    )


def _check_names(columns: Sequence[str]) -> None:
    if "" in columns:
        raise ParseError(
            "a name for each column (pandas writes an index without one unless it is told index=False)",
            f"none for column {columns.index('') + 1} of {len(columns)}",
        )
    twice = repeated(columns)
    if twice is not None:
        raise ParseError("each column's name once", f"{twice!r} again")
