"""Reading snapshots back into models, a little in each iteration of the loop, one model at a time.

While a snapshot is fetched, the evidence about its partition is examined (`evidence.py`); only then is it read.
"""

import time
from collections.abc import Callable, Generator

import structlog

from stream_apple.errors import GapError, SnapshotError
from stream_apple.stream.log.ports import Broker, Reader
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.positions.lineage import NO_MERGED_MODEL, NO_SNAPSHOT, Provenance
from stream_apple.stream.positions.merge_note import MergedPointer
from stream_apple.stream.snapshots.evidence import examine
from stream_apple.stream.snapshots.merge_messages import MergeDecoder
from stream_apple.stream.snapshots.merge_reading import MergeReading
from stream_apple.stream.snapshots.reader import SnapshotReader
from stream_apple.stream.snapshots.writer import SnapshotRecorder

PATIENCE_S = 120.0
"""The longest time without a message. A dead writer's transaction keeps a partition's end undecided for 45 s."""
GONE_S = 10.0
"""The same if the log ends before the snapshot does. A new leader may at first report too early an end."""
_ITERATION_S = 0.05  # for reading in an iteration of the loop: the live partitions wait meanwhile
_MESSAGES = 8  # to fetch at once; half a megabyte each
_WAIT_S = 0.02

_log = structlog.get_logger()


class Restorer:
    """Finds the models of partitions, one after the other.

    broker      where the models topic is
    provenance  whose snapshots they are
    """

    def __init__(
        self,
        broker: Broker,
        provenance: Provenance,
        metrics: SnapshotRecorder,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._broker = broker
        self._provenance = provenance
        self._metrics = metrics
        self._now = now
        self._waiting: list[Partition] = []
        self._evidence: Generator[None] | None = None
        self._restore: _Restore | None = None

    @property
    def busy(self) -> bool:
        """Whether the model of a partition is still to be found."""
        return bool(self._waiting)

    def add(self, partition: Partition) -> None:
        """Find this partition's model when those that were added before are found."""
        self._waiting.append(partition)

    def drop(self, partition: Partition) -> None:
        """Find this partition's model no longer, as the worker does not own it any more."""
        if partition in self._waiting:
            if self._waiting.index(partition) == 0:
                self._close()
            self._waiting.remove(partition)

    def close(self) -> None:
        """Drop all partitions, and close the readers that are open."""
        self._close()
        self._waiting = []

    def read_on(self) -> Partition | None:
        """Read for a moment; return a partition whose model is complete now, else None.

        SnapshotError if its snapshot can't be restored; ConfigurationError, GapError if the evidence contradicts its
        committed offset.
        """
        if not self._waiting:
            return None
        partition = self._waiting[0]
        until = self._now() + _ITERATION_S
        if self._evidence is None:
            # The reader of the snapshot connects, and fetches, while the evidence is read.
            if partition.plan.restore:
                self._restore = _Restore(self._broker, self._provenance, partition, self._now)
            self._evidence = examine(self._broker, self._provenance, partition, self._now)
        for _ in self._evidence:
            return None
        if self._restore is not None:
            if not self._restore.read_on(until):
                return None
            self._report(self._restore, partition)
        self._close()
        return self._waiting.pop(0)

    def _report(self, restore: "_Restore", partition: Partition) -> None:
        pointer, seconds = restore.reader.pointer, self._now() - restore.began
        partition.saved_at_ms = restore.reader.written_at_ms
        self._metrics.restored(seconds)
        _log.info(
            "restored",
            partition=partition.number,
            offset=pointer.at,
            digest=pointer.digest,
            seconds=round(seconds, 3),
        )

    def _close(self) -> None:
        if self._evidence is not None:
            self._evidence.close()
        if self._restore is not None:
            self._restore.close()
        self._evidence = self._restore = None


class _Restore:
    """Restores one partition's model: from its snapshot, and from the merged model, if the snapshot refers to one."""

    def __init__(self, broker: Broker, provenance: Provenance, partition: Partition, now: Callable[[], float]) -> None:
        pointer = partition.snapshot
        assert pointer is not None
        self.reader = SnapshotReader(provenance, partition.model, pointer)
        self.log: Reader = broker.reader(provenance.topics.models, partition.number, pointer.first)
        self.began = now()
        self._heard = self.began
        self._now = now
        self._broker = broker
        self._provenance = provenance
        self._options = partition.model.learner.options
        self._merged: MergeReading | None = None

    def close(self) -> None:
        """Close all readers that are open."""
        self.log.close()
        if self._merged is not None:
            self._merged.log.close()

    def read_on(self, until: float) -> bool:
        """Read what there is, until that time at most; return whether the model is complete."""
        try:
            while self.reader.left and self._read() and self._now() < until:
                pass
            if self.reader.left:
                return False
            return self.reader.merged is None or self._read_merged(self.reader.merged, until)
        except SnapshotError as error:
            raise SnapshotError(f"{error}. A model is never guessed; a new worker.group begins a new one") from error

    def _read_merged(self, pointer: MergedPointer, until: float) -> bool:
        """Read the merged model whose table the model has; return whether it is complete."""
        if self._merged is None:
            decoder = MergeDecoder(self._provenance.group, pointer.round, self._options)
            self._merged = MergeReading(self._broker, self._provenance, pointer, decoder, self._now)
        try:
            done = self._merged.read_on(until)
        except GapError as error:
            raise SnapshotError(
                f"{self._merged.place}: expected it, whose table the model has, found: {error}: {NO_MERGED_MODEL}"
            ) from error
        except SnapshotError as error:
            raise SnapshotError(f"{error}: {NO_MERGED_MODEL}") from error
        if done:
            assert self._merged.decoder is not None
            self.reader.complete(self._merged.decoder.model)
        return done

    def _read(self) -> int:
        """Take in messages of the snapshot; return how many came."""
        try:
            # The client would wait for more messages than are still to come.
            records = self.log.fetch(min(_MESSAGES, self.reader.left), _WAIT_S)
        except GapError as error:
            raise self.reader.incomplete(f"found that they are gone from the log ({error}): {NO_SNAPSHOT}") from error
        for record in records:
            if self.reader.left:
                self.reader.accept(record)
        if records:
            self._heard = self._now()
        else:
            self._give_up_in_time()
        return len(records)

    def _give_up_in_time(self) -> None:
        silent_s, end = self._now() - self._heard, self.log.log_end
        if silent_s > GONE_S and 0 <= end <= self.reader.pointer.last:
            raise self.reader.incomplete(
                f"found the end of the log at {end}: was the topic made anew? Or {NO_SNAPSHOT}"
            )
        if silent_s > PATIENCE_S:
            raise self.reader.incomplete(f"found none within {PATIENCE_S:g} s")
