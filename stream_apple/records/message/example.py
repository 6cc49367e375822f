"""An example as producers have it, and the message that the stream carries for it."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import msgpack

Features: TypeAlias = dict[str, float] | dict[str, dict[str, float]] | dict[str, bytes]
"""name -> value; or namespace -> name -> value; or packed: `indices` and `values` as little-endian bytes."""


class Example(NamedTuple):
    """One example before it is encoded.

    label         None: the example is scored and not learned
    weight        importance, finite, >= 0
    id            copied to the prediction
    timestamp_ms  event time in milliseconds since 1970; the record carries it, not the message
    key           the key of the record, which is not in the message either; None: see `key_of`
    record        the record of another shape that it was made of, in values of Python; None: nobody asked for it
    """

    label: float | None
    weight: float
    id: str | int | bytes | None
    features: Features
    timestamp_ms: int | None = None
    key: str | int | bytes | None = None
    record: Mapping[Any, Any] | None = None


def key_of(example: Example, number: int) -> bytes:
    """Return the key of an example's record: its own, else its id as bytes, else `number` as decimal text."""
    name = example.key if example.key is not None else example.id if example.id is not None else number
    return name if isinstance(name, bytes) else str(name).encode()


def encode_example(example: Example) -> bytes:
    """Encode `example` as msgpack, without the keys whose values are defaults.

    Feature values are written as 32-bit floats, as which they are read; a value of 1 is written as `true`, one byte.
    Raises OverflowError for numbers that msgpack or a 32-bit float can't hold.
    """
    message: dict[str, object] = {}
    if example.label is not None:
        message["label"] = example.label
    if example.weight != 1:
        message["weight"] = example.weight
    if example.id is not None:
        message["id"] = example.id
    message["features"] = None
    features = {name: _compact(value) for name, value in example.features.items()}
    header: bytes = msgpack.packb(message)[:-1]  # without the byte of that None
    body: bytes = msgpack.packb(features, use_single_float=True)
    return header + body


def _compact(value: float | bytes | dict[str, float]) -> object:
    if isinstance(value, dict):
        return {name: True if number == 1 else number for name, number in value.items()}
    return True if value == 1 else value
