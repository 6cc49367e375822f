"""Spans of time as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_apple.config.duration import DAY, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("250ms", 250),
        ("30s", 30_000),
        ("5m", 300_000),
        ("1h", 3_600_000),
        ("7d", 604_800_000),
        ("1h30m", 5_400_000),
        ("1d2h3m4s5ms", 93_784_005),
        ("90m", 5_400_000),
        ("0s", 0),
    ],
)
def test_durations_are_read(text: str, milliseconds: int) -> None:
    """Each unit, and units together, count as written."""
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize("text", ["", "5", "ms", "1.5h", "-1s", "1 h", "30m1h", "1h1h", "5M", "1w", "\u0665s", "1h\n"])
def test_other_texts_are_refused(text: str) -> None:
    """No unit, fractions, signs, spaces, wrong order and unknown units are errors."""
    with pytest.raises(ValueError, match="expected a duration"):
        parse_duration(text)


@given(st.integers(min_value=0, max_value=10_000 * DAY))
def test_durations_are_written_as_they_are_read(milliseconds: int) -> None:
    """The text of a duration is read back as the same duration."""
    assert parse_duration(format_duration(milliseconds)) == milliseconds
