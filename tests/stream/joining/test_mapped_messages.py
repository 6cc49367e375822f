"""Records of other shapes: joined, they are what those of the product's own shape are."""

from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream.joining.other_shapes import (
    FRAMED,
    IMPRESSION,
    OUTCOME,
    KnownSchemas,
    in_other_shapes,
    led_back,
    without_the_rest,
)
from stream.joining.two_logs import RULE, SECOND, Harness, make_logs, rule_of
from support.oracles.offline_join import joined_in_sequence
from support.records import FakeRecord

from stream_apple.records.mapping import OWN_MESSAGE
from stream_apple.records.message.reasons import Reason
from stream_apple.stream.joining.mapped_messages import JoinInput
from stream_apple.stream.joining.own_messages import HeartbeatEntry, Impression, OutcomeEntry, Unusable, heartbeat_value

OTHER = rule_of(RULE)._replace(impression_shape=IMPRESSION, outcome_shape=OUTCOME)
TIME = 1_700_000_000_000


@settings(max_examples=25)
@given(st.integers(0, 1_000_000), st.sampled_from([0, 20]), st.sampled_from([0.0, 0.1]))
def test_a_join_of_other_shapes_is_a_join(seed: int, disorder: int, odd: float) -> None:
    """Of JSON, msgpack and framed records in one topic, with times in fields, and with restarts."""
    logs = make_logs(seed, disorder_ms=disorder * SECOND, odd=odd)
    expected = without_the_rest(joined_in_sequence(RULE, *logs))
    joined = Harness(OTHER, in_other_shapes(logs), seed, KnownSchemas()).run(restarts=0.2)
    assert joined._replace(examples=led_back(joined.examples)) == expected
    assert expected.examples


def test_one_shape_may_be_the_product_s_own() -> None:
    """Impressions of another shape, outcomes not, and the other way round."""
    own = make_logs(3)
    other = in_other_shapes(own)
    expected = without_the_rest(joined_in_sequence(RULE, *own))
    rule = rule_of(RULE)._replace(impression_shape=IMPRESSION)
    joined = Harness(rule, own._replace(impressions=other.impressions), 1, KnownSchemas()).run()
    assert led_back(joined.examples) == expected.examples
    rule = rule_of(RULE)._replace(outcome_shape=OUTCOME)
    joined = Harness(rule, own._replace(outcomes=other.outcomes), 1, KnownSchemas()).run()
    assert without_the_rest(joined) == expected


def outcome(value: Any, time_ms: int = TIME) -> Any:
    """What an outcome's record is."""
    payload = value if isinstance(value, bytes | None) else msgpack.packb(value)
    (found,) = JoinInput(OTHER, KnownSchemas()).outcomes([FakeRecord(0, 7, payload, time_ms, b"key")])
    return found


def impression(value: Any, time_ms: int = TIME) -> Any:
    """What an impression's record is."""
    payload = value if isinstance(value, bytes | None) else msgpack.packb(value)
    (found,) = JoinInput(OTHER, KnownSchemas()).impressions([FakeRecord(0, 7, payload, time_ms, b"key")])
    return found


