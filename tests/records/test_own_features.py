"""The features of a message of the product's own that was parsed: what the kernel takes, and what it refuses."""

import math
from typing import Any

import msgpack
import pytest

from stream_apple.core.batch import Limits
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.example import Example, encode_example
from stream_apple.records.own_features import own_features
from stream_apple.records.parsing import RefusedError

LIMITS = Limits(100, 10_000, 10.0, -1.0, 1.0, binary=False)


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ({"a": 2, "b": True, "c": False, "d": 0.5}, {"a": 2.0, "b": 1.0, "c": 0.0, "d": 0.5}),
        ({"city": "Rome", "empty": "", "a.b": 1}, {"city=Rome": 1.0, "empty=": 1.0, "a.b": 1.0}),
        ({"u.v": {"age": 3, "city": "x"}, "": {"y": 1.5}}, {"u.v": {"age": 3.0, "city=x": 1.0}, "": {"y": 1.5}}),
        ({"ad": {}, "n": {"x": 1}}, {"ad": {}, "n": {"x": 1.0}}),
        ({"indices": 1.0, "values": 2.0}, {"indices": 1.0, "values": 2.0}),
        ({"indices": bytes(8), "values": bytes(4)}, {"indices": bytes(8), "values": bytes(4)}),
        ({}, {}),
    ],
)  # fmt: skip
def test_it_reads_what_the_kernel_reads(features: dict[str, Any], expected: object) -> None:
    """To the bit: keys and values."""
    found = own_features(features)
    assert found == expected
    decoder = Decoder(LIMITS)
    there = decoder.decode([msgpack.packb({"features": features})])
    keys, values = there.batch.keys.tolist(), there.batch.values.tolist()
    assert not there.reasons.any()
    here = decoder.decode([encode_example(Example(None, 1.0, None, found))])
    assert (here.batch.keys.tolist(), here.batch.values.tolist()) == (keys, values)


def test_null_and_nan_are_missing() -> None:
    """As everywhere."""
    assert own_features({"a": None, "b": math.nan, "c": 1}) == {"c": 1.0}
    assert own_features({"n": {"a": None, "b": "x"}}) == {"n": {"b=x": 1.0}}


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"a": 1e999}, "a number below 2^60 in size as value of feature 'a', found inf"),
        ({"": {"values": "AACAPw=="}}, "numbers, or bytes as packed features, under 'values', found 'AACAPw=='"),
        ({"a": "b", "a=b": 2}, "each feature once, found 'a=b' again"),
        ({"n": {"a": {}}}, "as value of feature 'n: a' (a section `input` reads lists and deeper maps, too), found {}"),
        ({"a": [1]}, "a number, true, false or a text as value of feature 'a'"),
        ({"n": {}, "a": 1}, "a map of values in namespace 'a', as in the others, found 1"),
        ({b"a": 1.0}, "text as a name, found b'a'"),
        ({"indices": b"", "other": b""}, "packed features: only indices and values, as bytes"),
        ({"indices": b"", "values": 1}, "packed features: only indices and values, as bytes"),
    ],
)
def test_what_no_message_has_is_refused(features: dict[Any, Any], message: str) -> None:
    """Each fault names the piece that is wrong."""
    with pytest.raises(RefusedError) as caught:
        own_features(features)
    assert message in str(caught.value)
