"""The outer map of messages: against `msgpack` and `json`, for good messages, broken ones and any bytes."""

import json
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_apple.records.message.outer_map import LabelAndWeight, OuterMap, open_maps
from stream_apple.records.message.reasons import Reason

MOST = 3000
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=5)
)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)
NAMES = st.sampled_from(["id", "label", "weight", "features", "", "idx", "labels", "a name longer than eight bytes"])
IDS = st.text(max_size=40) | st.integers(-(2**63), 2**63 - 1) | st.binary(max_size=40)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)


def opened(value: bytes | None, most: int = MOST) -> OuterMap | tuple[Reason, int]:
    """The map of one message, or what is wrong with it."""
    (found,), faults = open_maps([value], most)
    assert (found is None) == (0 in faults)
    return faults[0] if found is None else found


def fault(value: bytes | None) -> tuple[Reason, int]:
    """What is wrong with a message."""
    found = opened(value)
    assert not isinstance(found, OuterMap)
    return found


def changed(value: bytes, label: float, weight: float | None) -> bytes:
    """The message with a label and a weight put in."""
    found = opened(value, 1 << 20)
    assert isinstance(found, OuterMap)
    return found.labelled(LabelAndWeight(label, weight))


class TestGood:
    """Messages that have an id."""

    @given(st.dictionaries(NAMES, ANYTHING, max_size=6), IDS, NUMBERS, st.none() | NUMBERS)
    def test_msgpack_keeps_all_else(
        self, content: dict[str, Any], name: str | int | bytes, label: float, weight: float | None
    ) -> None:
        """Whatever it holds, in whichever order, the message has the new label and weight, once, and the rest."""
        message = content | {"id": name}
        wanted = message | {"label": label} | ({} if weight is None else {"weight": weight})
        found = changed(msgpack.packb(message), label, weight)
        assert msgpack.unpackb(found, object_pairs_hook=dict) == wanted
        assert len(msgpack.unpackb(found, object_pairs_hook=list)) == len(wanted)

    @given(st.dictionaries(NAMES, ANYTHING, max_size=6), st.text(max_size=9), NUMBERS, st.none() | NUMBERS)
    def test_json_stays_json(self, content: dict[str, Any], name: str, label: float, weight: float | None) -> None:
        """The same in JSON."""
        message = {key: value for key, value in content.items() if value not in (float("inf"), -float("inf"))}
        try:
            value = json.dumps(message | {"id": name}, allow_nan=False).encode()
        except ValueError:  # infinite numbers further in
            return
        wanted = message | {"id": name, "label": label} | ({} if weight is None else {"weight": weight})
        found = json.loads(changed(value, label, weight), object_pairs_hook=list)
        assert dict(found) == json.loads(json.dumps(wanted), object_pairs_hook=list) or dict(found) == dict(
            json.loads(json.dumps(wanted), object_pairs_hook=list)
        )
        assert len(found) == len(wanted)

    @pytest.mark.parametrize("other", ['{"a": 1, "a":2}', "1.10e300", "-0", "9" * 400, '"\\u00e9\u00e9"', "[1.10, {}]"])
    def test_other_values_of_json_keep_their_bytes(self, other: str) -> None:
        """What comes twice in them, numbers with any digits, and spellings."""
        before, after = f' {{"x": {other}, "label" :', f',"id":"i", "features":{other} }}\n'
        for own in ("null", '{"a": [1e300, "\\"}"]}', "9" * 400):
            found = changed(f'{before}{own}, "weight": {own}{after}'.encode(), 1, 0.5)
            assert found == f'{{"x":{other},"label":1,"weight":0.5,"id":"i","features":{other}}}'.encode()
            found = changed(f"{before}{own}{after}".encode(), 1, 0.5)
            assert found == f'{{"x":{other},"label":1,"id":"i","features":{other},"weight":0.5}}'.encode()

    def test_of_what_comes_twice_in_json_the_last_counts(self) -> None:
        """As for a worker, and only that one is left."""
        found = opened(b'{"id": "x", "label": 1, "label": null, "id": "y"}')
        assert isinstance(found, OuterMap)
        assert (found.id, found.has_label) == (b"y", False)
        assert found.labelled(LabelAndWeight(2)) == b'{"id":"y","label":2}'

    @pytest.mark.parametrize("pairs", [1, 14, 15, 16, 17, 65_535, 65_536])
    def test_maps_of_any_length(self, pairs: int) -> None:
        """The header of the map may grow."""
        message: dict[str, Any] = {"id": 1} | {f"k{number}": number for number in range(pairs - 1)}
        assert msgpack.unpackb(changed(msgpack.packb(message), 1, 2)) == message | {"label": 1, "weight": 2}

    @given(IDS, IDS)
    def test_ids_are_equal_as_values_are(self, one: str | int | bytes, other: str | int | bytes) -> None:
        """A text, an integer and bytes are never the same."""
        first, second = (opened(msgpack.packb({"id": name})) for name in (one, other))
        assert isinstance(first, OuterMap)
        assert isinstance(second, OuterMap)
        assert (first.id == second.id) == (type(one) is type(other) and one == other)

    def test_ids_are_equal_however_they_are_spelled(self) -> None:
        """Longer forms than needed, and JSON, name the same."""
        names = [b"\xa2id\xa1x", b"\xa2id\xd9\x01x", b"\xa2id\xda\x00\x01x", b"\xd9\x02id\xdb\x00\x00\x00\x01x"]
        maps, _ = open_maps([*(b"\x81" + name for name in names), b' {"id":"\\u0078"}'], MOST)
        assert {found.id for found in maps if found} == {b"x"}
        numbers = [b"\x05", b"\xcc\x05", b"\xcd\x00\x05", b"\xd0\x05", b"\xd3\0\0\0\0\0\0\0\x05"]
        maps, _ = open_maps([*(b"\x81\xa2id" + number for number in numbers), b'{"id": 5}'], MOST)
        assert len({found.id for found in maps if found}) == 1
        assert all(maps)

    @pytest.mark.parametrize(
        ("labelling", "labelled"),
        [({"label": None}, False), ({"label": float("nan")}, False), ({"label": 0}, True), ({}, False)],
    )
    def test_nil_and_nan_are_no_labels(self, labelling: dict[str, object], *, labelled: bool) -> None:
        """As for a worker."""
        found = opened(msgpack.packb({"id": 1} | labelling))
        assert isinstance(found, OuterMap)
        assert found.has_label is labelled


