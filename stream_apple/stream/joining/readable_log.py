"""Reads a log of a partition, up to the first record whose schema the registry has not given yet.

Such a record does not become a dead letter: it waits, with all records after it, until it can be read.
"""

import time
from collections.abc import Callable, Sequence

from stream_apple.core.input.framing import Schemas, first_unknown
from stream_apple.errors import GapError
from stream_apple.stream.log.columns import values_of
from stream_apple.stream.log.ports import AbortableError, Reader, Record
from stream_apple.stream.loop.schema_gate import still_awaited
from stream_apple.stream.partitions.partition import AwaitedSchema


class ReadableLog:
    """Reads on in one log.

    schemas  of a registry; None: all records can be read

    awaited  the schema that the next record waits for; None: it waits for none
    """

    def __init__(
        self, reader: Reader, partition: int, schemas: Schemas | None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.awaited: AwaitedSchema | None = None
        self._reader = reader
        self._partition = partition
        self._schemas = schemas
        self._now = now
        self._withheld: list[Record] = []

    @property
    def position(self) -> int:
        """Return an offset below which all records have been returned."""
        return self._withheld[0].offset() if self._withheld else self._reader.position

    @property
    def log_end(self) -> int:
        """Return the end of the log, as of when it was last read."""
        return self._reader.log_end

    @property
    def awaited_s(self) -> float:
        """Return for how many seconds a schema has been awaited; 0 if none is."""
        return 0.0 if self.awaited is None else max(self._now() - self.awaited.since, 0.0)

    def fetch(self, most: int) -> Sequence[Record]:
        """Return at most `most` next records that can be read, perhaps none; AbortableError if they are gone."""
        if self.awaited is not None and self._schemas is not None:
            self.awaited = still_awaited(self.awaited, self._partition, self._schemas, self._now())
            if self.awaited is not None:
                return ()
        records, self._withheld = self._withheld or self._fetched(most), []
        found = None if self._schemas is None else first_unknown(values_of(records), self._schemas)
        if found is None:
            return records
        number, schema = found
        self.awaited = AwaitedSchema(schema, records[number].offset(), self._now())
        self._withheld = records[number:]
        return records[:number]

    def close(self) -> None:
        """Close the reader."""
        self._reader.close()

    def _fetched(self, most: int) -> list[Record]:
        try:
            return list(self._reader.fetch(most, 0.0))
        except GapError as error:
            raise AbortableError(str(error)) from error
