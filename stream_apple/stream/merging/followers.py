"""The partitions of this worker as they go through the ends of rounds: who waits, and what is noted of each.

Where each stands is its state (`partitions/partition.py`). What is noted with its committed offset is enough to begin
again where it waited, or before the end of the round.
"""

from stream_apple.core.learner.merging.merge import MergeCounts
from stream_apple.errors import GapError
from stream_apple.stream.merging.adoptions import AdoptionRecord
from stream_apple.stream.merging.merge_log import MergedModel
from stream_apple.stream.model.model_image import ModelImage
from stream_apple.stream.model.rounds import Boundary, Rounds
from stream_apple.stream.partitions.partition import INCOMPLETE, Partition, State
from stream_apple.stream.positions.merge_note import BoundaryNote, BoundaryState, MergeNote, MergeSettings

_AFTER_COMMIT = {State.CONTRIBUTING: State.WAITING, State.PASSING: State.LIVE}


class Follower:
    """Takes one partition of this worker from boundary to boundary.

    since      seconds of a clock: since when it has stood at its boundary
    record     what is to be recorded of the boundary that is behind it
    blocks     of its table, encoded, if it is all that of a merged model: from its adoption until that is saved
    cut_off    whether the records behind its boundary are gone, so that it stands elsewhere by now
    """

    def __init__(self, partition: Partition, now: float) -> None:
        merge, rounds = partition.plan.merge, partition.model.rounds
        assert merge is not None
        assert rounds is not None
        self.partition = partition
        self.rounds: Rounds = rounds
        self.since = now
        self.record: AdoptionRecord | None = None
        self.blocks: tuple[bytes, ...] = ()
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
        """Whether the partition waits for a merged model."""
        return self.partition.state is State.WAITING

    def arrive(self, now: float) -> bool:
        """Look whether the model, if it has just been found, stands at a boundary, before it learns anything.

        GapError if what lies behind has been answered already.
        """
        if self._arrived or self.partition.state in INCOMPLETE:
            return False
        self._arrived = True
        if self.rounds.held is None:
            return False
        self._check_unanswered(self.rounds.held)
        noted = self._committed.boundary
        waits = noted is not None and noted.state is BoundaryState.CONTRIBUTED and noted.at == self.rounds.held.at
        self.partition.enter(State.WAITING if waits else State.STOPPED)
        self.since = now
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
        """The partition's model has come to a boundary."""
        self._check_unanswered(boundary)
        self.partition.enter(State.STOPPED)
        self.since = now

    def begin_to_save(self, image: ModelImage) -> bool:
        """This snapshot of its model has been begun; whether it goes on behind its boundary with that."""
        if image.passed and self._next is not None and self._next.state is not BoundaryState.CONTRIBUTED:
            # What follows its boundary was left out: no one else can tell, from this snapshot, that it has passed it.
            self._next = self._next._replace(at=image.at)
        if self.partition.state is State.STOPPED:
            self.partition.enter(State.CONTRIBUTING)
            self._next = BoundaryNote(*self.boundary, BoundaryState.CONTRIBUTED)
        elif self.partition.state is State.ADOPTED:
            self.blocks = ()
            self.partition.enter(State.PASSING)
            self._reach(BoundaryState.ADOPTED)
            return True
        return False

    def take(self, merged: MergedModel, settings: MergeSettings) -> MergeCounts | None:
        """Make the merged model its own; on a thread that has its model to itself."""
        manifest, model = merged.manifest, self.partition.model
        boundary = self.boundary
        included = manifest.includes(self.partition.number, boundary.at)
        counts = model.adopt(
            merged.model, included=included, roster_size=len(manifest.roster), parents=settings.parents
        )
        self.blocks = tuple(merged.blocks) if included else ()
        self.record = AdoptionRecord(
            self.partition.number,
            boundary.at,
            boundary.round,
            BoundaryState.ADOPTED,
            included,
            merged.pointer,
            manifest.digest,
            model.digest(),
        )
        return counts

    def taken(self) -> None:
        """The merged model is the partition's own now, and a snapshot of it is due."""
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
        self.partition.enter(State.PASSING)
        self._reach(BoundaryState.SKIPPED)

    def _reach(self, state: BoundaryState) -> None:
        record = self.record
        assert record is not None
        # Where the model stands, which is further on if records that are gone from the log were left out here.
        self._next = BoundaryNote(record.round, self.partition.model.next_offset, state)

    @property
    def note(self) -> MergeNote:
        """What is to be noted beside its next offset, when all snapshots in the transaction are complete."""
        return self._committed._replace(boundary=self._next)

    @property
    def due(self) -> bool:
        """Whether `note` has to be committed, even if the offset is the same."""
        return self._next != self._committed.boundary

    def has_committed(self, note: MergeNote) -> BoundaryState | None:
        """This has been noted; what has become of a boundary, if that is new."""
        changed = note.boundary != self._committed.boundary
        self._committed = note
        after = _AFTER_COMMIT.get(self.partition.state)
        if after is not None:
            self.partition.enter(after)
        if self.partition.state not in (State.ADOPTING, State.ADOPTED):
            self.rounds.uncommitted = False
        return None if note.boundary is None or not changed else note.boundary.state
