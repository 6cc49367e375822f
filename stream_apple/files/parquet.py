"""Parquet: a record a row, read some rows at a time. Needs the extra `parquet`.

A small file may become large: a long text may be in a column's dictionary once, and in a million rows; pages may be
compressed thousandfold. So rows are read by the memory that they will take, dictionaries are not expanded, and a column
that the file's metadata shows to be too large is refused before it is read.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from stream_apple.errors import InputFileError, needs_extra
from stream_apple.files.input_stream import MAX_LINE_BYTES
from stream_apple.files.rows import FileRows, Row
from stream_apple.files.shape import FileShape, in_options
from stream_apple.records.arrow_values import arrow_values, index_columns, readable_type
from stream_apple.records.mapper import RecordMapper, held_at
from stream_apple.records.spelling import ParseError

MAGIC = b"PAR1"
_ROWS_AT_ONCE = 1000
_BATCH_BYTES = 16 << 20  # of the rows that are read at once, as far as this is known beforehand
_CELL_BYTES = 64  # of a number as an object of Python
_BUFFER_BYTES = 1 << 20  # of a column that is being read; without a buffer a row group's whole column would be read
_LEAST_BUFFER_BYTES = 4 << 10
_MOST_INFLATED = 1000  # a column of a row group may be so many times its compressed size,
_INFLATED_BYTES = 256 << 20  # or have so many bytes, since a page is unpacked as a whole


def parquet_rows(path: Path, name: str, shape: FileShape, key: str) -> FileRows:
    """Return the rows of the file, in order, each with its number from 1; InputFileError names it.

    key  the column that holds the records' keys; "" = none
    """
    with needs_extra("parquet", f"{name}: "):
        import pyarrow as pa
        from pyarrow.parquet import ParquetFile
    try:
        _check_unpacked(path)
        with ParquetFile(path) as file:
            schema, metadata = file.schema_arrow, file.metadata
        maps = [found for field in schema for found in _maps_in(field, "", shape.mapping.separator, pa)]
        mapper = shape.of_columns(schema.names, maps, index_columns(schema.metadata), key)
        chunks = _Chunks(metadata, {field.name for field in schema if _is_text(field.type, pa)})
    except ParseError as error:
        raise InputFileError(f"{name}: {in_options(str(error))}") from None
    except (pa.ArrowException, OSError):
        raise _damaged(name, 0) from None
    return FileRows(
        mapper, _rows(path, name, _Wanted(schema, mapper, key, pa), chunks, metadata), partial(_place, name)
    )


def _place(name: str, row: int) -> str:
    return f"{name}, row {row}"


def _damaged(name: str, row: int) -> InputFileError:
    return InputFileError(f"{name}: expected a whole Parquet file, found a damaged one after row {row}")


class _Wanted:
    """The columns that are read, and the Arrow type as which each is read."""

    def __init__(self, schema: Any, mapper: RecordMapper, key: str, pa: Any) -> None:  # noqa: ANN401  pyarrow has no types
        self.pa = pa
        self.key = key
        self.separator = mapper.mapping.separator
        self.types = {
            field.name: readable_type(field.type)
            for field in schema
            if mapper.reads(field.name) or (key and (key == field.name or key.startswith(field.name + self.separator)))
        }
        self.of_file = {field.name: field.type for field in schema}


def _rows(path: Path, name: str, wanted: _Wanted, chunks: "_Chunks", metadata: Any) -> Iterator[Row]:  # noqa: ANN401
    from pyarrow.parquet import ParquetFile

    row = 0
    options = {
        "buffer_size": max(_LEAST_BUFFER_BYTES, min(_BUFFER_BYTES, _BATCH_BYTES // max(1, len(wanted.of_file)))),
        "read_dictionary": chunks.coded,
    }
    try:
        with ParquetFile(path, metadata=metadata, pre_buffer=False, **options) as file:
            names = list(wanted.types)
            for batch in file.iter_batches(chunks.rows_at_once, columns=names or None, use_threads=False):
                columns = [_read(batch, column, wanted, f"{name}, after row {row}") for column in names]
                for cells in zip(*columns, strict=True) if columns else [()] * len(batch):
                    row += 1
                    record = dict(zip(names, cells, strict=True))
                    yield Row(row, record, held_at(record, wanted.key, wanted.separator))
    except (wanted.pa.ArrowException, OSError):
        raise _damaged(name, row) from None


def _maps_in(field: Any, path: str, separator: str, pa: Any) -> Iterator[str]:  # noqa: ANN401
    """Yield the paths of all maps and structs of a column, and those of the structs' fields."""
    whole = f"{path}{separator}{field.name}" if path else str(field.name)
    if pa.types.is_map(field.type):
        yield whole
    elif pa.types.is_struct(field.type):
        yield whole
        for number in range(field.type.num_fields):
            yield f"{whole}{separator}{field.type.field(number).name}"
            yield from _maps_in(field.type.field(number), whole, separator, pa)


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


def _read(batch: Any, name: str, wanted: _Wanted, where: str) -> list[object]:  # noqa: ANN401
    """Return the values of a column; InputFileError for one that Python can't hold, as a time after the year 9999."""
    kind = wanted.of_file[name]
    try:
        return arrow_values(batch.column(name), wanted.types[name])
    except UnicodeDecodeError:
        found = f"{kind} that is not: write it as binary for an id or a key, or --ignore {name}"
        raise InputFileError(f"{where}: expected text in UTF-8 in column {name!r}, found {found}") from None
    except (ValueError, OverflowError, LookupError, NotImplementedError, TypeError):
        expected = f"values of {kind} in column {name!r} that Python can hold, such as times from the year 1 to 9999"
        raise InputFileError(f"{where}: expected {expected}, found others: --ignore {name} leaves it out") from None
