"""What the models of a group are made from again: its logs, its snapshots, and the records of its merges."""

from collections.abc import Callable

from stream_apple.errors import GapError
from stream_apple.stream.log.ports import Committed
from stream_apple.stream.model.partition_model import ModelFactory, PartitionModel
from stream_apple.stream.positions.lineage import Lineage, OffsetMetadata, Provenance, behind_gap
from stream_apple.stream.snapshots.store import Logs, SnapshotStore, StoredModel
from stream_apple.stream.walk.crossing import Crossing
from stream_apple.stream.walk.faults import Faults
from stream_apple.stream.walk.recorded_merges import RecordedMerges
from stream_apple.stream.walk.replay import Replay


class Sources:
    """Holds what a group's models are made from: its logs, its snapshots, and the factory of new models.

    fetch_records  how many records are read at a time
    merges         the merges topic; None where models are not merged
    """

    def __init__(self, logs: Logs, provenance: Provenance, new_model: ModelFactory, fetch_records: int) -> None:
        self.logs = logs
        self.provenance = provenance
        self.new_model = new_model
        self.fetch_records = fetch_records
        self.merges = None if provenance.merging is None else RecordedMerges(logs, provenance)
        self._store = SnapshotStore(logs, provenance, new_model)

    def close(self) -> None:
        """Close the reader of the merges topic."""
        if self.merges is not None:
            self.merges.close()

    def stored(self, number: int, committed: Committed) -> StoredModel:
        """Return the committed metadata, and its snapshot's model; it raises what `SnapshotStore.newest` does."""
        stored = self._store.newest(number, committed)
        metadata, model, _ = stored
        if model is not None and model.rounds is not None and metadata.merge is not None:
            # The snapshot does not say whether the model stands at a boundary; the committed note does.
            model.rounds.restore(metadata.merge.boundary, model.next_offset)
        return stored

    def newest(self, number: int, committed: Committed) -> StoredModel:
        """Return what `stored` does, but raise the fault if the snapshot can't be restored."""
        stored = self.stored(number, committed)
        if stored.fault is not None:
            raise stored.fault
        return stored

    def from_start(self, number: int, metadata: OffsetMetadata) -> PartitionModel:
        """Return a model that stands before its first record; GapError if that is gone from the log."""
        lineage = metadata.lineage
        self.check_records(number, lineage, lineage.start)
        return self.new_model(number, self.provenance.lineages(number, lineage)[0]).begin()

    def check_records(self, number: int, lineage: Lineage, start: int) -> None:
        """Raise GapError if a record from offset `start` on that the model has learned is gone from the log."""
        topic, first = self.provenance.topics.examples, behind_gap(start, lineage.gaps)
        low = self.logs.log_range(topic, number).low
        if first < low:
            raise GapError(
                f"expected the records of {topic}-{number} from offset {first} on, to learn model {lineage.model} of "
                f"group {self.provenance.group} again, found {low} as the first: the others are gone"
            )

    def replay(
        self,
        model: PartitionModel,
        metadata: OffsetMetadata,
        stop: int,
        faults: Faults,
        restored: Callable[[], PartitionModel | None] = lambda: None,
    ) -> Replay:
        """Return a replay of the model up to `stop`, by the committed metadata and the records of merges read so far.

        restored  makes the newest snapshot's model again, see `Crossing`
        """
        number, crossing = model.partition, None
        if self.merges is not None:
            crossing = Crossing(self.merges, self.provenance, number, metadata, faults, restored)
        model.skips.clear()
        return Replay(model, metadata, self.provenance.lineages(number, metadata.lineage), stop, crossing)
