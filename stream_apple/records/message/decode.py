"""Decoding of fetched records into a batch, with the reason for each record that was refused.

This module owns the arrays that the parser fills, and reuses them. `parse.py` knows the format, and `json_text.py`
makes msgpack of JSON.
"""

import threading
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch, Columns, Limits
from stream_apple.records.message.first_bytes import is_json
from stream_apple.records.message.json_text import JsonError, as_msgpack
from stream_apple.records.message.msgpack_reader import MAX_DEPTH, Bytes
from stream_apple.records.message.parse import parse
from stream_apple.records.message.reasons import Reason
from stream_apple.records.message.rejects import explain

_ANY_SIZE = 1 << 62
_NO_FAULTS: Mapping[int, str] = MappingProxyType({})


class ReadRecords(NamedTuple):
    """`n` records of another shape, as messages of the product's own.

    messages    `n`: msgpack as `encode_example` makes it; b"" for a refused record, None for a record without a value
    reasons     uint8[n]  a `Reason`; 0 = good so far
    faults      index of each refused record -> what was expected and what was found
    timestamps  int64[n]  event time in milliseconds since 1970, 0 for a refused record; None: the records' own times
                          count
    left_out    int64[n]  how many features could not be read, and are not in the message
    names       key of the message -> what that field is called in the records
    """

    messages: list[bytes | None]
    reasons: NDArray[np.uint8]
    faults: dict[int, str]
    timestamps: NDArray[np.int64] | None
    left_out: NDArray[np.int64]
    names: Mapping[str, str]


class RecordReader(Protocol):
    """Turns records of another shape into messages of the product's own, see `records/record_reader.py`.

    framed  whether records may be framed by the schemas of a registry
    """

    framed: bool

    def read(self, values: Sequence[bytes | None], max_record_bytes: int) -> ReadRecords:
        """Return the values of `n` records as messages; refuse larger ones. Several threads may call it at once."""
        ...


class Decoded(NamedTuple):
    """`n` records, of which `m` are rows of the batch.

    batch    the m good rows
    rows     int64[m]      index of the record that each row came from, ascending
    reasons  uint8[n]      a `Reason`; 0 = good
    places   int64[n]      byte in the record at which the fault was found, or in the msgpack of a record of JSON;
                           -1 if good
    buffer   uint8[...]    all records as msgpack, one after another
    ids      int64[m, 2]   start and stop in `buffer` of the raw msgpack of `id`; equal = no id

    With a `RecordReader` the places of faults are 0, and these fields are set:

    faults      index of each refused record -> what was expected and what was found
    timestamps  int64[m]  event time in milliseconds since 1970, if the values have it; else None
    left_out    int64[m]  how many features of each row could not be read
    """

    batch: Batch
    rows: NDArray[np.int64]
    reasons: NDArray[np.uint8]
    places: NDArray[np.int64]
    buffer: NDArray[np.uint8]
    ids: NDArray[np.int64]
    faults: Mapping[int, str] = _NO_FAULTS
    timestamps: NDArray[np.int64] | None = None
    left_out: NDArray[np.int64] | None = None

    def before(self, record: int) -> "Decoded":
        """Return only the records before this one, and their rows."""
        rows = np.arange(np.searchsorted(self.rows, record))
        return self.select(rows)._replace(reasons=self.reasons[:record], places=self.places[:record])

    def select(self, rows: NDArray[np.int64]) -> "Decoded":
        """Return only these of the m rows, int64[k], ascending; the records stay as they are."""
        return self._replace(
            batch=self.batch.select(rows),
            rows=self.rows[rows],
            ids=self.ids[rows],
            timestamps=None if self.timestamps is None else self.timestamps[rows],
            left_out=None if self.left_out is None else self.left_out[rows],
        )


