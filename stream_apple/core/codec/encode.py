"""Encoding of predictions as messages, as `schemas/prediction.schema.json` describes them.

A message consists of parts that are equal for a whole call and are copied, and of its row's numbers between them. The
bytes are those of `msgpack.packb`.
"""

import msgpack
import numpy as np
from numpy.typing import NDArray

from stream_apple.core.codec.decode import Decoded
from stream_apple.core.codec.msgpack_writer import put, put_integer
from stream_apple.core.jit import kernel, routine

_MAP_OF_8, _FLOAT64, _NIL = 0x88, 0xCB, 0xC0
_LONGEST_NUMBER = 9
_ARRAY_OF_SIXTEEN_BITS, _ARRAY_OF_NONE, _FEW = 0xDC, 0x90, 16
_PROBABILITY: bytes = msgpack.packb("probability")
_PROBABILITIES: bytes = msgpack.packb("probabilities")


@routine
def _put(out: NDArray[np.uint8], at: int, source: NDArray[np.uint8], start: int, stop: int) -> int:
    """Copy `source[start:stop]` to out[at:]; return where it ends."""
    for step in range(stop - start):
        out[np.uint64(at + step)] = source[np.uint64(start + step)]
    return at + stop - start


@routine
def _put_words(out: NDArray[np.uint8], at: int, words: NDArray[np.uint64], first: int, size: int) -> int:
    """Copy `size` bytes from the word `first` on, and up to 7 more that the next call overwrites; return their end."""
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
    sizes: NDArray[np.int64],
) -> None:
    """Write the messages of the rows [start, stop) one after another.

    out    uint8[...], long enough for all messages and 7 bytes more
    all_probabilities  float64[m, k], of all classes; k = 0 if they are not written
    stops  int64[stop - start], written: where each message ends
    parts  uint64[...]: the keys id, prediction, label, loss, all from the key epoch to the key offset, and the keys
           probability and probabilities, each of which begins in a new word
    sizes  int64[7], bytes of each part; the last but one is 0 if there is no probability
    """
    # The parts begin at these words.
    prediction = (sizes[0] + 7) >> 3
    label = prediction + ((sizes[1] + 7) >> 3)
    loss = label + ((sizes[2] + 7) >> 3)
    origin = loss + ((sizes[3] + 7) >> 3)
    probability = origin + ((sizes[4] + 7) >> 3)
    every = probability + ((sizes[5] + 7) >> 3)
    has_probability, classes = sizes[5] > 0, all_probabilities.shape[1]
    at = 0
    for row in range(start, stop):
        first, last = ids[row, 0], ids[row, 1]
        has_id = last > first
        out[np.uint64(at)] = _MAP_OF_8 + has_id + has_probability + (classes > 0)
        at += 1
        if has_id:
            at = _put_words(out, at, parts, 0, sizes[0])
            at = _put(out, at, buffer, first, last)
        at = _put_words(out, at, parts, prediction, sizes[1])
        at = _put_float(out, at, predictions[row])
        if has_probability:
            at = _put_words(out, at, parts, probability, sizes[5])
            at = _put_float(out, at, probabilities[row])
        if classes > 0:
            at = _put_words(out, at, parts, every, sizes[6])
            if classes < _FEW:
                out[np.uint64(at)] = _ARRAY_OF_NONE + classes
                at += 1
            else:
                at = put(out, at, _ARRAY_OF_SIXTEEN_BITS, np.uint64(classes), 2)
            for c in range(classes):
                at = _put_float(out, at, all_probabilities[row, c])
        at = _put_words(out, at, parts, label, sizes[2])
        at = _put_float_or_nil(out, at, labels[row])
        at = _put_words(out, at, parts, loss, sizes[3])
        at = _put_float_or_nil(out, at, losses[row])
        at = _put_words(out, at, parts, origin, sizes[4])
        at = put_integer(out, at, np.uint64(offsets[row]), False)  # noqa: FBT003  by position: it is compiled
        stops[row - start] = at


class PredictionEncoder:
    """Encodes the predictions of one input partition.

    model  the fingerprint of configuration and lineage, which every prediction has
    """

    def __init__(self, topic: str, partition: int, model: str) -> None:
        self._keys = [msgpack.packb(key) for key in ("id", "prediction", "label", "loss")]
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
        probability = b"" if probabilities is None else _PROBABILITY
        pieces = [
            *self._keys,
            msgpack.packb("epoch") + msgpack.packb(epoch) + self._origin,
            probability,
            _PROBABILITIES,
        ]
        sizes = np.array([len(piece) for piece in pieces])
        words = b"".join(piece + bytes(-len(piece) % 8) for piece in pieces)
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
            sizes,
        )
        ends = stops.tolist()
        written = out[: ends[-1]].tobytes() if ends else b""
        return [written[first:last] for first, last in zip([0, *ends], ends, strict=False)]
