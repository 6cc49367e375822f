"""The forms of a point in time."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_apple.records.spelling import ParseError
from stream_apple.records.times import looks_like_time, milliseconds


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1000),
        (1_700_000_000, 1_700_000_000_000),
        (1_700_000_000_123, 1_700_000_000_123),
        (1_700_000_000.123, 1_700_000_000_123),
        (1_700_000_000_123.4, 1_700_000_000_123),
        ("1700000000", 1_700_000_000_000),
        ("1700000000123", 1_700_000_000_123),
        ("1700000000.5", 1_700_000_000_500),
        ("1970-01-02", 86_400_000),
        ("2024-02-29T12:30:00Z", 1_709_209_800_000),
        ("2024-02-29T12:30:00", 1_709_209_800_000),
        ("2024-02-29 13:30:00.001+01:00", 1_709_209_800_001),
        ("1970-01-01T00:00:00.0005Z", 1),
        (1_700_000_000_123_499, 1_700_000_000_123),
        (1_700_000_000_123_500, 1_700_000_000_124),
        (1_700_000_000_123_456_789, 1_700_000_000_123),
        ("1700000000123456789", 1_700_000_000_123),
        (1.700000000123e15, 1_700_000_000_123),
        (date(2024, 2, 29), 1_709_164_800_000),
        (datetime(1970, 1, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), 60_000),
    ],
)
def test_a_time_in_any_form_becomes_milliseconds(value: object, expected: int) -> None:
    """The size of a number tells its unit; text without an offset is UTC."""
    assert milliseconds(value) == expected


@pytest.mark.parametrize(
    "text",
    [
        "2024-05-01T10:00:00Z",
        "2024-05-01 10:00:00 UTC",
        "2024-05-01 10:00:00.000000 GMT",
        "2024-05-01T10:00:00+0000",
        "2024-05-01 12:00:00+02",
        "2024-05-01 10:00:00.000000001 +0000 UTC",
        "2024-05-01 12:00:00 +0200 CEST",
        "2024-05-01T12:00+02:00[Europe/Rome]",
        "2024-05-01T10:00:00Z[UTC]",
        "2024/05/01 10:00:00",
        "2024/5/1 10:00",
        "2024-5-1 10:00:00",
        "20240501T100000",
        "Wed, 01 May 2024 10:00:00 GMT",
        "1 May 2024 12:00:00 +0200",
        "  2024-05-01 10:00 ",
    ],
)
def test_spellings_of_one_moment(text: str) -> None:
    """What BigQuery, Go, Java, Python, R, and mail write is read."""
    assert milliseconds(text) == 1_714_557_600_000
    assert milliseconds(text.replace("10:", "9:").replace("12:", "11:").replace("T100", "T090")) == 1_714_554_000_000


@pytest.mark.parametrize("text", ["05/01/2024", "1.5.2024", "05-01-2024 10:00"])
def test_a_date_that_does_not_begin_with_its_year_is_refused(text: str) -> None:
    """It is in May or in January."""
    with pytest.raises(ParseError, match="with the year first, as nobody can know which number is the month, found"):
        milliseconds(text)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("x", "2024-05-01 10:00:00.5 UTC", True),
        ("x", "2024-13-45", True),
        ("x", "05/01/2024", True),
        ("x", "Wed, 01 May 2024 10:00:00 GMT", True),
        ("x", "2024-05-0123", False),
        ("x", "soon", False),
        ("at_time", 1_700_000_000, True),
        ("at_time", 1_700_000_000_000_000_000, True),
        ("price", 1_700_000_000, False),
        ("at_time", 7, False),
        ("x", date(2024, 5, 1), True),
    ],
)
def test_what_looks_like_a_time(name: str, value: object, *, expected: bool) -> None:
    """A text that begins like a date does, whether or not it can be read."""
    assert looks_like_time(name, value) is expected


@given(st.integers(100_000_000_000, 99_999_999_999_999))
def test_every_form_of_one_moment_is_the_same_millisecond(moment: int) -> None:
    """No form loses or gains a millisecond."""
    text = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=moment)).isoformat()
    assert [milliseconds(form) for form in (moment, str(moment), moment / 1000, text)] == [moment] * 4


@pytest.mark.parametrize(
    "value",
    [
        -1,
        0,
        "1970-01-01",
        "-5",
        True,
        None,
        [],
        float("nan"),
        float("inf"),
        10**21,
        10**400,
        f"-{10**400}",
        "",
        "soon",
        "1_700",
        "2024-13-01",
    ],
)
def test_what_is_no_time_is_refused(value: object) -> None:
    """Neither a time before 1970, nor one after 9999, nor anything that is not a time."""
    with pytest.raises(ParseError, match="expected a time from 1970 to 9999"):
        milliseconds(value)
