"""The decoder agrees with msgpack and xxhash on every record, good or bad, and reads no byte outside a record."""

import json
import struct
from itertools import islice
from typing import Any

import msgpack
import numpy as np
import pytest
import xxhash
from support.oracles.wire import BINARY, LIMITS, key_of_index, key_of_name, rows_of
from support.oracles.wire_records import records
from support.oracles.wire_values import Pairs

from stream_apple.core.batch import Limits
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.feature_hashing import feature_key, index_key
from stream_apple.records.message.reasons import Reason
from stream_apple.records.message.rejects import explain

COLUMNS = frozenset({"spaces", "attributes"})
DECODERS = [
    (Decoder(limits, columns), limits) for limits in (LIMITS, BINARY) for columns in (COLUMNS, frozenset[str]())
]
A_FEATURE = {"a": 1}


def reason_of(message: Any, limits: Limits = LIMITS) -> Reason:
    """What the decoder makes of one record: packed msgpack, or an object to pack."""
    value = message if isinstance(message, bytes) else msgpack.packb(message)
    return Reason(int(Decoder(limits).decode([value]).reasons[0]))


def row_of(message: Any, limits: Limits = LIMITS) -> Any:
    """The row of one good record, an object to pack."""
    decoded = Decoder(limits).decode([msgpack.packb(message)])
    assert decoded.reasons.tolist() == [Reason.OK]
    return rows_of(decoded)[0]


@pytest.mark.parametrize("size", [*range(40), 63, 64, 65, 100, 150])
def test_names_are_hashed_by_xxh64(size: int) -> None:
    """Keys of names are xxhash's, for every way through the algorithm, with and without a namespace."""
    name = bytes(33 + index % 90 for index in range(size))
    assert feature_key(name) == xxhash.xxh64_intdigest(name)
    seed = xxhash.xxh64_intdigest(b"space")
    assert feature_key(name.decode(), "space") == xxhash.xxh64_intdigest(name, seed)
    row = row_of({"features": {"space": {name.decode(): 1}, "": {name.decode(): 1}}})
    assert (
        row.keys == [feature_key(name, "space"), feature_key(name)] == [key_of_name(name, b"space"), key_of_name(name)]
    )


def test_no_key_is_zero() -> None:
    """Key 0 marks a free slot in the learner's table: index 0, which the mixing maps to 0, gets another."""
    assert index_key(0) == 0x9E3779B97F4A7C15
    assert [index_key(index) for index in (1, 7, 2**32, 2**64 - 1)] == [
        key_of_index(index) for index in (1, 7, 2**32, 2**64 - 1)
    ]


def test_indices_of_32_and_64_bits_are_the_same_features() -> None:
    """A packed feature is its number, whatever its width."""
    ones = struct.pack("<3f", 1, 1, 1)
    wide, narrow = struct.pack("<3Q", 0, 7, 2**32 - 1), struct.pack("<3I", 0, 7, 2**32 - 1)
    rows = [
        row_of({"features": features}).keys
        for features in (
            {"indices": wide},
            {"indices": wide, "values": ones},
            {"values": ones, "indices": narrow},
        )
    ]
    assert rows[0] == rows[1] == rows[2] == [index_key(index) for index in (0, 7, 2**32 - 1)]


def test_a_feature_of_value_zero_is_dropped_and_the_example_kept() -> None:
    """Zeros, and what is zero in 32 bits, are no features; an example of nothing else is still one to learn."""
    assert row_of({"features": {"a": 0, "b": 2, "c": 0.0, "d": False, "e": 1e-60}}).values == [2.0]
    assert row_of({"features": {"a": 0, "b": False}}).keys == []
    assert row_of({"features": {"ns": {"a": 0}, "empty": {}}}).keys == []


@pytest.mark.parametrize(
    "features", [{}, {"ns": {}}, {"a": {}, "b": {}}, {"indices": b""}, {"indices": b"", "values": b""}]
)
def test_a_row_of_zeros_is_an_example(features: dict[str, object]) -> None:
    """Sparse producers leave zeros out, and owed is a prediction for each record all the same."""
    row = row_of({"label": 2, "id": 7, "features": features})
    assert (row.label, row.keys, row.values) == (2.0, [], [])


def test_the_largest_value() -> None:
    """The next smaller 32-bit float than 2^60 is a value."""
    largest = float(np.nextafter(np.float32(2.0**60), np.float32(0)))
    assert row_of({"features": {"a": largest, "b": -largest}}).values == [largest, -largest]


