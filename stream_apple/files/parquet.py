"""Parquet: an example a row, read some rows at a time. Needs the extra `parquet`.

Numbers and bools are values, texts are categories, and a column of times may hold the examples' times. Null and NaN are
missing.

A small file may become large: a long text may be in a column's dictionary once, and in a million rows; pages may be
compressed thousandfold. So rows are read by the memory that they will take, dictionaries are not expanded, and a column
that the file's metadata shows to be too large is refused before it is read.
"""

from collections.abc import Iterator
from math import isnan
from pathlib import Path
from typing import Any

from stream_apple.errors import InputFileError, needs_extra
from stream_apple.files.input_stream import MAX_LINE_BYTES
from stream_apple.files.table import Cell, ColumnRoles, RowReader, row_reader
from stream_apple.records.message.example import Example
from stream_apple.records.spelling import ParseError

MAGIC = b"PAR1"
_ROWS_AT_ONCE = 1000
_BATCH_BYTES = 16 << 20  # of the rows that are read at once, as far as this is known beforehand
_CELL_BYTES = 64  # of a number as an object of Python
_BUFFER_BYTES = 1 << 20  # of a column that is being read; without a buffer a row group's whole column would be read
_LEAST_BUFFER_BYTES = 4 << 10
_MOST_INFLATED = 1000  # a column of a row group may be so many times its compressed size,
_INFLATED_BYTES = 256 << 20  # or have so many bytes, since a page is unpacked as a whole


