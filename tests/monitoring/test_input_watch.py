"""What a worker's first thousand records show, and is logged once."""

import json
from typing import Any

import msgpack
import pytest
from structlog.testing import capture_logs
from support.records import FakeRecord

from stream_apple.monitoring import input_watch
from stream_apple.monitoring.input_watch import InputWatch
from stream_apple.records.mapping import InputMapping

FLAT = InputMapping(label="clicked", weight="w", features="*")


def watched(records: list[Any], mapping: InputMapping | None = FLAT) -> list[Any]:
    """The events of a watch that has got the records in two batches, twice."""
    found = [
        FakeRecord(0, offset, each if isinstance(each, bytes) else json.dumps(each).encode(), 1_700_000_000_000)
        for offset, each in enumerate(records)
    ]
    watch = InputWatch(mapping, None)
    with capture_logs() as events:
        for batch in (found[:7], found[7:], found):
            watch.offer(batch)
            watch.take()
    return events


def test_text_that_spells_numbers_and_tiny_weights() -> None:
    """After a thousand records, once."""
    record = {"clicked": 1, "visits": "281", "city": "Rome", "w": 0.001}
    assert watched([record] * 400) == []
    events = watched([record, b"{", *[record] * 1500])
    assert [event["event"] for event in events] == ["text_spells_numbers", "weights_far_from_one"]
    assert events[0]["fields"] == ["visits"]
    assert events[1]["mean"] == pytest.approx(0.001)


def test_the_page_has_them_as_sentences() -> None:
    """Until a thousand records have come there are none."""
    watch = InputWatch(FLAT, None)
    assert not watch.findings
    watch.offer([FakeRecord(0, at, msgpack.packb({"clicked": 1, "visits": "281"}), 1) for at in range(1000)])
    watch.take()
    assert watch.findings == ("visits: every value is text that spells a number; input.numbers visits reads it as one",)


def test_good_records_are_not_told_of() -> None:
    """Nor messages of the product's own."""
    assert watched([{"clicked": 1, "visits": 281, "city": "Rome"}] * 1500) == []
    assert watched([{"label": 1, "features": {"visits": 281, "on": True}}] * 1500, None) == []


def test_large_records_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of a worker is bounded: what has come until then is all that is looked at."""
    monkeypatch.setattr(input_watch, "_MOST_BYTES", 100)
    assert [event["event"] for event in watched([{"clicked": 1, "visits": "281"}] * 20)] == ["text_spells_numbers"]