def test_labels_of_the_logistic_loss() -> None:
    """With `binary`, 1, -1 and 0 (for -1) are labels, in any number type, and nothing else is."""
    labels = [row_of({"label": label, "features": A_FEATURE}, BINARY).label for label in (1, -1, 0, 1.0, 0.0, -0.0)]
    assert labels == [1, -1, -1, 1, -1, -1]
    assert {reason_of({"label": label, "features": A_FEATURE}, BINARY) for label in (0.5, 2, -2)} == {Reason.BAD_LABEL}


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", Reason.MALFORMED),
        (b"\xc1", Reason.MALFORMED),
        (b"\x81\xa8features\x81\xa1a\x01\x00", Reason.MALFORMED),
        (b"\x81\xa8features\xdf\xff\xff\xff\xff\xa1a\x01", Reason.TOO_MANY_FEATURES),
        (b"\x81\xa8features\x81\xdb\xff\xff\xff\xffa\x01", Reason.MALFORMED),
        (b"\xdf\xff\xff\xff\xff\xa1a\x01", Reason.MALFORMED),
        (b"\x82\xa1x\xd4\xff\x00\xa8features\x81\xa1a\x01", Reason.MALFORMED),
        (b"\x82\xa1x\xd7\xff" + b"\xff" * 8 + b"\xa8features\x81\xa1a\x01", Reason.MALFORMED),
        ([], Reason.WRONG_TYPE),
        (None, Reason.WRONG_TYPE),
        ({5: 1, "features": A_FEATURE}, Reason.WRONG_TYPE),
        ({b"label": 1, "features": A_FEATURE}, Reason.WRONG_TYPE),
        ({"features": 1}, Reason.WRONG_TYPE),
        ({"features": [1]}, Reason.WRONG_TYPE),
        ({"features": None}, Reason.WRONG_TYPE),
        ({"features": {"a": b"1"}}, Reason.WRONG_TYPE),
        ({"features": {"a": 1, "b": b"1"}}, Reason.WRONG_TYPE),
        ({"features": {5: 1}}, Reason.WRONG_TYPE),
        ({"features": {"a": 1, "ns": {"b": 1}}}, Reason.WRONG_TYPE),
        ({"features": {"ns": {"b": 1}, "a": 1}}, Reason.WRONG_TYPE),
        ({"features": {"ns": {"b": {"c": 1}}}}, Reason.WRONG_TYPE),
        ({"features": {"indices": bytes(8), "a": 1}}, Reason.WRONG_TYPE),
        ({"features": {"values": bytes(4)}}, Reason.WRONG_TYPE),
        ({"features": {"indices": bytes(7)}}, Reason.MALFORMED),
        ({"features": {"indices": bytes(4)}}, Reason.MALFORMED),
        ({"features": {"indices": bytes(8), "values": bytes(3)}}, Reason.MALFORMED),
        ({"features": {"indices": bytes(24), "values": bytes(8)}}, Reason.MALFORMED),
        ({"label": 1}, Reason.NO_FEATURES),
        ({}, Reason.NO_FEATURES),
        ({"features": dict.fromkeys("abcdefghi", 0)}, Reason.TOO_MANY_FEATURES),
        ({"features": {"x": dict.fromkeys("abcde", 1), "y": dict.fromkeys("abcd", 1)}}, Reason.TOO_MANY_FEATURES),
        ({"features": {"indices": bytes(72)}}, Reason.TOO_MANY_FEATURES),
        ({"features": {"a": 1e39}}, Reason.BAD_VALUE),
        ({"features": {"indices": bytes(4), "values": b"\x00\x00\x80\x7f"}}, Reason.BAD_VALUE),
        ({"features": {"a": 1, "b": 3.4e38}}, Reason.OVERFLOW),
        ({"features": {"a": -(2**60)}}, Reason.OVERFLOW),
        ({"features": {"a": 2**60 - 2**35}}, Reason.OVERFLOW),
        ({"features": {"ns": {"a": 1e30}}}, Reason.OVERFLOW),
        ({"features": {"indices": bytes(4), "values": struct.pack("<f", -(2.0**60))}}, Reason.OVERFLOW),
        ({"label": 11, "features": A_FEATURE}, Reason.BAD_LABEL),
        ({"label": float("-inf"), "features": A_FEATURE}, Reason.BAD_LABEL),
        ({"label": "1", "features": A_FEATURE}, Reason.WRONG_TYPE),
        ({"label": True, "features": A_FEATURE}, Reason.WRONG_TYPE),
        ({"weight": -0.1, "features": A_FEATURE}, Reason.BAD_WEIGHT),
        ({"weight": 101, "features": A_FEATURE}, Reason.BAD_WEIGHT),
        ({"features": {"a": None, "b": b"1"}}, Reason.WRONG_TYPE),
        ({"features": {"a": None, 5: None}}, Reason.WRONG_TYPE),
        ({"features": {"a": 1, "ns": {"b": None}}}, Reason.WRONG_TYPE),
        ({"features": {"indices": None, "values": bytes(4)}}, Reason.WRONG_TYPE),
        ({"features": {"indices": bytes(8), "a": None}}, Reason.WRONG_TYPE),
        ({"features": dict.fromkeys("abcdefghi")}, Reason.TOO_MANY_FEATURES),
        ({"id": 1.5, "features": A_FEATURE}, Reason.WRONG_TYPE),
        (b"\x82\xa2id\xa2\xc3(\xa8features\x81\xa1a\x01", Reason.BAD_ID),
        (b"\x82\xa5label\x01\xa5label\x01", Reason.DUPLICATE_KEY),
        (b"\x81\xa8features\x82\xa7indices\xc4\x08" + bytes(8) + b"\xa7indices\xc4\x00", Reason.DUPLICATE_KEY),
        (bytes(401), Reason.RECORD_TOO_LARGE),
    ],
)
def test_reason(message: Any, reason: Reason) -> None:
    """Each kind of bad record has its reason."""
    assert reason_of(message) == reason


