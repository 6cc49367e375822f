"""Records that can't be used: what is written about them, and when there are too many to go on.

The form of a dead letter is that of Kafka Streams (KIP-1034): key, value, timestamp and headers as they came, and
headers that say why and where from. One that would be too large has the headers alone: the record itself is still in
the examples topic.

Anyone may send a record with headers of these names, by ill will or because it was a dead letter before. They are
renamed, so that each name stands there once: whether a reader takes the first of a name, as loops do, or the last, as
dictionaries and Java's `lastHeader` do, it takes ours. The new names are shorter: renaming makes no message too large.
"""

import re
from collections.abc import Iterable, Mapping
from operator import methodcaller
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.codec.message_size import largest_dead_letter, message_bytes
from stream_apple.core.codec.rejects import Reason
from stream_apple.stream.log.ports import Header, Record
from stream_apple.stream.positions.lineage import is_fingerprint

WINDOW = 10_000
"""The share of rejects is that of so many records, the newest ones."""
WINDOW_START = 1_000
"""Before so many records there is no share: a topic may begin with a few bad ones."""

PREFIX = "__stream_apple.errors."
"""Of the headers that are added to a dead letter."""

RESERVED = "__stream_apple."
"""What the names of our headers begin with; a record's own that begin so are renamed."""
RENAMED = "__from_record."
"""What the names of those begin with then."""

_ADDED = tuple(PREFIX + name for name in ("reason", "message", "topic", "partition", "offset", "model"))
_REASON, _MESSAGE, _TOPIC, _PARTITION, _OFFSET, _MODEL = _ADDED
_OMITTED = PREFIX + "omitted"
_MESSAGE_BYTES = 4_096  # a message may quote a name of any length
_REASONS: dict[Reason, Header] = {reason: (_REASON, reason.code.encode()) for reason in Reason}
_HEADERS_OF = methodcaller("headers")
_DECIMAL = re.compile(rb"0|[1-9][0-9]{0,18}")


class Reject(NamedTuple):
    """Holds one record that can't be used, and why."""

    record: Record
    reason: Reason
    message: str


class DeadLetterMessage(NamedTuple):
    """Holds the message that reports a reject."""

    key: bytes | None
    value: bytes | None
    headers: list[Header]


def header_list(record: Record) -> list[Header]:
    """The record's headers in their order, in whichever form its client gives them; none if it can't give them."""
    return _own_headers(record) or []


def dead_letter(reject: Reject, topic: str, model: str, max_record_bytes: int) -> DeadLetterMessage:
    """The record as it came, with reason and origin; or these alone, if that is larger than the limits allow."""
    key, value, own = reject.record.key(), reject.record.value(), _own_headers(reject.record)
    reason = _reason_headers(reject, topic, model, readable=own is not None)
    headers = [*_renamed(own or []), *reason]
    if message_bytes(key, value, headers) <= largest_dead_letter(max_record_bytes):
        return DeadLetterMessage(key, value, headers)
    omitted = (_OMITTED, b"%d" % message_bytes(key, value, own or []))
    return DeadLetterMessage(None, None, [*reason, omitted])


def _own_headers(record: Record) -> list[Header] | None:
    """The record's headers; None if a name is not UTF-8. To be asked once: a second answer may end the process."""
    # confluent-kafka gives a list with holes in it then, beside an error, and without one when it is asked again. Not
    # by a call in Python: the interpreter, once it has optimised that, looks for no error, and dies of the holes.
    try:
        headers = _HEADERS_OF(record) or []
    except (SystemError, UnicodeDecodeError):
        return None
    return list(headers.items()) if isinstance(headers, Mapping) else list(headers)


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


def present_form(headers: list[Header]) -> list[Header]:
    """The headers of a dead letter as they are written now; before, the record's own kept their names."""
    if headers and headers[-1][0] == _OMITTED:
        return headers  # there are none of the record's own
    return [*_renamed(headers[: -len(_ADDED)]), *headers[-len(_ADDED) :]]


