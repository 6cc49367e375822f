"""Writing snapshots: says which are due, and sends their messages in the open transaction, a few in each iteration.

A snapshot is taken when an epoch has ended, every `interval_s`, and before a partition is given up. It has the state at
one moment. Learning goes on while it is encoded and sent from a copy of the state. The transaction stays open until the
snapshot is complete: a part of it must never be committed, as it would displace parts of the last one. Only one such
snapshot is taken at a time, so that there is only one copy of a model in memory.

Awaited snapshots are of models that stand still at the end of a round: they need no copy, learning threads encode them,
and several share a transaction.

If the broker limits the rate of producers, a transaction with a snapshot in it may take longer than it is allowed to.
It is aborted then, and so would be the next one. So after a second failure the next snapshot is put off, each time for
twice as long, and transactions without a snapshot go on.
"""

import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

import structlog

from stream_apple.stream.log.ports import Broker
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.partitions.state import ANSWERING
from stream_apple.stream.positions.lineage import Provenance, SnapshotPointer
from stream_apple.stream.snapshots.codec import Snapshot, SnapshotEncoder

MOST_IN_FLIGHT = 16 << 20
"""Bytes of messages that the broker may not have acknowledged yet: the client's queue takes these without waiting."""
MOST_AT_ONCE = 96 << 20
"""Bytes of the tables whose awaited snapshots are encoded at the same time and kept, compressed, in memory."""
GATHERING_S = 1.0
"""Seconds after which no more awaited snapshots join a transaction, so that those in it need not wait any longer."""
_SEND_S = 0.02
"""Seconds for sending in an iteration; encoding takes 2 ms a message."""
_LOOK_SHARE = 0.001  # of the interval, from one look at all partitions to the next, if no snapshot is due
_MOST_DOUBLINGS = 6  # of the interval, after which a snapshot is tried again
_EPOCH_SHARE = 0.1  # of the interval: a backlog's epochs may end many times in a second

_log = structlog.get_logger()


class SnapshotRecorder(Protocol):
    """Measures how large snapshots are and how long they take; all calls are on the loop's thread."""

    def saved(self, partition: Partition, size: int, seconds: float) -> None:
        """Note that a snapshot of `size` bytes is written, which took `seconds`."""

    def restored(self, seconds: float) -> None:
        """Note that a snapshot has been restored, which took `seconds`."""


