"""The mapper of records for rows of Python: each cell of a flat row is mapped once, and its features are remembered."""

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from stream_apple.library.cells import SCALARS, UnreadableCellError, field_name, python_value
from stream_apple.records.mapper import RecordMapper
from stream_apple.records.mapping import ALL, InputMapping, is_row_number
from stream_apple.records.message.example import Example
from stream_apple.records.message.feature_hashing import feature_key
from stream_apple.records.message.feature_names import Names
from stream_apple.records.spelling import ParseError

EXACT = 2.0**53
"""Smaller numbers are values of features without a further check, and equal their floats of 64 bits."""

_MOST_REMEMBERED = 1 << 17  # cells of one field, which take 35 MB: one of identifiers has ever more
_MOST_FIELDS = 1 << 17
_JOIN = "^"
_SETTING = re.compile(r"\binput\.([a-z_]+)")

_Keys = NDArray[np.uint64]


class MappedCell(NamedTuple):
    """The features that the mapper makes of one cell, in one namespace; "" is the name of none."""

    space: str
    keys: tuple[int, ...]
    values: tuple[float, ...]


_NOTHING = MappedCell("", (), ())
_ONE = (1.0,)
_NUMBER = 0.5
"""What the mapper makes of it shows whether a field's numbers are one feature each, with their own values."""


class _Field(dict[Any, MappedCell]):
    """What the mapper makes of the cells of one field, by cell: a text, or type and value of another single value.

    number  the feature of a number, if each number is one with its own value, else None
    """

    def __init__(self, name: object, mapped: Callable[[str, object], MappedCell]) -> None:
        super().__init__()
        self._name = field_name(name)
        self._mapped = mapped
        try:
            found = mapped(self._name, _NUMBER)
        except UnreadableCellError:  # as a time
            found = _NOTHING
        self.number = found if found.values == (_NUMBER,) else None

    def __missing__(self, cell: Any) -> MappedCell:  # noqa: ANN401
        found = self._mapped(self._name, cell if isinstance(cell, str) else cell[1])
        if len(self) < _MOST_REMEMBERED:
            self[cell] = found
        return found


class _Fields(dict[Any, _Field]):
    """The fields of rows, by name.

    numbers     the keys of numbers, of fields whose numbers are one feature each without a namespace
    may_repeat  whether fields of different names may be one feature
    """

    def __init__(self, mapped: Callable[[str, object], MappedCell]) -> None:
        super().__init__()
        self._mapped = mapped
        self.numbers: dict[Any, int] = {}
        self.may_repeat = False

    def __missing__(self, name: Any) -> _Field:  # noqa: ANN401
        if len(self) >= _MOST_FIELDS:  # of a stream of words there are ever more
            self.clear()
            self.numbers.clear()
        field = self[name] = _Field(name, self._mapped)
        if field.number is not None and not field.number.space:
            self.numbers[name] = field.number.keys[0]
        self.may_repeat |= not isinstance(name, str) or "=" in name
        return field


