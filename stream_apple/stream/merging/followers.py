"""The partitions of this worker as they go through the ends of rounds: who waits, and what is noted of each.

Where each stands is its state (`partitions/partition.py`). What is noted with its committed offset is enough to begin
again where it waited, or before the end of the round.
"""

from typing import NamedTuple

from stream_apple.core.learner.merging.merge import MergeCounts
from stream_apple.errors import GapError
from stream_apple.stream.merging.adoptions import AdoptionRecord
from stream_apple.stream.merging.merge_log import MergedModel
from stream_apple.stream.model.model_image import ModelImage
from stream_apple.stream.model.rounds import Boundary, Rounds
from stream_apple.stream.partitions.partition import INCOMPLETE, Partition, State
from stream_apple.stream.positions.merge_note import BoundaryNote, BoundaryState, MergeNote, MergeSettings
from stream_apple.stream.snapshots.codec import Reference, refer
from stream_apple.stream.snapshots.merge_messages import RosterEntry

_AFTER_COMMIT = {State.CONTRIBUTING: State.WAITING, State.PASSING: State.LIVE}


class Adopted(NamedTuple):
    """Holds what came of a model that has become a merged one.

    record     its place of the merged model is missing if that has yet to be written
    reference  None if the model was merged with its own once more
    counts     of that second merge
    """

    record: AdoptionRecord
    reference: Reference | None
    counts: MergeCounts | None


class Follower:
    """Takes one partition of this worker from boundary to boundary.

    since      seconds of a clock: since when it has stood at its boundary
    digest     of its model there
    record     what is to be recorded of the boundary that is behind it; None when that has been
    reference  what is to be saved of its model behind the boundary, if its table is all that of the merged model
    cut_off    whether the records behind its boundary are gone, so that it stands elsewhere by now
    """

    def __init__(self, partition: Partition, now: float) -> None:
        merge, rounds = partition.plan.merge, partition.model.rounds
        assert merge is not None
        assert rounds is not None
        self.partition = partition
        self.rounds: Rounds = rounds
        self.since = now
        self.digest = ""
        self.record: AdoptionRecord | None = None
        self.reference: Reference | None = None
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

    @property
    def lends(self) -> bool:
        """Whether a leader in this worker can have what it contributes, which is not committed yet, from its model."""
        return self.partition.state in (State.STOPPED, State.CONTRIBUTING) and not self.cut_off

    def defers(self, now: float, defer_s: float) -> bool:
        """Whether it does so without writing it, which it need not for so long at first."""
        return self.lends and self.partition.state is State.STOPPED and now - self.since < defer_s

    def stands_at(self, entry: RosterEntry) -> bool:
        """Whether the model still is what it was when it contributed that."""
        state, held = self.partition.state, self.rounds.held
        still = state in (State.STOPPED, State.CONTRIBUTING, State.WAITING)
        return still and held is not None and (held.at, self.digest) == (entry.at, entry.digest)

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
        """The partition's model has come to a boundary."""
        self._check_unanswered(boundary)
        self._stand(State.STOPPED, now)

    def _stand(self, state: State, now: float) -> None:
        self.partition.enter(state)
        self.since = now
        self.digest = self.partition.model.digest_at_boundary()

    def begin_to_save(self, image: ModelImage) -> bool:
        """This snapshot of its model has been begun; whether it goes on behind its boundary with that."""
        if image.passed and self._next is not None and self._next.state is not BoundaryState.CONTRIBUTED:
            # What follows its boundary was left out: no one else can tell, from this snapshot, that it has passed it.
            self._next = self._next._replace(at=image.at)
        # It is whole, and of no earlier state.
        self.reference = None
        if self.partition.state is State.STOPPED:
            self.partition.enter(State.CONTRIBUTING)
            self._next = BoundaryNote(*self.boundary, BoundaryState.CONTRIBUTED)
        elif self.partition.state is State.ADOPTING:
            # It was asked for before a thread began with that.
            self._next = BoundaryNote(*self.boundary, BoundaryState.CONTRIBUTED)
        elif self.partition.state is State.ADOPTED:
            self._pass(BoundaryState.ADOPTED)
            return True
        return False

    def take(self, merged: MergedModel, settings: MergeSettings) -> Adopted:
        """Make the merged model its own; on a thread that has its model to itself."""
        manifest, model = merged.manifest, self.partition.model
        boundary = self.boundary
        included = manifest.includes(self.partition.number, boundary.at)
        counts = model.adopt(
            merged.model, included=included, roster_size=len(manifest.roster), parents=settings.parents
        )
        digest = model.digest()
        record = AdoptionRecord(
            self.partition.number,
            boundary.at,
            boundary.round,
            BoundaryState.ADOPTED,
            included,
            merged.pointer,
            manifest.digest,
            digest,
        )
        return Adopted(record, refer(model, digest) if included else None, counts)

    def taken(self, adopted: Adopted) -> bool:
        """The merged model is the partition's own now; whether it goes on with that.

        Else a snapshot is due, its table being no other's.
        """
        self.record, self.reference, _ = adopted
        self.partition.enter(State.ADOPTED)
        self.rounds.go_on()
        if self.reference is not None:
            self._pass(BoundaryState.ADOPTED)
        return self.reference is not None

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

    def has_committed(self, note: MergeNote) -> BoundaryNote | None:
        """This has been noted; the part about the boundary, if that is new."""
        changed = note.boundary != self._committed.boundary
        self._committed = note
        after = _AFTER_COMMIT.get(self.partition.state)
        if after is not None:
            self.partition.enter(after)
        if self.partition.state not in (State.ADOPTING, State.ADOPTED):
            self.rounds.uncommitted = False
        return note.boundary if changed else None
