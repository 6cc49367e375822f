"""Whole files of examples as one batch, decoded from the very messages that `produce` would send."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch
from stream_apple.core.decode import Decoder, Limits
from stream_apple.core.examples import Example, encode_example
from stream_apple.core.rejects import Reason, explain
from stream_apple.errors import InputFileError
from stream_apple.files import read_examples

CHUNK = 10_000  # examples encoded and decoded at once


def read_batch(paths: Iterable[Path], limits: Limits) -> Batch:
    """All examples of the files, in order. InputFileError names the first that the stream would not take.

    One difference: an example without features is taken (only the constant learns from it), because rows of real
    data sets have none; the stream calls it a producer's mistake.
    """
    decoder = Decoder(limits)
    parts: list[Batch] = []
    for path in paths:
        parts.extend(_decoded(path, decoder, limits))
    if not parts:
        raise InputFileError(f"expected at least one example, found none in {', '.join(map(str, paths)) or 'no file'}")
    lengths = [np.diff(part.indptr) for part in parts]
    return Batch(
        np.concatenate([[0], *lengths]).cumsum(dtype=np.int64),
        np.concatenate([part.keys for part in parts]),
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.weights for part in parts]),
    )


def _decoded(path: Path, decoder: Decoder, limits: Limits) -> Iterator[Batch]:
    """The file in copies of decoded chunks."""
    first = 1
    examples = read_examples(path)
    while chunk := list(islice(examples, CHUNK)):
        messages = [encode_example(_with_features(example)) for example in chunk]
        decoded = decoder.decode(messages)
        for record in np.flatnonzero(decoded.reasons):
            reason, place = Reason(int(decoded.reasons[record])), int(decoded.places[record])
            fault = explain(reason, place, messages[record], limits)
            raise InputFileError(f"{path}, example {first + int(record)}: {fault}")
        first += len(chunk)
        batch = decoded.batch
        yield batch._replace(indptr=batch.indptr.copy(), keys=batch.keys.copy(), values=batch.values.copy())


def _with_features(example: Example) -> Example:
    """The example with a feature of value zero, which the decoder drops, where it has none."""
    return example if example.features else example._replace(features={"": 0.0})


def select(batch: Batch, rows: NDArray[np.int64]) -> Batch:
    """The rows, in the given order."""
    lengths = np.diff(batch.indptr)[rows]
    indptr = np.concatenate([[0], lengths]).cumsum(dtype=np.int64)
    places = np.repeat(batch.indptr[rows] - indptr[:-1], lengths) + np.arange(indptr[-1])
    return Batch(indptr, batch.keys[places], batch.values[places], batch.labels[rows], batch.weights[rows])
