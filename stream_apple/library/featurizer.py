"""From tables, matrices and maps to batches: the keys and values that the codec gives for the message of each row.

A row of a frame stands for the message {"features": {column: value}}. The columns of a matrix without names are called
by their numbers, "0", "1", ..., as in a file of svmlight. Zeros and missing cells are absent from an example. Rows with
maps or lists in them are read by the codec itself.
"""

import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from itertools import islice
from typing import Any, NoReturn, get_args

import msgpack
import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import TOO_LARGE, Batch, Limits, joined
from stream_apple.core.ngrams import NO_NGRAMS, NgramSizes
from stream_apple.learners.port import LearnerOptions
from stream_apple.learners.systems import ngrams_of
from stream_apple.library.cells import (
    ABSENT,
    RECORD,
    TIMES,
    CellRules,
    ColumnKeys,
    UnreadableCellError,
    is_missing,
    key_of_name,
    number_of,
    refuse_number,
    refuse_surrogate,
    refuse_time,
    text_of,
)
from stream_apple.library.online import check_counts
from stream_apple.records.mapper import RecordMapper
from stream_apple.records.mapping import InputMapping
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.example import Example, encode_example
from stream_apple.records.message.feature_hashing import feature_key
from stream_apple.records.message.feature_names import Names, names_in, names_of_ngrams
from stream_apple.records.message.msgpack_reader import MAX_DEPTH
from stream_apple.records.message.reasons import Reason
from stream_apple.records.message.rejects import explain
from stream_apple.records.spelling import ParseError

LARGE = 2.0**59
"""Smaller numbers need no further check as values of features."""

_ANY = 1 << 62
# Estimators check labels themselves, and the learner bounds the features of an example.
_LIMITS = Limits(_ANY, _ANY, np.inf, -np.inf, np.inf, binary=False)
_NESTED = "\udfff"  # it stands between the names of nested maps, as no name can have it: `user.age` is no namespace
_ROW = InputMapping(label="", weight="", id="", features="features", separator=_NESTED)
_PORTION = 1 << 22  # cells of a frame that are read at once: their keys and values take 48 MB
_NAMED_AT_MOST = 1 << 16  # how many columns of a matrix have their names remembered

_LOOKED_AT_FOR_NGRAMS = 1 << 14  # features of a batch whose n-grams are named, which takes 50 ms

_BY_CELL = frozenset({"Object", "Unknown"})
"""The types of columns that say nothing of their cells; narwhals does not know decimals of 256 bits, say."""
_FOR_THE_CODEC = (dict, list, tuple, np.ndarray, Decimal)
_NO_NUMBERS = (*get_args(TIMES), str, bytes, bool, np.bool_, np.complexfloating, np.ndarray)

_Keys = NDArray[np.uint64]
_Values = NDArray[np.float32]


def featurizer_of_rows(options: LearnerOptions) -> "Featurizer":
    """Return a featurizer for a model of these options."""
    return Featurizer(options.wanted_columns(), ngrams=ngrams_of(options))


