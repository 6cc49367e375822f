"""JSON lines: one object a line, with the keys of the stream's message."""

from stream_apple.core.codec.example import Example
from stream_apple.core.input.parsing import parsed_json
from stream_apple.files.field_mapping import ExampleReader, example_of


def parse_line(line: str, read: ExampleReader = example_of) -> Example | None:
    """Return the example of one line, or None for a blank line; ParseError if it is no JSON object with an example."""
    return read(parsed_json(line)) if line and not line.isspace() else None
