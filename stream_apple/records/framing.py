"""The schemas of a registry: the interface that reads framed records, and which records can't be read yet."""

from collections.abc import Sequence
from typing import Protocol

from stream_apple.records.message.first_bytes import schema_of


class Schemas(Protocol):
    """The schemas of a registry, by their numbers; several threads may ask at once."""

    def parsed(self, schema: int, payload: bytes) -> object:
        """Return what a payload holds, in Python's own types; RefusedError if it does not fit the schema.

        BrokerError if the registry has not given the schema for too long.
        """
        ...

    def known(self, schema: int) -> bool:
        """Return whether `parsed` can do without the registry; if not, the registry is asked in the background."""
        ...

    def fault(self, schema: int) -> str:
        """Return why the schema is not known yet."""
        ...


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
