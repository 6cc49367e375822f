"""Bounds on the messages that leave a worker, and whether the answer to a record keeps to its bound.

A message that its topic does not accept would end the worker at every start. So each message has a bound, which follows
from the limits of records, and which the topics' settings allow (`adapters/kafka/topics.py`). Sizes are those before
compression, whose effect can't be known. What they decide depends on the record and the limits alone, so a replay
decides the same.
"""

from collections.abc import Iterable

USUAL_RECORD_BYTES = 1_000_000
"""The default of `limits.max_record_bytes`. A lower limit does not lower the bounds, which are at least Kafka's default
for a message."""
DEAD_LETTER_HEADER_BYTES = 65_536
"""How much longer a dead letter may be than a prediction."""

_KEY_BYTES = 48_588  # a record of the usual limit, and a key of so many bytes, are what Kafka takes by default
_BATCH_BYTES = 128  # around a message: 61 of its batch, and its lengths, time and offset
_HEADER_BYTES = 10  # the two lengths of a header


def largest_prediction(max_record_bytes: int) -> int:
    """Return the most bytes of a prediction, in a batch of its own; 1,048,588 by default, as Kafka has it."""
    return max(max_record_bytes, USUAL_RECORD_BYTES) + _KEY_BYTES


def largest_dead_letter(max_record_bytes: int) -> int:
    """Return the most bytes of a dead letter, in a batch of its own."""
    return largest_prediction(max_record_bytes) + DEAD_LETTER_HEADER_BYTES


def message_bytes(
    key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, str | bytes | None]] = ()
) -> int:
    """Return a bound on the bytes of the message in a batch of its own."""
    texts = (text for header in headers for text in header)
    sizes = [len(text.encode() if isinstance(text, str) else text or b"") for text in texts]
    return _BATCH_BYTES + len(key or b"") + len(value or b"") + sum(sizes) + len(sizes) // 2 * _HEADER_BYTES
