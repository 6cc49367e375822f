"""Names of features: found in examples, under the keys that the decoder gives them, in bounded memory."""

import json
from collections.abc import Callable

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_apple.core.batch import Limits
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.example import Example, Features, encode_example
from stream_apple.records.message.feature_hashing import index_key
from stream_apple.records.message.feature_names import LONGEST_NAME, Names, names_in

LIMITS = Limits(
    max_features=100, max_record_bytes=100_000, max_weight=10.0, min_label=-9.0, max_label=9.0, binary=False
)
DECODER = Decoder(LIMITS)


def packed(width: str, *indices: int) -> Features:
    """The packed form."""
    return {"indices": np.array(indices, width).tobytes(), "values": np.ones(len(indices), "<f4").tobytes()}


@pytest.mark.parametrize(
    ("features", "names"),
    [
        ({"a": 1.0, "price": 0.5, "a name that is longer than seven bytes": 2.0}, None),
        ({"user": {"country=de": 1.0, "age": 0.3}, "ad": {"shoes": 1.0}}, ["user^country=de", "user^age", "ad^shoes"]),
        ({"": {"plain": 1.0}}, ["plain"]),
        (packed("<u8", 0, 7, 2**63), ["#0", "#7", f"#{2**63}"]),
        (packed("<u4", 0, 7, 2**31), ["#0", "#7", f"#{2**31}"]),
        ({"indices": np.array([5, 6], "<u8").tobytes()}, ["#5", "#6"]),
        ({"indices": 1.0, "values": 2.0}, ["indices", "values"]),
    ],
)
def test_keys_are_those_of_the_decoder(features: Features, names: list[str] | None) -> None:
    """Each form of features gives the keys that the learner sees, in their order, with readable names."""
    message = encode_example(Example(1.0, 1.0, "id", features))
    found = list(names_in(message))
    assert [key for key, _ in found] == DECODER.decode([message]).batch.keys.tolist()
    assert [name for _, name in found] == (names or list(features))


@pytest.mark.parametrize(
    "write", [msgpack.packb, lambda example: json.dumps(example).encode()], ids=["msgpack", "json"]
)
def test_records_of_both_kinds_have_names(write: Callable[[object], bytes]) -> None:
    """Categories by their whole name, with and without a namespace; JSON as msgpack."""
    flat = {"features": {"city": "S\u00e3o Paulo", "age": 3.5, "": "x"}}
    spaced = {"features": {"user": {"city": "Rome", "on": True}, "": {"a": "b"}}}
    for example, names in (
        (flat, ["city=S\u00e3o Paulo", "age", "=x"]),
        (spaced, ["user^city=Rome", "user^on", "a=b"]),
    ):
        message = DECODER.message(write(example))
        found = list(names_in(message))
        assert [name for _, name in found] == names
        assert [key for key, _ in found] == DECODER.decode([message]).batch.keys.tolist()


@given(st.dictionaries(st.text(max_size=40), st.floats(1.0, 2.0, width=32), min_size=1, max_size=20))
def test_keys_of_any_text(features: dict[str, float]) -> None:
    """Whatever a feature is called, its name has the decoder's key."""
    message = encode_example(Example(1.0, 1.0, None, features))
    assert [key for key, _ in names_in(message)] == DECODER.decode([message]).batch.keys.tolist()


@pytest.mark.parametrize(
    "value",
    [None, b"", b"\xc1", b"\x80", b"\xa3abc", msgpack.packb({"features": 3}), msgpack.packb({"features": [1]}),
     msgpack.packb({"features": {"f": {"a": 1}, "g": 2}})[:-1], msgpack.packb({"features": {3: 1}}),
     b"{", b'{"features": 1}', b'{"features": {"a": NaN}}'],
)  # fmt: skip
def test_records_that_are_no_examples_have_no_names(value: bytes | None) -> None:
    """Nothing is raised, and nothing is found, in what the decoder would reject."""
    assert list(names_in(value)) == []


def test_memory_is_bounded_and_what_is_kept_stays() -> None:
    """Of more names than there is room for, the last seen and the kept ones are there."""
    names = Names(most=100)
    names.add((key, f"n{key}") for key in range(50))
    names.keep({3, 4, 10_000})
    assert names.missing == {10_000}
    names.add((key, f"n{key}") for key in range(50, 1000))
    assert len(names) == 100
    assert names.get(3) == "n3"
    assert names.get(4) == "n4"
    assert names.get(5) is None
    assert all(names.get(key) == f"n{key}" for key in range(902, 1000))
    names.keep(range(1000))
    names.add([(5000, "more")])
    assert len(names) == 100, "keeping has a limit too"


def test_a_name_seen_again_is_new_again() -> None:
    """What goes is what was not seen for longest."""
    names = Names(most=3)
    names.add([(1, "a"), (2, "b"), (3, "c"), (1, "a"), (4, "d")])
    assert names.known() == {3: "c", 1: "a", 4: "d"}


def test_names_are_fit_to_be_shown() -> None:
    """Long ones are cut; what would steer a terminal, or turn the text around, is written out."""
    names = Names()
    names.add([(1, "x" * 100_000), (2, "\x1b[31mred\u202e\n"), (3, "gr\u00fc\u00df"), (index_key(4), "#4")])
    assert len(names.get(1) or "") == LONGEST_NAME
    assert names.get(2) == "\\u001b[31mred\\u202e\\u000a"
    assert names.get(3) == "gr\u00fc\u00df"
    assert names.get(index_key(4)) == "#4"