class TestFaults:
    """Messages without an id, or that are no messages."""

    @pytest.mark.parametrize(
        ("value", "wanted"),
        [
            (None, (Reason.NULL_VALUE, 0)),
            (b"", (Reason.MALFORMED, 0)),
            (b"\xc1", (Reason.MALFORMED, 0)),
            (b"\x80", (Reason.NO_ID, 0)),
            (b"{}", (Reason.NO_ID, 0)),
            (b"{", (Reason.MALFORMED, 0)),
            (b'{"id": {}}', (Reason.WRONG_TYPE, 4)),
            (b"\x82\xa2id\x01\xa2id\x02", (Reason.DUPLICATE_KEY, 5)),
            (b"\x83\xa2id\x01\xa5label\x01\xa5label\x02", (Reason.DUPLICATE_KEY, 12)),
            (b"\x81\xa2id\xc0", (Reason.NO_ID, 0)),
            (b"\x81\xa2id\xc3", (Reason.WRONG_TYPE, 4)),
            (b"\x81\xc4\x02id\x01", (Reason.WRONG_TYPE, 1)),
            (b"\x81\xa2id\xa1\xff", (Reason.BAD_ID, 4)),
            (b"\x81\xa2id\x01\x01", (Reason.MALFORMED, 5)),
            (b"\x82\xa2id\x01", (Reason.MALFORMED, 5)),
            (b"\x82\xa2id\x01\x01\x01", (Reason.WRONG_TYPE, 5)),
            (b"\x93\x01\x02\x03", (Reason.WRONG_TYPE, 0)),
            (b"\xdf\xff\xff\xff\xff", (Reason.MALFORMED, 5)),
            (b"\x81\xa2id\xdb\xff\xff\xff\xff", (Reason.MALFORMED, 4)),
            (b"\x82\xa2id\x01\xa1x" + b"\x91" * 2000, (Reason.TOO_DEEP, 7)),
            (b"x" * (MOST + 1), (Reason.RECORD_TOO_LARGE, 0)),
            (b"{" + b" " * MOST, (Reason.RECORD_TOO_LARGE, 0)),
        ],
    )
    def test_each_has_its_reason(self, value: bytes | None, wanted: tuple[Reason, int]) -> None:
        """The first fault in the order of the bytes, and where it is."""
        assert fault(value) == wanted

    @given(st.lists(st.none() | st.binary(max_size=30), max_size=8))
    def test_any_bytes(self, values: list[bytes | None]) -> None:
        """Each is judged as if it were alone, and who has an id is what msgpack reads as a map with one."""
        maps, faults = open_maps(values, MOST)
        for number, value in enumerate(values):
            alone = opened(value)
            assert (maps[number] or faults[number]) == alone
            if isinstance(alone, OuterMap) and alone.source is None:
                assert any(key == "id" for key, _ in msgpack.unpackb(alone.value, object_pairs_hook=list, timestamp=0))
