"""Records that name a schema of a registry: the interface that reads them, and which can't be read yet.

Confluent's serializers put the number of the schema in front of the value, or its GUID into a header. Readers take one
piece of bytes, so a GUID of a header is put in front of the value, too. It has a frame of its own there, which the
serializers know as well.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol
from uuid import UUID

SchemaId = int | str
"""The number of a schema, or its GUID, as text."""

HEADER = "__value_schema_id"
"""The header of a record that holds the frame of its value."""
_NUMBERED, _WITH_GUID = 0, 1
_BYTES = {_NUMBERED: 5, _WITH_GUID: 17}
"""The first byte of a frame -> how long the frame is."""


class Schemas(Protocol):
    """The schemas of a registry; several threads may ask at once."""

    def parsed(self, schema: SchemaId, payload: bytes) -> object:
        """Return what a payload holds, in Python's own types; RefusedError if it does not fit the schema.

        BrokerError if the registry has not given the schema for too long.
        """
        ...

    def known(self, schema: SchemaId) -> bool:
        """Return whether `parsed` can do without the registry; if not, the registry is asked in the background."""
        ...

    def fault(self, schema: SchemaId) -> str:
        """Return why the schema is not known yet."""
        ...


def frame_of(value: bytes | None) -> tuple[SchemaId, int] | None:
    """Return the schema that a framed value names, and how long the frame is; None if the value is not framed."""
    if not value or (size := _BYTES.get(value[0])) is None or len(value) < size:
        return None
    frame = value[1:size]
    return (int.from_bytes(frame, "big") if value[0] == _NUMBERED else _guid(frame)), size


@lru_cache(maxsize=1024)
def _guid(frame: bytes) -> str:
    return str(UUID(bytes=frame))


def with_frame(value: bytes | None, headers: Iterable[tuple[str, str | bytes | None]]) -> bytes | None:
    """Return a value behind the frame that its headers hold; the value as it is if they hold none."""
    if value is None:
        return None
    for name, frame in headers:
        if name == HEADER and isinstance(frame, bytes) and frame and len(frame) == _BYTES.get(frame[0]):
            return frame + value
    return value


def first_unknown(values: Sequence[bytes | None], schemas: Schemas) -> tuple[int, SchemaId] | None:
    """Return the first of `values` whose schema is not known, and that schema; None if all can be read.

    The registry is asked for the schemas of all later values, too, so that they are not awaited one after the other.
    """
    first: tuple[int, SchemaId] | None = None
    asked: set[SchemaId] = set()
    for number, value in enumerate(values):
        frame = frame_of(value)
        if frame is None or frame[0] in asked:
            continue
        asked.add(frame[0])
        if not schemas.known(frame[0]) and first is None:
            first = number, frame[0]
    return first
