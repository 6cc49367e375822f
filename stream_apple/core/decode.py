"""From fetched records to a batch: what a record may hold, and what became of each.

Owns the arrays that the parser fills, and their reuse. The format itself is `parse.py`'s.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.hashing import index_key_of, name_key
from stream_apple.core.parse import parse
from stream_apple.core.rejects import Reason, explain
from stream_apple.core.rows import Columns, Limits

__all__ = ["Decoded", "Decoder", "Limits", "Reason", "explain", "feature_key", "index_key"]


class Decoded(NamedTuple):
    """`n` records, of which `m` are rows of the batch.

    batch    the m good rows
    rows     int64[m]      index of the record that each row came from, ascending
    reasons  uint8[n]      a `Reason`; 0 = good
    places   int64[n]      byte in the record at which the fault was found; -1 if good
    buffer   uint8[...]    all records, one after another, read-only
    ids      int64[m, 2]   start and stop in `buffer` of the raw msgpack of `id`; equal = no id
    """

    batch: Batch
    rows: NDArray[np.int64]
    reasons: NDArray[np.uint8]
    places: NDArray[np.int64]
    buffer: NDArray[np.uint8]
    ids: NDArray[np.int64]


class Decoder:
    """Decodes examples under `limits`, into memory that it keeps and reuses.

    The keys and values of a batch are valid until the next `decode`. That memory is at most 12 bytes for each
    2 bytes of the largest batch so far, and 12 times `max_features` for each of its records.
    """

    def __init__(self, limits: Limits) -> None:
        # One set of types, so that the kernel is compiled once.
        self._limits = Limits(
            int(limits.max_features),
            int(limits.max_record_bytes),
            float(limits.max_weight),
            float(limits.min_label),
            float(limits.max_label),
            bool(limits.binary),
        )
        self._keys = np.empty(0, np.uint64)
        self._values = np.empty(0, np.float32)

    def warm_up(self) -> None:
        """Compile, or load from the cache, all that `decode` runs."""
        self.decode([None])

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """The examples in the values of `n` records; one that can't be used has its reason in `reasons`."""
        n = len(values)
        sizes = np.fromiter((-1 if value is None else len(value) for value in values), np.int64, n)
        buffer = np.frombuffer(b"".join([value for value in values if value is not None]), np.uint8)
        self._reserve(sizes)
        out = Columns(
            indptr=np.empty(n + 1, np.int64),
            keys=self._keys,
            values=self._values,
            labels=np.empty(n),
            weights=np.empty(n),
            rows=np.empty(n, np.int64),
            ids=np.empty((n, 2), np.int64),
        )
        reasons, places = np.empty(n, np.uint8), np.empty(n, np.int64)
        m = parse(buffer, sizes, self._limits, out, reasons, places)
        z = int(out.indptr[m])
        batch = Batch(out.indptr[: m + 1], out.keys[:z], out.values[:z], out.labels[:m], out.weights[:m])
        return Decoded(batch, out.rows[:m], reasons, places, buffer, out.ids[:m])

    def _reserve(self, sizes: NDArray[np.int64]) -> None:
        """Grow the scratch to what records of these `sizes` can fill: an entry takes at least 2 bytes."""
        usable = np.where(sizes > self._limits.max_record_bytes, 0, np.maximum(sizes, 0))
        bound = int(np.minimum(usable // 2, self._limits.max_features).sum())
        if bound > self._keys.size:
            self._keys = np.empty(bound, np.uint64)
            self._values = np.empty(bound, np.float32)


def feature_key(name: str | bytes, namespace: str = "") -> int:
    """The 64-bit key of a named feature: xxh64 of the name, seeded with that of the namespace if any."""
    raw = name if isinstance(name, bytes) else name.encode()
    seed = np.uint64(_hash(namespace.encode(), np.uint64(0)) if namespace else 0)
    return _hash(raw, seed)


def index_key(index: int) -> int:
    """The 64-bit key of a feature of the packed form."""
    return int(index_key_of(np.uint64(index)))


def _hash(raw: bytes, seed: np.uint64) -> int:
    return int(name_key(np.frombuffer(raw, np.uint8), 0, len(raw), seed))
