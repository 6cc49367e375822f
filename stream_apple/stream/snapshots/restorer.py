"""Reading snapshots back into models, a little in each iteration of the loop, one model at a time.

While a snapshot is fetched, the evidence about its partition is examined (`evidence.py`); only then is it read.
"""

import time
from collections.abc import Callable, Collection, Generator

import structlog

from stream_apple.errors import FormatError, GapError, SnapshotError, SnapshotMissingError
from stream_apple.stream.log.ports import Broker
from stream_apple.stream.model.partition_model import ModelFactory
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.positions.lineage import NO_SNAPSHOT, Provenance, SnapshotPointer
from stream_apple.stream.snapshots.evidence import examine
from stream_apple.stream.snapshots.newest import newest_snapshot
from stream_apple.stream.snapshots.stored_messages import MessageReading, snapshot_messages
from stream_apple.stream.snapshots.writer import SnapshotRecorder

_ITERATION_S = 0.05  # for reading in an iteration of the loop: the live partitions wait meanwhile

_log = structlog.get_logger()


class Restorer:
    """Finds the models of partitions, one after the other.

    broker      where the models topic is
    provenance  whose snapshots they are
    new_model   makes a model that has learned nothing
    accepted    as of `examine`
    """

    def __init__(
        self,
        broker: Broker,
        provenance: Provenance,
        metrics: SnapshotRecorder,
        new_model: ModelFactory,
        now: Callable[[], float] = time.monotonic,
        accepted: Collection[tuple[int, int]] = (),
    ) -> None:
        self._broker = broker
        self._new_model = new_model
        self._accepted = accepted
        self._provenance = provenance
        self._metrics = metrics
        self._now = now
        self._waiting: list[Partition] = []
        self._steps: Generator[None] | None = None
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
        if self._steps is None:
            self._steps = self._find(partition)
        for _ in self._steps:
            return None
        self._close()
        return self._waiting.pop(0)

    def _find(self, partition: Partition) -> Generator[None]:
        """Find the partition's model; yield after each moment."""
        # The reader of the snapshot connects, and fetches, while the evidence is read.
        if partition.plan.restore:
            self._restore = _Restore(self._broker, self._provenance, partition, self._now)
        yield from examine(self._broker, self._provenance, partition, self._now, self._accepted)
        first, saved = partition.model.publish_from, partition.snapshot
        if saved is not None and saved.at > first:
            yield from self._fall_back(partition, saved, _too_new(self._provenance, partition, saved))
        while self._restore is not None:
            try:
                if self._restore.read_on(self._now() + _ITERATION_S):
                    self._report(self._restore, partition)
                    return
                yield
            except SnapshotMissingError as error:
                yield from self._fall_back(partition, self._restore.pointer, error)

    def _fall_back(self, partition: Partition, saved: SnapshotPointer, error: SnapshotError) -> Generator[None]:
        """Use the newest snapshot that can replace `saved`, or the log from the model's start; else raise `error`.

        A merged model depends on when others had contributed, so a replay over the end of a round is never guessed.
        """
        if self._restore is not None:
            self._restore.close()
        self._restore = None
        number, lineage = partition.number, partition.plan.lineage
        low = self._broker.log_range(self._provenance.topics.examples, number).low
        if self._provenance.merging is not None:
            raise error
        start = max(low, lineage.start, lineage.left_out)
        usable = range(start, partition.model.publish_from + 1)
        newest = yield from newest_snapshot(self._broker, self._provenance, number, lineage.model, usable, self._now)
        found = None if newest is None else newest[0]
        if found is None and start > lineage.start:
            raise error
        partition.restart(self._new_model(number, lineage), found)
        if found is None:
            partition.model.begin()
        else:
            self._restore = _Restore(self._broker, self._provenance, partition, self._now)
        _log.warning(
            "snapshot_replaced",
            partition=number,
            reason="missing" if isinstance(error, SnapshotMissingError) else "too_new",
            offset=saved.at,
            model_from=lineage.start if found is None else found.at,
            source="log" if found is None else "snapshot",
        )

    def _report(self, restore: "_Restore", partition: Partition) -> None:
        pointer, seconds = restore.pointer, self._now() - restore.snapshot.began
        partition.saved_at_ms = restore.snapshot.messages.written_at_ms
        self._metrics.restored(seconds)
        _log.info(
            "restored",
            partition=partition.number,
            offset=pointer.at,
            digest=pointer.digest,
            seconds=round(seconds, 3),
        )

    def _close(self) -> None:
        if self._steps is not None:
            self._steps.close()
        if self._restore is not None:
            self._restore.close()
        self._steps = self._restore = None


def _too_new(provenance: Provenance, partition: Partition, saved: SnapshotPointer) -> SnapshotError:
    """Return the error for records that lack answers, and that the model in no snapshot can answer."""
    first, place = partition.model.publish_from, f"{provenance.topics.examples}-{partition.number}"
    return SnapshotError(
        f"expected a snapshot of {place} at offset {first} or before, or all records from offset "
        f"{partition.plan.lineage.start} on, to answer the records from {first} on again, whose answers are lost; "
        f"found a snapshot at {saved.at} as the first. To continue without these answers, set "
        f'worker.accept_gap = ["{partition.number}@{first}"]'
    )


class _Restore:
    """Restores one partition's model from its snapshot."""

    def __init__(self, broker: Broker, provenance: Provenance, partition: Partition, now: Callable[[], float]) -> None:
        pointer = partition.snapshot
        assert pointer is not None
        log = broker.reader(provenance.topics.models, partition.number, pointer.first)
        self.pointer = pointer
        messages = snapshot_messages(provenance, partition.model, pointer)
        self.snapshot = MessageReading(log, messages, now, advice=f" Or {NO_SNAPSHOT}")

    def close(self) -> None:
        """Close the reader."""
        self.snapshot.log.close()

    def read_on(self, until: float) -> bool:
        """Read what there is, until that time at most; return whether the model is complete."""
        messages = self.snapshot.messages
        try:
            return self.snapshot.read_on(until)
        except GapError as error:
            gone = f"found that they are gone from the log ({error}): {NO_SNAPSHOT}"
            raise self._ending(messages.incomplete(gone, SnapshotMissingError)) from error
        except SnapshotError as error:
            raise self._ending(error) from error

    @staticmethod
    def _ending(error: SnapshotError) -> SnapshotError:
        if isinstance(error, FormatError):
            return error  # it says how to start over
        return type(error)(f"{error}. A model is never guessed; a new worker.group begins a new one")
