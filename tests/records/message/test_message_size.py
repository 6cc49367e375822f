"""How large outputs may be: the bounds, and that they hold for what Kafka and the encoder really make."""

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.records import SETTINGS

from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.encode import PredictionEncoder
from stream_apple.records.message.message_size import (
    largest_dead_letter,
    largest_prediction,
    message_bytes,
)
from stream_apple.records.message.prediction_formats import MSGPACK

KAFKA_MESSAGE_BYTES = 1_048_588
BATCH = (
    61  # base offset 8, length 4, epoch 4, magic 1, checksum 4, attributes 2, delta 4, times 16, producer 14, count 4
)
HUGE = (1 << 63) - 1
DECODER = Decoder(SETTINGS.limits._replace(max_record_bytes=10_000))


def varint(number: int) -> int:
    """Bytes of a signed number as Kafka writes it: zigzag, seven bits in a byte."""
    return max(1, -(-(2 * abs(number)).bit_length() // 7))


def batch_of_one(key: bytes, value: bytes, headers: list[tuple[str, bytes]]) -> int:
    """Bytes of Kafka's format 2 for a single message, with the longest time and offset."""
    fields = [key, value, *(text for name, content in headers for text in (name.encode(), content))]
    body = 1 + varint(HUGE) + varint(1 << 31) + varint(len(headers)) + sum(varint(len(f)) + len(f) for f in fields)
    return BATCH + varint(body) + body


def test_by_default_kafka_takes_a_prediction() -> None:
    """A record of the usual limit needs no other topic than Kafka's own; smaller limits change nothing."""
    assert [largest_prediction(limit) for limit in (1, 1_000_000)] == [KAFKA_MESSAGE_BYTES] * 2
    assert largest_dead_letter(1_000_000) == KAFKA_MESSAGE_BYTES + 65_536
    assert largest_prediction(4_000_000) == 4_048_588


@given(
    st.binary(max_size=300),
    st.integers(0, 5_000_000),
    st.lists(st.tuples(st.text(max_size=200), st.binary(max_size=200)), max_size=8),
)
def test_no_message_is_larger_than_it_says(key: bytes, size: int, headers: list[tuple[str, bytes]]) -> None:
    """Never less than what the format takes, and not much more."""
    value = bytes(size)
    found, least = message_bytes(key, value, headers), batch_of_one(key, value, headers)
    assert least <= found <= least + 128 + 10 * len(headers)


@pytest.mark.parametrize("size", [0, 3, 5_000])
def test_the_longest_prediction_fits(size: int) -> None:
    """Every number at its longest, the longest name of a topic: key and id have the room that is left for them."""
    identifier = bytes(size)
    decoded = DECODER.decode([msgpack.packb({"id": identifier, "label": 1.0, "features": {"a": 1.0}})])
    encoder = PredictionEncoder("t" * 249, (1 << 31) - 1, "f" * 16)
    ones, offsets = np.ones(1), np.array([HUGE])
    (message,) = encoder.encode(decoded, 0, 1, ones, ones, offsets, HUGE, ones)
    key = bytes(MSGPACK.largest_key_and_id(1_000_000) - len(msgpack.packb(identifier)))
    assert batch_of_one(key, message, []) <= largest_prediction(1_000_000)
