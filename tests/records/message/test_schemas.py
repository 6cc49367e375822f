"""The schemas that others program against describe what the codec really does."""

import json
import re
from itertools import islice
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from support.json_schemas import SCHEMAS, as_json, validator
from support.oracles.wire import LIMITS, judge
from support.oracles.wire_records import records
from support.oracles.wire_values import Pairs, read

from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.encode import PredictionEncoder
from stream_apple.records.message.example import Example, encode_example
from stream_apple.records.message.prediction_formats import decode_prediction
from stream_apple.records.message.reasons import Reason
from stream_apple.records.message.rejects import explain

REPOSITORY = Path(__file__).resolve().parents[3]
WIRE_FORMAT = REPOSITORY / "docs" / "wire-format.md"
HEADER = "__stream_apple.errors."
# Faults that a schema without lengths of bins, ranges from the configuration and binary32 can't see.
BEYOND_THE_SCHEMA = {
    Reason.RECORD_TOO_LARGE,
    Reason.MALFORMED,
    Reason.TOO_DEEP,
    Reason.TOO_MANY_FEATURES,
    Reason.BAD_VALUE,
    Reason.BAD_LABEL,
    Reason.BAD_WEIGHT,
}


def is_ambiguous(item: Any) -> bool:
    """Whether a schema can't tell text in features from a bin: there is one, or text where packed features have one."""
    if isinstance(item, Pairs):
        texts = {name for name, inner in item if isinstance(inner, str)}
        return bool(texts & {"indices", "values"}) or any(is_ambiguous(inner) for _, inner in item)
    return isinstance(item, bytes) or (isinstance(item, list) and any(map(is_ambiguous, item)))


def test_every_good_example_that_json_can_show_is_valid() -> None:
    """The schema accepts what the decoder accepts."""
    schema = validator("example.schema.json")
    shown = 0
    for value in islice(records(11), 6000):
        if value is not None and judge(value, LIMITS).row is not None:
            try:
                example = as_json(read(value))
            except ValueError:
                continue
            schema.validate(example)
            shown += 1
    assert shown > 500


def test_every_invalid_example_is_refused() -> None:
    """What the schema refuses, the decoder refuses; what it lets pass is refused for what it can't express."""
    schema = validator("example.schema.json")
    decoder = Decoder(LIMITS)
    seen = {True: 0, False: 0}
    for value in islice(records(12), 6000):
        try:
            example = as_json(read(value or b""))
        except ValueError:
            continue
        if isinstance(example, dict) and isinstance(example.get("id"), float):
            continue  # to JSON Schema 5.0 is an integer, to msgpack it is not
        if isinstance(example, dict) and is_ambiguous(dict(read(value or b"")).get("features")):
            continue
        reason = Reason(int(decoder.decode([value]).reasons[0]))
        if reason != Reason.OK:
            valid = schema.is_valid(example)
            assert not valid or reason in BEYOND_THE_SCHEMA, (value, reason)
            seen[valid] += 1
    assert min(seen.values()) > 100


@pytest.mark.parametrize(
    ("identity", "good"), [(-(2**63), True), (2**64 - 1, True), (-(2**63) - 1, False), (2**64, False)]
)
def test_ids_have_at_most_64_bits(identity: int, good: bool) -> None:  # noqa: FBT001
    """In the schema of examples, in JSON and in the schema of predictions, where the id comes back."""
    example = {"id": identity, "features": {}}
    assert validator("example.schema.json").is_valid(example) == good
    found = Reason(int(Decoder(LIMITS).decode([json.dumps(example).encode()]).reasons[0]))
    assert found == (Reason.OK if good else Reason.WRONG_TYPE)
    prediction = {"id": identity, "prediction": 0.5, "label": None, "loss": None, "epoch": 7, "model": "0123abcd"}
    place = {"topic": "examples", "partition": 0, "offset": 1}
    assert validator("prediction.schema.json").is_valid(prediction | place) == good


