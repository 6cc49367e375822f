"""Writing snapshots: which partition's is due, and its messages in the open transaction, a few in each iteration.

A snapshot is taken when an epoch has ended, every `interval_s`, and before a partition is given up. It is of the
state at one moment. Learning goes on while it is encoded and sent, from a copy of the state, and the transaction is
held open until it is complete: a part of a snapshot must never be committed, for it would displace parts of the last
one.

One snapshot at a time, so that the memory for it is that of one model.
"""

import math
import time
from collections.abc import Callable, Collection, Iterable

import structlog

from stream_apple.stream.log.ports import Broker
from stream_apple.stream.model.model_image import ModelImage
from stream_apple.stream.partitions.partition import ANSWERING, Partition
from stream_apple.stream.positions.lineage import Provenance, SnapshotPointer
from stream_apple.stream.snapshots.codec import SnapshotEncoder
from stream_apple.stream.snapshots.snapshot_recorder import SnapshotRecorder

MOST_IN_FLIGHT = 16
"""Messages that may be on their way: what an iteration, or the client's queue, takes without waiting."""
_SEND_S = 0.02
"""For an iteration: encoding takes 2 ms a message."""
_LOOK_SHARE = 0.001  # of the interval, from one look at all partitions to the next, if no snapshot is due in any
_EPOCH_SHARE = 0.1  # of the interval: a backlog's epochs may end many times in a second

_log = structlog.get_logger()


class SnapshotWriter:
    """Writes the snapshots of one worker, one at a time.

    provenance  the models topic, and whose models they are
    interval_s  the longest time between two snapshots of a partition that learns
    """

    def __init__(
        self,
        broker: Broker,
        provenance: Provenance,
        interval_s: float,
        metrics: SnapshotRecorder,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._broker = broker
        self._provenance = provenance
        self._interval_s = interval_s
        self._metrics = metrics
        self._now = now
        self._current: _Transfer | None = None
        self._expected = False
        self._look_at = 0.0

    @property
    def busy(self) -> bool:
        """Whether a snapshot is in the open transaction and not complete: it must not be committed."""
        return self._current is not None

    def due(self, owned: Iterable[Partition], urgent: Collection[Partition] = ()) -> Partition | None:
        """The partition whose snapshot is due most of all, if none is being written or waited for.

        urgent  those for whose snapshots others wait
        """
        if self._current is not None or self._expected:
            return None
        for partition in urgent:
            if partition.state in ANSWERING and partition.written is None:
                return partition
        if self._now() < self._look_at:
            return None
        ready = [p for p in owned if p.state in ANSWERING and p.written is None and p.unsaved > 0]
        # The longest overdue first: where snapshots take longer than their interval, each still has its turn.
        most = max(ready, key=self._overdue, default=None)
        if most is not None and self._overdue(most) >= 0.0:
            return most
        self._look_at = self._now() + _LOOK_SHARE * self._interval_s
        return None

    def look_soon(self) -> None:
        """Look at all partitions with the next question: a model has left something out, which can't wait."""
        self._look_at = -math.inf

    def _overdue(self, partition: Partition) -> float:
        """Return by how many seconds the newest snapshot is older than it may be."""
        if partition.jumped:
            return math.inf
        share = _EPOCH_SHARE if partition.epoch_ended else 1.0
        return self._now() - partition.unsaved_since - share * self._interval_s

    def expect(self) -> None:
        """A copy of a state is being made, and comes with `begin`."""
        self._expected = True

    def begin(self, partition: Partition, image: ModelImage) -> None:
        """Write this state of the partition's model, which nobody changes; a transaction must be open."""
        assert self._current is None
        self._expected = False
        self._current = _Transfer(self._broker, self._provenance, partition, image, self._now)

    def send_on(self) -> None:
        """Send what may be sent without waiting."""
        if self._current is not None and self._current.send(MOST_IN_FLIGHT, self._now() + _SEND_S):
            self._complete(self._current)

    def finish(self) -> None:
        """Send the rest, and wait until the broker has it."""
        transfer = self._current
        if transfer is not None:
            while not transfer.send(MOST_IN_FLIGHT, math.inf):
                self._broker.flush()
            self._complete(transfer)

    def drop(self) -> None:
        """The transaction has been aborted, and no state is on its way."""
        self._current = None
        self._expected = False

    def _complete(self, transfer: "_Transfer") -> None:
        self._current = None
        partition, pointer = transfer.partition, transfer.pointer()
        now = self._now()
        seconds = now - transfer.began
        partition.written = pointer
        partition.saved_at_ms = time.time_ns() // 1_000_000
        partition.unsaved_since = now
        partition.epoch_ended = False
        self._metrics.saved(partition, transfer.bytes, seconds)
        _log.info(
            "snapshot_written",
            partition=partition.number,
            offset=pointer.at,
            digest=pointer.digest,
            messages=transfer.encoder.count,
            bytes=transfer.bytes,
            seconds=round(seconds, 3),
        )


class _Transfer:
    """Sends one snapshot to the broker."""

    def __init__(
        self, broker: Broker, provenance: Provenance, partition: Partition, image: ModelImage, now: Callable[[], float]
    ) -> None:
        self._broker = broker
        self._provenance = provenance
        self.partition = partition
        self.encoder = SnapshotEncoder(partition.model, image)
        self._messages = iter(self.encoder)
        self.began = now()
        self._now = now
        self.bytes = 0
        self._sent = 0
        self._offsets: list[int] = []

    def send(self, most_in_flight: int, until: float) -> bool:
        """Send on, with at most so many messages on their way; True when the broker has them all.

        One at least, if it may be sent: whatever the time, a snapshot comes to its end.
        """
        encoder, topic, number = self.encoder, self._provenance.topics.models, self.partition.number
        in_time = True
        while self._sent < encoder.count and self._sent - len(self._offsets) < most_in_flight and in_time:
            key, message = self._provenance.snapshot_key(number, self._sent), next(self._messages)
            self._sent += 1
            self.bytes += len(message)
            self._broker.send(topic, number, key, message, 0, on_written=self._offsets.append)
            in_time = self._now() < until
        return len(self._offsets) == encoder.count

    def pointer(self) -> SnapshotPointer:
        """Return where the snapshot is, once the broker has all of it."""
        return SnapshotPointer(self.encoder.at, min(self._offsets), max(self._offsets), self.encoder.digest)
