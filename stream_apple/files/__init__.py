"""Files of examples: svmlight, Vowpal Wabbit text, JSON lines and msgpack; gzipped or not; known by content.

reading.py     a path -> examples; the only module that knows all formats
detection.py   which format it is, from the first line that is not a comment
source.py      plain, gzipped or standard input; numbered lines of bounded length
svmlight.py, vowpal_wabbit.py, json_lines.py, messages.py   one format each
record.py      the map that JSON lines and msgpack share -> an example
timestamps.py  the forms in which a field may hold a time
faults.py      what was expected and what was found, before it is known where
"""

from stream_apple.files.detection import Format
from stream_apple.files.faults import Fault
from stream_apple.files.reading import detect, read_examples
from stream_apple.files.timestamps import milliseconds

__all__ = ["Fault", "Format", "detect", "milliseconds", "read_examples"]
