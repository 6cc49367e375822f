"""Parquet: an example a row, read some rows at a time. Needs the extra `parquet`.

Numbers and bools are values, texts are categories, and times may be the examples' own. Null is missing, and so is NaN.

A small file may hold much: a text that stands in a column's dictionary once, and in a million rows; pages that compress
thousandfold. So rows are taken by what they become, dictionaries are left as they are, and what can be known to be too
large is refused by the file's own account, before it is read.
"""

from collections.abc import Iterator
from math import isnan
from pathlib import Path
from typing import Any

from stream_apple.core.codec.example import Example
from stream_apple.core.input.spelling import ParseError
from stream_apple.errors import ConfigurationError, InputFileError
from stream_apple.files.input_stream import MAX_LINE_BYTES
from stream_apple.files.table import Cell, ColumnRoles, RowReader, row_reader

MAGIC = b"PAR1"
_ROWS_AT_ONCE = 1000
_BATCH_BYTES = 16 << 20  # of the rows that are taken at once, as far as it can be known
_CELL_BYTES = 64  # of a number, as Python has it
_BUFFER_BYTES = 1 << 20  # of a column that is being read; without it, a row group's whole column would be
_LEAST_BUFFER_BYTES = 4 << 10
_MOST_INFLATED = 1000  # so many times its compressed size a column may take in a row group, or
_INFLATED_BYTES = 256 << 20  # as many bytes: a page of it is unpacked whole


def read_parquet(
    path: Path, name: str, timestamp_field: str | None, key_field: str | None, roles: ColumnRoles
) -> Iterator[Example]:
    """Yield the examples of the file, in order; InputFileError names the row, from 1."""
    try:
        import pyarrow as pa
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ConfigurationError(
            f"{name}: expected pyarrow to be installed, which reads Parquet, found none: "
            "pip install 'stream-apple[parquet]'"
        ) from error
    row = 0
    try:
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
                    [None] * len(batch) if cast is None else _cells(batch.column(name), cast)
                    for name, cast in zip(schema.names, casts, strict=True)
                ]
                for cells in zip(*columns, strict=True):
                    row += 1
                    yield reader.example(cells)
    except ParseError as error:
        where = f", row {row}" if row else ""
        raise InputFileError(f"{name}{where}: {error}") from None
    except (pa.ArrowException, OSError) as error:
        raise InputFileError(f"{name}: expected a whole Parquet file, found after row {row}: {error}") from None


class _Chunks:
    """The file's own account of its columns in each row group; ParseError for one that would fill the memory.

    texts  columns of text

    coded         those of them whose texts stand in dictionaries, which need not be written out for each row
    rows_at_once  that are taken
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
                # Of texts that are written as what they add to those before, each may be as long as all together.
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
    """Return the type of pyarrow that the column is read as; None: it is not read."""
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
    if types.is_decimal(kind) or types.is_floating(kind):
        return pa.float64()
    if reader.as_they_are:
        return kind
    if types.is_boolean(kind):
        return pa.int8()
    if _is_text(kind, pa) or types.is_integer(kind) or types.is_null(kind):
        return kind
    remedy = f"--column ignore={field.name} leaves it out"
    if is_time:
        remedy += f", --timestamp-field {field.name} makes it the examples' times"
    raise ParseError(f"numbers, bools or text in column {field.name!r} ({remedy})", str(field.type))


def _cells(column: Any, cast: Any) -> list[Cell]:  # noqa: ANN401
    """Return the column as a list; None is missing."""
    indices = getattr(column, "indices", None)
    if indices is not None:
        # Each text once, however many rows have it.
        used = indices.unique().drop_null()
        found = dict(zip(used.to_pylist(), _cells(column.dictionary.take(used), cast), strict=True))
        return [found.get(index) for index in indices.to_pylist()]
    # Not `safe`: a time is read to the microsecond, whatever else it holds.
    cells: list[Cell] = column.cast(cast, safe=False).to_pylist()
    return [None if isinstance(cell, float) and isnan(cell) else cell for cell in cells]
