"""Files of examples: svmlight, Vowpal Wabbit text, JSON lines, msgpack, CSV, Parquet; gzipped or not; known by content.

reading.py        a path -> examples; the only module that knows all formats
detection.py      which format it is, from the first line that is not a comment
input_stream.py   a file, gzipped or not, or standard input; numbered lines of bounded length
svmlight.py, vowpal_wabbit.py, msgpack.py   one format each
csv_text.py, parquet.py   tables, an example a row
table.py          a row of a table -> an example
field_mapping.py  the map that JSON lines and msgpack share, or a line of JSON -> an example
event_times.py    the timestamp of each example of a run: its own, or an evenly spaced one
"""

from stream_apple.core.input.spelling import ParseError
from stream_apple.core.input.timestamps import milliseconds
from stream_apple.files.event_times import NO_TIMES, EvenlySpaced, EventTimes, TimeLike, TimeSpan
from stream_apple.files.reading import read_examples
from stream_apple.files.table import BY_NAME, MOST_MET, ROLES, ColumnRoles

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
