"""Reading snapshots back into models, a little in each turn of the loop, one model at a time."""

import time
from collections.abc import Callable

import structlog

from stream_apple.errors import GapError, SnapshotError
from stream_apple.runtime.metrics import Metrics
from stream_apple.runtime.partition import Partition
from stream_apple.runtime.ports import Broker, Reader, Record
from stream_apple.runtime.snapshot import Decoder, message_key

PATIENCE_S = 120.0
"""Without a further message. Longer than a dead writer's transaction may keep a partition's end undecided (45 s)."""
_TURN_S = 0.1  # for a turn of the loop: the live partitions wait meanwhile
_MESSAGES = 32  # for a fetch; half a megabyte each
_WAIT_S = 0.02

_log = structlog.get_logger()


class Restorer:
    """The partitions whose models are still to be read, in order.

    broker  where `topic`, the models topic, is
    group   whose snapshots they are
    """

    def __init__(
        self,
        broker: Broker,
        topic: str,
        group: str,
        metrics: Metrics,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._broker = broker
        self._topic = topic
        self._group = group
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

    def left(self, partition: Partition) -> int:
        """Messages still to be read for the partition; -1 before its turn has come."""
        if self._current is None or self._waiting[0] is not partition:
            return -1
        return self._current.decoder.left

    def turn(self) -> Partition | None:
        """Read on for a moment; a partition whose model is complete now. SnapshotError if it can't be had."""
        if not self._waiting:
            return None
        if self._current is None:
            self._current = _Restore(self._broker, self._topic, self._group, self._waiting[0], self._now)
        end = self._now() + _TURN_S
        while self._current.read() and self._current.decoder.left and self._now() < end:
            pass
        if self._current.decoder.left:
            return None
        self._metrics.restored(self._current.seconds)
        self._close()
        return self._waiting.pop(0)

    def _close(self) -> None:
        if self._current is not None:
            self._current.reader.close()
            self._current = None


class _Restore:
    """One partition's."""

    def __init__(self, broker: Broker, topic: str, group: str, partition: Partition, now: Callable[[], float]) -> None:
        pointer = partition.snapshot
        assert pointer is not None
        self._pointer = pointer
        self._place = (
            f"the snapshot of {partition.model.topic}-{partition.number} at offset {pointer.at} "
            f"({topic}-{partition.number}, messages {pointer.first} to {pointer.last})"
        )
        self._now = now
        self._began = self._heard = now()
        # Other groups may keep their models in the same topic.
        self._prefix = message_key(group, partition.number)
        self._partition = partition
        self.seconds = 0.0
        self.reader: Reader = broker.reader(topic, partition.number, pointer.first)
        self.decoder = Decoder(partition.model, pointer)

    def read(self) -> int:
        """Take in what there is; the number of messages that came."""
        try:
            records = self.reader.fetch(_MESSAGES, _WAIT_S)
        except GapError as error:
            raise self._refused(f"expected its messages in the log, found that they are gone: {error}") from error
        for record in records:
            if record.offset() > self._pointer.last:
                raise self._refused(f"expected {self.decoder.left} more messages, found none")
            if not (record.key() or b"").startswith(self._prefix):
                continue
            try:
                self.decoder.add(record.value())
            except SnapshotError as error:
                raise self._refused(str(error)) from error
            if not self.decoder.left:
                self._complete(record)
                break
        if records:
            self._heard = self._now()
        elif self._now() - self._heard > PATIENCE_S:
            raise self._refused(f"expected {self.decoder.left} more messages, found none within {PATIENCE_S:g} s")
        return len(records)

    def _complete(self, manifest: Record) -> None:
        self._partition.saved_at_ms = manifest.timestamp()[1]
        self.seconds = self._now() - self._began
        _log.info(
            "restored",
            partition=self._partition.number,
            offset=self._pointer.at,
            digest=self._pointer.digest,
            seconds=round(self.seconds, 3),
        )

    def _refused(self, why: str) -> SnapshotError:
        return SnapshotError(
            f"{self._place}: {why}. A model is never guessed: use a new worker.group to begin a new one"
        )
