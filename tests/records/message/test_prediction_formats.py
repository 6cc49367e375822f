"""Predictions in JSON and Avro say what those in msgpack say, and are never larger than their bound."""

import io
import json
from base64 import b64decode
from contextlib import suppress
from pathlib import Path
from typing import Any

import fastavro
import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.json_schemas import as_json, validator

from stream_apple.core.batch import Limits
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.encode import PredictionEncoder
from stream_apple.records.message.example import Example, encode_example
from stream_apple.records.message.message_size import largest_prediction, message_bytes
from stream_apple.records.message.prediction_formats import (
    FormatName,
    PredictionFormat,
    avro_schema,
    decode_prediction,
)

LIMITS = Limits(1000, 1 << 20, 1000.0, -10.0, 10.0, binary=False)
NUMBER = 0x01020304
_ids = st.none() | st.text(max_size=5) | st.binary(max_size=5) | st.integers(-(2**63), 2**64 - 1)
_numbers = st.floats(allow_nan=False, allow_infinity=False)


def format_of(name: FormatName, probabilities: Any = "one") -> PredictionFormat:
    """The format, with a registry that knows the schema."""
    return PredictionFormat(probabilities, name, lambda: NUMBER)


def encoded(examples: list[Example], numbers: list[float], classes: int) -> list[bytes]:
    """The messages of msgpack about these examples, with probabilities of so many classes."""
    decoded = Decoder(LIMITS).decode([encode_example(example) for example in examples])
    m = len(examples)
    predictions, every = np.array(numbers), np.linspace(0.0, 1.0, m * classes).reshape(m, classes)
    losses = np.where(np.isnan(decoded.batch.labels), np.nan, predictions)
    encoder = PredictionEncoder("examples", 3, "0123abcd")
    return encoder.encode(decoded, 0, m, predictions, losses, np.arange(m), 7, np.full(m, 0.1), every)


@settings(max_examples=50)
@given(
    rows=st.lists(st.tuples(_ids, st.sampled_from([None, 1.0]), _numbers), min_size=1, max_size=4),
    classes=st.sampled_from([0, 2, 15, 16, 300]),
)
def test_every_format_says_the_same(rows: list[tuple[Any, float | None, float]], classes: int) -> None:
    """To the bit, but for what a format can't hold: bytes in JSON, integers of 64 bits without a sign in Avro."""
    examples = [Example(label, 1.0, identity, {"a": 1.0}) for identity, label, _ in rows]
    messages = encoded(examples, [number for _, _, number in rows], classes)
    schema = validator("prediction.schema.json")
    for message, in_json, in_avro in zip(
        messages, format_of("json").written(messages), format_of("avro").written(messages), strict=True
    ):
        told = decode_prediction(message)
        assert message == msgpack.packb(told)
        assert len(told.get("probabilities", [])) == classes  # type: ignore[arg-type]
        schema.validate(as_json(told))
        identity = told.get("id")
        expected = told | ({"id": json.loads(in_json)["id"]} if isinstance(identity, bytes) else {})
        assert decode_prediction(in_json) == json.loads(in_json) == expected
        if isinstance(identity, bytes):
            assert b64decode(str(expected["id"])) == identity
        large = isinstance(identity, int) and identity >= 1 << 63
        assert decode_prediction(in_avro) == told | ({"id": str(identity)} if large else {})
        assert in_avro[:5] == b"\0\x01\x02\x03\x04"
        stream = io.BytesIO(in_avro[5:])
        read: Any = fastavro.schemaless_reader(stream, fastavro.parse_schema(json.loads(avro_schema())), None)
        assert read["prediction"] == told["prediction"]
        assert set(read) == set(schema.schema["properties"])


def test_msgpack_is_left_as_it_is() -> None:
    """The list itself: nothing is done on the fast way."""
    messages = encoded([Example(1.0, 1.0, None, {"a": 1.0})], [0.5], 0)
    assert format_of("msgpack").written(messages) is messages
    assert format_of("avro").written([]) == []


@given(st.binary(max_size=40))
def test_bytes_that_are_no_prediction_are_refused(value: bytes) -> None:
    """With an error that every reader of a topic expects."""
    for message in (value, b"\0\0\0\0\0" + value, b"{" + value):
        with suppress(ValueError):
            assert isinstance(decode_prediction(message), dict)


@pytest.mark.parametrize(
    "message", [b'{"a":' * 100_000, b"\x91" * 3000, b"\x81\xa1a" * 3000, b"\x91\x01", b"\x01", b""]
)
def test_nested_and_foreign_messages_are_refused_as_others_are(message: bytes) -> None:
    """Each library has an error of its own for them: a reader that forgot one of these ended with it."""
    with pytest.raises(ValueError, match=r".+"):
        decode_prediction(message)


@pytest.mark.parametrize("name", ["msgpack", "json", "avro"])
@pytest.mark.parametrize("classes", [0, 1000])
def test_the_largest_answer_keeps_to_its_bound(name: FormatName, classes: int) -> None:
    """An id of what a format writes longest, with all probabilities: the topic takes it."""
    form = format_of(name, "all" if classes else "one")
    most = form.largest_key_and_id(1_000_000, classes)
    examples = [Example(1.0, 1.0, "\1" * (most - 5), {"a": 1.0})]
    decoded = Decoder(LIMITS).decode([encode_example(examples[0])])
    encoder = PredictionEncoder("t" * 249, (1 << 31) - 1, "f" * 16)
    numbers, every = np.array([-1 / 3e300]), np.full((1, classes), 1 / 3e300)
    (message,) = form.written(
        encoder.encode(decoded, 0, 1, numbers, numbers, np.array([1 << 62]), 1 << 40, np.array([1 / 3e300]), every)
    )
    assert message_bytes(b"", message) <= largest_prediction(1_000_000)


def test_the_schema_s_fields_are_those_of_the_json_schema() -> None:
    """And the same ones may be absent."""
    fields = {field["name"]: field for field in json.loads(avro_schema())["fields"]}
    schema = json.loads((Path(__file__).parents[3] / "schemas" / "prediction.schema.json").read_text())
    assert list(fields) == list(schema["properties"])
    absent = {name for name, field in fields.items() if "default" in field}
    assert absent - {"label", "loss"} == set(schema["properties"]) - set(schema["required"])
