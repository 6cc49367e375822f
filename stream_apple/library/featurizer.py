"""From tables, matrices and maps to batches: the keys and values of what the mapper makes of each row.

A row is a record, by the names of its columns. The columns of a matrix without names are called by their numbers, "0",
"1", ..., as in a file of svmlight. Zeros and missing cells are absent from an example.

Two paths are fast. Matrices of numbers need no mapper, as each cell is one feature. Of flat rows and of columns each
cell is mapped once, and its features are remembered. All other rows become messages, which are decoded as those of a
topic are.
"""

import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import TOO_LARGE, Batch, Limits, joined
from stream_apple.learners.port import LearnerOptions
from stream_apple.learners.systems import ngrams_of
from stream_apple.library.cells import (
    UnreadableCellError,
    dense_column,
    distinct_values,
    field_name,
    is_missing,
    python_record,
    python_value,
    python_values,
    refuse_repeated,
)
from stream_apple.library.online import check_counts
from stream_apple.library.row_mapper import RowMapper, are_together, refuse_surrogate
from stream_apple.library.tables import maps_of
from stream_apple.records.arrow_values import index_columns
from stream_apple.records.mapping import ALL, InputMapping
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.example import encode_example
from stream_apple.records.message.feature_hashing import feature_key
from stream_apple.records.message.feature_names import Names, names_in
from stream_apple.records.message.reasons import Reason
from stream_apple.records.message.rejects import explain
from stream_apple.records.parsing import repeated

ROW = InputMapping(label="", weight="", id="", features=ALL)
"""The mapping of a row: all columns are features, and labels and weights come apart from it."""

_ANY = 1 << 62
# Estimators check labels themselves, and the learner bounds the features of an example.
_LIMITS = Limits(_ANY, _ANY, np.inf, -np.inf, np.inf, binary=False)
_PORTION = 1 << 20  # cells of a frame that are values of Python at one time
_NAMED_AT_MOST = 1 << 16  # columns of a matrix whose names are remembered at one time
_WITH_FEW_VALUES = ("String", "Boolean", "Categorical", "Enum")
"""The types of narwhals whose cells are looked up, by the beginnings of their names."""
_BOUND = "limits.max_features"

_Keys = NDArray[np.uint64]
_Values = NDArray[np.float32]


def featurizer_of_rows(options: LearnerOptions, mapping: InputMapping = ROW) -> "Featurizer":
    """Return a featurizer for a model of these options, whose rows are read by this mapping."""
    return Featurizer(options.wanted_columns(), mapping, names=Names(ngrams=ngrams_of(options)))