class Decoder:
    """Decodes examples under `limits`, into memory that it keeps and reuses.

    Several threads may decode at once, each into memory of its own. The columns of a batch that have an element for
    each feature are valid until the thread's next `decode`. That memory has 12 bytes for each feature, and 8 more for
    each further column; a batch has at most a feature for each 2 bytes, and `max_features` for each record.

    columns  fields of `Batch` that the model needs besides those that are always filled: `spaces`, `attributes`
    reader   reads records of another shape; None: they are messages of the product's own
    """

    def __init__(
        self, limits: Limits, columns: frozenset[str] = frozenset(), reader: RecordReader | None = None
    ) -> None:
        self.columns = columns
        self._reader = reader
        # One set of types, so that the kernel is compiled once.
        self._limits = Limits(
            int(limits.max_features),
            int(limits.max_record_bytes),
            float(limits.max_weight),
            float(limits.min_label),
            float(limits.max_label),
            bool(limits.binary),
            int(limits.classes),
        )
        self._scratch = _Scratch(spaces="spaces" in columns, attributes="attributes" in columns)

    @property
    def framed(self) -> bool:
        """Whether records may be framed by the schemas of a registry, so that their headers matter."""
        return self._reader is not None and self._reader.framed

    def warm_up(self) -> None:
        """Compile, or load from the cache, all that `decode` runs."""
        self.decode([b'{"features": {"city": "Rome"}}', b"{", b"\x80"])

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode the values of `n` records into examples; a record that can't be used has its reason in `reasons`."""
        if self._reader is not None:
            return self._decode_read(self._reader.read(values, self._limits.max_record_bytes))
        reasons, places = np.zeros(len(values), np.uint8), np.zeros(len(values), np.int64)
        decoded = self._parsed(values, self._limits, reasons, places)
        # The parser refuses JSON at its first byte.
        begun = np.flatnonzero((reasons == Reason.WRONG_TYPE) & (places == 0)).tolist()
        objects = [(record, value) for record in begun if is_json(value := values[record] or b"")]
        return self._decode_json(values, objects, reasons, places) if objects else decoded

    def message(self, value: bytes | None) -> bytes | None:
        """Return a record as msgpack in the product's own format; b"" if it can't be read."""
        if self._reader is not None:
            return self._reader.read([value], self._limits.max_record_bytes).messages[0]
        try:
            return as_msgpack(value) if value is not None and is_json(value) else value
        except JsonError:
            return b""

    def _decode_json(
        self,
        values: Sequence[bytes | None],
        objects: Sequence[tuple[int, bytes]],
        reasons: NDArray[np.uint8],
        places: NDArray[np.int64],
    ) -> Decoded:
        """Decode records some of which are JSON: `objects`, with their numbers. All others have been parsed before."""
        messages = list(values)
        for record, value in objects:
            try:
                messages[record], reasons[record] = as_msgpack(value), Reason.OK
            except JsonError as error:
                messages[record], reasons[record] = b"", error.reason
        # The limit on sizes was checked before, and msgpack may be longer.
        return self._parsed(messages, self._limits._replace(max_record_bytes=_ANY_SIZE), reasons, places)

    def _decode_read(self, read: ReadRecords) -> Decoded:
        """Decode the messages that a reader has made of records, however long they are."""
        reasons, places, refused = read.reasons, np.zeros(len(read.messages), np.int64), read.reasons != Reason.OK
        limits = self._limits._replace(max_record_bytes=_ANY_SIZE)
        decoded = self._parsed(read.messages, limits, reasons, places)
        faults = dict(read.faults)
        for record in np.flatnonzero((reasons != Reason.OK) & ~refused).tolist():
            reason, place = Reason(int(reasons[record])), int(places[record])
            faults[record] = explain(reason, place, read.messages[record], self._limits, names=read.names)
        places[reasons != Reason.OK] = 0
        timestamps = None if read.timestamps is None else read.timestamps[decoded.rows]
        return decoded._replace(faults=faults, timestamps=timestamps, left_out=read.left_out[decoded.rows])

    def _parsed(
        self, values: Sequence[bytes | None], limits: Limits, reasons: Bytes, places: NDArray[np.int64]
    ) -> Decoded:
        """Parse the records that are not refused already."""
        buffer, sizes = _joined(values)
        n = len(values)
        scratch = self._scratch
        scratch.reserve(_most_entries(sizes, limits))
        out = Columns(
            indptr=np.empty(n + 1, np.int64),
            keys=scratch.keys,
            values=scratch.values,
            labels=np.empty(n),
            weights=np.empty(n),
            rows=np.empty(n, np.int64),
            ids=np.empty((n, 2), np.int64),
            spaces=scratch.spaces,
            attributes=scratch.attributes,
        )
        m = parse(buffer, sizes, limits, out, reasons, places, scratch.pending)
        z = int(out.indptr[m])
        batch = Batch(
            out.indptr[: m + 1],
            out.keys[:z],
            out.values[:z],
            out.labels[:m],
            out.weights[:m],
            out.spaces[:z],
            out.attributes[:z],
        )
        return Decoded(batch, out.rows[:m], reasons, places, buffer, out.ids[:m])


def _most_entries(sizes: NDArray[np.int64], limits: Limits) -> int:
    """Return the most features that records of these `sizes` can have, as a feature takes at least 2 bytes."""
    usable = np.where(sizes > limits.max_record_bytes, 0, np.maximum(sizes, 0))
    return int(np.minimum(usable // 2, limits.max_features).sum())


class _Scratch(threading.local):
    """The memory that a thread decodes into: keys uint64[...], values float32[...], and the parser's stack `pending`.

    spaces, attributes  uint64[...] like keys, if the model needs them, else uint64[0]
    """

    def __init__(self, *, spaces: bool, attributes: bool) -> None:
        super().__init__()
        self._wanted = (spaces, attributes)
        self.keys = self.spaces = self.attributes = np.empty(0, np.uint64)
        self.values = np.empty(0, np.float32)
        self.pending = np.empty(MAX_DEPTH, np.int64)

    def reserve(self, entries: int) -> None:
        """Make room for `entries` features."""
        if entries > self.keys.size:
            self.keys = np.empty(entries, np.uint64)
            self.values = np.empty(entries, np.float32)
            self.spaces, self.attributes = (np.empty(entries if wanted else 0, np.uint64) for wanted in self._wanted)


def _joined(values: Sequence[bytes | None]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return all bytes one after another, uint8[...], and the size of each value, int64[n], -1 for None."""
    try:
        # The fast way runs no line of Python for each value; it fails with TypeError if one is None.
        sizes = np.fromiter(map(len, values), np.int64, len(values))  # type: ignore[arg-type]
        whole = b"".join(values)  # type: ignore[arg-type]
    except TypeError:
        sizes = np.fromiter((-1 if value is None else len(value) for value in values), np.int64, len(values))
        whole = b"".join([value for value in values if value is not None])
    return np.frombuffer(whole, np.uint8), sizes
