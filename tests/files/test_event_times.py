"""The timestamp of each example of a run over files."""

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.file_formats import shape_of

from stream_apple.errors import InputFileError
from stream_apple.files import EvenlySpaced, EventTimes, TimeSpan
from stream_apple.records.message.example import Example


@given(st.integers(0, 2**41), st.fractions(0, 10**6, max_denominator=10**6), st.integers(0, 10**9))
def test_even_spacing_is_exact(start: int, interval: Fraction, number: int) -> None:
    """No error adds up: each timestamp is the floor of the exact one."""
    exact = start + number * interval
    assert EvenlySpaced(start, interval).at(number) <= exact < EvenlySpaced(start, interval).at(number) + 1


@given(st.integers(10**12, 2**41), st.fractions(0, 10**6, max_denominator=10**6), st.integers(1, 10**6))
def test_the_last_may_be_given(end: int, interval: Fraction, count: int) -> None:
    """Then it has that time to the millisecond, and the others lie before it, as far apart."""
    spaced = EvenlySpaced(0, interval).ending_at(end, count)
    assert spaced.at(count - 1) == end
    assert spaced.span(count) == TimeSpan(count, spaced.start_ms, end)
    assert end - spaced.start_ms <= interval * (count - 1)


def test_a_span_has_the_lowest_and_the_highest_time() -> None:
    """In whatever order they come; without times or examples it has none."""
    times = [7, 3, None, 9, 4]
    assert TimeSpan.of(Example(None, 1.0, None, {}, time) for time in times) == TimeSpan(5, 3, 9)
    assert TimeSpan.of([Example(None, 1.0, None, {}, None)]) == TimeSpan(1, None, None)
    assert TimeSpan.of([]) == EvenlySpaced(5, Fraction(1)).span(0) == TimeSpan(0, None, None)


def test_examples_are_counted_on_over_files(tmp_path: Path) -> None:
    """The first of a file has the number that it is told; a third of a second is rounded down."""
    path = tmp_path / "rows"
    path.write_text("1 1:1\n1 2:1\n1 3:1\n")
    times = EventTimes(EvenlySpaced(5000, Fraction(1000, 3)))
    assert [example.timestamp_ms for example in times.examples(path)] == [5000, 5333, 5666]
    assert [example.timestamp_ms for example in times.examples(path, 3)] == [6000, 6333, 6666]


def test_a_field_decides_where_there_is_one(tmp_path: Path) -> None:
    """Not the even spacing; and a format without keys has no field."""
    path, shape = tmp_path / "rows", shape_of(timestamp="at")
    times = EventTimes(EvenlySpaced(5000, Fraction(1)))
    path.write_text('{"features": {"a": 1}, "at": 9}\n{"features": {"a": 1}, "at": "1970-01-01T00:00:08Z"}\n')
    assert [example.timestamp_ms for example in times.examples(path, 7, shape)] == [9000, 8000]
    path.write_text("1 1:1\n")
    with pytest.raises(InputFileError, match="which can hold the timestamp field 'at', found svmlight"):
        list(times.examples(path, 0, shape))