class SnapshotWriter:
    """Writes the snapshots of one worker.

    provenance  names the models topic, and the group whose models they are
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
        self._transfers: list[_Transfer] = []
        self._expected: set[Partition] = set()
        self._awaited: set[Partition] = set()
        self._gathering_since = math.inf
        self._look_at = 0.0
        self._uncommitted_bytes = 0
        self._failures = 0
        self._postponed_until = -math.inf

    @property
    def busy(self) -> bool:
        """Whether no commit may be made, as a snapshot in the open transaction is incomplete, or may still join it."""
        if self._awaited and not self._is_full:
            return True
        return any(not (each.sent if each.awaited else each.complete) for each in self._transfers)

    @property
    def sending(self) -> bool:
        """Whether a snapshot is in the open transaction that the broker does not have completely yet."""
        return bool(self._transfers)

    @property
    def awaited(self) -> bool:
        """Whether a merge waits for a snapshot in the open transaction."""
        return any(each.awaited for each in self._transfers)

    @property
    def _is_full(self) -> bool:
        return self._now() - self._gathering_since > GATHERING_S

    def due(self, owned: Iterable[Partition]) -> Partition | None:
        """Return the partition whose snapshot is the most overdue; None if none is due, or one is being written."""
        if self._transfers or self._expected or self._awaited:
            return None
        if self._now() < max(self._look_at, self._postponed_until):
            return None
        ready = [p for p in owned if p.state in ANSWERING and p.written is None and p.unsaved > 0]
        # The longest overdue comes first: if snapshots take longer than their interval, each partition has its turn.
        most = max(ready, key=self._overdue, default=None)
        if most is not None and self._overdue(most) >= 0.0:
            return most
        self._look_at = self._now() + _LOOK_SHARE * self._interval_s
        return None

    def look_soon(self) -> None:
        """Have `due` look at all partitions the next time, as a model has left out records and must be saved soon."""
        self._look_at = -math.inf

    def due_at_once(self, urgent: Collection[Partition]) -> Sequence[Partition]:
        """Return which of these partitions, whose snapshots are awaited, are to be encoded now."""
        if self._is_full:
            return []
        encoded = self._awaited | {each.partition for each in self._transfers if not each.sent}
        known = encoded | self._expected | {each.partition for each in self._transfers}
        room, found = MOST_AT_ONCE - sum(map(_table_bytes, encoded)), list[Partition]()
        for partition in urgent:
            if partition.state in ANSWERING and partition.written is None and partition not in known:
                room -= _table_bytes(partition)
                if room < 0 and (encoded or found):
                    break
                found.append(partition)
        return found

    def _overdue(self, partition: Partition) -> float:
        """Return by how many seconds the newest whole snapshot is too old; negative if it is not yet."""
        if partition.jumped:
            return math.inf
        share = _EPOCH_SHARE if partition.epoch_ended else 1.0
        return self._now() - partition.unsaved_since - share * self._interval_s

    def expect(self, partition: Partition, *, awaited: bool = False) -> None:
        """Note that the partition's state is being copied, or encoded if it is awaited; `begin` will be given it."""
        if awaited:
            self._awaited.add(partition)
            self._gathering_since = min(self._gathering_since, self._now())
        else:
            self._expected.add(partition)

    def begin(self, partition: Partition, snapshot: Snapshot | SnapshotEncoder) -> None:
        """Begin to send this snapshot; one that is encoded already is awaited. A transaction must be open.

        Nothing may change the state that an encoder has before all messages are sent.
        """
        awaited = isinstance(snapshot, Snapshot)
        (self._awaited if awaited else self._expected).discard(partition)
        transfer = _Transfer(self._broker, self._provenance, partition, snapshot, self._now, awaited=awaited)
        self._transfers.append(transfer)

    def send_on(self) -> bool:
        """Send as much as possible without waiting; return whether a snapshot has become complete."""
        until = self._now() + _SEND_S
        in_flight = sum(each.in_flight for each in self._transfers)
        for transfer in self._transfers:
            in_flight += transfer.send(MOST_IN_FLIGHT - in_flight, until)
        return self._complete_some()

    def finish(self) -> None:
        """Send the rest of all snapshots, and wait until the broker has it."""
        while self._transfers:
            self.send_on()
            if self._transfers:
                self._broker.flush()
                self._complete_some()
        self._gathering_since = math.inf

    def committed(self) -> None:
        """Note that the transaction is committed, with all snapshots in it."""
        if self._uncommitted_bytes:
            self._failures = self._uncommitted_bytes = 0

    def drop(self) -> None:
        """Forget all snapshots, as the transaction is aborted; put off the next one if this one is not the first."""
        size = self._uncommitted_bytes + sum(each.bytes for each in self._transfers)
        self._uncommitted_bytes = 0
        if size:
            self._failures += 1
            if self._failures > 1:
                self._postpone(size)
        self._transfers = []
        self._expected.clear()
        self._awaited.clear()
        self._gathering_since = math.inf

    def _postpone(self, size: int) -> None:
        delay = self._interval_s * 2 ** min(self._failures - 1, _MOST_DOUBLINGS)
        self._postponed_until = self._now() + delay
        _log.warning(
            "snapshot_postponed",
            expected="a commit with the snapshot",
            found=f"{self._failures} aborted transactions with a snapshot in a row",
            bytes=size,
            seconds=round(delay, 3),
            remedy="raise the brokers' quota producer_byte_rate",
        )

    def _complete_some(self) -> bool:
        complete = [each for each in self._transfers if each.complete]
        self._transfers = [each for each in self._transfers if not each.complete]
        for transfer in complete:
            self._complete(transfer)
        return bool(complete)

    def _complete(self, transfer: "_Transfer") -> None:
        partition, pointer = transfer.partition, transfer.pointer()
        now = self._now()
        seconds = now - transfer.began
        partition.written = pointer
        self._uncommitted_bytes += transfer.bytes
        partition.saved_at_ms = time.time_ns() // 1_000_000
        partition.unsaved_since = now
        partition.epoch_ended = False
        self._metrics.saved(partition, transfer.bytes, seconds)
        _log.info(
            "snapshot_written",
            partition=partition.number,
            offset=pointer.at,
            digest=pointer.digest,
            messages=transfer.source.message_count,
            bytes=transfer.bytes,
            seconds=round(seconds, 3),
        )


def _table_bytes(partition: Partition) -> int:
    return sum(array.nbytes for array in partition.model.learner.state.rows.values())


class _Transfer:
    """Sends one snapshot to the broker.

    awaited  whether a merge waits for it

    bytes      sent so far
    in_flight  bytes that are sent, and not acknowledged by the broker yet
    """

    def __init__(
        self,
        broker: Broker,
        provenance: Provenance,
        partition: Partition,
        source: Snapshot | SnapshotEncoder,
        now: Callable[[], float],
        *,
        awaited: bool = False,
    ) -> None:
        self._broker = broker
        self._provenance = provenance
        self.partition = partition
        self.source = source
        self.awaited = awaited
        self._messages = iter(source.messages)
        self.began = now()
        self._now = now
        self.bytes = 0
        self.in_flight = 0
        self._sent = 0
        self._offsets: list[int] = []

    @property
    def sent(self) -> bool:
        """Whether the client has all messages."""
        return self._sent == self.source.message_count

    @property
    def complete(self) -> bool:
        """Whether the broker has all messages."""
        return len(self._offsets) == self.source.message_count

    def send(self, most: int, until: float) -> int:
        """Send messages until they have `most` bytes or more, or until that time; return how many bytes were sent.

        If `most` is above 0, at least one message is sent, even if it is late: so every snapshot is completed.
        """
        before, in_time = self.bytes, True
        while not self.sent and self.bytes - before < most and in_time:
            self._send_one()
            in_time = self._now() < until
        return self.bytes - before

    def _send_one(self) -> None:
        topic, number = self._provenance.topics.models, self.partition.number
        key, message = self._provenance.snapshot_key(number, self._sent), next(self._messages)
        size = len(message)

        def written(offset: int) -> None:
            self._offsets.append(offset)
            self.in_flight -= size

        self._sent += 1
        self.bytes += size
        self.in_flight += size
        self._broker.send(topic, number, key, message, 0, on_written=written)

    def pointer(self) -> SnapshotPointer:
        """Return where the snapshot is, once the broker has all of it."""
        return SnapshotPointer(self.source.at, min(self._offsets), max(self._offsets), self.source.digest)
