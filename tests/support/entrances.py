"""The ways by which records become a batch. One content gives the same batch by each of them, to the bit.

Another entrance, such as a data frame, is a function with the same arguments that is added to FLAT or NESTED.
"""

import csv
import json
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

import msgpack
import pyarrow as pa
from pyarrow import parquet

from stream_apple.core.batch import Batch, Limits, joined
from stream_apple.files import FileShape, read_examples
from stream_apple.offline.dataset import read_batch
from stream_apple.records.mapper import RecordMapper
from stream_apple.records.mapping import InputMapping
from stream_apple.records.message.decode import Decoder
from stream_apple.records.outer_record import packed_record
from stream_apple.records.record_reader import MappedReader

Record: TypeAlias = dict[str, Any]
"""Values of Python: None, bool, int, float, Decimal, str, UUID, date, time, datetime; and, if nested, dict and list."""
Entrance: TypeAlias = Callable[[Sequence[Record], InputMapping, Path], Batch]
"""Returns the batch of records that are read by a mapping; the path is an empty folder for files."""

LIMITS = Limits(1000, 1_000_000, 1000.0, -1e6, 1e6, binary=False)
COLUMNS = frozenset({"spaces", "attributes"})


def of_topic(pack: Callable[[Record], bytes], records: Sequence[Record], mapping: InputMapping, _: Path) -> Batch:
    """Records of a topic, in one of its formats."""
    return _decoded([pack(record) for record in records], mapping)


def of_json_lines(records: Sequence[Record], mapping: InputMapping, folder: Path) -> Batch:
    """A file of JSON lines."""
    return _read(as_json_lines(records, folder), mapping)


def of_msgpack_file(records: Sequence[Record], mapping: InputMapping, folder: Path) -> Batch:
    """A file of msgpack."""
    path = folder / "records.msgpack"
    path.write_bytes(b"".join(map(as_msgpack, records)))
    return _read(path, mapping)


def of_csv(records: Sequence[Record], mapping: InputMapping, folder: Path) -> Batch:
    """A file of CSV; maps become columns with paths."""
    return _read(as_csv(records, mapping, folder), mapping)


def of_parquet(records: Sequence[Record], mapping: InputMapping, folder: Path) -> Batch:
    """A file of Parquet."""
    return _read(as_parquet(records, folder), mapping)


def of_produced(
    write: Callable[[Sequence[Record], InputMapping, Path], Path],
    records: Sequence[Record],
    mapping: InputMapping,
    folder: Path,
) -> Batch:
    """A topic to which `produce` has sent a file."""
    shape, mapper = FileShape(mapping, says_features=True), RecordMapper(mapping)
    examples = read_examples(write(records, mapping, folder), shape, with_records=True)
    return _decoded([packed_record(example.record or {}, mapper) for example in examples], mapping)


def as_json(record: Record) -> bytes:
    """Return the record as JSON: types that JSON does not have are texts, and decimals numbers."""
    return json.dumps(record, ensure_ascii=False, default=_plain).encode()


def as_msgpack(record: Record) -> bytes:
    """Return the record as msgpack, which has times."""
    packed: bytes = msgpack.packb(record, default=_plain)
    return packed


def as_json_lines(records: Sequence[Record], folder: Path) -> Path:
    """Write a file of JSON lines."""
    path = folder / "records.jsonl"
    path.write_bytes(b"".join(as_json(record) + b"\n" for record in records))
    return path


def as_csv(records: Sequence[Record], mapping: InputMapping, folder: Path) -> Path:
    """Write a file of CSV, as pandas would: True and False, and quotes where spaces matter."""
    path = folder / "records.csv"
    rows = [_flat(record, mapping.separator) for record in records]
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, names, quoting=csv.QUOTE_ALL)
        table.writeheader()
        table.writerows(rows)
    return path


def as_parquet(records: Sequence[Record], folder: Path) -> Path:
    """Write a file of Parquet."""
    path = folder / "records.parquet"
    names = list(dict.fromkeys(name for record in records for name in record))
    parquet.write_table(pa.table({name: _column([record.get(name) for record in records]) for name in names}), path)
    return path


NESTED: dict[str, Entrance] = {
    "topic of JSON": partial(of_topic, as_json),
    "topic of msgpack": partial(of_topic, as_msgpack),
    "JSON lines": of_json_lines,
    "msgpack": of_msgpack_file,
    "Parquet": of_parquet,
    "produced JSON lines": partial(of_produced, lambda records, _, folder: as_json_lines(records, folder)),
    "produced Parquet": partial(of_produced, lambda records, _, folder: as_parquet(records, folder)),
}
"""The entrances of formats that have maps and lists."""
FLAT: dict[str, Entrance] = NESTED | {"CSV": of_csv, "produced CSV": partial(of_produced, as_csv)}
"""Those of formats that have columns, too."""


def _read(path: Path, mapping: InputMapping) -> Batch:
    return read_batch([path], LIMITS, FileShape(mapping, says_features=True), COLUMNS)


def _decoded(values: Sequence[bytes], mapping: InputMapping) -> Batch:
    decoded = Decoder(LIMITS, COLUMNS, reader=MappedReader(mapping)).decode(values)
    assert not decoded.reasons.any(), decoded.faults
    return joined([decoded.batch])


def _plain(value: object) -> object:
    if isinstance(value, Decimal):
        return float(value)
    assert isinstance(value, UUID | date | time | datetime)
    return value.isoformat() if isinstance(value, date | time) else str(value)


def _flat(record: Record, separator: str, prefix: str = "") -> Record:
    found: Record = {}
    for name, value in record.items():
        if isinstance(value, dict):
            found |= _flat(value, separator, f"{prefix}{name}{separator}")
        else:
            found[f"{prefix}{name}"] = value
    return found


def _column(values: list[Any]) -> pa.Array:
    first = next((value for value in values if value is not None), None)
    if isinstance(first, UUID):
        return pa.array([None if value is None else value.bytes for value in values], pa.uuid())
    return pa.array(values)