def read_parquet(
    path: Path, name: str, timestamp_field: str | None, key_field: str | None, roles: ColumnRoles
) -> Iterator[Example]:
    """Yield the examples of the file, in order; InputFileError names the row, from 1."""
    with needs_extra("parquet", f"{name}: "):
        import pyarrow as pa
        from pyarrow.parquet import ParquetFile
    row = 0
    try:
        _check_unpacked(path)
        with ParquetFile(path) as file:
            schema, metadata = file.schema_arrow, file.metadata
        reader = row_reader(schema.names, roles, timestamp_field, key_field)
        casts = [_cast(field, reader, pa) for field in schema]
        texts = [field.name for field in schema if _is_text(field.type, pa)]
        chunks = _Chunks(metadata, {*texts})
        options = {
            "buffer_size": max(_LEAST_BUFFER_BYTES, min(_BUFFER_BYTES, _BATCH_BYTES // len(casts))),
            "read_dictionary": chunks.coded,
        }
        with ParquetFile(path, metadata=metadata, pre_buffer=False, **options) as file:
            wanted = [name for name, cast in zip(schema.names, casts, strict=True) if cast is not None]
            for batch in file.iter_batches(chunks.rows_at_once, columns=wanted or None, use_threads=False):
                columns = [
                    [None] * len(batch) if cast is None else _read(batch, column, cast, f"{name}, after row {row}")
                    for column, cast in zip(schema.names, casts, strict=True)
                ]
                for cells in zip(*columns, strict=True):
                    row += 1
                    yield reader.example(cells)
    except ParseError as error:
        where = f", row {row}" if row else ""
        raise InputFileError(f"{name}{where}: {error}") from None
    except (pa.ArrowException, OSError) as error:
        raise InputFileError(f"{name}: expected a whole Parquet file, found after row {row}: {error}") from None


def _check_unpacked(path: Path) -> None:
    """Raise ParseError for a file that is gzipped: other formats are unpacked, but Parquet is not read in order."""
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise ParseError("Parquet that is not gzipped, as its columns are compressed already", "a gzipped file")


class _Chunks:
    """What the metadata says of the columns in each row group; ParseError for a column that would fill the memory.

    coded  the columns of text that have dictionaries, so that a text need not be repeated for each row
    """

    def __init__(self, metadata: Any, texts: set[str]) -> None:  # noqa: ANN401
        written_out: set[str] = set()
        widest: dict[str, float] = {}
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            for chunk in map(group.column, range(group.num_columns)):
                name, size, rows = chunk.path_in_schema, chunk.total_uncompressed_size, max(chunk.num_values, 1)
                if size > max(_INFLATED_BYTES, _MOST_INFLATED * chunk.total_compressed_size):
                    raise ParseError(
                        f"a column of at most {_INFLATED_BYTES >> 20} MiB in a row group, or compressed at most "
                        f"{_MOST_INFLATED}-fold",
                        f"{size >> 20} MiB of {name!r} in {chunk.total_compressed_size:,} bytes",
                    )
                if name not in texts:
                    continue
                encodings = {str(encoding) for encoding in chunk.encodings}
                if not chunk.has_dictionary_page or any(each.startswith("DELTA") for each in encodings):
                    written_out.add(name)
                # With this encoding a text shares a prefix with the one before, so each may be as long as all together.
                bytes_a_row = float(size if "DELTA_BYTE_ARRAY" in encodings else size / rows)
                if size / rows > MAX_LINE_BYTES:
                    raise ParseError(f"texts of at most {MAX_LINE_BYTES} bytes in column {name!r}", f"{size // rows}")
                widest[name] = max(widest.get(name, 0.0), bytes_a_row)
        self.coded = sorted(widest.keys() - written_out)
        wide = sum(size for name, size in widest.items() if name in written_out)
        self.rows_at_once = max(1, min(_ROWS_AT_ONCE, int(_BATCH_BYTES / (wide + _CELL_BYTES * metadata.num_columns))))


def _is_text(kind: Any, pa: Any) -> bool:  # noqa: ANN401
    types = pa.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _cast(field: Any, reader: RowReader, pa: Any) -> Any:  # noqa: ANN401  pyarrow has no types
    """Return the pyarrow type as which the column is read; None if it is not read."""
    types, kind = pa.types, field.type
    if types.is_dictionary(kind):
        kind = kind.value_type
    is_time = types.is_timestamp(kind) or types.is_date(kind)
    if field.name in reader.ignored:
        return None
    if field.name in reader.categories:
        return pa.string()
    if is_time and field.name in reader.times:
        return pa.timestamp("us")
    if field.name == reader.key_field and (types.is_binary(kind) or types.is_large_binary(kind)):
        return kind
    if types.is_decimal(kind) and reader.as_they_are and field.name in reader.texts - reader.times:
        return kind  # spelled with all its digits, as other formats spell it
    if types.is_decimal(kind) or types.is_floating(kind):
        return pa.float64()
    if reader.as_they_are:
        return kind
    if types.is_boolean(kind):
        return pa.int8()
    if _is_text(kind, pa) or types.is_integer(kind) or types.is_null(kind):
        return kind
    remedy = f"--column ignore={field.name} leaves it out"
    if types.is_nested(kind):
        remedy += ", --input 'features=*' reads lists and maps"
    if is_time:
        remedy += f", --timestamp-field {field.name} makes it the examples' times"
    raise ParseError(f"numbers, bools or text in column {field.name!r} ({remedy})", str(field.type))


def _read(batch: Any, name: str, cast: Any, where: str) -> list[Cell]:  # noqa: ANN401
    """Return the cells of a column; InputFileError for one that Python can't hold, as a time after the year 9999."""
    try:
        return _cells(batch.column(name), cast)
    except (ValueError, OverflowError, LookupError, NotImplementedError) as error:
        what = f"cells in column {name!r} ({batch.column(name).type})"
        raise InputFileError(f"{where}: expected {what} to be read, found: {error}") from None


def _cells(column: Any, cast: Any) -> list[Cell]:  # noqa: ANN401
    """Return the column as a list; None is missing."""
    indices = getattr(column, "indices", None)
    if indices is not None:
        # Each text is converted once, however many rows have it.
        used = indices.unique().drop_null()
        found = dict(zip(used.to_pylist(), _cells(column.dictionary.take(used), cast), strict=True))
        return [found.get(index) for index in indices.to_pylist()]
    # Not `safe`: times are cut to microseconds.
    cells: list[Cell] = column.cast(cast, safe=False).to_pylist(maps_as_pydicts="strict")
    return [None if isinstance(cell, float) and isnan(cell) else cell for cell in cells]
