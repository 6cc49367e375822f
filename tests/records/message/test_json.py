"""JSON records: the same bits as their msgpack, numbers to the last bit, and everything that is no JSON refused."""

import json
import math
from itertools import islice
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.oracles.wire import JOINERS, LIMITS, judge, rows_of
from support.oracles.wire_records import records
from support.oracles.wire_values import is_json

from stream_apple.core.batch import Limits
from stream_apple.records.message.decode import Decoded, Decoder
from stream_apple.records.message.encode import PredictionEncoder
from stream_apple.records.message.feature_hashing import feature_key
from stream_apple.records.message.reasons import Reason
from stream_apple.records.message.rejects import explain

WIDE = Limits(1000, 1_000_000, math.inf, -math.inf, math.inf, binary=False)
DECODER, WIDE_DECODER = Decoder(LIMITS), Decoder(WIDE)
FORMS = (
    "a map of names to numbers, booleans, or strings, of namespaces to such maps, or "
    "{indices: bytes, values: bytes}, and one of these forms throughout"
)
HALF = "expected whole characters, and no half of a surrogate pair"
FINITE = "a value that is finite as a 32-bit float"
A_FEATURE = b'"features": {"a": 1}'
MEANT = "expected a msgpack map or a JSON object"

_names = st.text(max_size=9) | st.sampled_from(["indices", "values", "a", "x" * 40])
_values = st.integers(-(2**70), 2**70) | st.floats(-1e38, 1e38) | st.booleans() | st.text(max_size=40)
_named = st.dictionaries(_names, _values, max_size=6)
_anything = st.recursive(
    _values | st.none(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3)
)
_examples = st.fixed_dictionaries(
    {"features": _named | st.dictionaries(_names, _named, max_size=3)},
    optional={
        "label": st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
        "weight": st.integers(0, 10**6) | st.floats(0, 1e9),
        "id": st.text(max_size=300) | st.integers(-(2**63), 2**64 - 1),
        "more": _anything,
    },
)


def one(value: bytes, decoder: Decoder = DECODER) -> tuple[Reason, int]:
    """Reason and place of one record."""
    decoded = decoder.decode([value])
    return Reason(int(decoded.reasons[0])), int(decoded.places[0])


def predictions(decoded: Decoded) -> list[bytes]:
    """What readers see, from made-up scores."""
    m = len(decoded.rows)
    scores = np.arange(m) / 8
    return PredictionEncoder("examples", 3, "0123abcd").encode(decoded, 0, m, scores, scores, np.arange(m), 7)


def _packable(item: Any) -> Any:
    """As msgpack can hold it: an integer beyond 64 bits is the float next to it."""
    if isinstance(item, dict):
        return {name: _packable(inner) for name, inner in item.items()}
    if isinstance(item, list):
        return [_packable(inner) for inner in item]
    if isinstance(item, int) and not -(2**63) <= item < 2**64:
        return float(item)
    return item


@settings(max_examples=200)
@given(st.lists(_examples, min_size=1, max_size=4), st.booleans(), st.sampled_from([None, 1]))
def test_json_and_its_msgpack_give_the_same_bits(examples: list[Any], ascii_only: bool, indent: int | None) -> None:  # noqa: FBT001  drawn
    """Rows, reasons, and the bytes of predictions, in whichever order both kinds stand in a batch."""
    texts = [json.dumps(example, ensure_ascii=ascii_only, indent=indent).encode() for example in examples]
    packed = [msgpack.packb(_packable(example)) for example in examples]
    decoder = Decoder(WIDE)
    expected = decoder.decode(packed)
    rows, reasons, messages = repr(rows_of(expected)), expected.reasons.tolist(), predictions(expected)
    mixed = [pair[number % 2] for number, pair in enumerate(zip(texts, packed, strict=True))]
    for values in (texts, mixed):
        decoded = decoder.decode(values)
        assert repr(rows_of(decoded)) == rows
        assert decoded.reasons.tolist() == reasons
        assert predictions(decoded) == messages


def test_records_that_are_json_are_compared_with_the_oracle() -> None:
    """The comparison in `test_decode_any_bytes` isn't empty for JSON: good ones, and nearly every fault, come up."""
    found = [judge(value, LIMITS).reason for value in islice(records(2), 20_000) if value and is_json(value)]
    elsewhere = {
        Reason.BAD_ID,
        Reason.DUPLICATE_KEY,
        Reason.NULL_VALUE,
        Reason.BAD_TIMESTAMP,
        Reason.FAR_FUTURE,
        Reason.SKIPPED,
        *JOINERS,
    }
    missing = {Reason.OK, *Reason} - {*found, *elsewhere}
    assert missing == set()
    assert found.count(Reason.OK) > 500


