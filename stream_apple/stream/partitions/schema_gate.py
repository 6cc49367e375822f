"""Holds a log of a partition back at a record whose schema is not known yet, while other partitions go on.

Such a record can be read as soon as the registry gives its schema. So the record waits, and so do the later records of
its partition; it never becomes a dead letter for that.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import structlog

from stream_apple.records.framing import SchemaId, Schemas, first_unknown
from stream_apple.stream.log.contents import contents_of
from stream_apple.stream.log.ports import Record

LOGGED_AFTER_S = 1.0
"""Seconds of waiting before a schema is logged as missing: one that is merely new comes sooner."""

_log = structlog.get_logger()


class AwaitedSchema(NamedTuple):
    """A schema without which the record at `offset` can't be read.

    since   seconds of the clock at which the wait began
    logged  whether the wait has been logged
    """

    schema: SchemaId
    offset: int
    since: float
    logged: bool = False


class SchemaGate:
    """Lets the records of one log pass up to the first that can't be read yet.

    schemas  of a registry; None: everything passes

    awaited  the schema for which it is closed; None: it is open
    """

    def __init__(self, partition: int, schemas: Schemas | None, now: Callable[[], float] = time.monotonic) -> None:
        self.awaited: AwaitedSchema | None = None
        self._partition = partition
        self._schemas = schemas
        self._now = now

    @property
    def awaited_s(self) -> float:
        """Return for how many seconds a schema has been awaited; 0 if none is."""
        return 0.0 if self.awaited is None else max(self._now() - self.awaited.since, 0.0)

    def readable(self, records: list[Record]) -> list[Record]:
        """Return the records before the first that can't be read, for which the gate is closed then."""
        found = None if self._schemas is None else first_unknown(contents_of(records, framed=True), self._schemas)
        if found is None:
            return records
        number, schema = found
        self.awaited = AwaitedSchema(schema, records[number].offset(), self._now())
        return records[:number]

    def opens(self) -> bool:
        """Whether a closed gate opens now, as the schema has come; log both, if the wait was long enough to matter."""
        if self.awaited is None or self._schemas is None:
            return False
        schema, offset, since, logged = self.awaited
        waited_s = self._now() - since
        if self._schemas.known(schema):
            self.awaited = None
            if logged:
                seconds = round(waited_s, 1)
                _log.info("schema_found", partition=self._partition, offset=offset, schema=schema, seconds=seconds)
            return True
        # Without a fault the registry has not answered yet: an operator can do nothing, and the metric shows the wait.
        fault = self._schemas.fault(schema)
        if fault and not logged and waited_s >= LOGGED_AFTER_S:
            _log.warning("schema_awaited", partition=self._partition, offset=offset, schema=schema, error=fault)
            self.awaited = self.awaited._replace(logged=True)
        return False
