"""Scans of a range of one partition's log, which tell when the end is reached: a plain reader only stops delivering."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from stream_apple.config.memory import BATCH_BYTES
from stream_apple.errors import BrokerError
from stream_apple.stream.log.columns import portion
from stream_apple.stream.log.ports import Reader, Record

PATIENCE_S = 120.0
"""The longest wait without progress. A dead worker's open transaction hides the records after it until the broker
aborts it (`transaction.timeout.ms`)."""
_FETCH_TIMEOUT_S = 0.05  # the client waits so long for as many records as were asked for, even if the log has no more
_MOMENT_S = 0.02


class GradualScan:
    """Reads the records from `start`, where `reader` stands, to below `stop`, at most `limit` in a call of `read`.

    It is for a thread that has other things to do: a call does not wait long.
    """

    def __init__(
        self,
        reader: Reader,
        place: str,
        start: int,
        stop: int,
        *,
        limit: int = 1_000,
        patience_s: float = PATIENCE_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._place = place
        self._at = start
        self._stop = stop
        self._limit = limit
        self._patience_s = patience_s
        self._now = now
        self._heard = now()

    @property
    def done(self) -> bool:
        """Whether the scan has read all records below `stop`."""
        return self._at >= self._stop

    def read(self) -> Sequence[Record]:
        """Return the records that have come, perhaps none; BrokerError after `patience_s` without progress."""
        if self.done:
            return []
        records = self._reader.fetch(self._limit, _MOMENT_S)
        position = records[-1].offset() + 1 if records else self._reader.position
        if position > self._at:
            self._at, self._heard = position, self._now()
        elif self._now() - self._heard >= self._patience_s:
            raise stalled(self._place, self._at, self._stop, self._patience_s)
        return [record for record in records if record.offset() < self._stop]

    def close(self) -> None:
        """Close the reader; the scan can't be used any more."""
        self._reader.close()


def stalled(place: str, at: int, stop: int, patience_s: float) -> BrokerError:
    """Return the error for a log that gives no further record."""
    return BrokerError(
        f"expected {place} to go on from offset {at} to {stop}, found nothing for {patience_s:g} s: is the broker "
        f"gone, or is a transaction open there?"
    )


class LogScan:
    """Reads the records of a partition from where `reader` stands, until it has passed all offsets below `end`.

    Records from `end` on that came in the last fetch are delivered, too.
    """

    def __init__(
        self,
        reader: Reader,
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
        """Return the next record; None at the end. BrokerError after `patience_s` without progress before the end."""
        if not self._fetched:
            self._fetched.extend(self._fetch())
        return self._fetched.popleft() if self._fetched else None

    def ahead(self, most: int) -> list[Record]:
        """Return some of the next records without taking them, at least one unless there are no more.

        It raises what `take` does.
        """
        if not self._fetched:
            self._fetched.extend(self._fetch())
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

    def _fetch(self) -> list[Record]:
        deadline = self._now() + self._patience_s
        while (before := self._reader.position) < self._end:
            records = self._reader.fetch(self._fetch_records, _FETCH_TIMEOUT_S)
            if records:
                return list(records)
            if self._reader.position > before:
                deadline = self._now() + self._patience_s
            elif self._now() >= deadline:
                raise stalled(self._place, before, self._end, self._patience_s)
        return []

    def close(self) -> None:
        """Close the reader; the scan is of no more use."""
        self._reader.close()
