"""Scans a range of one partition's log, and tells when the end is reached: a plain reader only stops delivering."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice

from stream_apple.config.memory import BATCH_BYTES
from stream_apple.errors import BrokerError
from stream_apple.stream.log.columns import portion
from stream_apple.stream.log.ports import ReaderSource, Record

PATIENCE_S = 120.0
"""The longest wait without progress. A dead worker's open transaction hides the records after it until the broker
aborts it (`transaction.timeout.ms`)."""
_MOMENT_S = 0.02  # the client waits so long for as many records as were asked for, even if the log has no more


class LogScan:
    """Reads the records of a partition at these offsets, in order, at most `limit` in a fetch.

    `read` is for a thread that has other things to do, and does not wait for records; all other methods do.
    """

    def __init__(
        self,
        logs: ReaderSource,
        topic: str,
        partition: int,
        offsets: range,
        limit: int = 1_000,
        *,
        patience_s: float = PATIENCE_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = logs.reader(topic, partition, offsets.start)
        self._place = f"{topic}-{partition}"
        self._at, self._stop = offsets.start, offsets.stop
        self._limit = limit
        self._patience_s = patience_s
        self._now = now
        self._heard = now()
        self._fetched: deque[Record] = deque()

    @property
    def done(self) -> bool:
        """Whether all records of the range have been read."""
        return self._at >= self._stop

    @property
    def log_end(self) -> int:
        """Return the end of the log, with undecided records, as of the latest answer; -1 before the first."""
        return self._reader.log_end

    def read(self) -> list[Record]:
        """Return the next records that have come, perhaps none; BrokerError after `patience_s` without progress."""
        if self.done:
            return []
        records = self._reader.fetch(self._limit, _MOMENT_S)
        position = records[-1].offset() + 1 if records else self._reader.position
        if position > self._at:
            self._at, self._heard = position, self._now()
        elif self._now() - self._heard >= self._patience_s:
            raise BrokerError(
                f"expected {self._place} to go on from offset {self._at} to {self._stop}, found nothing for "
                f"{self._patience_s:g} s: is the broker gone, or is a transaction open there?"
            )
        return [record for record in records if record.offset() < self._stop]

    def take(self) -> Record | None:
        """Return the next record, None at the end; it raises what `read` does."""
        return self._fetched.popleft() if self.ahead(1) else None

    def ahead(self, most: int) -> list[Record]:
        """Return some of the next records without taking them, at least one unless there are no more."""
        self._heard = self._now()  # time that has passed between two calls does not count
        while not self._fetched and not self.done:
            self._fetched.extend(self.read())
        return list(islice(self._fetched, most))

    def skip(self, count: int) -> None:
        """Take the first `count` records that `ahead` has returned."""
        for _ in range(count):
            self._fetched.popleft()

    def batches(self) -> Iterator[list[Record]]:
        """Yield all records that have not been taken, in the portions in which they come; large ones are divided."""
        while (first := self.take()) is not None:
            batch = [first, *self._fetched]
            count = portion(batch, BATCH_BYTES)
            self._fetched = deque(batch[count:])
            yield batch[:count]

    def close(self) -> None:
        """Close the reader; the scan is of no more use."""
        self._reader.close()


def first_record(logs: ReaderSource, topic: str, partition: int, offsets: range) -> Record | None:
    """Return the first record at these offsets; None if there is none. It raises what a scan does."""
    with closing(LogScan(logs, topic, partition, offsets, 1)) as scan:
        return scan.take()