@pytest.mark.parametrize("space", [b"", b" ", b"\n", b"\t\r\n "])
def test_white_space_may_stand_around_everything(space: bytes) -> None:
    """Before the object too: its first byte then begins no map of msgpack either."""
    pieces = (b"{", b'"label"', b":", b"2", b",", b'"features"', b":", b"{", b'"a"', b":", b'"b"', b"}", b"}", b"")
    decoded = DECODER.decode([space + space.join(pieces)])
    (row,) = rows_of(decoded)
    assert (row.label, row.keys, row.values) == (2.0, [feature_key("a=b")], [1.0])


@pytest.mark.parametrize(
    ("value", "reason", "explanation"),
    [
        (b"{", Reason.MALFORMED, "expected a whole JSON object, found the end of the record, at byte 1"),
        (
            b'{"features": {"a": 1}',
            Reason.MALFORMED,
            "expected a whole JSON object, found the end of the record, at byte 21",
        ),
        (
            b'{%s} {"b"' % A_FEATURE,
            Reason.MALFORMED,
            """expected the end of the record, found 'atures": {"a": 1}} {"b"', near byte 24""",
        ),
        (
            b"{%s,}" % A_FEATURE,
            Reason.MALFORMED,
            """expected JSON in UTF-8, found 'features": {"a": 1},}', near byte 22""",
        ),
        (b"{'a': 1}", Reason.MALFORMED, """expected JSON in UTF-8, found "{'a': ", near byte 1"""),
        (b'{"label": NaN}', Reason.MALFORMED, """expected JSON in UTF-8, found '{"label": NaN}', near byte 10"""),
        (
            b'{"label": -Infinity}',
            Reason.MALFORMED,
            """expected JSON in UTF-8, found '{"label": -Infin', near byte 11""",
        ),
        (b'{"label": 01}', Reason.MALFORMED, """expected JSON in UTF-8, found '{"label": 01}', near byte 11"""),
        (b'{"label": 1.}', Reason.MALFORMED, """expected JSON in UTF-8, found '{"label": 1.}', near byte 12"""),
        (b'{"a": "\x01"}', Reason.MALFORMED, """expected JSON in UTF-8, found '{"a": "\\x01"}', near byte 7"""),
        (b'{"a": "\\x"}', Reason.MALFORMED, """expected JSON in UTF-8, found '{"a": "\\\\x"}', near byte 9"""),
        (b'{"a": "\\ud800"}', Reason.MALFORMED, f"""{HALF}, found '{{"a": "\\\\ud800"}}', near byte 12"""),
        (b'{"a": "\\udc00\\ud800"}', Reason.MALFORMED, f"""{HALF}, found '{{"a": "\\\\udc00\\\\ud8', near byte 12"""),
        (b'{"a": "\xc3("}', Reason.MALFORMED, """expected JSON in UTF-8, found byte 0xc3, at byte 7"""),
        (b'{"\xff": 1}', Reason.MALFORMED, """expected JSON in UTF-8, found byte 0xff, at byte 2"""),
        (b'{"a": nul}', Reason.MALFORMED, """expected JSON in UTF-8, found '{"a": nul}', near byte 10"""),
        (
            b'{"label": -1e999}',
            Reason.BAD_LABEL,
            (
                "expected a label from -10 to 10 (limits.min_label, limits.max_label), "
                "found a number: -inf, in 'label'"
            ),
        ),
        (b'{"a": %s}' % (b"9" * 4301), Reason.RECORD_TOO_LARGE, "expected at most 400 bytes, found 4308"),
        (
            b'{"a": 1e999, "b": %s}' % (b"9" * 370),
            Reason.NO_FEATURES,
            "expected a key 'features' with a map, which may be empty, found the end of the record",
        ),
        (
            b'{"a": %s1%s}' % (b"[" * 16, b"]" * 16),
            Reason.TOO_DEEP,
            "expected maps and arrays at most 16 deep, found an array, in 'a'",
        ),
        (
            b'{"label": "1", %s}' % A_FEATURE,
            Reason.WRONG_TYPE,
            "expected a number or null, found a string: '1', in 'label'",
        ),
        (
            b'{"label": true, %s}' % A_FEATURE,
            Reason.WRONG_TYPE,
            "expected a number or null, found a boolean: true, in 'label'",
        ),
        (
            b'{"id": 18446744073709551616}',
            Reason.WRONG_TYPE,
            "expected a string, bytes, an integer of 64 bits, or null, found a number: 1.8446744073709552e+19, in 'id'",
        ),
        (b'{"features": {"a": []}}', Reason.WRONG_TYPE, f"expected {FORMS}, found an array, in 'a' of 'features'"),
        (
            b'{"features": {"user": {"age": [1]}}}',
            Reason.WRONG_TYPE,
            f"expected {FORMS}, found an array, in 'age' of 'user' of 'features'",
        ),
        (
            b'{"label": 1}',
            Reason.NO_FEATURES,
            "expected a key 'features' with a map, which may be empty, found the end of the record",
        ),
        (
            b'{"features": {"b": 1, "a": 1e39}}',
            Reason.BAD_VALUE,
            f"expected {FINITE}, found a number: 1e+39, in 'a' of 'features'",
        ),
        (
            b'{"features": {"a": -%s}}' % (b"9" * 350),
            Reason.BAD_VALUE,
            f"expected {FINITE}, found a number: -inf, in 'a' of 'features'",
        ),
        (
            b'{"\\u0061": 1, "weight": -1e0, %s}' % A_FEATURE,
            Reason.BAD_WEIGHT,
            "expected a weight from 0 to 100 (limits.max_weight), found a number: -1.0, in 'weight'",
        ),
        (
            b'{"features": {%s}}' % b",".join(b'"%d": 1' % number for number in range(9)),
            Reason.TOO_MANY_FEATURES,
            "expected at most 8 features, found more, in 'features'",
        ),
        (b"{%s}" % (b" " * 400), Reason.RECORD_TOO_LARGE, "expected at most 400 bytes, found 402"),
        (b"[1]", Reason.WRONG_TYPE, f"{MEANT}, found text: '[1]', at byte 0"),
        (b" [", Reason.WRONG_TYPE, f"{MEANT}, found text: ' [', at byte 0"),
        (b"not json", Reason.WRONG_TYPE, f"{MEANT}, found text: 'not json', at byte 0"),
        (b"null", Reason.WRONG_TYPE, f"{MEANT}, found text: 'null', at byte 0"),
        (b"1", Reason.WRONG_TYPE, f"{MEANT}, found text: '1', at byte 0"),
        (b"", Reason.MALFORMED, f"{MEANT}, found no bytes"),
        (b"\xc3", Reason.WRONG_TYPE, f"{MEANT}, found a boolean: true, at byte 0"),
        (
            "\u65e5".encode() * 99,
            Reason.WRONG_TYPE,
            rf"{MEANT}, found text: '\u65e5\u65e5\u65e5\u65e5\u65e5\u65e5\u6...', at byte 0",
        ),
        (b"\xef{}", Reason.WRONG_TYPE, f"{MEANT}, found byte 0xef, at byte 0"),
        (b"\x1f\x8b\x08", Reason.WRONG_TYPE, f"{MEANT}, found byte 0x1f, at byte 0"),
        (b"\x07", Reason.WRONG_TYPE, f"{MEANT}, found a number: 7, at byte 0"),
        (b"\xa3abc", Reason.WRONG_TYPE, f"{MEANT}, found a string: 'abc', at byte 0"),
        (
            b"\xef\xbb\xbf{%s}" % A_FEATURE,
            Reason.WRONG_TYPE,
            f"{MEANT}, found a byte order mark, which JSON must not have, at byte 0",
        ),
        (
            b"\0\0\0\x01\x02{%s}" % A_FEATURE,
            Reason.WRONG_TYPE,
            f"{MEANT}, found Confluent's framing: a zero byte, then the schema id 258, at byte 0",
        ),
    ],
)  # fmt: skip
def test_what_is_no_example_is_refused_with_a_reason(value: bytes, reason: Reason, explanation: str) -> None:
    """Alone and among good records of both kinds."""
    good = [b"{%s}" % A_FEATURE, msgpack.packb({"features": {"a": 1}})]
    decoded = DECODER.decode([*good, value, *good])
    assert decoded.reasons.tolist() == [0, 0, reason, 0, 0]
    assert decoded.rows.tolist() == [0, 1, 3, 4]
    assert one(value) == (reason, int(decoded.places[2]))
    assert explain(reason, int(decoded.places[2]), value, LIMITS) == explanation


