"""Reads a log of a partition, up to the first record whose schema the registry has not given yet.

Such a record does not become a dead letter: it waits, with all records after it, until it can be read.
"""

from collections.abc import Sequence

from stream_apple.errors import GapError
from stream_apple.stream.log.ports import AbortableError, Reader, Record
from stream_apple.stream.partitions.schema_gate import SchemaGate


class ReadableLog:
    """Reads on in one log.

    gate  is closed while the next record waits for its schema
    """

    def __init__(self, reader: Reader, gate: SchemaGate) -> None:
        self.gate = gate
        self._reader = reader
        self._withheld: list[Record] = []

    @property
    def position(self) -> int:
        """Return an offset below which all records have been returned."""
        return self._withheld[0].offset() if self._withheld else self._reader.position

    @property
    def log_end(self) -> int:
        """Return the end of the log, as of when it was last read."""
        return self._reader.log_end

    def fetch(self, most: int) -> Sequence[Record]:
        """Return at most `most` next records that can be read, perhaps none; AbortableError if they are gone."""
        if self.gate.awaited is not None and not self.gate.opens():
            return ()
        records = self._withheld or self._fetched(most)
        readable = self.gate.readable(records)
        self._withheld = records[len(readable) :]
        return readable

    def close(self) -> None:
        """Close the reader."""
        self._reader.close()

    def _fetched(self, most: int) -> list[Record]:
        try:
            return list(self._reader.fetch(most, 0.0))
        except GapError as error:
            raise AbortableError(str(error)) from error
