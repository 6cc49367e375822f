"""Reads one snapshot from the models topic into a new model: used to restore, verify and inspect.

The caller fetches, and decides how long to wait for the next message; this module decides what a message must be.
"""

from stream_apple.core.learner.merging.mergeable import Mergeable
from stream_apple.errors import SnapshotError
from stream_apple.stream.log.ports import Record
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import Provenance, SnapshotPointer
from stream_apple.stream.positions.merge_note import MergedPointer
from stream_apple.stream.snapshots.codec import SnapshotDecoder
from stream_apple.stream.snapshots.compressed_table import CompressedTable


class SnapshotReader:
    """Picks the snapshot's messages among those of its partition of the models topic, from its first on.

    model    a new one; it can be used when nothing is `left` and, if `merged` is not None, `complete` has been called
    pointer  what the committed offset says of the snapshot
    kept     takes the blocks of the table in place of the model, see `SnapshotDecoder`

    written_at_ms  time of day when its last message was written, 0 before that has come
    """

    def __init__(
        self,
        provenance: Provenance,
        model: PartitionModel,
        pointer: SnapshotPointer,
        kept: CompressedTable | None = None,
    ) -> None:
        self.pointer = pointer
        self.written_at_ms = 0
        self._place = (
            f"the snapshot of {provenance.topics.examples}-{model.partition} at offset {pointer.at} "
            f"({provenance.topics.models}-{model.partition}, messages {pointer.first} to {pointer.last})"
        )
        self._prefix = provenance.snapshot_key(model.partition)
        self._decoder = SnapshotDecoder(model, pointer, kept)

    @property
    def left(self) -> int:
        """Return how many messages are still to come."""
        return self._decoder.left

    @property
    def merged(self) -> MergedPointer | None:
        """Return where the merged model is whose table the model has; None if the snapshot is whole."""
        return self._decoder.merged

    def complete(self, merged: Mergeable) -> None:
        """Take over the table of that merged model; SnapshotError if it is another model's."""
        try:
            self._decoder.complete(merged)
        except SnapshotError as error:
            raise SnapshotError(f"{self._place}: {error}") from error

    def accept(self, record: Record) -> None:
        """Take in the next message of the log; SnapshotError if messages are missing, or of another snapshot."""
        if record.offset() > self.pointer.last:
            raise self.incomplete("found none")
        if not (record.key() or b"").startswith(self._prefix):
            return
        try:
            self._decoder.add(record.value())
        except SnapshotError as error:
            raise SnapshotError(f"{self._place}: {error}") from error
        if not self.left:
            self.written_at_ms = record.timestamp()[1]

    def incomplete(self, found: str) -> SnapshotError:
        """Return the error of a snapshot whose messages do not all come."""
        return SnapshotError(f"{self._place}: expected {self.left} more messages, {found}")
