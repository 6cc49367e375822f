"""A stretch of one partition's log, read to its end, which a plain reader does not see: it only stops delivering."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from stream_apple.config.memory import BATCH_BYTES
from stream_apple.errors import BrokerError
from stream_apple.stream.log.columns import portion
from stream_apple.stream.log.ports import Reader, Record

PATIENCE_S = 120.0
"""A dead worker's open transaction hides what follows it until the broker aborts it (`transaction.timeout.ms`)."""
_FETCH_TIMEOUT_S = 0.05  # the client waits as long for a full portion, also where the log has no more
_MOMENT_S = 0.02


class GradualScan:
    """As `LogScan`, for a thread that has other things to do: a little each time that it is asked.

    Records from `start`, where `reader` stands, to below `stop`; fewer than `limit` at a time.
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
        """Return what has come; perhaps nothing. BrokerError if the log has not gone on for `patience_s`."""
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
        """Close the reader; the scan is of no more use."""
        self._reader.close()


def stalled(place: str, at: int, stop: int, patience_s: float) -> BrokerError:
    """Return the error of a log that does not go on."""
    return BrokerError(
        f"expected {place} to go on from offset {at} to {stop}, found nothing for {patience_s:g} s: is the broker "
        f"gone, or is a transaction open there?"
    )


class LogScan:
    """The records of a partition from where `reader` stands, until it has passed all offsets below `end`.

    What has come with the last of them is delivered too.
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
        """Return the next record; None at the end. BrokerError if nothing comes and the end is not reached."""
        if not self._fetched:
            self._fetched.extend(self._fetch())
        return self._fetched.popleft() if self._fetched else None

    def ahead(self, most: int) -> list[Record]:
        """The next records, which stay the next: some that have come, at least one unless there are no more.

        Errors as of `take`.
        """
        if not self._fetched:
            self._fetched.extend(self._fetch())
        return list(islice(self._fetched, most))

    def skip(self, count: int) -> None:
        """Take the first `count` records of those that are `ahead`."""
        for _ in range(count):
            self._fetched.popleft()

    def batches(self) -> Iterator[list[Record]]:
        """All records that have not been taken, in the portions in which they come, cut where they are large."""
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
