"""Records of any shape through the decoder: the same bits as a message of the product's own, and the same reasons."""

import json

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_apple.core.batch import Limits
from stream_apple.records.mapping import InputMapping
from stream_apple.records.message.decode import Decoded, Decoder
from stream_apple.records.message.reasons import Reason
from stream_apple.records.record_reader import MappedReader

LIMITS = Limits(5, 500, 10.0, -1.0, 1.0, binary=False)
FLAT = InputMapping(features="*", timestamp="at")


def decode(*values: bytes | None, mapping: InputMapping = FLAT) -> Decoded:
    """All at once."""
    return Decoder(LIMITS, reader=MappedReader(mapping)).decode(values)


def test_flat_and_nested_json_and_msgpack_are_one() -> None:
    """And they are the message of the product's own with the same content."""
    flat = {"label": 1, "user.city": "rome", "user.age": 3.25, "n": 2, "at": 10**12}
    nested = {"label": 1, "user": {"city": "rome", "age": 3.25}, "n": 2, "at": 10**12}
    own = {"label": 1, "features": {"": {"n": 2}, "user": {"city": "rome", "age": 3.25}}}
    expected = Decoder(LIMITS).decode([msgpack.packb(own)])
    (wanted,) = {tuple(sorted(zip(expected.batch.keys, expected.batch.values, strict=True)))}
    found = decode(
        *(form(each) for each in (flat, nested) for form in (lambda x: json.dumps(x).encode(), msgpack.packb))
    )
    assert found.reasons.tolist() == [0] * 4
    assert found.timestamps is not None
    assert found.timestamps.tolist() == [10**12] * 4
    for row in range(4):
        part = slice(found.batch.indptr[row], found.batch.indptr[row + 1])
        assert tuple(sorted(zip(found.batch.keys[part], found.batch.values[part], strict=True))) == wanted


@pytest.mark.parametrize(
    ("value", "reason", "told"),
    [
        (None, Reason.NULL_VALUE, "found a null value"),
        (b"", Reason.MALFORMED, "expected a msgpack map or a JSON object, found no bytes"),
        (b"{", Reason.MALFORMED, "expected a whole JSON object"),
        (b"\x82\xa1x\x01\xa1x\x02", Reason.DUPLICATE_KEY, "'x' again"),
        (b'{"x": "\\ud800", "at": 1e12}', Reason.MALFORMED, "half of a surrogate pair"),
        (b'{"x": "\xff"}', Reason.MALFORMED, "byte 0xff"),
        (b'{"x": NaN}', Reason.MALFORMED, "NaN"),
        (b'{"m":' * 2000 + b"1" + b"}" * 2000, Reason.RECORD_TOO_LARGE, "at most 500 bytes"),
        (b'{"m":' * 70 + b"1" + b"}" * 70, Reason.TOO_DEEP, ""),
        (b"[1]", Reason.MALFORMED, "expected a msgpack map or a JSON object, found text: '[1]'"),
        (b"hello, " * 10, Reason.MALFORMED, "text: 'hello, hello, hello, hello, hello, hell...'"),
        (b"\xef\xbb\xbf{}", Reason.MALFORMED, "found a byte order mark, which JSON must not have"),
        (b"\x80\x80\x01", Reason.MALFORMED, "more behind one value: 2 bytes"),
        (msgpack.packb([1]), Reason.WRONG_TYPE, "a map of fields"),
        (msgpack.packb("1"), Reason.WRONG_TYPE, 'expected a map of fields, found "1"'),
        (b"1", Reason.WRONG_TYPE, "expected a msgpack map or a JSON object, found text: '1'"),
        (b"\n", Reason.WRONG_TYPE, "expected a msgpack map or a JSON object, found text: '\\n'"),
        (b"\xc1", Reason.MALFORMED, "expected a msgpack map or a JSON object, found a byte that begins no value"),
        (msgpack.packb({b"x": 1}), Reason.WRONG_TYPE, "text as the name of a field"),
        (
            b'{"label": 2, "at": 1e12}',
            Reason.BAD_LABEL,
            "expected a label from -1 to 1 (limits.min_label, limits.max_label), found a number: 2.0, in 'label'",
        ),
        (b'{"weight": 11, "at": 1e12}', Reason.BAD_WEIGHT, "a weight from 0 to 10"),
        (b'{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"at":1e12}', Reason.TOO_MANY_FEATURES, "at most 5 features"),
        (b'{"x": 1}', Reason.BAD_TIMESTAMP, "as 'at', found none"),
    ],
)
def test_what_is_refused(value: bytes | None, reason: Reason, told: str) -> None:
    """Between two that are good, which nothing is taken from."""
    good = b'{"x": 1, "at": 1e12}'
    found = decode(good, value, good)
    assert found.reasons.tolist() == [0, reason, 0]
    assert found.rows.tolist() == [0, 2]
    assert set(found.faults) == {1}
    assert told in found.faults[1]
    assert found.faults[1].startswith("expected ")
    assert found.places.tolist() == [-1, 0, -1]


def test_left_out_features_are_those_of_the_rows() -> None:
    """A record that is refused has none."""
    lenient = FLAT._replace(unreadable="leave_out", timestamp="")
    found = decode(b'{"x": [[1]], "y": [{}]}', b"{", b'{"x": 1}', mapping=lenient)
    assert found.left_out is not None
    assert found.left_out.tolist() == [2, 0]
    assert found.timestamps is None
    assert found.select(np.array([1])).left_out is not None


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["label", "weight", "id", "at", "x", "y.z", "y"]), _VALUES))
def test_no_record_is_the_end_of_the_reader(record: dict[str, object]) -> None:
    """Whatever a map of msgpack holds, it is an example or has a reason, and a message that says what was expected."""
    try:
        value = msgpack.packb(record)
    except (OverflowError, UnicodeEncodeError):
        return
    for mapping in (
        FLAT,
        InputMapping(features="y", unreadable="leave_out", categories=("*",)),
        InputMapping(label="x"),
    ):
        found = decode(value, mapping=mapping)
        assert len(found.rows) == (found.reasons[0] == Reason.OK)
        assert len(found.faults) == (found.reasons[0] != Reason.OK)


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: b"{" + text.encode(errors="replace")))
def test_no_bytes_are_the_end_of_the_reader(value: bytes) -> None:
    """The same of bytes that are no map."""
    assert decode(value).reasons[0] != Reason.OK or value


def test_a_label_is_named_as_the_records_name_it() -> None:
    """And not as the message that is made of them, which nobody has seen."""
    mapping = InputMapping(label="clicked", weight="user.importance", features="*")
    found = decode(b'{"clicked": 2, "x": 1}', b'{"x": 1, "user": {"importance": 11}}', mapping=mapping)
    label, weight = found.faults[0], found.faults[1]
    assert label == (
        "expected a label from -1 to 1 (limits.min_label, limits.max_label), found a number: 2.0, in 'clicked'"
    )
    assert weight == "expected a weight from 0 to 10 (limits.max_weight), found a number: 11.0, in 'user.importance'"