@pytest.mark.parametrize("depth", [15, 16])
@pytest.mark.parametrize("pair", [(b"[", b"]"), (b'{"k":', b"}")])
def test_nesting_has_the_limit_of_msgpack(depth: int, pair: tuple[bytes, bytes]) -> None:
    """An unknown value may be 15 deep, the example around it making it 16."""
    value = b'{"x": %s1%s, %s}' % (pair[0] * depth, pair[1] * depth, A_FEATURE)
    assert one(value)[0] == (Reason.OK if depth == 15 else Reason.TOO_DEEP)


def test_the_limit_of_bytes_is_of_the_record_not_of_its_msgpack() -> None:
    """A record of just so many bytes is good, though its msgpack is longer."""
    value = b'{"x": [%s], %s}' % (b",".join([b"0.5"] * 80), A_FEATURE)
    value = value[:-1] + b" " * (LIMITS.max_record_bytes - len(value)) + b"}"
    assert one(value) == (Reason.OK, -1)
    assert one(value + b" ")[0] == Reason.RECORD_TOO_LARGE


def test_every_fault_of_json_can_be_explained() -> None:
    """Whatever the bytes, the explanation is a line of ASCII of bounded length, and never an error itself."""
    values = [value for value in islice(records(52), 8000) if value and is_json(value)]
    decoded = DECODER.decode(values)
    assert np.count_nonzero(decoded.reasons) > 500
    for value, reason, place in zip(values, decoded.reasons.tolist(), decoded.places.tolist(), strict=True):
        if reason != Reason.OK:
            text = explain(Reason(reason), place, value, LIMITS)
            assert text.startswith("expected ")
            assert text.isascii()
            assert text.isprintable()
            assert len(text) < 400


