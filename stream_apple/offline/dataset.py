"""Whole files of examples as one batch, decoded from the same messages that `produce` would send."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from stream_apple.core.batch import Batch, Limits, joined
from stream_apple.errors import InputFileError
from stream_apple.files import BY_NAME, NO_TIMES, EventTimes, FileShape
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.example import Example, encode_example
from stream_apple.records.message.reasons import Reason
from stream_apple.records.message.rejects import explain

CHUNK = 10_000  # examples encoded and decoded at once
CHUNK_BYTES = 16 << 20  # of their messages, after which a chunk of fewer ends: examples may be wide


def read_batch(
    paths: Sequence[Path],
    limits: Limits,
    shape: FileShape = BY_NAME,
    columns: frozenset[str] = frozenset(),
    times: EventTimes = NO_TIMES,
    watched: Callable[[Iterator[Example]], Iterator[Example]] = iter,
) -> Batch:
    """Read all examples of the files, in order; InputFileError names the first that a worker would refuse.

    shape    which field of the records is what
    columns  fields of `Batch` to fill besides those always filled
    times    the timestamps that `produce` would give
    watched  looks at the examples as they pass
    """
    decoder, parts = Decoder(limits, columns), list[Batch]()
    for path in paths:
        before = sum(len(part.labels) for part in parts)
        parts += _decoded(watched(times.examples(path, before, shape)), path, decoder, limits, shape)
    if not parts:
        raise InputFileError(f"expected at least one example, found none in {', '.join(map(str, paths)) or 'no file'}")
    return joined(parts)


def _decoded(
    examples: Iterator[Example], path: Path, decoder: Decoder, limits: Limits, shape: FileShape
) -> Iterator[Batch]:
    """Decode the examples of the file `path`, in chunks that stay valid when the next one comes."""
    first = 1
    while messages := _messages(examples):
        decoded = decoder.decode(messages)
        for record in np.flatnonzero(decoded.reasons):
            reason, place = Reason(int(decoded.reasons[record])), int(decoded.places[record])
            fault = explain(reason, place, messages[record], limits, names=shape.mapping.names)
            hint = _hint_at_labels(limits) if reason is Reason.BAD_LABEL else ""
            raise InputFileError(f"{path}, example {first + int(record)}: {fault}{hint}")
        first += len(messages)
        yield joined([decoded.batch])  # in memory of its own: the decoder uses its own again


def _hint_at_labels(limits: Limits) -> str:
    """Return what to do about labels that are counted from 1, as Vowpal Wabbit's classes are."""
    if limits.binary:
        return (
            " (--label-map 1=0,2=1 numbers labels of 1 and 2; --loss softmax --classes N+1 learns classes from 1 to N)"
        )
    if limits.classes:
        return f" (classes from 1 to {limits.classes} need --classes {limits.classes + 1}, or --label-map)"
    return ""


def _messages(examples: Iterator[Example]) -> list[bytes]:
    """Encode the next examples: at most CHUNK, and about CHUNK_BYTES."""
    messages: list[bytes] = []
    size = 0
    while len(messages) < CHUNK and size < CHUNK_BYTES and (example := next(examples, None)) is not None:
        messages.append(encode_example(example))
        size += len(messages[-1])
    return messages
