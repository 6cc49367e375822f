"""Prediction messages are, to the byte, what the msgpack package writes."""

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracles.wire import LIMITS

from stream_apple.records.message.decode import Decoded, Decoder
from stream_apple.records.message.encode import PredictionEncoder
from stream_apple.records.message.example import Example, encode_example
from stream_apple.records.message.prediction_formats import decode_prediction
from stream_apple.records.message.reasons import Reason

Id = str | int | bytes | None

_ids = (
    st.none()
    | st.text(max_size=300)
    | st.binary(max_size=300)
    | st.integers(-(2**63), 2**64 - 1)
    | st.sampled_from([0, 127, 128, -32, -33, "x" * 31, "x" * 32, b""])
)
_edges = [0, 1, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**63 - 1]
_offsets = st.sampled_from(_edges) | st.integers(0, 2**63 - 1)
_rows = st.tuples(
    _ids, st.none() | st.floats(-10, 10), st.floats(allow_nan=False), st.floats(allow_nan=False), _offsets
)


def decoded_of(rows: list[tuple[Id, float | None]]) -> Decoded:
    """A batch of examples with these ids and labels."""
    decoder = Decoder(LIMITS._replace(max_record_bytes=1000))
    decoded = decoder.decode([encode_example(Example(label, 1.0, name, {"a": 1.0})) for name, label in rows])
    assert decoded.reasons.tolist() == [Reason.OK] * len(rows)
    return decoded


@given(
    rows=st.lists(_rows, max_size=6),
    span=st.tuples(st.integers(0, 6), st.integers(0, 6)),
    epoch=st.sampled_from([*_edges, -1]),
    topic=st.text(min_size=1, max_size=40),
    partition=st.integers(0, 2**31 - 1),
)
def test_messages_are_those_of_the_msgpack_package(
    rows: list[tuple[Id, float | None, float, float, int]],
    span: tuple[int, int],
    epoch: int,
    topic: str,
    partition: int,
) -> None:
    """Whatever ids, labels, numbers and origin, and whatever rows are asked for, the bytes are packb's."""
    start, stop = sorted(min(edge, len(rows)) for edge in span)
    decoded = decoded_of([row[:2] for row in rows])
    predictions = np.array([row[2] for row in rows], np.float64)
    losses = np.array([np.nan if row[1] is None else row[3] for row in rows], np.float64)
    offsets = np.array([row[4] for row in rows], np.int64)
    messages = PredictionEncoder(topic, partition, "fp-é").encode(
        decoded, start, stop, predictions, losses, offsets, epoch
    )
    expected = []
    for name, label, prediction, loss, offset in rows[start:stop]:
        fields = {
            "prediction": prediction,
            "label": label,
            "loss": None if label is None else loss,
            "epoch": epoch,
            "model": "fp-é",
            "topic": topic,
            "partition": partition,
            "offset": offset,
        }
        expected.append(msgpack.packb(fields if name is None else {"id": name, **fields}))
    assert messages == expected


@given(rows=st.lists(_rows, min_size=1, max_size=4), probability=st.floats(0, 1), epoch=st.sampled_from([*_edges, -1]))
def test_classes_have_a_probability_besides(
    rows: list[tuple[Id, float | None, float, float, int]], probability: float, epoch: int
) -> None:
    """One key more, behind the prediction; the rest is, to the byte, what it is without."""
    decoded, size = decoded_of([row[:2] for row in rows]), len(rows)
    predictions, losses = np.arange(size, dtype=np.float64), np.array([row[3] for row in rows])
    offsets, probabilities = np.array([row[4] for row in rows], np.int64), np.full(size, probability)
    encoder = PredictionEncoder("t", 7, "model")
    plain = encoder.encode(decoded, 0, size, predictions, losses, offsets, epoch)
    messages = encoder.encode(decoded, 0, size, predictions, losses, offsets, epoch, probabilities)
    for without, message in zip(plain, messages, strict=True):
        fields = decode_prediction(without)
        at = list(fields).index("prediction") + 1
        told = list(fields.items())
        assert message == msgpack.packb(dict([*told[:at], ("probability", probability), *told[at:]]))


def test_the_id_is_echoed_byte_for_byte() -> None:
    """An id comes back as the producer packed it, even if not in the shortest form."""
    value = b"\x82\xa2id\xdb\x00\x00\x00\x02u1\xa8features\x81\xa1a\x01"
    decoded = Decoder(LIMITS).decode([None, value])
    encoder = PredictionEncoder("t", 0, "m")
    zero = np.zeros(1)
    message = encoder.encode(decoded, 0, 1, zero, zero, np.zeros(1, np.int64), 0)[0]
    assert message.startswith(b"\x89\xa2id\xdb\x00\x00\x00\x02u1\xaaprediction")
    assert decode_prediction(message)["id"] == "u1"


def test_messages_outlive_the_next_batch() -> None:
    """Messages are copies: a producer may hold them while the decoder's memory is reused."""
    decoder, encoder = Decoder(LIMITS), PredictionEncoder("t", 0, "m")
    value = encode_example(Example(1.0, 1.0, "first", {"a": 1.0}))
    zero, offsets = np.zeros(1), np.zeros(1, np.int64)
    message = encoder.encode(decoder.decode([value]), 0, 1, zero, zero, offsets, 0)[0]
    before = bytes(message)
    encoder.encode(decoder.decode([value.replace(b"first", b"other")]), 0, 1, zero, zero, offsets, 0)
    assert message == before


def test_no_rows_are_no_messages() -> None:
    """A batch of rejected records publishes nothing."""
    decoded = Decoder(LIMITS).decode([None])
    empty = np.empty(0)
    assert PredictionEncoder("t", 0, "m").encode(decoded, 0, 0, empty, empty, np.empty(0, np.int64), 0) == []


@pytest.mark.parametrize("message", [b"", b"\xc1", b"\x81\xa1a", b"\x80\x80"])
def test_what_is_no_msgpack_is_no_prediction(message: bytes) -> None:
    """Readers get a ValueError, not half a prediction."""
    with pytest.raises(ValueError):  # noqa: PT011  which subclass, and its words, are msgpack's
        decode_prediction(message)


def test_values_beyond_32_bits_are_refused_where_they_are_written() -> None:
    """A producer learns of a value that no reader could use when it encodes it."""
    with pytest.raises(OverflowError):
        encode_example(Example(1.0, 1.0, None, {"a": 1e39}))


def test_examples_are_small() -> None:
    """A binary feature costs its name and 2 bytes, a real one its name and 6."""
    sizes = [len(encode_example(Example(1, 1.0, None, {"abc": value}))) for value in (1.0, 0.1)]
    assert sizes[1] - sizes[0] == 4
    assert sizes[0] == len(b"\x82\xa5label\x01\xa8features\x81\xa3abc\xc3")