NAN = float("nan")


@pytest.mark.parametrize(
    ("missing", "absent"),
    [
        ({"features": {"a": None, "b": 1}}, {"features": {"b": 1}}),
        ({"features": {"b": 1, "a": NAN}}, {"features": {"b": 1}}),
        ({"features": {"a": None}}, {"features": {}}),
        ({"features": {"a": None, "x": {"b": 1, "c": None, "d": NAN}, "y": None}}, {"features": {"x": {"b": 1}}}),
        ({"features": {"values": None, "indices": bytes(8)}}, {"features": {"indices": bytes(8)}}),
        (
            {"features": {"indices": bytes(8), "values": struct.pack("<2f", NAN, 2.0)}},
            {"features": {"indices": bytes(4), "values": struct.pack("<f", 2.0)}},
        ),
        ({"label": NAN, "weight": NAN, "features": {"b": 1}}, {"features": {"b": 1}}),
        ({"label": None, "weight": None, "id": None, "features": {"b": 1}}, {"features": {"b": 1}}),
    ],
)
@pytest.mark.parametrize("limits", [LIMITS, BINARY, LIMITS._replace(classes=2)])
def test_nil_and_nan_are_as_good_as_absent(missing: Any, absent: Any, limits: Limits) -> None:
    """As in every other format."""
    decoder = Decoder(limits, COLUMNS)
    found, expected = (rows_of(decoder.decode([msgpack.packb(each)])) for each in (missing, absent))
    assert repr(found) == repr(expected)
    assert len(found) == 1


@pytest.mark.parametrize("limits", [LIMITS, LIMITS._replace(min_label=-np.inf, max_label=np.inf, max_weight=np.inf)])
def test_infinities_are_refused_whatever_the_range(limits: Limits) -> None:
    """A range without bounds still holds only numbers."""
    for number in (np.inf, -np.inf):
        assert reason_of({"label": number, "features": A_FEATURE}, limits) == Reason.BAD_LABEL
        assert reason_of({"weight": number, "features": A_FEATURE}, limits) == Reason.BAD_WEIGHT


@pytest.mark.parametrize("depth", [14, 15, 16])
@pytest.mark.parametrize("wrap", [lambda item: [item], lambda item: {"k": item}, lambda item: Pairs([(item, 1)])])
def test_nesting_is_limited_to_16(depth: int, wrap: Any) -> None:
    """An unknown value may be 15 deep, the example around it making it 16."""
    item: Any = []
    for _ in range(depth - 1):
        item = wrap(item)
    expected = Reason.OK if depth <= 15 else Reason.TOO_DEEP
    assert reason_of(b"\x82\xa8features\x81\xa1a\x01\xa1x" + _pack(item)) == expected


def _pack(item: Any) -> bytes:
    """Like packb, with maps whose keys are maps."""
    if isinstance(item, Pairs):
        return b"\x81" + b"".join(_pack(key) + _pack(inner) for key, inner in item)
    packed: bytes = msgpack.packb(item)
    return packed


