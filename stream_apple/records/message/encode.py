"""Encoding of predictions as messages, as `schemas/prediction.schema.json` describes them.

A message consists of parts that are equal for a whole call and are copied, and of its row's numbers between them. The
bytes are those of `msgpack.packb`.
"""

import msgpack
import numpy as np
from numpy.typing import NDArray

from stream_apple.core.jit import kernel, routine
from stream_apple.records.message.decode import Decoded
from stream_apple.records.message.msgpack_writer import put, put_integer

_MAP_OF_8, _FLOAT64, _NIL = 0x88, 0xCB, 0xC0
_LONGEST_NUMBER = 9
_ARRAY_OF_SIXTEEN_BITS, _ARRAY_OF_NONE, _FEW = 0xDC, 0x90, 16
_KEYS = ("id", "prediction", "probability", "probabilities", "label", "loss")
_ID, _PREDICTION, _PROBABILITY, _PROBABILITIES, _LABEL, _LOSS, _ORIGIN = range(7)
"""The parts, in the order in which a message has them: the keys, and all from the key epoch to the key offset."""


@routine
def _put(out: NDArray[np.uint8], at: int, source: NDArray[np.uint8], start: int, stop: int) -> int:
    """Copy `source[start:stop]` to out[at:]; return where it ends."""
    for step in range(stop - start):
        out[np.uint64(at + step)] = source[np.uint64(start + step)]
    return at + stop - start


@routine
def _put_part(out: NDArray[np.uint8], at: int, words: NDArray[np.uint64], places: NDArray[np.int64], part: int) -> int:
    """Copy a part, and up to 7 bytes more that the next call overwrites; return where the part ends."""
    first: int = places[part, 0]
    size: int = places[part, 1]
    for place in range(0, size, 8):
        word = words[np.uint64(first + (place >> 3))]
        # LLVM makes one store of this loop.
        for step in range(8):
            out[np.uint64(at + place + step)] = np.uint8(word >> np.uint64(8 * step))
    return at + size


@routine
def _put_float(out: NDArray[np.uint8], at: int, number: float) -> int:
    return put(out, at, _FLOAT64, np.float64(number).view(np.uint64), 8)


@routine
def _put_float_or_nil(out: NDArray[np.uint8], at: int, number: float) -> int:
    if np.isnan(number):
        out[np.uint64(at)] = _NIL
        return at + 1
    return _put_float(out, at, number)


@kernel
def _encode(
    out: NDArray[np.uint8],
    stops: NDArray[np.int64],
    start: int,
    stop: int,
    buffer: NDArray[np.uint8],
    ids: NDArray[np.int64],
    labels: NDArray[np.float64],
    predictions: NDArray[np.float64],
    losses: NDArray[np.float64],
    probabilities: NDArray[np.float64],
    all_probabilities: NDArray[np.float64],
    offsets: NDArray[np.int64],
    parts: NDArray[np.uint64],
    places: NDArray[np.int64],
) -> None:
    """Write the messages of the rows [start, stop) one after another.

    out    uint8[...], long enough for all messages and 7 bytes more
    all_probabilities  float64[m, k], of all classes; k = 0 if they are not written
    stops  int64[stop - start], written: where each message ends
    parts  uint64[...]: the parts, each of which begins in a new word
    places int64[7, 2]: the first word of each part, and its bytes; none of the probability if there is none
    """
    has_probability, classes = places[_PROBABILITY, 1] > 0, all_probabilities.shape[1]
    at = 0
    for row in range(start, stop):
        first, last = ids[row, 0], ids[row, 1]
        has_id = last > first
        out[np.uint64(at)] = _MAP_OF_8 + has_id + has_probability + (classes > 0)
        at += 1
        if has_id:
            at = _put_part(out, at, parts, places, _ID)
            at = _put(out, at, buffer, first, last)
        at = _put_part(out, at, parts, places, _PREDICTION)
        at = _put_float(out, at, predictions[row])
        if has_probability:
            at = _put_part(out, at, parts, places, _PROBABILITY)
            at = _put_float(out, at, probabilities[row])
        if classes > 0:
            at = _put_part(out, at, parts, places, _PROBABILITIES)
            if classes < _FEW:
                out[np.uint64(at)] = _ARRAY_OF_NONE + classes
                at += 1
            else:
                at = put(out, at, _ARRAY_OF_SIXTEEN_BITS, np.uint64(classes), 2)
            for c in range(classes):
                at = _put_float(out, at, all_probabilities[row, c])
        at = _put_part(out, at, parts, places, _LABEL)
        at = _put_float_or_nil(out, at, labels[row])
        at = _put_part(out, at, parts, places, _LOSS)
        at = _put_float_or_nil(out, at, losses[row])
        at = _put_part(out, at, parts, places, _ORIGIN)
        at = put_integer(out, at, np.uint64(offsets[row]), False)  # noqa: FBT003  by position: it is compiled
        stops[row - start] = at


class PredictionEncoder:
    """Encodes the predictions of one input partition.

    model  the fingerprint of configuration and lineage, which every prediction has
    """

    def __init__(self, topic: str, partition: int, model: str) -> None:
        self._keys = [msgpack.packb(key) for key in _KEYS]
        self._origin = b"".join(
            msgpack.packb(item) for item in ("model", model, "topic", topic, "partition", partition, "offset")
        )

    def encode(
        self,
        decoded: Decoded,
        start: int,
        stop: int,
        predictions: NDArray[np.float64],
        losses: NDArray[np.float64],
        offsets: NDArray[np.int64],
        epoch: int,
        probabilities: NDArray[np.float64] | None = None,
        all_probabilities: NDArray[np.float64] | None = None,
    ) -> list[bytes]:
        """Return one message for each row in [start, stop), in order.

        predictions  float64[m]
        losses       float64[m], NaN where the row has no label: written as nil
        offsets      int64[m], >= 0, of the example in its partition
        epoch        in which the rows were learned
        probabilities  float64[m], of label 1 or of the predicted class; None: they are not written
        all_probabilities  float64[m, k], of all classes; None or k = 0: they are not written
        """
        if all_probabilities is None:
            all_probabilities = np.empty((0, 0))
        parts = [*self._keys, msgpack.packb("epoch") + msgpack.packb(epoch) + self._origin]
        if probabilities is None:
            parts[_PROBABILITY] = b""
        sizes = np.array([len(part) for part in parts])
        lengths = (sizes + 7) // 8  # in words
        words = b"".join(part.ljust(8 * length, b"\0") for part, length in zip(parts, lengths.tolist(), strict=True))
        ids = decoded.ids
        id_bytes = int((ids[start:stop, 1] - ids[start:stop, 0]).sum())
        longest = 1 + int(sizes.sum()) + (6 + all_probabilities.shape[1]) * _LONGEST_NUMBER
        out = np.empty((stop - start) * longest + id_bytes + 7, np.uint8)
        stops = np.empty(stop - start, np.int64)
        _encode(
            out,
            stops,
            start,
            stop,
            decoded.buffer,
            ids,
            decoded.batch.labels,
            predictions,
            losses,
            losses if probabilities is None else probabilities,
            all_probabilities,
            offsets,
            np.frombuffer(words, "<u8"),
            np.column_stack([lengths.cumsum() - lengths, sizes]),
        )
        ends = stops.tolist()
        written = out[: ends[-1]].tobytes() if ends else b""
        return [written[first:last] for first, last in zip([0, *ends], ends, strict=False)]
