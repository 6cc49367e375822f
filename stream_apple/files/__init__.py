"""Files of examples: svmlight, Vowpal Wabbit text, JSON lines, msgpack, CSV and Parquet, each known by its content."""

from stream_apple.files.event_times import NO_TIMES, EvenlySpaced, EventTimes, TimeSpan
from stream_apple.files.reading import read_examples
from stream_apple.files.shape import BY_NAME, FileNotes, FileShape
from stream_apple.records.spelling import ParseError
from stream_apple.records.times import milliseconds

__all__ = [
    "BY_NAME",
    "NO_TIMES",
    "EvenlySpaced",
    "EventTimes",
    "FileNotes",
    "FileShape",
    "ParseError",
    "TimeSpan",
    "milliseconds",
    "read_examples",
]
