"""What readers need of records in addition to columns: their headers, and their values behind the frame of a header.

Confluent's serializers can put the GUID of a value's schema into a header. `contents_of` puts it in front of the value,
as `records/framing.py` describes.
"""

from collections.abc import Mapping, Sequence
from operator import methodcaller
from typing import Any

from stream_apple.records.framing import with_frame
from stream_apple.stream.log.columns import values_of
from stream_apple.stream.log.ports import Header, Record

_HEADERS_OF = methodcaller("headers")
_UNREADABLE: list[Header] = []
"""The headers that a record is given if its own can't be read."""


def headers_of(record: Record) -> list[Header] | None:
    """Return the record's headers in their order; None if a name is not UTF-8."""
    # If a name is not UTF-8, confluent-kafka returns a list with null pointers and sets an error, which it no longer
    # sets when asked again. `methodcaller` notices the error; a call in Python, once the interpreter has optimised it,
    # does not, and the process crashes at the null pointers. So the list is replaced.
    try:
        headers = _HEADERS_OF(record)
    except (SystemError, UnicodeDecodeError):
        message: Any = record
        message.set_headers(_UNREADABLE)
        return None
    if not headers:
        return None if headers is _UNREADABLE else []
    return list(headers.items()) if isinstance(headers, Mapping) else list(headers)


def content_of(record: Record, *, framed: bool) -> bytes | None:
    """Return the value of a record as decoders read it; `framed`: there is a registry, so a header may hold a frame."""
    headers = headers_of(record) if framed else None
    return with_frame(record.value(), headers) if headers else record.value()


def contents_of(records: Sequence[Record], *, framed: bool) -> list[bytes | None]:
    """Return what `content_of` does, of n records."""
    return [content_of(record, framed=True) for record in records] if framed else values_of(records)
