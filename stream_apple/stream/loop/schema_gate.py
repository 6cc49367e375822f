"""Holds a partition back at a record whose schema is not known yet, while the others go on.

Such a record can be read as soon as the registry gives its schema. So the record waits, and so do the later records of
its partition; it never becomes a dead letter for that.
"""

import time
from collections.abc import Callable, Iterable

import structlog

from stream_apple.core.input.framing import Schemas, first_unknown
from stream_apple.stream.log.columns import values_of
from stream_apple.stream.log.ports import Broker, Record
from stream_apple.stream.partitions.partition import AwaitedSchema, Partition

LOGGED_AFTER_S = 1.0
"""Seconds of waiting before a schema is logged as missing: one that is merely new comes sooner."""

_log = structlog.get_logger()


def still_awaited(awaited: AwaitedSchema, partition: int, schemas: Schemas, now: float) -> AwaitedSchema | None:
    """Return what is still awaited, None if the schema has come; log both, if the wait was long enough to matter."""
    offset, schema, waited_s = awaited.offset, awaited.schema, now - awaited.since
    if schemas.known(schema):
        if awaited.logged:
            _log.info("schema_found", partition=partition, offset=offset, schema=schema, seconds=round(waited_s, 1))
        return None
    fault = schemas.fault(schema)
    # Without a fault the registry has not answered yet: an operator can do nothing, and the metric shows the wait.
    if awaited.logged or waited_s < LOGGED_AFTER_S or not fault:
        return awaited
    _log.warning("schema_awaited", partition=partition, offset=offset, schema=schema, error=fault)
    return awaited._replace(logged=True)


class SchemaGate:
    """Lets the records of a partition pass up to the first that can't be read yet.

    schemas  of a registry; None: everything passes
    """

    def __init__(self, broker: Broker, schemas: Schemas | None, now: Callable[[], float] = time.monotonic) -> None:
        self._broker = broker
        self._schemas = schemas
        self._now = now

    def readable(self, partition: Partition, records: list[Record]) -> list[Record]:
        """Return the records before the first that can't be read; AbortableError if the others can't be had again."""
        found = None if self._schemas is None else first_unknown(values_of(records), self._schemas)
        if found is None:
            return records
        number, schema = found
        partition.awaited_schema = AwaitedSchema(schema, records[number].offset(), self._now())
        self._broker.pause(partition.number, records[number].offset())
        return records[:number]

    def iterate(self, owned: Iterable[Partition]) -> None:
        """Resume the partitions whose schema has come."""
        if self._schemas is None:
            return
        for partition in owned:
            awaited = partition.awaited_schema
            if awaited is None:
                continue
            partition.awaited_schema = still_awaited(awaited, partition.number, self._schemas, self._now())
            # If the model is held at the end of a round, the partition is resumed when that is over.
            if partition.awaited_schema is None and partition.model.held is None:
                self._broker.resume(partition.number)
