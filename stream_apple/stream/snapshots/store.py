"""Models as they are kept in Kafka: from what a group has committed to the newest snapshot, restored.

Commands that change nothing use this. The workers go on meanwhile, and may displace a snapshot while it is read.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import NamedTuple, Protocol

from stream_apple.errors import GapError, SnapshotError
from stream_apple.stream.log.log_scan import LogScan, first_record
from stream_apple.stream.log.ports import Committed, LogRange, Readers
from stream_apple.stream.model.partition_model import ModelFactory, PartitionModel
from stream_apple.stream.partitions.recovery import check_in_log
from stream_apple.stream.positions.lineage import OffsetMetadata, Provenance, SnapshotPointer
from stream_apple.stream.snapshots.codec import StoredManifest, read_stored_manifest
from stream_apple.stream.snapshots.stored_messages import snapshot_messages

FEW_LARGE = 50
"""Messages to fetch at once where each may have a megabyte."""
_REREADS = 5  # times that a newer snapshot is tried after compaction has removed the one that was being read


class Logs(Readers, Protocol):
    """Reads the cluster for commands that change nothing."""

    def partition_count(self, topic: str) -> int:
        """Return how many partitions the topic has; ConfigurationError if it does not exist."""

    def count_now(self) -> int:
        """Return how many partitions the examples topic has by now; 0 if there is no such topic any more."""

    def committed_now(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """Return the group's committed offsets in the examples topic, without waiting for open transactions."""

    def decided(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """Return the committed offsets, once transactions that are being decided have been."""

    def log_range(self, topic: str, partition: int) -> LogRange:
        """Return the offsets in the log; `high` is its very end, with records that are not decided yet."""


def _manifest(logs: Logs, provenance: Provenance, number: int, pointer: SnapshotPointer) -> StoredManifest | None:
    """Return the manifest of a snapshot; None if the log ends before it."""
    topic = provenance.topics.models
    check_in_log(provenance, number, pointer, logs.log_range(topic, number))
    record = first_record(logs, topic, number, range(pointer.last, pointer.last + 1))
    return None if record is None else read_stored_manifest(record.value())


class StoredModel(NamedTuple):
    """Holds what is committed of a partition, and the model in its snapshot.

    model  None if there is no snapshot yet, or if it can't be restored
    fault  why it can't be restored; None if it can, or if there is none
    """

    metadata: OffsetMetadata
    model: PartitionModel | None
    fault: SnapshotError | GapError | None = None


class SnapshotStore:
    """Restores the models of one group from Kafka.

    new_model  makes a model that has learned nothing, and accepts any share of rejects
    """

    def __init__(self, logs: Logs, provenance: Provenance, new_model: ModelFactory) -> None:
        self._logs = logs
        self._provenance = provenance
        self._new_model = new_model

    def newest(self, number: int, committed: Committed) -> StoredModel:
        """Return the newest snapshot of a partition; ConfigurationError if its model has other settings.

        GapError if each snapshot is displaced by a newer one before it is read.
        """
        for _ in range(_REREADS):
            metadata = self._provenance.read_metadata(number, committed)
            if metadata.snapshot is None:
                return StoredModel(metadata, None)
            try:
                return StoredModel(metadata, self._restored(number, metadata, metadata.snapshot))
            except (SnapshotError, GapError) as error:
                # A worker may have written a newer one meanwhile, and compaction may have removed this one.
                latest = self._logs.committed_now([number])[number]
                if latest is None or self._provenance.read_metadata(number, latest).snapshot == metadata.snapshot:
                    return StoredModel(metadata, None, error)
                committed = latest
        raise GapError(
            f"expected a snapshot in {self._provenance.topics.models}-{number} that stays until it is read, found "
            f"{_REREADS} that newer ones displaced before: raise min.compaction.lag.ms of the topic"
        )

    def manifest(self, number: int, pointer: SnapshotPointer) -> StoredManifest | None:
        """Return the manifest of a snapshot of any model; None if it can't be read."""
        try:
            return _manifest(self._logs, self._provenance, number, pointer)
        except (SnapshotError, GapError):
            return None

    def _restored(self, number: int, metadata: OffsetMetadata, pointer: SnapshotPointer) -> PartitionModel:
        """Return the model in a snapshot; SnapshotError if messages are missing, or of another snapshot."""
        topic = self._provenance.topics.models
        check_in_log(self._provenance, number, pointer, self._logs.log_range(topic, number))
        model = self._new_model(number, self._provenance.lineage_at(number, metadata.lineage, pointer.at))
        messages = snapshot_messages(self._provenance, model, pointer)
        with closing(self._scan(topic, number, pointer)) as scan:
            messages.read_from(scan)
        return model

    def _scan(self, topic: str, number: int, pointer: SnapshotPointer) -> LogScan:
        return LogScan(self._logs, topic, number, range(pointer.first, pointer.last + 1), FEW_LARGE)
