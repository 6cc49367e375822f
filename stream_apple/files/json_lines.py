"""JSON lines: one object a line, with the keys of the stream's message."""

from stream_apple.core.codec.example import Example
from stream_apple.core.input.parsing import parsed_json
from stream_apple.files.field_mapping import example_of


def parse_line(line: str, timestamp_field: str | None = None, key_field: str | None = None) -> Example | None:
    """Return the example of one line, or None for a blank line; ParseError if it is no JSON object with an example."""
    if not line or line.isspace():
        return None
    return example_of(parsed_json(line), timestamp_field, key_field)
