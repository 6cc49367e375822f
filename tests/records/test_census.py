"""What people are told of the fields of some records."""

from typing import Any

import pytest

from stream_apple.records.census import FieldCensus, table_of
from stream_apple.records.mapper import RecordMapper
from stream_apple.records.mapping import InputMapping


def census(records: list[dict[str, Any]], **mapping: Any) -> FieldCensus:
    """Of records that are read by this mapping."""
    found = FieldCensus(RecordMapper(InputMapping(**{"features": "*", **mapping})))
    for record in records:
        found.add(record)
    return found


def test_each_field_has_a_line() -> None:
    """What it becomes, how often it is missing, an example, and what it may be meant to be."""
    record = {
        "label": 1, "weight": 0.5, "id": "k", "at": "2024-05-01T10:00:00Z", "born": "1990-05-01", "n": 3, "t": "x",
        "b": True, "visits": "281", "seen": "2024-05-01 10:00:00 UTC", "code": 7, "spelled": "8", "tags": ["a"],
        "u": {"city": "Rome", "debug": 1}, "empty": None, "raw": b"x",
    }  # fmt: skip
    records = [record, {**record, "n": None, "t": float("nan"), "b": ""}]
    mapping = {
        "timestamp": "at",
        "times": ("born",),
        "categories": ("code",),
        "numbers": ("spelled",),
        "ignore": ("u.debug",),
    }
    found = {each.path: each for each in census(records, **mapping).facts()}
    assert {path: each.becomes for path, each in found.items()} == {
        "label": "label", "weight": "weight", "id": "id", "at": "timestamp", "born": "hour, weekday, month",
        "n": "number", "t": "category", "b": "category", "visits": "category", "seen": "category", "code": "category",
        "spelled": "number", "tags": "list", "u.city": "category", "u.debug": "nothing", "empty": "nothing so far",
        "raw": "unreadable",
    }  # fmt: skip
    assert {path for path, each in found.items() if each.missing == 0.5} == {"n", "t", "b"}
    assert found["u.city"].example == '"Rome"'
    assert {path: each.warning for path, each in found.items() if each.warning} == {
        "visits": "every value is text that spells a number; input.numbers visits reads it as one",
        "seen": "looks like a time: input.times seen makes hour, weekday, and month of it",
    }


@pytest.mark.parametrize(
    ("value", "name", "expected"),
    [
        ("2024-05-01", "when", {"when": False}),
        ("2024-05-01 10:00", "when", {"when": True}),
        ("2024-99-99", "code", {"code": False}),
        (1_709_209_800, "event_time", {"event_time": True}),
        (1_709_209_800_123, "ts", {"ts": True}),
        (1_709_209_800, "amount", {}),
        (1_709_209_800, "lifetime", {}),
        (12.5, "time", {}),
    ],
)
def test_what_looks_like_a_time(value: object, name: str, expected: dict[str, bool]) -> None:
    """A text that begins with a date, whether or not it can be read; a number if its name says so."""
    assert census([{name: value}] * 3).like_times() == expected
    assert census([{name: value}] * 3, ignore=(name,)).like_times() == {}
    assert census([{name: value}, {name: "never"}]).like_times() == {}


def test_the_table() -> None:
    """For people."""
    lines = table_of(list(census([{"label": 1, "visits": "281"}]).facts()))
    assert lines[0].split() == ["field", "becomes", "missing", "example"]
    assert lines[1].split() == ["label", "label", "0%", "1"]
    assert lines[2].startswith('visits  category  0%       "281"    every value is text')
