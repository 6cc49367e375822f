"""Spans of time as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_apple.config.duration import DAY, HOUR, MINUTE, SECOND, format_duration, longer_epoch, parse_duration


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


@pytest.mark.parametrize(
    ("length", "examples", "epochs", "longer"),
    [
        (MINUTE, 39_799, 199, None),  # too few epochs to tell
        (MINUTE, 40_000, 200, None),  # 200 examples each are enough
        (MINUTE, 39_999, 200, 15 * MINUTE),  # five minutes would have a few less than a thousand
        (MINUTE, 20_000, 300, 15 * MINUTE),  # these have a thousand
        (2 * HOUR, 39_999, 200, 12 * HOUR),
        (SECOND, 0, 200, 7 * DAY),
        (HOUR, 1, 10_000, 90 * DAY),  # the longest, though it has fewer
        (90 * DAY, 1, 200, None),
    ],
)
def test_a_longer_epoch(length: int, examples: int, epochs: int, longer: int | None) -> None:
    """The next round length with a thousand examples, where there are fewer than two hundred."""
    assert longer_epoch(length, examples, epochs) == longer
