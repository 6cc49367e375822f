"""Dead letters of records that can't be used: how they are written, and how they are read back.

The form of a dead letter is that of Kafka Streams (KIP-1034): key, value, timestamp and headers as they came, and
further headers that give the reason and the origin. A dead letter that would be too large has only the further headers:
the record itself is still in the examples topic.

Anyone may send a record with headers of these names, by ill will or because it was a dead letter before. The record's
own are renamed, so that each name occurs once: a reader finds ours whether it takes the first header of a name, as
loops do, or the last, as dictionaries and Java's `lastHeader` do. The new names are shorter, so renaming makes no
message too large.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from stream_apple.records.message.message_size import largest_dead_letter, message_bytes
from stream_apple.records.message.reasons import Reason
from stream_apple.stream.log.contents import headers_of
from stream_apple.stream.log.ports import Header, Record
from stream_apple.stream.positions.lineage import Origin, is_fingerprint

PREFIX = "__stream_apple.errors."
"""The names of the headers that are added to a dead letter begin with this."""

RESERVED = "__stream_apple."
"""A record's own headers whose names begin with this are renamed."""
RENAMED = "__from_record."
"""The names of renamed headers begin with this in place of RESERVED."""

_ADDED = tuple(PREFIX + name for name in ("reason", "message", "topic", "partition", "offset", "model"))
_REASON, _MESSAGE, _TOPIC, _PARTITION, _OFFSET, _MODEL = _ADDED
_OMITTED = PREFIX + "omitted"
_MESSAGE_BYTES = 4_096  # a message may quote a name of any length
_REASONS: dict[Reason, Header] = {reason: (_REASON, reason.code.encode()) for reason in Reason}
_DECIMAL = re.compile(rb"0|[1-9][0-9]{0,18}")


class Reject(NamedTuple):
    """Holds one record that can't be used, and why."""

    record: Record
    reason: Reason
    message: str


class DeadLetterMessage(NamedTuple):
    """Holds the message that reports a reject; its time is that of the record."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: list[Header]


def header_list(record: Record) -> list[Header]:
    """Return the record's headers in their order, whatever form its client gives them in; none if it can't."""
    return headers_of(record) or []


def dead_letter(reject: Reject, topic: str, model: str, max_record_bytes: int) -> DeadLetterMessage:
    """Return the record as it came, with reason and origin; or only these, if that exceeds what the limits allow."""
    record = reject.record
    key, value, time_ms, own = record.key(), record.value(), record.timestamp()[1], headers_of(record)
    reason = _reason_headers(reject, topic, model, readable=own is not None)
    headers = [*_renamed(own or []), *reason]
    if message_bytes(key, value, headers) <= largest_dead_letter(max_record_bytes):
        return DeadLetterMessage(key, value, time_ms, headers)
    omitted = (_OMITTED, b"%d" % message_bytes(key, value, own or []))
    return DeadLetterMessage(None, None, time_ms, [*reason, omitted])


def _reason_headers(reject: Reject, topic: str, model: str, *, readable: bool) -> list[Header]:
    record, message = reject.record, reject.message.encode()
    if len(message) > _MESSAGE_BYTES:
        message = message[: _MESSAGE_BYTES - 3].decode(errors="ignore").encode() + b"..."
    if not readable:
        message += b"; its headers are left out: expected names in UTF-8, found others"
    return [
        _REASONS[reject.reason],
        (_MESSAGE, message),
        (_TOPIC, topic.encode()),
        (_PARTITION, b"%d" % record.partition()),
        (_OFFSET, b"%d" % record.offset()),
        (_MODEL, model.encode()),
    ]


def without_message(headers: list[Header]) -> list[Header]:
    """Return the headers of a dead letter without the sentence for people, which each version words in its own way."""
    return [(name, value) for name, value in headers if name != _MESSAGE]


def _renamed(headers: Iterable[Header]) -> list[Header]:
    return [
        (RENAMED + name.removeprefix(RESERVED) if name.startswith(RESERVED) else name, value) for name, value in headers
    ]


class DeadLetterOrigin(NamedTuple):
    """Holds what the headers of a dead letter say: its reason, where its record is, and which model refused it."""

    reason: str
    message: str
    topic: str
    partition: int
    offset: int
    model: str


def dead_letter_origin(record: Record) -> DeadLetterOrigin | None:
    """Return what the added headers of a dead letter say; None if one of them is missing or malformed."""
    told = {name: value for name, value in header_list(record) if name in _ADDED}
    try:
        reason, message, topic, model = (_text(told[name]) for name in (_REASON, _MESSAGE, _TOPIC, _MODEL))
        partition, offset = (_number(told[name]) for name in (_PARTITION, _OFFSET))
    except (KeyError, ValueError):
        return None
    if not (reason and topic and is_fingerprint(model)):
        return None
    return DeadLetterOrigin(reason, message, topic, partition, offset, model)


def origin_of_dead_letter(record: Record) -> Origin | None:
    """Return the origin of a dead letter, from its headers; None if it is none."""
    told = dead_letter_origin(record)
    return None if told is None else Origin(told.model, told.topic, told.partition, told.offset)


def _text(value: str | bytes | None) -> str:
    if value is None:
        raise ValueError("a header without a value")
    return value.decode() if isinstance(value, bytes) else value


def _number(value: str | bytes | None) -> int:
    text = _text(value).encode()
    if not _DECIMAL.fullmatch(text):
        raise ValueError("a header that is no number")
    return int(text)
