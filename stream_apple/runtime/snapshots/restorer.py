"""Reading snapshots back into models, a little in each iteration of the loop, one model at a time."""

import time
from collections.abc import Callable

import structlog

from stream_apple.errors import GapError, SnapshotError
from stream_apple.runtime.lineage import Provenance
from stream_apple.runtime.monitoring.metrics import Metrics
from stream_apple.runtime.partition import Partition
from stream_apple.runtime.ports import Broker, Reader
from stream_apple.runtime.snapshots.reader import SnapshotReader

PATIENCE_S = 120.0
"""Without a further message. Longer than a dead writer's transaction may keep a partition's end undecided (45 s)."""
_ITERATION_S = 0.05  # for an iteration of the loop: the live partitions wait meanwhile
_MESSAGES = 8  # for a fetch; half a megabyte each
_WAIT_S = 0.02

_log = structlog.get_logger()


class Restorer:
    """The partitions whose models are still to be read, in order.

    broker      where the models topic is
    provenance  whose snapshots they are
    """

    def __init__(
        self, broker: Broker, provenance: Provenance, metrics: Metrics, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._broker = broker
        self._provenance = provenance
        self._metrics = metrics
        self._now = now
        self._waiting: list[Partition] = []
        self._current: _Restore | None = None

    @property
    def busy(self) -> bool:
        """Whether there is anything to read."""
        return bool(self._waiting)

    def add(self, partition: Partition) -> None:
        """Read this partition's model after those before it."""
        self._waiting.append(partition)

    def drop(self, partition: Partition) -> None:
        """The partition has gone: its model is not needed."""
        if partition in self._waiting:
            if self._waiting.index(partition) == 0:
                self._close()
            self._waiting.remove(partition)

    def close(self) -> None:
        """Drop all."""
        self._close()
        self._waiting = []

    def read_on(self) -> Partition | None:
        """Read for a moment; a partition whose model is complete now. SnapshotError if it can't be had."""
        if not self._waiting:
            return None
        partition = self._waiting[0]
        if self._current is None:
            self._current = _Restore(self._broker, self._provenance, partition, self._now)
        restore = self._current
        end = self._now() + _ITERATION_S
        try:
            while restore.read() and restore.reader.left and self._now() < end:
                pass
        except SnapshotError as error:
            raise SnapshotError(
                f"{error}. A model is never guessed: use a new worker.group to begin a new one"
            ) from error
        if restore.reader.left:
            return None
        self._complete(restore, partition)
        return self._waiting.pop(0)

    def _complete(self, restore: "_Restore", partition: Partition) -> None:
        partition.saved_at_ms = restore.reader.written_at_ms
        seconds = self._now() - restore.began
        self._metrics.restored(seconds)
        pointer = restore.reader.pointer
        _log.info(
            "restored",
            partition=partition.number,
            offset=pointer.at,
            digest=pointer.digest,
            seconds=round(seconds, 3),
        )
        self._close()

    def _close(self) -> None:
        if self._current is not None:
            self._current.log.close()
            self._current = None


class _Restore:
    """The restore of one partition's model: its snapshot, and the log it is read from."""

    def __init__(self, broker: Broker, provenance: Provenance, partition: Partition, now: Callable[[], float]) -> None:
        pointer = partition.snapshot
        assert pointer is not None
        self.reader = SnapshotReader(provenance, partition.model, pointer)
        self.log: Reader = broker.reader(provenance.topics.models, partition.number, pointer.first)
        self.began = now()
        self._heard = self.began
        self._now = now

    def read(self) -> int:
        """Take in what there is; the number of messages that came."""
        try:
            # Not more than are still to come: the client would wait for those.
            records = self.log.fetch(min(_MESSAGES, self.reader.left), _WAIT_S)
        except GapError as error:
            raise self.reader.incomplete(f"found that they are gone from the log: {error}") from error
        for record in records:
            if self.reader.left:
                self.reader.accept(record)
        if records:
            self._heard = self._now()
        elif self._now() - self._heard > PATIENCE_S:
            raise self.reader.incomplete(f"found none within {PATIENCE_S:g} s")
        return len(records)