class TestOutcomes:
    """Records of the outcomes topic."""

    def test_good(self) -> None:
        """Label by its map, weight and time by their fields; without a weight none is said."""
        found = outcome({"of": 5, "event": "event 3", "boost": "0.5", "at": "2023-11-14T22:13:20.5Z"})
        assert isinstance(found, OutcomeEntry)
        assert found[:5] == (7, TIME + 500, b"\xc1i5", 3.0, 0.5)
        assert outcome({"of": "a", "event": "event 3", "at": TIME}).weight is None

    @pytest.mark.parametrize(
        ("value", "reason", "words"),
        [
            ({"event": "event 3", "at": TIME}, Reason.NO_ID, "the id of an impression as 'of'"),
            ({"of": None, "event": "event 3", "at": TIME}, Reason.NO_ID, "the id of an impression as 'of'"),
            ({"of": "a", "at": TIME}, Reason.NO_LABEL, "a label as 'event', found none"),
            ({"of": "a", "event": "else", "at": TIME}, Reason.BAD_LABEL, "one of 'event 0', 'event 1'"),
            ({"of": "a", "event": "event 3"}, Reason.BAD_TIMESTAMP, "as 'at', found none"),
            ({"of": "a", "event": "event 3", "boost": -1, "at": TIME}, Reason.BAD_WEIGHT, "at least 0 as 'boost'"),
            ({"of": [1], "event": "event 3", "at": TIME}, Reason.BAD_ID, "as 'of'"),
            ([1], Reason.WRONG_TYPE, "a map of fields"),
            (b"\x82\xa2of\x01\xa2of\x02", Reason.DUPLICATE_KEY, "each key once"),
            (b"", Reason.MALFORMED, "a msgpack map or a JSON object"),
            (b"{" + b" " * 10_000, Reason.RECORD_TOO_LARGE, "at most 10000 bytes, found 10001"),
            (b"\0\0\0\0\x07\x91\x01", Reason.WRONG_TYPE, "a map of fields"),
        ],
    )
    def test_bad(self, value: Any, reason: Reason, words: str) -> None:
        """Each has its reason, and names the field that was looked for."""
        found = outcome(value)
        assert isinstance(found, Unusable)
        assert (found.offset, found.reason) == (7, reason)
        assert found.fault is not None
        assert words in found.fault

    def test_null(self) -> None:
        """A record without a value."""
        assert outcome(None)[2:] == (Reason.NULL_VALUE, 0, None)

    @pytest.mark.parametrize("value", [heartbeat_value(3), b'{"heartbeat": 3}'])
    def test_heartbeats(self, value: bytes) -> None:
        """They have the time of their record, whatever field the outcomes' is in."""
        assert outcome(value) == HeartbeatEntry(7, TIME, 3)
        found = outcome(value, 0)
        assert (found.reason, str(found.fault)[-7:]) == (Reason.BAD_TIMESTAMP, "found 0")

    def test_framed_records_need_a_registry(self) -> None:
        """Without one the dead letter says what is missing."""
        (found,) = JoinInput(OTHER).outcomes([FakeRecord(0, 7, b"\0\0\0\0\x07\x80", TIME)])
        assert isinstance(found, Unusable)
        assert "registry.url" in str(found.fault)


class TestImpressions:
    """Records of the impressions topic."""

    def test_what_is_needed_of_one(self) -> None:
        """An id and a time; what else it holds is the worker's to judge."""
        found = impression({"request": {"id": "a"}, "shown": TIME + 1, "user": {"clicked": "what?"}, "x": [{}]}, 0)
        assert isinstance(found, Impression)
        assert (found.time_ms, found.outer.id, found.outer.has_label) == (TIME + 1, b"a", True)

    @pytest.mark.parametrize("clicked", [None, "", float("nan")])
    def test_no_label_of_its_own(self, clicked: Any) -> None:
        """What a worker takes for none."""
        assert not impression({"request.id": "a", "shown": TIME, "user.clicked": clicked}).outer.has_label

    @pytest.mark.parametrize(
        ("value", "reason", "words"),
        [
            ({"shown": TIME}, Reason.NO_ID, "an id as 'request.id'"),
            ({"request.id": "a"}, Reason.BAD_TIMESTAMP, "as 'shown', found none"),
            ({"request.id": 1.5, "shown": TIME}, Reason.BAD_ID, "as 'request.id'"),
            (b"\xc1", Reason.MALFORMED, "a msgpack map"),
        ],
    )
    def test_bad(self, value: Any, reason: Reason, words: str) -> None:
        """Each has its reason, and names the field that was looked for."""
        found = impression(value)
        assert isinstance(found, Unusable)
        assert found.reason is reason
        assert words in str(found.fault)


def test_ids_are_equal_across_formats() -> None:
    """An integer of JSON and one of a frame are one id, and no text is."""
    framed = b"\0" + FRAMED.to_bytes(4, "big")
    fields = [b'{"of": 5, "event": "event 1", "at": 1700000000}']
    fields += [head + msgpack.packb({"of": 5, "event": "event 1", "at": TIME}) for head in (b"", framed)]
    assert {outcome(each).id for each in fields} == {b"\xc1i5"}
    assert outcome({"of": "5", "event": "event 1", "at": TIME}).id == b"5"


def test_the_fingerprint_knows_shapes() -> None:
    """A rule of other shapes is another rule; that of the product's own is as it was."""
    plain = rule_of(RULE)
    names = {plain.fingerprint, OTHER.fingerprint, plain._replace(impression_shape=OWN_MESSAGE).fingerprint}
    assert len(names) == 3
