"""The ways by which records become a batch. One content gives the same batch by each of them, to the bit."""

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
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from pyarrow import parquet

from stream_apple.core.batch import Batch, Limits, joined
from stream_apple.files import FileShape, read_examples
from stream_apple.learners.apple.options import Options
from stream_apple.library.featurizer import Featurizer
from stream_apple.library.one_row import OneRow
from stream_apple.library.online import OnlineLearner
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


def of_frame(
    frame_of: Callable[[Sequence[Record]], Any], records: Sequence[Record], mapping: InputMapping, _: Path
) -> Batch:
    """A frame of whole records, as a model that a worker has learned takes it."""
    import narwhals.stable.v2 as nw

    frame = nw.from_native(frame_of(records), eager_only=True)
    return Featurizer(COLUMNS, mapping, limits=LIMITS).frame(frame)


def of_features(
    rows_of: Callable[[Sequence[Record]], Any], records: Sequence[Record], mapping: InputMapping, _: Path
) -> Batch:
    """Features without labels, as an estimator takes them, which gets labels and weights apart from them.

    The keys and values are those of the fast path, and the other columns those of the path for all models.
    """
    import narwhals.stable.v2 as nw

    roles = {mapping.label, mapping.weight, mapping.id}
    rows = rows_of([{name: value for name, value in record.items() if name not in roles} for record in records])
    batches = []
    for columns in (COLUMNS, frozenset[str]()):
        featurizer = Featurizer(columns, mapping._replace(label="", weight="", id="", timestamp=""))
        read = (
            featurizer.maps if isinstance(rows, list) else lambda frame, by=featurizer: by.frame(nw.from_native(frame))
        )
        batches.append(read(rows))
    return _labelled(batches[0]._replace(keys=batches[1].keys, values=batches[1].values), records, mapping)


def of_river(records: Sequence[Record], mapping: InputMapping, folder: Path) -> Batch:
    """Rows that come one at a time, each written to the learner's single row."""
    whole = of_features(list, records, mapping, folder)
    online = OnlineLearner(Options(bits=8, method="linear", discretise="none", loss="logistic"))
    model = OneRow(
        online, Featurizer(mapping=mapping._replace(label="", weight="", id="", timestamp="")), sort_names=False
    )
    roles = {mapping.label, mapping.weight, mapping.id}
    features = []
    for record in records:
        row = {name: value for name, value in record.items() if name not in roles}
        written: Any = model._with(row) or model.batch_of(row)  # a batch for maps and lists
        stop = int(written.indptr[1])
        features.append((written.keys[:stop].copy(), written.values[:stop].copy()))  # noqa: PD011  not pandas'
    return whole._replace(
        indptr=np.concatenate([[0], np.cumsum([len(keys) for keys, _ in features])]),
        keys=np.concatenate([keys for keys, _ in features]),
        values=np.concatenate([values for _, values in features]),
    )


def as_pandas(records: Sequence[Record]) -> pd.DataFrame:
    """Return a frame of pandas, whose columns have types of its own where it has them."""
    frame = pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in _cells(records).items()})
    for name, cells in _cells(records).items():
        kinds = {type(cell) for cell in cells if cell is not None}
        if kinds == {datetime}:
            frame[name] = pd.to_datetime(frame[name], utc=True)
        elif kinds == {bool}:
            frame[name] = frame[name].astype("boolean")
        elif kinds == {float}:
            frame[name] = frame[name].astype(float)
        elif kinds == {str} and len(name) % 2:
            frame[name] = frame[name].astype("category")
    return frame


def as_polars(records: Sequence[Record]) -> pl.DataFrame:
    """Return a frame of polars; it has no UUIDs."""
    return pl.DataFrame(
        [
            pl.Series(name, [str(cell) if isinstance(cell, UUID) else cell for cell in cells], strict=False)
            for name, cells in _cells(records).items()
        ]
    )


def as_arrow(records: Sequence[Record]) -> pa.Table:
    """Return a table of Arrow."""
    return pa.table({name: _column(cells) for name, cells in _cells(records).items()})


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
    parquet.write_table(as_arrow(records), path)
    return path


NESTED: dict[str, Entrance] = {
    "topic of JSON": partial(of_topic, as_json),
    "topic of msgpack": partial(of_topic, as_msgpack),
    "JSON lines": of_json_lines,
    "msgpack": of_msgpack_file,
    "Parquet": of_parquet,
    "produced JSON lines": partial(of_produced, lambda records, _, folder: as_json_lines(records, folder)),
    "produced Parquet": partial(of_produced, lambda records, _, folder: as_parquet(records, folder)),
    "frame of pandas": partial(of_frame, as_pandas),
    "frame of polars": partial(of_frame, as_polars),
    "table of Arrow": partial(of_frame, as_arrow),
    "features in pandas": partial(of_features, as_pandas),
    "features in polars": partial(of_features, as_polars),
    "maps of features": partial(of_features, list),
    "rows of River": of_river,
}
"""The entrances that have maps and lists."""
FLAT: dict[str, Entrance] = NESTED | {"CSV": of_csv, "produced CSV": partial(of_produced, as_csv)}
"""Those that have columns, too."""


def _read(path: Path, mapping: InputMapping) -> Batch:
    return read_batch([path], LIMITS, FileShape(mapping, says_features=True), COLUMNS)


def _decoded(values: Sequence[bytes], mapping: InputMapping) -> Batch:
    decoded = Decoder(LIMITS, COLUMNS, reader=MappedReader(mapping)).decode(values)
    assert not decoded.reasons.any(), decoded.faults
    return joined([decoded.batch])


def _labelled(batch: Batch, records: Sequence[Record], mapping: InputMapping) -> Batch:
    """Return the batch with the labels and weights that an estimator gets."""
    labels = [record.get(mapping.label) for record in records]
    weights = [record.get(mapping.weight, 1.0) for record in records]
    return batch._replace(
        labels=np.array([np.nan if label is None else label for label in labels], np.float64),
        weights=np.array(weights, np.float64),
    )


def _cells(records: Sequence[Record]) -> dict[str, list[Any]]:
    """Return the cells of each column."""
    names = dict.fromkeys(name for record in records for name in record)
    return {name: [record.get(name) for record in records] for name in names}


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
