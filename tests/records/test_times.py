"""The forms of a point in time."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_apple.files import ParseError, milliseconds


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
        (datetime(1970, 1, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), 60_000),
    ],
)
def test_a_time_in_any_form_becomes_milliseconds(value: object, expected: int) -> None:
    """Seconds and milliseconds are told apart by size; text without an offset is UTC."""
    assert milliseconds(value) == expected


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
        1_700_000_000_123_456,
        10**400,
        f"-{10**400}",
        "",
        "soon",
        "1_700",
        "2024-13-01",
    ],
)
def test_what_is_no_time_is_refused(value: object) -> None:
    """Neither a time before 1970, nor microseconds, nor anything that is not a time."""
    with pytest.raises(ParseError, match="expected a time from 1970 to 9999 in milliseconds or seconds"):
        milliseconds(value)