class RowMapper:
    """Reads rows by one mapping, and adds the names of features to `names`.

    mapping, own_message  as of `RecordMapper`
    takes_all  whether all fields are features: none is a label, say
    """

    def __init__(self, mapping: InputMapping, names: Names, *, own_message: bool = False) -> None:
        self.mapping = mapping
        self.own_message = own_message
        self.takes_all = mapping.features == ALL and not (
            mapping.label or mapping.weight or mapping.id or mapping.timestamp
        )
        self._mapper = RecordMapper(mapping, own_message=own_message)
        self._names = names
        self._fields = _Fields(self._mapped)
        self._warned = set[str]()

    def reads(self, name: str, *, is_index: bool = False) -> bool:
        """Return whether a column is read; warn of one that holds row numbers, which `is_index` says of any name."""
        read = self.own_message or self._mapper.reads(name)
        is_number = is_index if read else is_row_number(name)
        if is_number and not self.mapping.lists(name):
            self._warn_of_row_number(name)
            return False
        return read

    def example(self, record: dict[str, Any]) -> Example:
        """Return what the mapper makes of a record; UnreadableCellError if it refuses the record."""
        try:
            return self._mapper.example(record).example
        except ParseError as error:
            raise UnreadableCellError(_SETTING.sub(r"'\1'", str(error))) from error

    def _mapped(self, name: str, cell: object) -> MappedCell:
        """Return the features of one cell, and remember their names."""
        space, features = "", self.example({name: cell}).features
        if isinstance(next(iter(features.values()), None), dict):
            ((space, features),) = features.items()  # type: ignore[assignment]
        if not features and is_row_number(name):
            self._warn_of_row_number(name)
        try:
            keys = [feature_key(full, space) for full in features]
        except UnicodeEncodeError as error:
            refuse_surrogate(error)
        prefix = f"{space}{_JOIN}" if space else ""
        self._names.add((key, f"{prefix}{full}") for key, full in zip(keys, features, strict=True))
        values = tuple(features.values())
        return MappedCell(space, tuple(keys), _ONE if values == _ONE else values)  # type: ignore[arg-type]

    def flat(self, row: Mapping[Any, Any], keys: list[int], values: list[float]) -> bool:
        """Append the features of a flat map; return False if the map is not flat. Values are finite, and may be 0."""
        fields, numbers, begun = self._fields, self._fields.numbers, len(keys)
        for name, value in row.items():
            kind = type(value)
            if kind is float or kind is int:
                key = numbers.get(name)
                if key is not None and -EXACT < value < EXACT:
                    keys.append(key)
                    values.append(value)
                    continue
            found = fields[name][value] if kind is str else self.cell(name, value)
            if found is None:
                return False
            space, its_keys, its_values = found
            if space:
                del keys[begun:], values[begun:]
                return self._flat_by_space(row, keys, values)
            keys += its_keys
            values += its_values
        return not (fields.may_repeat and len(set(keys[begun:])) < len(keys) - begun)

    def _flat_by_space(self, row: Mapping[Any, Any], keys: list[int], values: list[float]) -> bool:
        """Do what `flat` does for a row of several namespaces, whose features come one namespace after another."""
        spaces: dict[str, list[MappedCell]] = {}
        for name, value in row.items():
            found = self.cell(name, value)
            if found is None:
                return False
            if found.keys:
                spaces.setdefault(found.space, []).append(found)
        begun = len(keys)
        for found in chain.from_iterable(spaces.values()):
            keys += found.keys
            values += found.values
        return len(set(keys[begun:])) == len(keys) - begun

    def cell(self, name: object, value: object) -> MappedCell | None:
        """Return the features of a cell; None if it is no single value."""
        field, cell = self._fields[name], python_value(value)
        kind = type(cell)
        if kind is str:
            return field[cell]
        if (kind is float or kind is int) and field.number is not None and -EXACT < cell < EXACT:
            return field.number._replace(values=(cell,))
        if cell is None or cell != cell:  # noqa: PLR0124  only NaN differs from itself
            return _NOTHING
        return field[kind, cell] if kind in SCALARS else None

    def keys_of(self, names: Sequence[Any]) -> _Keys | None:
        """Return the keys of columns of numbers, uint64[k]; None if their rows need the mapper.

        They need it if a column is no number, if two are one feature, or if features have to change places.
        """
        known = [self._fields.numbers.get(name) for name in names]
        if None not in known and not self._fields.may_repeat:  # without namespaces
            return np.array(known, np.uint64)
        found = [number for name in names if (number := self._fields[name].number) is not None]
        keys, spaces = [number.keys[0] for number in found], [number.space for number in found]
        return np.array(keys, np.uint64) if len(set(keys)) == len(names) and are_together(spaces) else None

    def number(self, name: str) -> MappedCell | None:
        """Return the feature of a number in a field, if each number is one with its own value, else None."""
        return self._fields[name].number

    @property
    def may_repeat(self) -> bool:
        """Whether fields of different names, of those met so far, may be one feature."""
        return self._fields.may_repeat

    def _warn_of_row_number(self, name: str) -> None:
        if name not in self._warned and not self.mapping.lists(name):
            self._warned.add(name)
            text = f"column {name!r} holds row numbers, and is no feature (numbers=[{name!r}] makes it one)"
            warnings.warn(text, stacklevel=2)


def are_together(spaces: Sequence[str]) -> bool:
    """Return whether the features of each namespace come one after another."""
    return len(set(spaces)) == len(list(groupby(spaces)))


def refuse_surrogate(error: UnicodeEncodeError) -> NoReturn:
    """Raise UnreadableCellError for a text with half a character, which no message can hold."""
    half = error.object[error.start]
    raise UnreadableCellError(
        f"feature {error.object!a}: expected text that UTF-8 can hold, found the lone surrogate {half!a}"
    ) from error