class Featurizer:
    """Makes batches for one model, and remembers the names of its features.

    names   what is remembered, in bounded memory
    rows    reads single rows

    columns  the fields of `Batch` that the model needs besides those always filled, see `LearnerOptions.wanted_columns`
    mapping  how rows are read
    own_message  rows are the features of the product's own messages, see `RecordMapper`
    limits   of what a row may hold where its cells have names; the bytes of its message do not count
    """

    def __init__(
        self,
        columns: frozenset[str] = frozenset(),
        mapping: InputMapping = ROW,
        *,
        own_message: bool = False,
        names: Names | None = None,
        limits: Limits = _LIMITS,
    ) -> None:
        self.names = Names() if names is None else names
        self.rows = RowMapper(mapping, self.names, own_message=own_message)
        self._columns = columns
        self._limits = limits._replace(max_record_bytes=_ANY)
        self._decoder = Decoder(self._limits, columns)
        self._numbered = np.empty(0, np.uint64)  # keys of columns that are called by their numbers

    def __getstate__(self) -> dict[str, Any]:
        mapping = self.rows.mapping
        return {
            "columns": self._columns,
            "mapping": mapping._replace(label_map=dict(mapping.label_map))._asdict(),
            "own_message": self.rows.own_message,
            "names": self.names.known(),
            "ngrams": self.names.ngrams,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        mapping, names = InputMapping(**state["mapping"]), Names(ngrams=state["ngrams"])
        names.add(state["names"].items())
        Featurizer.__init__(self, state["columns"], mapping, own_message=state["own_message"], names=names)

    @property
    def plain(self) -> bool:
        """Whether rows may take the fast paths: the model needs keys and values only, and all columns are features."""
        return not self._columns and self.rows.takes_all

    @property
    def _is_unlisted(self) -> bool:
        """Whether all columns that are called by numbers hold numbers."""
        return self.plain and self.rows.mapping == ROW

    def _keys_of(self, names: Sequence[str]) -> _Keys | None:
        """Return the keys of columns of numbers, uint64[k]; None if their rows need the mapper."""
        return self.rows.keys_of(names) if self.plain else None

    def matrix(self, rows: Any, names: Sequence[str] | None = None) -> Batch:  # noqa: ANN401  SciPy has no types
        """Return the rows of a sparse matrix (CSR), whose columns are called by `names`, or by their numbers."""
        lowest, largest = int(rows.indices.min(initial=0)), int(rows.indices.max(initial=-1)) + 1
        if lowest < 0 or largest > rows.shape[1]:  # SciPy does not look
            found = lowest if lowest < 0 else largest - 1
            raise UnreadableCellError(f"X: expected columns from 0 to {rows.shape[1] - 1}, found {found}")
        rows = _summed(rows)
        indptr, indices, data = rows.indptr, rows.indices, rows.data
        if names is None and self._is_unlisted:
            keys = self._keys_of_numbers(indices, largest)
        else:
            names = list(map(str, range(rows.shape[1]))) if names is None else names
            of_columns = self._keys_of(names)
            if of_columns is None:
                cells = [(names[column], cell) for column, cell in zip(indices.tolist(), data.tolist(), strict=True)]
                return self.maps([dict(cells[start:stop]) for start, stop in pairwise(indptr.tolist())])
            keys = of_columns[indices]

        def place(at: int) -> tuple[int, str]:
            column = int(indices[at])
            return int(np.searchsorted(indptr, at, "right")) - 1, str(column) if names is None else names[column]

        values = self._as_values(data, place)
        kept = (values != 0) & ~np.isnan(values)
        if kept.all():
            return _batch(indptr, keys, values)
        return _batch(np.concatenate([[0], np.cumsum(kept)])[np.asarray(indptr, np.int64)], keys[kept], values[kept])

    def array(self, cells: NDArray[Any], names: Sequence[str] | None = None) -> Batch:
        """Return the rows of a two-dimensional array of numbers, whose columns are called by `names`, or by numbers."""
        columns = np.arange(cells.shape[1])
        of_numbers = names is None and self._is_unlisted
        names = list(map(str, columns.tolist())) if names is None else names
        keys = self._keys_of_numbers(columns, len(columns)) if of_numbers else self._keys_of(names)
        if keys is None:
            return self.maps(maps_of(cells.astype(np.float64), names))
        return _dense(keys, self._as_values(cells, lambda at: (at // len(columns), names[at % len(columns)])))

    def frame(self, frame: Any, called: Iterable[object] | None = None, *, sort_names: bool = False) -> Batch:  # noqa: ANN401  narwhals has no types of its own at run time
        """Return the rows of a frame of narwhals.

        called      what the columns are called, in place of their own names
        sort_names  columns are taken in the order of their names

        UnreadableCellError for a cell that the mapper refuses.
        """
        names = [field_name(name) for name in (frame.columns if called is None else called)]
        if (twice := repeated(names)) is not None:
            refuse_repeated(twice)
        index = index_columns(getattr(getattr(frame.to_native(), "schema", None), "metadata", None))
        table = []
        for name, own in zip(names, frame.columns, strict=True):
            if self.rows.reads(name, is_index=own in index):
                table.append((name, dense_column(frame.get_column(own))))
        if sort_names:
            table.sort(key=itemgetter(0))
        return self._table([name for name, _ in table], [column for _, column in table], len(frame))

    def _table(self, names: list[str], columns: list[Any], size: int) -> Batch:
        """Return the rows of columns, Series of narwhals, that are read."""
        by_column = self._by_column(names, columns, size) if self.plain else None
        if by_column is not None:
            return by_column
        portion = max(1, _PORTION // max(1, len(names)))
        parts = []
        for first in range(0, max(1, size), portion):
            stop = min(size, first + portion)
            lists = [python_values(column[first:stop], name) for name, column in zip(names, columns, strict=True)]
            rows = zip(*lists, strict=True) if lists else [()] * (stop - first)
            parts.append(self._maps([dict(zip(names, row, strict=True)) for row in rows], first))
        return joined(parts)

    def _by_column(self, names: list[str], columns: list[Any], size: int) -> Batch | None:
        """Return the rows of columns in which each cell is one feature or none; None if the rows need the mapper."""
        keys, values = np.empty((size, len(columns)), np.uint64), np.empty((size, len(columns)), np.float32)
        spaces = []
        for place, (name, column) in enumerate(zip(names, columns, strict=True)):
            found = self._of_column(name, column)
            if found is None:
                return None
            space, keys[:, place], values[:, place] = found
            spaces.append(space)
        used = [np.unique(column) for column in keys.T] if self.rows.may_repeat else []
        if not are_together(spaces) or (used and len(np.unique(np.concatenate(used))) < sum(map(len, used))):
            return None
        if len(columns) > self._limits.max_features:
            check_counts(np.count_nonzero(~np.isnan(values), axis=1), self._limits.max_features, _BOUND)
        return _dense(keys, values)

    def _of_column(self, name: str, column: Any) -> tuple[str, _Keys, _Values] | None:  # noqa: ANN401
        """Return namespace, keys, and values (NaN: no feature) of a column's cells; None as of `_by_column`."""
        number = self.rows.number(name)
        if number is not None and _are_numbers(column.dtype):
            values = self._as_values(_numbers_of(column), lambda at: (at, name))
            return number.space, np.array(number.keys, np.uint64), values
        if not str(column.dtype).startswith(_WITH_FEW_VALUES):
            return None
        cells, places = distinct_values(column, name)
        try:
            found = [self.rows.cell(name, cell) for cell in cells]
        except UnreadableCellError:  # it is reported with its row, by the mapper
            return None
        spaces = {each.space for each in found if each and each.keys}
        if any(each is None or len(each.keys) > 1 for each in found) or len(spaces) > 1:
            return None
        keys = np.array([*(each.keys[0] if each and each.keys else 0 for each in found), 0], np.uint64)
        values = np.array([*(each.values[0] if each and each.keys else np.nan for each in found), np.nan])
        return "".join(spaces), keys[places], values.astype(np.float32)[places]

    def maps(self, rows: Iterable[Mapping[Any, Any]]) -> Batch:
        """Return a row for each map of names to values, which may hold maps and lists."""
        rows = list(rows)
        for number, row in enumerate(rows):
            if type(row) is not dict and not isinstance(row, Mapping):
                raise UnreadableCellError(
                    f"row {number}: expected a map of names to values, as other rows are, found {reprlib.repr(row)}"
                )
        return self._maps(rows, 0)

    def _maps(self, rows: Sequence[Mapping[Any, Any]], first: int) -> Batch:
        """Return these rows, of which the first has this number."""
        flat = self._flat_maps(rows, first) if self.plain else None
        return self._by_messages(rows, first) if flat is None else flat

    def _flat_maps(self, rows: Sequence[Mapping[Any, Any]], first: int) -> Batch | None:
        keys: list[int] = []
        values: list[float] = []
        ends = [0]
        try:
            for row in rows:
                if not self.rows.flat(row, keys, values):
                    return None
                ends.append(len(keys))
        except UnreadableCellError as error:
            raise UnreadableCellError(f"row {first + len(ends) - 1}: {error}") from error
        check_counts(np.diff(ends), self._limits.max_features, _BOUND, first)
        found = np.array(values, np.float64).astype(np.float32)
        kept = found != 0
        indptr = np.concatenate([[0], np.cumsum(kept)])[ends]
        return _batch(indptr, np.array(keys, np.uint64)[kept], found[kept])

    def _by_messages(self, rows: Sequence[Mapping[Any, Any]], first: int) -> Batch:
        """Return the rows, encoded as messages and decoded as those of a topic."""
        messages = []
        for number, row in enumerate(rows, first):
            try:
                messages.append(encode_example(self.rows.example(python_record(row))))
            except UnicodeEncodeError as error:
                refuse_surrogate(error)
            except UnreadableCellError as error:
                raise UnreadableCellError(f"row {number}: {error}") from error
        decoded = self._decoder.decode(messages)
        for record in np.flatnonzero(decoded.reasons).tolist():
            reason = Reason(int(decoded.reasons[record]))
            place, names = int(decoded.places[record]), self.rows.mapping.names
            fault = explain(reason, place, messages[record], self._limits, names=names)
            raise UnreadableCellError(f"row {first + record}: {fault}")
        batch = joined([decoded.batch])  # in memory of its own: the decoder uses its own again
        keys, ends = batch.keys.tolist(), batch.indptr.tolist()
        for message, (start, stop) in zip(messages, pairwise(ends), strict=True):
            # To read the names of a message again takes longer than all else; n-grams may be new where words are not.
            if self.names.ngrams.largest > 1 or None in map(self.names.get, keys[start:stop]):
                self.names.add(names_in(message, self.names.ngrams))
        return batch

    def _keys_of_numbers(self, columns: NDArray[Any], count: int) -> _Keys:
        """Return the keys of these columns, which are below `count` and are called by their numbers."""
        numbered = self._numbered  # another thread may make more at the same time
        known = len(numbered)
        if count > max(2 * len(columns), known):  # most columns of a wide matrix are empty
            used, places = np.unique(columns, return_inverse=True)
            return np.array([feature_key(str(number)) for number in used.tolist()], np.uint64)[places]
        if count > known:
            more = [feature_key(str(number)) for number in range(known, count)]
            self.names.add((key, str(number)) for number, key in enumerate(more[:_NAMED_AT_MOST], known))
            self._numbered = numbered = np.concatenate([numbered, np.array(more, np.uint64)])
        found: _Keys = numbered[columns]
        return found

    def _as_values(self, numbers: NDArray[Any], place: Callable[[int], tuple[int, str]]) -> _Values:
        """Return numbers as values of features, NaN where they are missing; UnreadableCellError as of the mapper.

        place  returns the row and the column of a number, by its place among all
        """
        if np.iscomplexobj(numbers):
            raise UnreadableCellError(f"X: expected real numbers, found {numbers.dtype}")
        # Integers become values by way of 64-bit floats, as in a message.
        wide = numbers if numbers.dtype.kind == "f" and numbers.itemsize <= 8 else numbers.astype(np.float64)
        with np.errstate(over="ignore"):
            values = np.asarray(wide).astype(np.float32, order="C")
        large = ~(np.abs(values) < TOO_LARGE) & ~np.isnan(values)
        if large.any():
            at = int(np.flatnonzero(large)[0])
            row, name = place(at)
            try:
                self.rows.example({name: python_value(numbers.flat[at])})
            except UnreadableCellError as error:
                raise UnreadableCellError(f"row {row}: {error}") from error
            values[large] = np.nan  # the mapper leaves them out
        return values


def _dense(keys: _Keys, values: _Values) -> Batch:
    """Return the rows of a table, keys uint64[n, k] or [k] of its columns, values float32[n, k], NaN if missing."""
    kept: Any = ~np.isnan(values) & (values != 0)
    indptr = np.concatenate([[0], np.count_nonzero(kept, axis=1).cumsum()])
    kept = slice(None) if kept.all() else kept
    return _batch(indptr, np.broadcast_to(keys, values.shape)[kept].reshape(-1), values[kept].reshape(-1))


def _batch(indptr: NDArray[Any], keys: _Keys, values: _Values) -> Batch:
    """Return a batch of these features, without labels, each of weight 1."""
    # Always writable arrays: kernels would be compiled again for read-only ones.
    keys, values = np.require(keys, np.uint64, ("C", "W")), np.require(values, np.float32, ("C", "W"))
    size = len(indptr) - 1
    return Batch(indptr.astype(np.int64), keys, values, np.full(size, np.nan), np.ones(size))


def _summed(rows: Any) -> Any:  # noqa: ANN401  SciPy has no types
    """Return a sparse matrix with the sum of entries that stand in one place, as SciPy means them.

    Where there are none, entries keep their order, on which the last bits of scores depend.
    """
    if rows.has_canonical_format:
        return rows
    places = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)) * rows.shape[1] + rows.indices
    if len(np.unique(places)) < len(places):
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def _are_numbers(dtype: Any) -> bool:  # noqa: ANN401  a type of narwhals
    """Return whether cells of this type are numbers that NumPy has."""
    return dtype.is_float() or (dtype.is_integer() and "128" not in str(dtype))


def _numbers_of(column: Any) -> NDArray[Any]:  # noqa: ANN401  a Series of narwhals
    """Return a column of numbers as an array of floats or integers; NaN where a cell is missing."""
    cells = column.to_numpy()
    if cells.dtype.kind != "O":
        return np.asarray(cells)
    return np.array([np.nan if is_missing(cell) else float(cell) for cell in cells.tolist()])
