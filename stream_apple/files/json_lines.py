"""JSON lines: one object a line, with the keys of the stream's message."""

import json
from typing import NoReturn

from stream_apple.core.codec.example import Example
from stream_apple.core.input.spelling import ParseError
from stream_apple.files.errors import check_parts
from stream_apple.files.field_mapping import example_of, unique


def _refuse_constant(name: str) -> NoReturn:
    raise ParseError("finite numbers", name)


_DECODER = json.JSONDecoder(object_pairs_hook=unique, parse_constant=_refuse_constant)


def parse_line(line: str, timestamp_field: str | None = None, key_field: str | None = None) -> Example | None:
    """Return the example of one line, or None for a blank line; ParseError if it is no JSON object with an example."""
    if not line or line.isspace():
        return None
    check_parts(line, "values", ",[{")
    try:
        record = _DECODER.decode(line)
    except json.JSONDecodeError as error:
        raise ParseError("a JSON object", f"{error.msg} at column {error.colno}") from None
    except RecursionError:
        raise ParseError("a JSON object", "one nested too deeply") from None
    except ValueError:
        raise ParseError("finite numbers", "an integer of thousands of digits") from None
    if "\\u" in line:
        _refuse_lone_surrogates(record)
    return example_of(record, timestamp_field, key_field)


def _refuse_lone_surrogates(record: object) -> None:
    # JSON can spell half a character, which no UTF-8 message can hold.
    try:
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ParseError("text that UTF-8 can hold", f"the lone surrogate {error.object[error.start]!a}") from None
