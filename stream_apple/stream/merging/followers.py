"""The partitions of this worker as they go through the ends of rounds: which wait, and what is noted of each.

The state of a partition (`partitions/partition.py`) says where it stands. After a crash the note with its committed
offset is enough to begin again where it waited, or before the end of the round.
"""

from stream_apple.errors import GapError
from stream_apple.stream.merging.adoptions import AdoptionRecord
from stream_apple.stream.merging.merge_log import MergedModel
from stream_apple.stream.model.rounds import Boundary, Rounds
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.partitions.state import INCOMPLETE, State
from stream_apple.stream.positions.merge_note import BoundaryNote, BoundaryState, MergeNote
from stream_apple.stream.snapshots.codec import Snapshot, SnapshotEncoder

_AFTER_COMMIT = {State.CONTRIBUTING: State.WAITING, State.PASSING: State.LIVE}


class Follower:
    """Takes one partition of this worker from boundary to boundary.

    since    seconds of the clock at which it came to its boundary
    record   the adoption record that is still to be written of a boundary that it has passed; None: there is none
    cut_off  whether the log no longer has the records behind its boundary, so that it goes on further behind
    """

    def __init__(self, partition: Partition, now: float) -> None:
        merge, rounds = partition.plan.merge, partition.model.rounds
        assert merge is not None
        assert rounds is not None
        self.partition = partition
        self.rounds: Rounds = rounds
        self.since = now
        self.record: AdoptionRecord | None = None
        self.cut_off = False
        self._arrived = False
        self._committed = merge
        self._next = merge.boundary

    @property
    def boundary(self) -> Boundary:
        """Return the boundary that the partition stands at."""
        assert self.rounds.held is not None
        return self.rounds.held

    @property
    def waiting(self) -> bool:
        """Whether the partition waits for a merged model, its contribution being committed."""
        return self.partition.state is State.WAITING

    def arrive(self, now: float) -> bool:
        """Look, once its model has been found, whether that stands at a boundary; return whether it does.

        Later calls return False. GapError if records behind the boundary have been answered already.
        """
        if self._arrived or self.partition.state in INCOMPLETE:
            return False
        self._arrived = True
        if self.rounds.held is None:
            return False
        self._check_unanswered(self.rounds.held)
        noted = self._committed.boundary
        waits = noted is not None and noted.state is BoundaryState.CONTRIBUTED and noted.at == self.rounds.held.at
        self._stand(State.WAITING if waits else State.STOPPED, now)
        self.cut_off = self.partition.plan.jump is not None
        return True

    def _check_unanswered(self, boundary: Boundary) -> None:
        model = self.partition.model
        if model.publish_from > model.next_offset:
            raise GapError(
                f"{model.topic}-{model.partition}@{boundary.at}: expected no answer behind the end of round "
                f"{boundary.round}, where the model has yet to be merged, found answers up to {model.publish_from}: "
                f"the group's offsets are older, and with which model they were made is lost. Use a new worker.group, "
                f"and another topics.predictions and topics.dead_letters"
            )

    def stop(self, boundary: Boundary, now: float) -> None:
        """Note that the partition's model has come to a boundary; GapError as of `arrive`."""
        self._check_unanswered(boundary)
        self._stand(State.STOPPED, now)

    def _stand(self, state: State, now: float) -> None:
        self.partition.enter(state)
        self.since = now

    def begin_to_save(self, snapshot: Snapshot | SnapshotEncoder) -> bool:
        """Note that this snapshot of its model has been begun; return whether the partition passes its boundary now."""
        if snapshot.passed and self._next is not None and self._next.state is not BoundaryState.CONTRIBUTED:
            # Records behind its boundary were left out. Who restores this snapshot sees only by the note's offset that
            # it has passed the boundary.
            self._next = self._next._replace(at=snapshot.at)
        if self.partition.state is State.STOPPED:
            self.partition.enter(State.CONTRIBUTING)
            self._next = BoundaryNote(*self.boundary, BoundaryState.CONTRIBUTED)
        elif self.partition.state is State.ADOPTED:
            self._pass(BoundaryState.ADOPTED)
            return True
        return False

    def take(self, merged: MergedModel) -> AdoptionRecord:
        """Make the merged model its own; call it on a thread, while nothing else uses the partition's model."""
        manifest, model = merged.manifest, self.partition.model
        boundary = self.boundary
        model.adopt(merged.model)
        return AdoptionRecord(
            self.partition.number,
            boundary.at,
            boundary.round,
            BoundaryState.ADOPTED,
            manifest.includes(self.partition.number, boundary.at),
            merged.pointer,
            manifest.digest,
            model.digest(),
        )

    def taken(self, record: AdoptionRecord) -> None:
        """Note that its model has adopted the merged model: a snapshot of it is due, and then it goes on."""
        self.record = record
        self.partition.enter(State.ADOPTED)
        self.rounds.go_on()

    def skip(self) -> None:
        """Let the partition go on alone, without the merge of this round."""
        boundary, model = self.boundary, self.partition.model
        self.record = AdoptionRecord(
            self.partition.number,
            boundary.at,
            boundary.round,
            BoundaryState.SKIPPED,
            included=False,
            merged=None,
            digest=None,
            model=model.digest(),
        )
        self.rounds.go_on()
        self.cut_off = False
        self._pass(BoundaryState.SKIPPED)

    def _pass(self, state: BoundaryState) -> None:
        self.partition.enter(State.PASSING)
        record = self.record
        assert record is not None
        # The model stands further on than its boundary if records that are gone from the log were left out here.
        self._next = BoundaryNote(record.round, self.partition.model.next_offset, state)

    @property
    def note(self) -> MergeNote:
        """Return the note to commit with its next offset, when all snapshots in the transaction are complete."""
        return self._committed._replace(boundary=self._next)

    @property
    def due(self) -> bool:
        """Whether `note` has to be committed even if the offset is the same."""
        return self._next != self._committed.boundary

    def has_committed(self, note: MergeNote) -> BoundaryNote | None:
        """Take in that this note is committed; return its boundary if that has changed, else None."""
        changed = note.boundary != self._committed.boundary
        self._committed = note
        after = _AFTER_COMMIT.get(self.partition.state)
        if after is not None:
            self.partition.enter(after)
        if self.partition.state not in (State.ADOPTING, State.ADOPTED):
            self.rounds.uncommitted = False
        return note.boundary if changed else None
