"""What records of the two topics say, and what is wrong with others."""

from typing import Any

import msgpack
import pytest
from support.records import FakeRecord

from stream_apple.records.message.reasons import Reason
from stream_apple.stream.joining.own_messages import (
    HeartbeatEntry,
    Impression,
    OutcomeEntry,
    Unusable,
    heartbeat_value,
    read_impressions,
    read_outcomes,
)

TIME = 1_700_000_000_000


def outcome(value: Any, time_ms: int = TIME) -> Any:
    """What an outcome's record is."""
    payload = value if isinstance(value, bytes | None) else msgpack.packb(value)
    (found,) = read_outcomes([FakeRecord(0, 7, payload, time_ms, b"key")], 1000)
    return found


class TestOutcomes:
    """Records of the outcomes topic."""

    @pytest.mark.parametrize(
        ("value", "label", "weight"),
        [
            ({"id": "a", "label": 1}, 1, None),
            ({"weight": 0, "label": -0.5, "id": "a", "more": [1]}, -0.5, 0),
            ({"id": "a", "label": 1, "weight": None}, 1, None),
            ({"id": "a", "label": 1, "weight": float("nan")}, 1, None),
            (b'{"id": "a", "label": 2, "weight": 0.25}', 2, 0.25),
        ],
    )
    def test_good(self, value: Any, label: float, weight: float | None) -> None:
        """Label and weight as they were sent, an integer as an integer."""
        found = outcome(value)
        assert isinstance(found, OutcomeEntry)
        assert found[:5] == (7, TIME, b"a", label, weight)
        assert type(found.label) is type(label)

    @pytest.mark.parametrize(
        ("value", "reason", "place"),
        [
            ({"id": "a"}, Reason.NO_LABEL, 0),
            ({"id": "a", "label": None}, Reason.NO_LABEL, 0),
            ({"label": 1}, Reason.NO_ID, 0),
            ({"id": "a", "label": "yes"}, Reason.WRONG_TYPE, 12),
            ({"id": "a", "label": True}, Reason.WRONG_TYPE, 12),
            (b'{"id": "a", "label": true}', Reason.WRONG_TYPE, 12),
            ({"id": "a", "label": [1]}, Reason.WRONG_TYPE, 12),
            (b"\x82\xa2id\xa1a\xa5label\xa2\xfcr", Reason.WRONG_TYPE, 12),  # text that is not UTF-8
            (b"\x82\xa2id\xa1a\xa5label\x81\x90\x01", Reason.WRONG_TYPE, 12),  # a map whose key is an array
            (b"\x83\xa2id\xa1a\xa5label\x01\xa6weight\x81\xa1\xff\x01", Reason.WRONG_TYPE, 20),
            ({"id": "a", "label": float("nan")}, Reason.NO_LABEL, 0),
            ({"id": "a", "label": float("inf")}, Reason.BAD_LABEL, 12),
            ({"id": "a", "label": 1, "weight": -1}, Reason.BAD_WEIGHT, 20),
            (None, Reason.NULL_VALUE, 0),
            (b"", Reason.MALFORMED, 0),
        ],
    )
    def test_bad(self, value: Any, reason: Reason, place: int) -> None:
        """Each has its reason, and the place."""
        found = outcome(value)
        assert isinstance(found, Unusable)
        assert (found.offset, found.reason, found.place) == (7, reason, place)

    @pytest.mark.parametrize("time_ms", [-1, 0, 1 << 60])
    def test_without_a_time_of_this_era(self, time_ms: int) -> None:
        """Neither an outcome nor a heartbeat."""
        for value in (msgpack.packb({"id": "a", "label": 1}), heartbeat_value(3)):
            found = outcome(value, time_ms)
            assert isinstance(found, Unusable)

    @pytest.mark.parametrize("value", [heartbeat_value(3), b'{"heartbeat": 3}'])
    def test_heartbeats(self, value: bytes) -> None:
        """The joiner's own, or somebody else's in JSON."""
        assert outcome(value) == HeartbeatEntry(7, TIME, 3)

    @pytest.mark.parametrize(
        "value",
        [
            {"heartbeat": -1},
            {"heartbeat": True},
            {"heartbeat": "3"},
            {"heartbeat": 3, "more": 1},
            {},
            b'{"heartbeat": 3.5}',
            b"\x81\xc0\x01",
            b"\x81\x90\x01",
        ],
    )
    def test_no_heartbeats(self, value: Any) -> None:
        """Nothing moves the clock that is not exactly one."""
        assert isinstance(outcome(value), Unusable)


class TestImpressions:
    """Records of the impressions topic."""

    def test_good_and_bad_in_their_order(self) -> None:
        """What has an id and a time waits; its features are the worker's to judge."""
        good = msgpack.packb({"id": "a", "features": "anything"})
        records = [
            FakeRecord(0, 3, good, TIME),
            FakeRecord(0, 5, b"\xc1", TIME),
            FakeRecord(0, 6, good, 0),
            FakeRecord(0, 7, None, TIME),
            FakeRecord(0, 8, b'{"id": "b"}', TIME + 1),
        ]
        found = read_impressions(records, 1000)
        assert [each.offset for each in found] == [3, 5, 6, 7, 8]
        reasons = [each.reason if isinstance(each, Unusable) else None for each in found]
        assert reasons == [None, Reason.MALFORMED, Reason.BAD_TIMESTAMP, Reason.NULL_VALUE, None]
        assert [each.outer.id for each in found if isinstance(each, Impression)] == [b"a", b"b"]

    @pytest.mark.parametrize("time_ms", [0, -1, 253_402_300_800_000, TIME * 1_000_000])
    def test_a_time_that_is_none_is_told(self, time_ms: int) -> None:
        """Also of outcomes: a producer that sends nanoseconds looks for what it has sent."""
        value = msgpack.packb({"id": "a", "label": 1, "features": {}})
        (impression,) = read_impressions([FakeRecord(0, 3, value, time_ms)], 1000)
        for found in (impression, outcome(value, time_ms)):
            assert isinstance(found, Unusable)
            assert found.reason is Reason.BAD_TIMESTAMP
            assert str(found.fault).startswith(
                "expected a timestamp in milliseconds since 1970, above 0 and below 25340"
            )
            assert str(found.fault).endswith(f"found {time_ms}")
