"""A partition of the examples topic that a worker owns, with its model; `state.py` has its life as a table."""

from stream_apple.stream.log.ports import Committed
from stream_apple.stream.model.partition_model import BatchResult, PartitionModel
from stream_apple.stream.partitions.recovery import RecoveryPlan
from stream_apple.stream.partitions.schema_gate import SchemaGate
from stream_apple.stream.partitions.state import ANSWERING, TRANSITIONS, State
from stream_apple.stream.positions.lineage import OffsetMetadata, SnapshotPointer
from stream_apple.stream.positions.merge_note import MergeNote


class Partition:
    """One partition of the examples topic that this worker owns, or has just given back.

    plan              how its model was found
    sent_offset       the first record whose outputs have not been sent, though its model may have learned it
    committed_offset  the first record whose outputs are not committed, as far as this worker knows
    snapshot          the newest committed snapshot
    written           a snapshot that is in the open transaction, to be committed with it; None: there is none
    saved_at_ms       time of day when the newest snapshot was written, 0 if that is not known
    unsaved_since     seconds of the worker's clock at which the newest whole snapshot was complete, or the model found
    epoch_ended       whether an epoch has ended since the newest whole snapshot
    recovered         whether it has become live after a recovery, and nothing of it has been committed since
    restarted         whether it begins elsewhere than was planned when it was assigned
    lineage           of its model at `sent_offset`
    gate              is closed while a schema is awaited, without which nothing further can be read
    """

    def __init__(self, model: PartitionModel, plan: RecoveryPlan, gate: SchemaGate | None = None) -> None:
        self.plan = plan
        self.model = model
        self.state = State.ASSIGNED
        self.sent_offset = plan.fetch_from
        self.committed_offset = plan.publish_from
        self.snapshot = plan.snapshot
        self.written: SnapshotPointer | None = None
        self.saved_at_ms = 0
        self.unsaved_since = 0.0
        self.epoch_ended = False
        self.recovered = False
        self.restarted = False
        self.lineage = plan.lineage
        self.gate = gate or SchemaGate(model.partition, None)

    def answer_again(self, first: int) -> None:
        """Publish, and commit, from record `first` on, though a later offset is committed."""
        self.model.publish_from = self.committed_offset = first

    def restart(self, model: PartitionModel, snapshot: SnapshotPointer | None) -> None:
        """Begin with this new model, and this snapshot instead of that of the plan; None: from the model's start."""
        model.publish_from, model.skips = self.model.publish_from, self.model.skips
        self.model, self.snapshot = model, snapshot
        self.plan = self.plan._replace(snapshot=snapshot)
        self.sent_offset = self.plan.fetch_from
        self.restarted = True

    @property
    def number(self) -> int:
        """Return the partition's number in the topic."""
        return self.model.partition

    @property
    def jumped(self) -> bool:
        """Whether it is live, and its model has left out records since its newest snapshot.

        A new snapshot is committed together with the changed lineage. So a replay from a snapshot never meets a record
        that was left out, and each further gap lies behind all before.
        """
        return self.state in ANSWERING and self.lineage.left_out > self._saved

    @property
    def replayed(self) -> bool:
        """Whether every record whose outputs are committed has been learned again."""
        return self.sent_offset >= self.model.publish_from

    @property
    def awaited(self) -> bool:
        """Whether outputs for which readers have waited during a recovery could be committed."""
        return self.recovered and self.sent_offset > self.committed_offset

    @property
    def unsaved(self) -> int:
        """Return how many offsets a successor would have to replay if `sent_offset` were committed."""
        saved = self.lineage.start if self.snapshot is None else self.snapshot.at
        return self.sent_offset - saved

    @property
    def _saved(self) -> int:
        newest = self.written or self.snapshot
        return self.lineage.start if newest is None else newest.at

    def pass_on(self, result: BatchResult) -> None:
        """Note that the outputs of `result` are the next that are sent."""
        self.sent_offset = result.next_offset
        if result.lineage is not None:
            self.lineage = result.lineage

    def enter(self, state: State) -> None:
        """Begin `state`; AssertionError, and no change, if TRANSITIONS does not allow it."""
        if state not in TRANSITIONS[self.state]:
            raise AssertionError(f"partition {self.number} can't go from {self.state} to {state}")
        self.state = state

    def progress(self, merge: MergeNote | None = None, *, due: bool = False) -> Committed | None:
        """Return what the next transaction must commit, or None if nothing has changed since the last.

        merge  the note about merging; None where models are not merged
        due    whether that note has changed
        """
        if self.state not in ANSWERING or (
            self.sent_offset <= self.committed_offset and self.written is None and not due
        ):
            return None
        metadata = OffsetMetadata(self.lineage, self.written or self.snapshot, merge)
        return Committed(self.sent_offset, metadata.to_text())

    def has_committed(self, committed: Committed) -> None:
        """Note that the transaction with `committed` in it is committed."""
        self.committed_offset = committed.offset
        self.recovered = False
        if self.written is not None:
            self.snapshot, self.written = self.written, None