def _renamed(headers: Iterable[Header]) -> list[Header]:
    return [
        (RENAMED + name.removeprefix(RESERVED) if name.startswith(RESERVED) else name, value) for name, value in headers
    ]


class DeadLetterOrigin(NamedTuple):
    """What the headers of a dead letter say: why it is one, where its record is, and which model refused it."""

    reason: str
    message: str
    topic: str
    partition: int
    offset: int
    model: str


def dead_letter_origin(record: Record) -> DeadLetterOrigin | None:
    """What we have added to a dead letter; None if that is not all there, and well-formed.

    Of a name that is there more than once the last is ours: so it was before records' own headers were renamed.
    """
    told = {name: value for name, value in header_list(record) if name in _ADDED}
    try:
        reason, message, topic, model = (_text(told[name]) for name in (_REASON, _MESSAGE, _TOPIC, _MODEL))
        partition, offset = (_number(told[name]) for name in (_PARTITION, _OFFSET))
    except (KeyError, ValueError):
        return None
    if not (reason and topic and is_fingerprint(model)):
        return None
    return DeadLetterOrigin(reason, message, topic, partition, offset, model)


def _text(value: str | bytes | None) -> str:
    if value is None:
        raise ValueError("a header without a value")
    return value.decode() if isinstance(value, bytes) else value


def _number(value: str | bytes | None) -> int:
    text = _text(value).encode()
    if not _DECIMAL.fullmatch(text):
        raise ValueError("a header that is no number")
    return int(text)


class RejectLimits(NamedTuple):
    """More than `max_consecutive` in a row, or more than `max_share` of the window, is too many."""

    max_consecutive: int
    max_share: float


class RejectCounter:
    """Counts the rejects of one partition; what it decides depends on the sequence of records alone.

    recent  bool[<= WINDOW], the newest records in order, True = rejected
    run     how many rejects the sequence ends with

    Both are state of the model: what a restored one decides must not differ.
    """

    def __init__(self, limits: RejectLimits) -> None:
        self.limits = limits
        self.recent: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.run = 0

    def observe(self, rejected: NDArray[np.bool_], judged_from: int = 0) -> tuple[int, str] | None:
        """Take in the next records; (index, explanation) of the first that makes it too many, else None.

        Records before index `judged_from` are counted and not judged: they were accepted in an earlier life.
        """
        history = np.concatenate((self.recent, rejected))
        if len(rejected) and not history.any():
            # What it nearly always is: the share is 0, and there is no run.
            self.recent, self.run = history[-WINDOW:], 0
            return None
        rows = np.arange(len(rejected))
        before = np.concatenate(([0], np.cumsum(history)))
        stops = len(self.recent) + rows + 1
        # Every window ends at its record and reaches back to the first record known, if it is not full yet.
        sizes = np.minimum(stops, WINDOW)
        shares = (before[stops] - before[stops - sizes]) / sizes
        last_good = np.maximum.accumulate(np.where(rejected, -1, rows))
        runs = np.where(last_good >= 0, rows - last_good, self.run + rows + 1)

        too_long = runs > self.limits.max_consecutive
        too_many = (sizes >= WINDOW_START) & (shares > self.limits.max_share)
        self.recent = history[-WINDOW:]
        self.run = int(runs[-1]) if len(runs) else self.run
        found = np.flatnonzero((too_long | too_many)[judged_from:])
        if not len(found):
            return None
        row = judged_from + int(found[0])
        if too_long[row]:
            allowed = f"{self.limits.max_consecutive} unusable records in a row (limits.max_consecutive_rejects)"
            return row, f"expected at most {allowed}, found {runs[row]}"
        count = int(before[stops[row]] - before[stops[row] - sizes[row]])
        return row, (
            f"expected at most {self.limits.max_share:.0%} unusable records (limits.max_reject_share), "
            f"found {count} of the last {sizes[row]}"
        )
