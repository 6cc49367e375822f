"""Files of examples: svmlight, Vowpal Wabbit text, JSON lines, msgpack, CSV and Parquet, each known by its content."""

from stream_apple.files.event_times import NO_TIMES, EvenlySpaced, EventTimes, TimeLike, TimeSpan
from stream_apple.files.reading import read_examples
from stream_apple.files.table import BY_NAME, MOST_MET, ROLES, ColumnRoles
from stream_apple.records.spelling import ParseError
from stream_apple.records.times import milliseconds

__all__ = [
    "BY_NAME",
    "MOST_MET",
    "NO_TIMES",
    "ROLES",
    "ColumnRoles",
    "EvenlySpaced",
    "EventTimes",
    "ParseError",
    "TimeLike",
    "TimeSpan",
    "milliseconds",
    "read_examples",
]