@pytest.mark.parametrize(
    "example",
    [
        Example(1.5, 1.0, None, {"a": 1.0, "b": -0.25, "c": 3}),
        Example(None, 2.0, "user-1", {"ns": {"a": 1.0}, "": {"b": 2.0}}),
        Example(-1, 0.0, 17, {"indices": b"\x07" + bytes(7)}),
        Example(0.0, 1.0, b"\xff", {"indices": b"\x07" + bytes(3), "values": np.float32(2).tobytes()}),
    ],
)
def test_encoded_examples_are_valid_and_come_back(example: Example) -> None:
    """What `encode_example` writes is what the schema describes and the decoder reads."""
    message = encode_example(example)
    validator("example.schema.json").validate(as_json(msgpack.unpackb(message)))
    decoded = Decoder(LIMITS).decode([message])
    assert decoded.reasons.tolist() == [Reason.OK]
    label, weight = decoded.batch.labels[0], decoded.batch.weights[0]
    assert np.isnan(label) if example.label is None else label == example.label
    assert weight == example.weight
    start, stop = decoded.ids[0]
    raw = decoded.buffer[start:stop].tobytes()
    assert raw == (b"" if example.id is None else msgpack.packb(example.id))


def test_predictions_are_valid() -> None:
    """Labelled or not, with an id of any kind or none, a prediction is what its schema says, and no more."""
    schema = validator("prediction.schema.json")
    examples = [
        Example(label, 1.0, identity, {"a": 1.0}) for label in (None, 1.0) for identity in (None, "u", -5, b"\xff\xfe")
    ]
    decoded = Decoder(LIMITS).decode([encode_example(example) for example in examples])
    m = len(examples)
    losses = np.where(np.isnan(decoded.batch.labels), np.nan, 0.25)
    encoder = PredictionEncoder("examples", 3, "0123abcd")
    messages = encoder.encode(decoded, 0, m, np.full(m, 0.5), losses, np.arange(m), 7)
    assert len(messages) == m
    for message in messages:
        prediction = decode_prediction(message)
        schema.validate(as_json(prediction))
        assert set(prediction) - {"id"} == set(schema.schema["required"])
        assert set(prediction) <= set(schema.schema["properties"])
    chances = np.full(m, 0.5)
    for message in encoder.encode(decoded, 0, m, np.full(m, 3.0), losses, np.arange(m), 7, chances):
        prediction = decode_prediction(message)
        schema.validate(as_json(prediction))
        assert set(prediction) - {"id"} == {*schema.schema["required"], "probability"}
        assert not schema.is_valid({**as_json(prediction), "probability": 1.5})


def test_reasons_are_those_of_the_schema_and_of_its_description() -> None:
    """The list of reasons is closed: code, schema and page have the same, in the same order."""
    codes = [reason.code for reason in Reason if reason != Reason.OK]
    schema = json.loads((SCHEMAS / "dead_letter.schema.json").read_text())
    assert schema["properties"][HEADER + "reason"]["enum"] == codes
    section = WIRE_FORMAT.read_text(encoding="utf-8").split("## Dead letter")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == codes


def test_numbers_of_reasons_follow_the_schema() -> None:
    """0 is good, and the others follow without a gap, so that counts can be kept in an array."""
    assert [int(reason) for reason in Reason] == list(range(len(Reason)))
    assert Reason(0) is Reason.OK


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason != Reason.OK])
def test_headers_of_a_dead_letter_are_valid(reason: Reason) -> None:
    """Headers with any reason, and with what `explain` says of it, are what the schema describes."""
    value = b"\x81\xa5label\xc3"
    headers = {
        HEADER + "reason": reason.code,
        HEADER + "message": explain(reason, 7, value, LIMITS),
        HEADER + "topic": "examples",
        HEADER + "partition": "0",
        HEADER + "offset": "41",
        HEADER + "model": "0123456789abcdef",
        "of-the-producer": "kept",
    }
    schema = validator("dead_letter.schema.json")
    schema.validate(headers)
    assert not schema.is_valid({**headers, HEADER + "offset": "-1"})
    assert not schema.is_valid({**headers, HEADER + "reason": "unheard_of"})
    headers.pop(HEADER + "message")
    assert not schema.is_valid(headers)