def test_an_example_at_the_limits_is_good() -> None:
    """The limits themselves are allowed: bytes, features, label, weight."""
    base = {"features": dict.fromkeys("abcdefgh", 1), "label": 10, "weight": 100, "pad": b""}
    room = LIMITS.max_record_bytes - len(msgpack.packb({**base, "pad": bytes(256)})) + 256
    message = msgpack.packb({**base, "pad": bytes(room)})
    assert len(message) == LIMITS.max_record_bytes
    assert reason_of(message) == Reason.OK
    assert reason_of(message + b"\x00") == Reason.RECORD_TOO_LARGE


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            {"features": {"a": 1}, "label": "x"},
            "expected a number or null, found a string: 'x', at byte 20, in 'label'",
        ),
        (
            {"features": {"a": 1}, "label": 99},
            (
                "expected a label from -10 to 10 (limits.min_label, limits.max_label), "
                "found a number: 99, at byte 20, in 'label'"
            ),
        ),
        (["x"], "expected a msgpack map or a JSON object, found an array, at byte 0"),
        (
            {"label": 1},
            "expected a key 'features' with a map, which may be empty, found the end of the record, at byte 8",
        ),
        (
            b"\x81\xa8features\x81\xa1a\x01\n",
            "expected the end of the record, found bytes left over behind the example (1): b'\\n', at byte 14",
        ),
        (
            b"\x81\xa8features\x81\xa1a",
            "expected a whole msgpack value, found the end of the record, at byte 13, in 'a' of 'features'",
        ),
        (
            {"features": {"a": 1e40}},
            (
                "expected a value that is finite as a 32-bit float, "
                "found a number: 1e+40, at byte 13, in 'a' of 'features'"
            ),
        ),
        (None, "expected a msgpack map or a JSON object, found a null value"),
        (bytes(500), "expected at most 400 bytes, found 500"),
    ],
)
def test_an_explanation_has_what_was_expected_and_found_and_where(message: Any, expected: str) -> None:
    """A person can tell from the message what to change in the producer."""
    value = message if isinstance(message, bytes | None) else msgpack.packb(message)
    decoded = Decoder(LIMITS).decode([value])
    assert explain(Reason(int(decoded.reasons[0])), int(decoded.places[0]), value, LIMITS) == expected


def test_every_fault_can_be_explained() -> None:
    """Whatever the bytes, the explanation is a line of ASCII of bounded length, and never an error itself."""
    for (decoder, limits), seed in zip(DECODERS, (51, 51, 52, 52), strict=True):
        values = list(islice(records(seed), 6000))
        decoded = decoder.decode(values)
        for value, reason, place in zip(values, decoded.reasons.tolist(), decoded.places.tolist(), strict=True):
            if reason != Reason.OK:
                text = explain(Reason(reason), place, value, limits)
                assert text.startswith("expected ")
                assert ", found " in text
                assert text.isascii()
                assert text.isprintable()
                assert len(text) < 1000


def test_where_features_come_from() -> None:
    """Of each that is not zero the namespace and the attribute, as msgpack or as JSON; of packed ones neither."""
    long = "x" * 40
    spaced = {"user": {"u1": 1, "gone": 0}, "w": {"colour": "red", "a=b=c": 2.5, f"{long}=1": True, "n": -3, "": "e"}}
    plain = {"colour": "red", "off": False, "size": 0.5, "kind=a": 1e-60, "tiny": 1e-60, "kind=b": 1, "p=q": "r"}
    packed = {"indices": bytes(16)}
    values = [msgpack.packb({"features": spaced}), json.dumps({"features": plain}).encode()]
    values.append(msgpack.packb({"features": packed}))
    batch = Decoder(LIMITS._replace(max_features=20), COLUMNS).decode(values).batch
    user, word = feature_key("user"), feature_key("w")
    assert batch.spaces.tolist() == [user, *[word] * 5, *[0] * 4, 0, 0]
    assert batch.attributes.tolist() == [
        feature_key("u1", "user"),
        *(feature_key(name, "w") for name in ("colour", "a", long, "n", "")),
        *(feature_key(name) for name in ("colour", "size", "kind", "p")),
        *(0, 0),
    ]
    rows = batch.select(np.array([1, 0]))
    assert rows.attributes.tolist() == [*batch.attributes[6:10], *batch.attributes[:6]]
    assert Decoder(LIMITS._replace(max_features=20)).decode(values).batch.attributes.size == 0
