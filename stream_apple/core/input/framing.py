"""Confluent's framing of a record: a zero, the number of a schema in a registry, and what that schema describes."""

from collections.abc import Sequence
from typing import Protocol

_MAGIC = b"\0"
FRAME_BYTES = 5


class Schemas(Protocol):
    """The schemas of a registry; several threads may ask at once."""

    def parsed(self, schema: int, payload: bytes) -> object:
        """Return what a payload holds, in Python's own types; RefusedError if it is none of this schema.

        BrokerError if the registry does not tell the schema for too long.
        """
        ...

    def known(self, schema: int) -> bool:
        """Whether `parsed` needs to ask nobody; if not, the registry is asked meanwhile."""
        ...

    def fault(self, schema: int) -> str:
        """Return why the schema is not known yet."""
        ...


def schema_of(value: bytes | None) -> int | None:
    """Return the number of a record's schema; None if the record is not framed.

    No message of the product's own, in msgpack or JSON, begins with a zero.
    """
    if value is None or len(value) < FRAME_BYTES or value[:1] != _MAGIC:
        return None
    return int.from_bytes(value[1:FRAME_BYTES], "big")


def first_unknown(values: Sequence[bytes | None], schemas: Schemas) -> tuple[int, int] | None:
    """Return the first of `values` whose schema is not known, and that schema; None if all can be read."""
    known: set[int] = set()
    for number, value in enumerate(values):
        schema = schema_of(value)
        if schema is None or schema in known:
            continue
        if not schemas.known(schema):
            return number, schema
        known.add(schema)
    return None
