"""A stretch of one partition's log, read to its end, which a plain reader does not see: it only stops delivering."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from stream_apple.errors import BrokerError
from stream_apple.runtime.ports import Reader, Record

PATIENCE_S = 120.0
"""A dead worker's open transaction hides what follows it until the broker aborts it (`transaction.timeout.ms`)."""
_FETCH_TIMEOUT_S = 0.5


class LogReader(Reader, Protocol):
    """A reader that knows how far it has got, even where the log holds nothing to deliver."""

    @property
    def position(self) -> int:
        """Everything below has been delivered, or is no record of a committed transaction."""
        ...


class LogScan:
    """The records of a partition from where `reader` stands, until it has passed all offsets below `end`.

    What has come with the last of them is delivered too.
    """

    def __init__(
        self,
        reader: LogReader,
        place: str,
        end: int,
        fetch_records: int,
        *,
        patience_s: float = PATIENCE_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._place = place
        self._end = end
        self._fetch_records = fetch_records
        self._patience_s = patience_s
        self._now = now
        self._fetched: deque[Record] = deque()

    def take(self) -> Record | None:
        """The next record; None at the end. BrokerError if nothing comes and the end is not reached."""
        if not self._fetched:
            self._fetched.extend(self._fetch())
        return self._fetched.popleft() if self._fetched else None

    def batches(self) -> Iterator[list[Record]]:
        """All records that have not been taken, in the portions in which they come."""
        while (first := self.take()) is not None:
            batch = [first, *self._fetched]
            self._fetched.clear()
            yield batch

    def _fetch(self) -> list[Record]:
        deadline = self._now() + self._patience_s
        while (before := self._reader.position) < self._end:
            records = self._reader.fetch(self._fetch_records, _FETCH_TIMEOUT_S)
            if records:
                return list(records)
            if self._reader.position > before:
                deadline = self._now() + self._patience_s
            elif self._now() >= deadline:
                raise BrokerError(
                    f"expected {self._place} to go on from offset {before} to {self._end}, found nothing for "
                    f"{self._patience_s:g} s: is the broker gone, or is a transaction open there?"
                )
        return []

    def close(self) -> None:
        """Give back the reader."""
        self._reader.close()
