"""The partitions of this worker as they go through the ends of rounds: which wait, and what is noted of each.

The state of a partition (`partitions/partition.py`) says where it stands. After a crash the note with its committed
offset is enough to begin again where it waited, or before the end of the round.
"""

from collections.abc import Mapping
from typing import NamedTuple

from stream_apple.errors import GapError
from stream_apple.learners.merging_port import MergeCounts, Parents
from stream_apple.learners.port import Learner
from stream_apple.stream.log.ports import Committed
from stream_apple.stream.merging.adoptions import AdoptionRecord
from stream_apple.stream.merging.merge_log import MergedModel
from stream_apple.stream.merging.open_rounds import Standing
from stream_apple.stream.model.rounds import Boundary, Rounds
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.partitions.state import INCOMPLETE, State
from stream_apple.stream.positions.lineage import SnapshotPointer
from stream_apple.stream.positions.merge_note import BoundaryNote, BoundaryState, MergeNote
from stream_apple.stream.snapshots.codec import Reference, Snapshot, SnapshotEncoder, refer
from stream_apple.stream.snapshots.merge_messages import RosterEntry

_AFTER_COMMIT = {State.CONTRIBUTING: State.WAITING, State.PASSING: State.LIVE}


class Adopted(NamedTuple):
    """Holds the result of a partition's adopting a merged model.

    record     to be written; `record.merged` is None as long as the merged model has not been written
    reference  to the merged table, which the model has now; None if the model's own was merged with it once more
    counts     of that second merge; None if there was none
    """

    record: AdoptionRecord
    reference: Reference | None
    counts: MergeCounts | None


class Follower:
    """Takes one partition of this worker from boundary to boundary.

    since      seconds of the clock at which it came to its boundary
    digest     of its model there
    record     the adoption record that is still to be written of a boundary that it has passed; None: there is none
    reference  the snapshot that is still to be written behind the boundary, if its table is the merged model's
    cut_off    whether the log no longer has the records behind its boundary, so that it goes on further behind
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
        """Whether its contribution is not committed yet, but a leader in this worker can take it from its model."""
        return self.partition.state in (State.STOPPED, State.CONTRIBUTING) and not self.cut_off

    def defers(self, now: float, defer_s: float) -> bool:
        """Whether it lends its model and need not write it yet, as it has stood there for less than `defer_s`."""
        return self.lends and self.partition.state is State.STOPPED and now - self.since < defer_s

    def stands_at(self, entry: RosterEntry) -> bool:
        """Whether the model is still in the state that this contribution has."""
        state, held = self.partition.state, self.rounds.held
        still = state in (State.STOPPED, State.CONTRIBUTING, State.WAITING)
        return still and held is not None and (held.at, self.digest) == (entry.at, entry.digest)

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
        self.digest = self.partition.model.digest_at_boundary()

    def begin_to_save(self, snapshot: Snapshot | SnapshotEncoder) -> bool:
        """Note that this snapshot of its model has been begun; return whether the partition passes its boundary now."""
        if snapshot.passed and self._next is not None and self._next.state is not BoundaryState.CONTRIBUTED:
            # Records behind its boundary were left out. Who restores this snapshot sees only by the note's offset that
            # it has passed the boundary.
            self._next = self._next._replace(at=snapshot.at)
        # The snapshot is a whole one, and newer than what a reference would save.
        self.reference = None
        if self.partition.state is State.STOPPED:
            self.partition.enter(State.CONTRIBUTING)
            self._next = BoundaryNote(*self.boundary, BoundaryState.CONTRIBUTED)
        elif self.partition.state is State.ADOPTING:
            # The snapshot was asked for before a thread began to adopt.
            self._next = BoundaryNote(*self.boundary, BoundaryState.CONTRIBUTED)
        elif self.partition.state is State.ADOPTED:
            self._pass(BoundaryState.ADOPTED)
            return True
        return False

    def take(self, merged: MergedModel, parents: Parents) -> Adopted:
        """Make the merged model its own; call it on a thread, while nothing else uses the partition's model."""
        manifest, model = merged.manifest, self.partition.model
        boundary = self.boundary
        included = manifest.includes(self.partition.number, boundary.at)
        counts = model.adopt(merged.model, included=included, roster_size=len(manifest.roster), parents=parents)
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
        """Note that its model has adopted the merged model; return whether it goes on at once.

        Otherwise a whole snapshot is due first, as its table is not the merged model's.
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


class LocalPartitions:
    """The partitions of a worker, as its leader knows them without asking the broker.

    followers  by number
    commits    the newest commit of each since it was assigned
    """

    def __init__(self) -> None:
        self.followers: dict[int, Follower] = {}
        self.commits = dict[int, Committed]()

    @property
    def lent(self) -> Mapping[int, Standing]:
        """Return where partitions stand whose contributions are in this worker's memory, and not committed yet."""
        return {
            number: Standing(
                offset=each.boundary.at,
                boundary=BoundaryNote(*each.boundary, BoundaryState.CONTRIBUTED),
                snapshot=SnapshotPointer(each.boundary.at, -1, -1, each.digest),
            )
            for number, each in self.followers.items()
            if each.lends
        }

    def model(self, entry: RosterEntry) -> Learner | None:
        """Return the partition's learner, if it is in this worker and still at this contribution; else None."""
        follower = self.followers.get(entry.partition)
        if follower is None or not follower.stands_at(entry):
            return None
        return follower.partition.model.learner