class Featurizer:
    """Makes batches for one model, and remembers the names of its features.

    names  what is remembered, in bounded memory

    columns  the fields of `Batch` that the model needs besides those always filled, see `LearnerOptions.wanted_columns`
    reading  how cells are read
    mapping  the mapping by which the model's records are read, if there is one; then `reading` is RECORD
    ngrams   the n-grams of the model, whose names are remembered, too; of a large frame or matrix those of some rows
    limits   of what a row may hold where its cells have names; the bytes of its message do not count
    """

    def __init__(
        self,
        columns: frozenset[str] = frozenset(),
        reading: CellRules = RECORD,
        mapping: InputMapping | None = None,
        ngrams: NgramSizes = NO_NGRAMS,
        limits: Limits = _LIMITS,
    ) -> None:
        self.names = Names(ngrams=ngrams)
        self._columns = columns
        self._reading = reading
        self._mapping = mapping
        self._mapper = RecordMapper(mapping or _ROW)
        self._limits = limits._replace(max_record_bytes=_ANY)
        self._decoder = Decoder(self._limits, columns)
        self._categories: dict[Any, ColumnKeys] = {}
        self._number_keys: dict[object, int] = {}
        self._numbered = np.empty(0, np.uint64)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "columns": self._columns,
            "reading": self._reading,
            "mapping": None if self._mapping is None else self._mapping._asdict(),
            "names": self.names.known(),
            "ngrams": self.names.ngrams,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        mapping = None if state["mapping"] is None else InputMapping(**state["mapping"])
        Featurizer.__init__(self, state["columns"], state["reading"], mapping, state["ngrams"])
        self.names.add(state["names"].items())

    @property
    def plain(self) -> bool:
        """Whether a flat row needs no more than keys and values."""
        return not self._columns and self._mapping is None

    def matrix(self, rows: Any, names: Sequence[str] | None = None) -> Batch:  # noqa: ANN401  SciPy has no types
        """Return the rows of a sparse matrix (CSR), whose columns are called by `names`, or by their numbers."""
        lowest, largest = int(rows.indices.min(initial=0)), int(rows.indices.max(initial=-1)) + 1
        if lowest < 0 or largest > rows.shape[1]:  # SciPy does not look
            found = lowest if lowest < 0 else largest - 1
            raise UnreadableCellError(f"X: expected columns from 0 to {rows.shape[1] - 1}, found {found}")
        rows = _summed(rows)
        indptr, indices, data = rows.indptr, rows.indices, rows.data
        values = _as_values(data, lambda at: f"row {np.searchsorted(indptr, at, 'right') - 1}, column {indices[at]}")
        attributes = None
        if names is not None:
            keys_of_columns, attributes_of_columns = self._keys_of_columns(names)
            keys, attributes = keys_of_columns[indices], attributes_of_columns[indices]
        elif largest <= max(2 * len(indices), len(self._numbered)):
            keys = self._keys_of_numbers(largest)[indices]
        else:  # most columns of a wide matrix are empty
            used, places = np.unique(indices, return_inverse=True)
            keys = np.array([self.number_key(str(number)) for number in used.tolist()], np.uint64)[places]
        attributes = keys if attributes is None else attributes
        kept = (values != 0) & ~np.isnan(values)
        ends = np.concatenate([[0], np.cumsum(kept)])
        row_ends = ends[np.asarray(indptr, np.int64)].astype(np.int64)
        if len(kept) and not kept.all():
            keys, values, attributes = keys[kept], values[kept], attributes[kept]
        return self._batch(row_ends, keys, values, attributes if "attributes" in self._columns else None)

    def array(self, cells: NDArray[Any], names: Sequence[str] | None = None) -> Batch:
        """Return the rows of a two-dimensional array of numbers, whose columns are called by `names`, or by numbers."""
        values = _as_values(cells, lambda at: "row {}, column {}".format(*divmod(at, cells.shape[1])))
        if names is not None:
            keys, attributes = self._keys_of_columns(names)
        else:
            keys = attributes = self._keys_of_numbers(values.shape[1])
        return self._dense([(keys, values, attributes)])

    def frame(self, frame: Any, called: Iterable[object] | None = None) -> Batch:  # noqa: ANN401  narwhals has no types of its own at run time
        """Return the rows of a frame of narwhals: a feature, or nothing, for each cell.

        called  what the columns are called, in place of their own names

        UnreadableCellError for a column of times, or for a cell that can't be the value of a feature.
        """
        names = [column_name(name) for name in (frame.columns if called is None else called)]
        columns = [_dense_column(frame.get_column(name)) for name in frame.columns]
        if self._mapping is not None or any(_is_nested(column) for column in columns):
            lists = [_cells_of(column, name) for name, column in zip(names, columns, strict=True)]
            return self.maps([dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True)])
        size = len(frame)
        rows = max(1, _PORTION // max(1, len(names)))
        if size <= rows:
            return self._dense([self._column(n, c, 0) for n, c in zip(names, columns, strict=True)], size, 0)
        parts = [
            self._dense([self._column(n, c[at : at + rows], at) for n, c in zip(names, columns, strict=True)], 0, at)
            for at in range(0, size, rows)
        ]
        return joined(parts)

    def maps(self, rows: Iterable[Mapping[Any, Any]]) -> Batch:
        """Return a row for each map of names to values, which may hold maps (namespaces) and lists of texts."""
        rows = list(rows)
        for number, row in enumerate(rows):
            if type(row) is not dict and not isinstance(row, Mapping):
                raise UnreadableCellError(
                    f"row {number}: expected a map of names to values, as other rows are, found {reprlib.repr(row)}"
                )
        if self.plain:
            flat = self._flat_maps(rows)
            if flat is not None:
                return flat
        return self._by_codec(rows)

    def flat(self, row: Mapping[Any, Any], keys: list[int], values: list[Any]) -> bool:
        """Append the features of a flat map; return False if the map is not flat. Values are finite, and may be 0."""
        number_keys, categories, reading = self._number_keys, self._categories, self._reading
        for name, value in row.items():
            kind = type(value)
            if kind is float or kind is int:
                if not -LARGE < value < LARGE:
                    if value != value:  # noqa: PLR0124  NaN alone differs from itself
                        continue
                    number_of(value, f"feature {name!r}")
                key = number_keys.get(name)
                keys.append(self.number_key(name) if key is None else key)
                values.append(value)
            elif kind is str or ((kind is bool or kind is np.bool_) and reading.booleans_are_categories):
                known = categories.get(name)
                key = (self._category_keys(name) if known is None else known)[value]
                if key != ABSENT:
                    keys.append(key)
                    values.append(1.0)
            elif isinstance(value, TIMES) and not is_missing(value):
                refuse_time(f"feature {name!r}", repr(value))
            elif isinstance(value, bool | np.bool_ | np.number) and not isinstance(
                value, np.complexfloating | np.timedelta64
            ):
                number = number_of(value, f"feature {name!r}")
                if number == number:  # noqa: PLR0124  NaN alone differs from itself
                    keys.append(self.number_key(name))
                    values.append(number)
            elif not is_missing(value):
                return False
        return True

    def _flat_maps(self, rows: list[Mapping[Any, Any]]) -> Batch | None:
        keys: list[int] = []
        values: list[Any] = []
        ends = [0]
        try:
            for row in rows:
                if not self.flat(row, keys, values):
                    return None
                ends.append(len(keys))
        except UnreadableCellError as error:
            raise UnreadableCellError(f"row {len(ends) - 1}: {error}") from error
        self._check_counts(np.diff(ends), 0)
        kept_keys, kept_values = np.array(keys, np.uint64), np.array(values, np.float64).astype(np.float32)
        kept = kept_values != 0
        indptr = np.concatenate([[0], np.cumsum(kept)])[ends].astype(np.int64)
        return self._batch(indptr, kept_keys[kept], kept_values[kept], None)

    def _by_codec(self, rows: Sequence[Mapping[Any, Any]]) -> Batch:
        """Return the rows, encoded as messages and read by the codec."""
        messages = [self._message(number, row) for number, row in enumerate(rows)]
        decoded = self._decoder.decode(messages)
        for record in np.flatnonzero(decoded.reasons).tolist():
            reason = Reason(int(decoded.reasons[record]))
            place, names = int(decoded.places[record]), self._mapper.mapping.names
            fault = explain(reason, place, messages[record], self._limits, names=names)
            raise UnreadableCellError(f"row {record}: {fault}")
        for message in messages:
            self.names.add(names_in(message, self.names.ngrams))
        return joined([decoded.batch])  # in memory of its own: the decoder uses its own again

    def _message(self, number: int, row: Mapping[Any, Any]) -> bytes:
        cells = _clean(row, number, times=self._mapping is not None)
        try:
            if self._mapping is not None:
                return encode_example(self._mapper.example(cells).example)
            if self._reading == RECORD:
                return encode_example(_with_points(self._mapper.example({"features": cells}).example))
            message: bytes = msgpack.packb({"features": cells}, use_single_float=True, default=_as_number)
        except ParseError as error:
            raise UnreadableCellError(f"row {number}: {error}".replace(repr(_NESTED)[1:-1], ".")) from error
        except UnicodeEncodeError as error:
            refuse_surrogate(error)
        except (TypeError, ValueError, OverflowError) as error:  # msgpack's, of what no message can hold
            raise UnreadableCellError(
                f"row {number}: expected numbers, texts, booleans, and maps of these, found another value: {error}"
            ) from error
        return message

    def _column(self, name: str, column: Any, first: int) -> tuple[_Keys, _Values, _Keys]:  # noqa: ANN401  a Series of narwhals
        """Return keys, values and attributes of the column's cells: uint64[n, 1] or [1], float32[n, 1], as keys.

        first  the number of the first cell's row
        """
        dtype, attribute = column.dtype, np.array([_attribute_of(name)], np.uint64)
        if dtype.is_numeric():
            numbers = column.to_numpy() if str(dtype) == "Float32" else _floats(column)
            values = _as_values(numbers, lambda at: f"row {first + at}: column {name!r}").reshape(-1, 1)
            return np.array([self.number_key(name)], np.uint64), values, attribute
        if dtype.is_temporal():
            refuse_time(f"column {name!r}", dtype)
        if str(dtype) == "Boolean" and not self._reading.booleans_are_categories:
            values = np.array([np.nan if is_missing(cell) else float(cell) for cell in column.to_list()], np.float32)
            return np.array([self.number_key(name)], np.uint64), values.reshape(-1, 1), attribute
        native = column.to_native()
        by_cell = str(dtype) in _BY_CELL
        if not by_cell and hasattr(native, "factorize"):  # of pandas: equal cells are hashed once
            codes, cells = native.factorize()
            known, where = self._category_keys(name), f"column {name!r}"
            # Numbers are spelled before they are looked up: to a dict 1, 1.0 and True are the same.
            of_cells = [known[cell if isinstance(cell, bool) else text_of(cell, where)] for cell in cells.tolist()]
            keys = np.array([*of_cells, ABSENT], np.uint64)[codes].reshape(-1, 1)  # the code of a missing cell is -1
            return keys, (keys != ABSENT).astype(np.float32), attribute
        cells = column.to_list()
        if by_cell and not all(isinstance(cell, str) or is_missing(cell) for cell in cells):
            return self._mixed_column(name, cells, first)
        keys = np.fromiter(map(self._category_keys(name).__getitem__, cells), np.uint64, len(cells)).reshape(-1, 1)
        return keys, (keys != ABSENT).astype(np.float32), attribute

    def _mixed_column(self, name: str, cells: Sequence[Any], first: int) -> tuple[_Keys, _Values, _Keys]:
        """Return what `_column` does for a column whose cells are of several types, each read by its own type."""
        keys, values = np.zeros((len(cells), 1), np.uint64), np.zeros((len(cells), 1), np.float32)
        for row, cell in enumerate(cells):
            found_keys: list[int] = []
            found_values: list[Any] = []
            try:
                if not self.flat({name: cell}, found_keys, found_values):
                    raise UnreadableCellError(  # noqa: TRY301  the row is told in one place
                        f"column {name!r}: expected a number, a text or a boolean, found {cell!r}"
                    )
            except UnreadableCellError as error:
                raise UnreadableCellError(f"row {first + row}: {error}") from error
            if found_keys:
                keys[row], values[row] = found_keys[0], found_values[0]
        return keys, values, np.array([_attribute_of(name)], np.uint64)

    def _dense(self, parts: Sequence[tuple[_Keys, _Values, _Keys]], size: int = 0, first: int | None = None) -> Batch:
        """Return the rows of columns that stand side by side; zeros and NaN are left out.

        first  the number of the first row, if the limits hold for them: where cells have no names, zeros are absent
        """
        size = len(parts[0][1]) if parts else size
        width = sum(values.shape[1] for _, values, _ in parts)
        if len(parts) == 1 and parts[0][0].ndim == 1:
            keys, values = np.broadcast_to(parts[0][0], (size, width)), parts[0][1]
        else:
            keys, values = np.empty((size, width), np.uint64), np.empty((size, width), np.float32)
            at = 0
            for part_keys, part_values, _ in parts:
                stop = at + part_values.shape[1]
                keys[:, at:stop], values[:, at:stop] = part_keys, part_values
                at = stop
        there = ~np.isnan(values) & (keys != ABSENT)
        if first is not None and width > self._limits.max_features:
            self._check_counts(np.count_nonzero(there, axis=1), first)
        kept = there & (values != 0)
        attributes = None
        if "attributes" in self._columns:
            attributes = np.concatenate([part[2] for part in parts]) if parts else np.empty(0, np.uint64)
            attributes = np.broadcast_to(attributes, (size, width))[kept]
        if kept.all():
            indptr = np.arange(0, size * width + 1, width) if width else np.zeros(size + 1, np.int64)
            return self._batch(indptr, keys.reshape(-1), np.ascontiguousarray(values).reshape(-1), attributes)
        indptr = np.concatenate([[0], np.count_nonzero(kept, axis=1).cumsum()]).astype(np.int64)
        return self._batch(indptr, keys[kept], values[kept], attributes)

    def _check_counts(self, counts: NDArray[np.int64], first: int) -> None:
        """Raise ValueError for a row of too many cells; zeros count, as in a message."""
        check_counts(counts, self._limits.max_features, "limits.max_features", first)

    def _batch(self, indptr: NDArray[np.int64], keys: _Keys, values: _Values, attributes: _Keys | None) -> Batch:
        """Return a batch of these features, without labels, each of weight 1, none with a namespace."""
        size = len(indptr) - 1
        # Always writable arrays: kernels would be compiled again for read-only ones.
        keys = np.require(keys, np.uint64, ("C", "W"))
        batch = Batch(indptr, keys, values, np.full(size, np.nan), np.ones(size))
        if "spaces" in self._columns:
            batch = batch._replace(spaces=np.zeros(len(keys), np.uint64))
        if attributes is not None:
            batch = batch._replace(attributes=np.require(attributes, np.uint64, ("C", "W")))
        if self.names.ngrams.largest > 1:
            self._note_ngrams(batch)
        return batch

    def _note_ngrams(self, batch: Batch) -> None:
        """Remember the names of n-grams of columns, which rows all over the batch have."""
        step = 1 + len(batch.keys) // _LOOKED_AT_FOR_NGRAMS
        for row in range(0, len(batch.labels), step):
            keys = batch.keys[batch.indptr[row] : batch.indptr[row + 1]].tolist()
            run = [(key, name) for key in keys if (name := self.names.get(key)) is not None]
            if len(run) == len(keys):  # of a wide matrix most columns have no names
                self.names.add(islice(names_of_ngrams(run, "", self.names.ngrams), _LOOKED_AT_FOR_NGRAMS))

    def _category_keys(self, name: object) -> ColumnKeys:
        found = self._categories.get(name)
        if found is None:
            found = self._categories[name] = ColumnKeys(column_name(name), self._reading, self._note)
        return found

    def number_key(self, name: object) -> int:
        """Return the key of a number's feature."""
        key = self._number_keys.get(name)
        if key is None:
            text = column_name(name)
            key = self._number_keys[name] = key_of_name(text)
            self._note(key, text)
        return key

    def _keys_of_columns(self, names: Sequence[str]) -> tuple[_Keys, _Keys]:
        """Return the keys of columns of numbers, and their attributes, uint64[n] both."""
        keys = np.array([self.number_key(name) for name in names], np.uint64)
        return keys, np.array([_attribute_of(name) for name in names], np.uint64)

    def _note(self, key: int, name: str) -> None:
        self.names.add([(key, name)])

    def _keys_of_numbers(self, count: int) -> _Keys:
        """Return the keys of the columns 0 to count - 1, which are called by their numbers."""
        numbered = self._numbered  # another thread may make more at the same time
        known = len(numbered)
        if count > known:
            more = [feature_key(str(number)) for number in range(known, count)]
            for number in range(known, min(count, _NAMED_AT_MOST)):
                self._note(more[number - known], str(number))
            self._numbered = numbered = np.concatenate([numbered, np.array(more, np.uint64)])
        return numbered[:count]


def rows_of_maps(X: Any) -> list[Any] | None:  # noqa: ANN401, N803  scikit-learn's
    """Return the rows of a list, an array or a series whose first one is a map; None for any other table.

    UnreadableCellError for what is no table: a single map, an iterator, a text, a frame that has not been read yet.
    """
    if hasattr(X, "tocsr"):  # one kind of sparse matrices is a map
        return None
    if isinstance(X, Mapping | Iterator | AbstractSet | str | bytes) or type(X).__name__ == "LazyFrame":
        refuse_table(X)
    if type(X).__name__ == "Series" or (isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1):
        X = list(X)  # noqa: N806
    return list(X) if isinstance(X, Sequence) and X and isinstance(X[0], Mapping) else None


def refuse_table(X: object, expected: str = "a frame, an array, a sparse matrix or a list of maps") -> NoReturn:  # noqa: N803  scikit-learn's
    """Raise UnreadableCellError for what is no table."""
    raise UnreadableCellError(f"X: expected {expected}, found a {type(X).__name__}")


def array_of(rows: Sequence[Any]) -> NDArray[Any]:
    """Return a list of rows as an array whose cells have their own types; UnreadableCellError for different lengths."""
    try:
        cells = np.asarray(rows)
    except ValueError:
        lengths = [len(row) if isinstance(row, Sequence | np.ndarray) else 0 for row in rows]
        wrong = next((number for number, length in enumerate(lengths) if length != lengths[0]), 0)
        raise UnreadableCellError(
            f"X: expected rows of one length, found {lengths[0]} cells in row 0 and {lengths[wrong]} in row {wrong}"
        ) from None
    if cells.dtype.kind not in "US":
        return cells
    objects = np.asarray(rows, object)  # beside a text NumPy makes texts of numbers, too
    return cells if all(isinstance(cell, bytes) for cell in objects.flat) else objects


def are_numbers(cells: NDArray[Any]) -> bool:
    """Return whether all cells of an array are numbers; UnreadableCellError for an array of times, or of records."""
    if cells.dtype.kind in "mM":
        refuse_time("the array", cells.dtype)
    if cells.dtype.kind == "V":
        raise UnreadableCellError(
            f"X: expected an array of numbers or texts, found one of records, {cells.dtype}: make a frame of it"
        )
    if cells.dtype.kind != "O":
        return cells.dtype.kind not in "US"
    return all(hasattr(cell, "__float__") and not isinstance(cell, _NO_NUMBERS) for cell in cells.flat)


def check_rows(cells: Any) -> None:  # noqa: ANN401  SciPy has no types
    """Raise UnreadableCellError for an array, or a sparse one, without rows of cells, such as a list of texts."""
    if cells.ndim != 2:
        raise UnreadableCellError(f"X: expected rows of cells, a two-dimensional array, found {cells.ndim} dimensions")


def maps_of(cells: NDArray[Any], names: Sequence[object] | None = None) -> list[dict[object, Any]]:
    """Return the rows of a two-dimensional array, not all of whose cells are numbers, as maps from columns' names.

    names  None: the columns' numbers
    """
    try:
        texts = np.char.decode(cells, "utf-8") if cells.dtype.kind == "S" else cells
    except UnicodeDecodeError as error:
        raise UnreadableCellError(f"the array: expected texts in UTF-8, found {error.object!r}") from None
    known = range(cells.shape[1]) if names is None else names
    return [dict(zip(known, row, strict=True)) for row in texts.tolist()]


def _as_values(numbers: NDArray[Any], where: Callable[[int], str]) -> _Values:
    """Return numbers as values of features, NaN where they are missing; UnreadableCellError for those out of bounds.

    where  says in words where a number stands, by its place among all
    """
    if np.iscomplexobj(numbers):
        raise UnreadableCellError(f"X: expected real numbers, found {numbers.dtype}")
    with np.errstate(over="ignore"):
        values = np.asarray(numbers).astype(np.float32, order="C")
    large = ~(np.abs(values) < TOO_LARGE) & ~np.isnan(values)
    if large.any():
        at = int(np.flatnonzero(large)[0])
        refuse_number(np.asarray(numbers).flat[at], where(at))
    return values


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


def _floats(column: Any) -> NDArray[Any]:  # noqa: ANN401  a Series of narwhals
    """Return a column of numbers as float64[n], NaN where a cell is missing."""
    # NumPy has no integers of 128 bits.
    cells = np.array(column.to_list(), object) if str(column.dtype).endswith("Int128") else column.to_numpy()
    if cells.dtype.kind == "O":
        return np.array([np.nan if is_missing(cell) else float(cell) for cell in cells.tolist()])
    return np.asarray(cells, np.float64)


def _dense_column(column: Any) -> Any:  # noqa: ANN401  Series of narwhals
    """Return the column; of pandas' sparse ones, whose type says nothing of their cells, a dense one."""
    if str(column.dtype) != "Unknown" or not hasattr(native := column.to_native(), "sparse"):
        return column
    import narwhals.stable.v2 as nw

    return nw.from_native(native.sparse.to_dense(), series_only=True)


def _cells_of(column: Any, name: str) -> list[Any]:  # noqa: ANN401  a Series of narwhals
    """Return the column's cells for the codec, to which a category that is a number would be a number."""
    cells: list[Any] = column.to_list()
    if not str(column.dtype).startswith(("Categorical", "Enum")):
        return cells
    return [None if is_missing(cell) else text_of(cell, f"column {name!r}") for cell in cells]


def _is_nested(column: Any) -> bool:  # noqa: ANN401  a Series of narwhals
    """Return whether cells hold maps, lists, or decimals, which the codec has to read."""
    if column.dtype.is_nested():
        return True
    return str(column.dtype) in _BY_CELL and any(isinstance(cell, _FOR_THE_CODEC) for cell in column.to_list())


def column_name(name: object) -> str:
    """Return the name of a column as text; a number, as in a frame without names, becomes decimal text."""
    if isinstance(name, str):
        return str(name)
    if isinstance(name, int | np.integer) and not isinstance(name, bool):
        return str(int(name))
    raise UnreadableCellError(f"expected a text or a whole number as name of a feature, found {name!r}")


def _attribute_of(name: str) -> int:
    """Return the key of the attribute of a feature of this name, or of a category in this column; see `Batch`."""
    return key_of_name(name.partition("=")[0])


def _with_points(example: Example) -> Example:
    """Return the example of a row with points between the names that a namespace is made of."""
    features: Any = {space.replace(_NESTED, "."): names for space, names in example.features.items()}
    if len(features) < len(example.features):
        raise ParseError("each namespace once", f"a name with a point that is another one of {sorted(features)}")
    return example._replace(features=features)


def _clean(row: Mapping[Any, Any], number: int, depth: int = 1, *, times: bool) -> dict[str, Any]:
    """Return a row of Python's own types, without its missing cells.

    times  whether cells may hold times

    UnreadableCellError for a time, unless it may, and for maps more than MAX_DEPTH deep, as one that holds itself.
    """
    if depth > MAX_DEPTH:
        raise UnreadableCellError(f"row {number}: expected maps at most {MAX_DEPTH} deep, found deeper ones")
    found: dict[str, Any] = {}
    for name, value in row.items():
        text = column_name(name)
        if _NESTED in text:
            key_of_name(text)  # which refuses it
        if isinstance(value, Mapping):
            found[text] = _clean(value, number, depth + 1, times=times)
        elif not is_missing(value):
            if not times and isinstance(value, TIMES):
                refuse_time(f"row {number}, feature {name!r}", repr(value))
            if isinstance(value, np.ndarray | np.generic):  # Python has no wider floats than those of 64 bits
                value = (value.astype(np.float64) if value.dtype.kind == "f" else value).tolist()  # noqa: PLW2901
            found[text] = value
    return found


def _as_number(value: object) -> float:
    """Return a decimal, or an integer of more than 64 bits, as the nearest float, for msgpack; TypeError for others."""
    if isinstance(value, Decimal | int):
        return float(value)
    raise TypeError(f"a {type(value).__name__}")
