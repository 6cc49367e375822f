"""Whole files of examples as one batch, decoded from the same messages that `produce` would send."""

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

import numpy as np

from stream_apple.core.batch import Batch, Limits, joined
from stream_apple.errors import InputFileError
from stream_apple.files import BY_NAME, NO_TIMES, ColumnRoles, EventTimes
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.example import Example, encode_example, key_of
from stream_apple.records.message.reasons import Reason
from stream_apple.records.message.rejects import explain

CHUNK = 10_000  # examples encoded and decoded at once
CHUNK_BYTES = 16 << 20  # of their messages, after which a chunk of fewer ends: examples may be wide


def read_batch(
    paths: Sequence[Path],
    limits: Limits,
    roles: ColumnRoles = BY_NAME,
    columns: frozenset[str] = frozenset(),
    key_field: str | None = None,
    times: EventTimes = NO_TIMES,
    watched: Callable[[Iterator[Example]], Iterator[Example]] = iter,
) -> Batch:
    """Read all examples of the files, in order; InputFileError names the first that a worker would refuse.

    roles      what the columns are for, in files that have columns
    columns    fields of `Batch` to fill besides those always filled
    key_field  which field holds the keys of the records, if one does
    times      the timestamps that `produce` would give
    watched    looks at the examples as they pass
    """
    decoder, numbers, parts = Decoder(limits, columns), count(), list[Batch]()
    for path in paths:
        before = sum(len(part.labels) for part in parts)
        examples = watched(times.examples(path, before, roles, key_field))
        parts += _decoded(examples, path, decoder, limits, numbers, roles)
    if not parts:
        raise InputFileError(f"expected at least one example, found none in {', '.join(map(str, paths)) or 'no file'}")
    return joined(parts)


def _decoded(
    examples: Iterator[Example],
    path: Path,
    decoder: Decoder,
    limits: Limits,
    numbers: Iterator[int],
    roles: ColumnRoles,
) -> Iterator[Batch]:
    """Decode the examples of the file `path`, in chunks that stay valid when the next one comes.

    numbers  gives each example's running number, over all files
    """
    first = 1
    while chunk := _messages(examples, numbers):
        messages = [message for message, _ in chunk]
        decoded = decoder.decode(messages)
        for record in np.flatnonzero(decoded.reasons):
            reason, place = Reason(int(decoded.reasons[record])), int(decoded.places[record])
            fault = explain(reason, place, messages[record], limits, names=roles.names)
            raise InputFileError(f"{path}, example {first + int(record)}: {fault}")
        first += len(chunk)
        yield joined([decoded.batch])  # in memory of its own: the decoder uses its own again


def _messages(examples: Iterator[Example], numbers: Iterator[int]) -> list[tuple[bytes, bytes]]:
    """Encode the next examples, with their keys: at most CHUNK, and about CHUNK_BYTES."""
    chunk: list[tuple[bytes, bytes]] = []
    size = 0
    while len(chunk) < CHUNK and size < CHUNK_BYTES and (example := next(examples, None)) is not None:
        chunk.append((encode_example(example), key_of(example, next(numbers))))
        size += len(chunk[-1][0])
    return chunk
