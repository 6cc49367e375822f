"""Writing snapshots: which partition's is due, and its messages in the open transaction, a few in each turn.

A snapshot is taken when an epoch has ended, every `interval_s`, and before a partition is given up. It is of the
state at one moment, encoded at once; learning goes on while it is sent, and the transaction is held open until it is
complete: a part of a snapshot must never be committed, for it would displace parts of the last one.

One snapshot at a time, so that the memory for it is that of one model.
"""

import math
import time
from collections.abc import Callable, Mapping

import structlog

from stream_apple.runtime.lineage import Pointer
from stream_apple.runtime.metrics import Metrics
from stream_apple.runtime.partition import Partition, State
from stream_apple.runtime.ports import Broker
from stream_apple.runtime.snapshot import Snapshot, encode, message_key

WINDOW = 16
"""Messages that may be on their way: what a turn of the loop, or the client's queue, takes without waiting."""
_EPOCH_SHARE = 0.1  # of the interval: a backlog's epochs may end many times in a second

_log = structlog.get_logger()


class Saver:
    """Writes the snapshots of one worker.

    topic, group  the models topic, and whose models they are
    interval_s    the longest time between two snapshots of a partition that learns
    """

    def __init__(
        self,
        broker: Broker,
        topic: str,
        group: str,
        interval_s: float,
        metrics: Metrics,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._broker = broker
        self._topic = topic
        self._group = group
        self._interval_s = interval_s
        self._metrics = metrics
        self._now = now
        self._since: dict[int, float] = {}
        self._ended: set[int] = set()
        self._writing: _Writing | None = None

    @property
    def busy(self) -> bool:
        """Whether a snapshot is in the open transaction and not complete: it must not be committed."""
        return self._writing is not None

    def watch(self, partition: Partition) -> None:
        """Snapshots of this partition are ours to write from now on."""
        self._since[partition.number] = self._now()

    def forget(self, partition: Partition) -> None:
        """The partition has gone."""
        self._since.pop(partition.number, None)
        self._ended.discard(partition.number)

    def epoch_ended(self, partition: Partition) -> None:
        """The model has grown: a snapshot soon saves a successor the growing."""
        self._ended.add(partition.number)

    def due(self, owned: Mapping[int, Partition]) -> Partition | None:
        """The partition whose snapshot is due most of all, if none is being written."""
        if self._writing is not None:
            return None
        ready = [p for p in owned.values() if p.state is State.LIVE and p.written is None and p.unsaved > 0]
        # The longest overdue first: where snapshots take longer than their interval, each still has its turn.
        most = max(ready, key=self._overdue, default=None)
        return most if most is not None and self._overdue(most) >= 0.0 else None

    def _overdue(self, partition: Partition) -> float:
        """Seconds by which the newest snapshot is older than it may be."""
        if partition.jumped:
            return math.inf
        share = _EPOCH_SHARE if partition.number in self._ended else 1.0
        return self._now() - self._since[partition.number] - share * self._interval_s

    def begin(self, partition: Partition) -> None:
        """Take the state of this partition's model now; a transaction must be open."""
        assert self._writing is None
        began = self._now()
        self._writing = _Writing(self._broker, self._topic, self._group, partition, encode(partition.model), began)

    def turn(self) -> None:
        """Send what may be sent without waiting."""
        if self._writing is not None and self._writing.send(WINDOW):
            self._complete(self._writing)

    def finish(self) -> None:
        """Send the rest, and wait until the broker has it."""
        writing = self._writing
        if writing is not None:
            while not writing.send(len(writing.snapshot.messages)):
                self._broker.flush()
            self._complete(writing)

    def drop(self) -> None:
        """The transaction has been aborted."""
        self._writing = None

    def _complete(self, writing: "_Writing") -> None:
        partition = writing.partition
        partition.written = writing.pointer()
        partition.saved_at_ms = time.time_ns() // 1_000_000
        seconds = self._now() - writing.began
        self._metrics.saved(partition, writing.bytes, seconds)
        self._since[partition.number] = self._now()
        self._ended.discard(partition.number)
        self._writing = None
        _log.info(
            "snapshot_written",
            partition=partition.number,
            offset=partition.written.at,
            digest=partition.written.digest,
            messages=len(writing.snapshot.messages),
            bytes=writing.bytes,
            seconds=round(seconds, 3),
        )


class _Writing:
    """A snapshot on its way."""

    def __init__(
        self, broker: Broker, topic: str, group: str, partition: Partition, snapshot: Snapshot, began: float
    ) -> None:
        self._broker = broker
        self._topic = topic
        self._group = group
        self.partition = partition
        self.snapshot = snapshot
        self.began = began
        self.bytes = sum(map(len, snapshot.messages))
        self._sent = 0
        self._offsets: list[int] = []

    def send(self, window: int) -> bool:
        """Send on, with at most `window` messages on their way; True when the broker has them all."""
        messages = self.snapshot.messages
        while self._sent < len(messages) and self._sent - len(self._offsets) < window:
            key = message_key(self._group, self.partition.number, self._sent)
            message, self._sent = messages[self._sent], self._sent + 1
            self._broker.send(self._topic, self.partition.number, key, message, 0, on_written=self._offsets.append)
        return len(self._offsets) == len(messages)

    def pointer(self) -> Pointer:
        """Where it is."""
        return Pointer(self.snapshot.at, min(self._offsets), max(self._offsets), self.snapshot.digest)
