"""Parquet: an example a row, read a row group at a time. Needs the extra `parquet`.

Numbers and bools are values, texts are categories, and times may be the examples' own. Null is missing, and so is NaN.
"""

from collections.abc import Iterator
from math import isnan
from pathlib import Path
from typing import Any

from stream_apple.core.codec.example import Example
from stream_apple.errors import ConfigurationError, InputFileError
from stream_apple.files.errors import ParseError
from stream_apple.files.table import Cell, ColumnRoles, TableReader

MAGIC = b"PAR1"
_ROWS_AT_ONCE = 1000
_BUFFER_BYTES = 1 << 20  # of a column that is being read; without it, a row group's whole column would be


def read_parquet(
    path: Path, name: str, timestamp_field: str | None, key_field: str | None, roles: ColumnRoles
) -> Iterator[Example]:
    """The examples of the file, in order; InputFileError names the row, from 1."""
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
        with ParquetFile(path, buffer_size=_BUFFER_BYTES, pre_buffer=False) as file:
            schema = file.schema_arrow
            reader = TableReader(schema.names, roles, timestamp_field, key_field)
            casts = [_cast(field, reader, pa) for field in schema]
            for batch in file.iter_batches(_ROWS_AT_ONCE, use_threads=False):
                columns = [_cells(column, cast) for column, cast in zip(batch.columns, casts, strict=True)]
                for cells in zip(*columns, strict=True):
                    row += 1
                    yield reader.example(cells)
    except ParseError as error:
        where = f", row {row}" if row else ""
        raise InputFileError(f"{name}{where}: {error}") from None
    except (pa.ArrowException, OSError) as error:
        raise InputFileError(f"{name}: expected a whole Parquet file, found after row {row}: {error}") from None


def _cast(field: Any, reader: TableReader, pa: Any) -> Any:  # noqa: ANN401  pyarrow has no types
    """The type of pyarrow that the column is read as; None: what it holds isn't looked at."""
    types, kind = pa.types, field.type
    if types.is_dictionary(kind):
        kind = kind.value_type
    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    is_time = types.is_timestamp(kind) or types.is_date(kind)
    if field.name in reader.ignored:
        return None
    if field.name in reader.categories:
        return pa.string()
    if is_time and field.name == reader.timestamp_field:
        return pa.timestamp("us")
    if field.name == reader.key_field and (types.is_binary(kind) or types.is_large_binary(kind)):
        return kind
    if types.is_decimal(kind) or types.is_floating(kind):
        return pa.float64()
    if types.is_boolean(kind):
        return pa.int8()
    if is_text or types.is_integer(kind) or types.is_null(kind):
        return kind
    raise ParseError(
        f"numbers, bools or text in column {field.name!r} (--column ignore={field.name} leaves it out)", str(field.type)
    )


def _cells(column: Any, cast: Any) -> list[Cell]:  # noqa: ANN401
    """The column as a list; None is missing."""
    if cast is None:
        return [None] * len(column)
    # Not `safe`: a time is read to the microsecond, whatever else it holds.
    cells: list[Cell] = column.cast(cast, safe=False).to_pylist()
    return [None if isinstance(cell, float) and isnan(cell) else cell for cell in cells]