def test_of_what_comes_twice_the_last_counts() -> None:
    """Whichever key it is; in msgpack the same is a dead letter, or two features."""
    value = b'{"id": 1, "label": 5, "features": 0, "label": 2, "features": {"b": 9, "a": 3, "b": 4}, "id": "x"}'
    (row,) = rows_of(DECODER.decode([value]))
    assert (row.label, row.id) == (2.0, msgpack.packb("x"))
    assert (row.keys, row.values) == ([feature_key("b"), feature_key("a")], [4.0, 3.0])


@pytest.mark.parametrize("size", [0, 1, 5, 6, 7, 8, 9, 15, 16, 20, 23, 24, 31, 32, 40, 70, 300])
@pytest.mark.parametrize("namespace", ["", "space"])
def test_a_category_is_the_feature_name_equals_value(size: int, namespace: str) -> None:
    """Its key is that of the whole name, for every way through the hash, and its value is 1."""
    texts = [("c" * (size - cut), "v" * cut) for cut in range(size + 1)]
    for name, text in texts:
        packed = msgpack.packb({"features": {namespace: {name: text}}})
        (row,) = rows_of(WIDE_DECODER.decode([packed]))
        assert (row.keys, row.values) == ([feature_key(f"{name}={text}", namespace)], [1.0])


def test_categories_stand_among_numbers() -> None:
    """In the order of the record, first, between and last, and each is one feature of those allowed."""
    example = {"features": {"city": "Rome", "age": 3, "kind": "a b", "empty": "", "zero": 0, "on": True}}
    for value in (msgpack.packb(example), json.dumps(example).encode()):
        (row,) = rows_of(DECODER.decode([value]))
        names = ["city=Rome", "age", "kind=a b", "empty=", "on"]
        assert (row.keys, row.values) == ([feature_key(name) for name in names], [1.0, 3.0, 1.0, 1.0, 1.0])
    assert one(msgpack.packb({"features": dict.fromkeys("abcdefghi", "x")}))[0] == Reason.TOO_MANY_FEATURES


def test_bins_that_are_written_as_text_are_no_categories() -> None:
    """Under the keys of the packed form text is refused; elsewhere these are names like others."""
    text = {"indices": "BwAAAAAAAAA=", "values": "AACAPw=="}
    refused = [text, dict(reversed(text.items())), {"a": 1, **text}, {"": text}, {"n": {"a": 1}, "": text}]
    for features in refused:
        assert one(json.dumps({"features": features}).encode())[0] == Reason.WRONG_TYPE
        assert one(msgpack.packb({"features": features}))[0] == Reason.WRONG_TYPE
    for features in ({"n": text}, {"indices": 1, "values": True}, {"indices2": "x", "value": "y"}):
        assert one(json.dumps({"features": features}).encode()) == (Reason.OK, -1)
