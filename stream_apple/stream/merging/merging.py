"""All that the loop does about merging, for the partitions of one worker.

Partitions that come to a boundary are held, contribute, and go on with the merged model (`followers.py`), which the
owner of partition 0 makes (`leader.py`). Nothing here commits: it tells the loop when a commit is due.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

import structlog

from stream_apple.stream.learning.scheduler import LearningScheduler
from stream_apple.stream.log.ports import Committed
from stream_apple.stream.merging.adoptions import AdoptionRecord, adoption_key, encode_adoption
from stream_apple.stream.merging.followers import Follower
from stream_apple.stream.merging.leader import Leader, pause_s
from stream_apple.stream.merging.merge_log import MergedModel, MergeLog, NoMerge
from stream_apple.stream.merging.merging_context import MergingContext
from stream_apple.stream.model.rounds import Boundary
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.partitions.state import ANSWERING, State
from stream_apple.stream.positions.merge_note import BoundaryState, MergedPointer, MergeNote
from stream_apple.stream.snapshots.codec import Snapshot, SnapshotEncoder

POLL_S = 0.1
"""The longest time between two looks at the note of partition 0, while partitions wait."""
LEAST_POLL_S = 0.02
"""The same when a partition has just begun to wait."""

_log = structlog.get_logger()


class MergedPartitions:
    """The partitions of one worker at the ends of rounds, and the leader, if it is in this worker.

    There are none, and nothing is ever done, where each partition keeps a model of its own.

    begin     opens a transaction unless one is open
    learning  has threads work on models
    """

    def __init__(self, context: MergingContext, begin: Callable[[], None], learning: LearningScheduler) -> None:
        self._context = context
        self._begin = begin
        self._learning = learning
        settings = context.provenance.merging
        self._max_hold_s = math.inf if settings is None else settings.max_hold_s
        self._log = MergeLog(context)
        self._followers: dict[int, Follower] = {}
        self._leader: Leader | None = None
        self._poll_at = 0.0
        self._released: set[int] = set()  # to be resumed in the next iteration: a rebalance may be going on now

    def assigned(self, partitions: Iterable[Partition]) -> None:
        """Merge exactly these partitions from now on."""
        self.drop()
        now = self._context.now()
        if self._context.provenance.merging is not None:
            self._followers.update({partition.number: Follower(partition, now) for partition in partitions})
        for number, follower in self._followers.items():
            self._context.recorder.noted(number, follower.note.boundary)
        self._welcome(now)

    def drop(self) -> None:
        """Forget all partitions: they are no longer owned, or their models no longer to be trusted."""
        if self._leader is not None:
            self._leader.close()
        self._leader = None
        self._context.recorder.dropped(self._followers)
        self._followers.clear()
        self._released = set()
        self._log.drop()

    @property
    def busy(self) -> bool:
        """Whether partitions wait for work that is done here, and not for records or for other workers."""
        return (self._leader is not None and self._leader.busy) or self._log.busy or bool(self._released)

    @property
    def due_in_s(self) -> float:
        """Return for how many seconds there is nothing to do here, if it is not busy and nothing comes."""
        due = [self._poll_at] if any(follower.waiting for follower in self._followers.values()) else []
        if self._leader is not None:
            due.append(self._leader.next_look)
        return max(min(due, default=math.inf) - self._context.now(), 0.0)

    @property
    def unsaved(self) -> Collection[Partition]:
        """Return the partitions that need a snapshot to be merged or to go on; the longest wait comes first."""
        due = (State.STOPPED, State.ADOPTED)
        return [follower.partition for follower in self._in_turn() if follower.partition.state in due]

    def _in_turn(self) -> list[Follower]:
        return sorted(self._followers.values(), key=lambda follower: follower.since)

    def iterate(self) -> bool:
        """Do a little of the work of merging; return whether a commit is due at once.

        SnapshotError if an earlier merge can't be read; GapError if records behind a boundary were answered already.
        """
        if not self._followers:
            return False
        now = self._context.now()
        self._welcome(now)
        self._move_gates()
        for follower in self._followers.values():
            if follower.cut_off:
                self._skip(follower, "records behind it are gone")
        self._lead()
        self._wait_on(now)
        return self._sent is not None

    @property
    def _sent(self) -> MergedPointer | None:
        """Where the merged model is that the open transaction holds; None if it holds none."""
        return None if self._leader is None else self._leader.sent

    def _move_gates(self) -> None:
        """Pause partitions whose records were dropped as they are held; resume those that may go on, from there."""
        for partition, lost in self._learning.take_losses():
            self._context.broker.pause(partition.number, lost)
        released, self._released = self._released, set()
        for number in released:
            self._learning.go_on(self._followers[number].partition)
            self._context.broker.resume(number)

    def _hold(self, follower: Follower, among: int) -> None:
        self._learning.hold(follower.partition, follower.boundary.at, among)
        self._context.recorder.held(follower.partition.number, follower.boundary.round)

    def _welcome(self, now: float) -> None:
        """Hold the partitions whose models have just been found, and stand at a boundary."""
        for follower in self._followers.values():
            if follower.arrive(now):
                self._hold(follower, 0)  # the broker delivers nothing of it yet, so no room for records is needed

    def _wait_on(self, now: float) -> None:
        """Let partitions that wait go on: with the merged model, or without it if they have waited for too long."""
        waiting = [follower for follower in self._in_turn() if follower.waiting]
        if not waiting:
            return
        if now >= self._poll_at:
            self._poll_at = now + pause_s(now - waiting[-1].since, LEAST_POLL_S, POLL_S)
            self._log.follow(self._newest())
        self._log.read_on()
        self._answer(waiting)
        for follower in waiting:
            if follower.waiting and now - follower.since > self._max_hold_s:
                self._skip(follower, "no merged model has come in time")

    def _answer(self, waiting: Collection[Follower]) -> None:
        """Let those go on whose round has an answer; one merged model is in memory at a time, the earliest first.

        A round that is not merged yet holds up no other: it may be there only because a clock was wrong.
        """
        for number in sorted({follower.boundary.round for follower in waiting}):
            answer = self._log.ask(number)
            for follower in waiting:
                if not follower.waiting or follower.boundary.round != number:
                    continue
                if isinstance(answer, MergedModel):
                    self._adopt(follower, answer)
                elif answer is NoMerge.GONE:
                    self._skip(follower, "the merged model is gone from the log")
            if answer not in (NoMerge.ABSENT, NoMerge.GONE):
                return

    def _newest(self) -> MergedPointer | None:
        if self._leader is not None:
            return self._leader.newest
        committed = self._context.broker.committed_now([0])[0]
        merge = None if committed is None else self._context.provenance.read_metadata(0, committed).merge
        return None if merge is None else merge.merged

    def _adopt(self, follower: Follower, merged: MergedModel) -> None:
        """Have a thread make the merged model the partition's own."""
        follower.partition.enter(State.ADOPTING)

        def taken(record: AdoptionRecord) -> None:
            if self._followers.get(follower.partition.number) is follower:
                follower.taken(record)
                self._report_adoption(follower, merged, record)

        self._learning.ask(follower.partition, partial(follower.take, merged), taken)

    def _report_adoption(self, follower: Follower, merged: MergedModel, record: AdoptionRecord) -> None:
        seconds = self._context.now() - follower.since
        _log.info(
            "round_adopted",
            partition=record.partition,
            round=record.round,
            offset=record.at,
            included=record.included,
            roster_size=len(merged.manifest.roster),  # the event round_merged names them
            digest=record.model,
            seconds=round(seconds, 3),
        )
        self._context.recorder.went_on(record.partition, "adopted" if record.included else "late", seconds)
        self._context.recorder.saw(merged.manifest)

    def _skip(self, follower: Follower, reason: str) -> None:
        """Let the partition go on without the merge, from this transaction on."""
        boundary, seconds = follower.boundary, self._context.now() - follower.since
        follower.skip()
        self._begin()
        self._record(follower)
        _log.warning(
            "round_skipped",
            partition=follower.partition.number,
            round=boundary.round,
            offset=boundary.at,
            reason=reason,
            seconds=round(seconds, 3),
        )
        self._context.recorder.went_on(follower.partition.number, "skipped", seconds)
        self._released.add(follower.partition.number)

    def _record(self, follower: Follower) -> None:
        record, provenance = follower.record, self._context.provenance
        assert record is not None
        follower.record = None
        key = adoption_key(provenance.group, record.partition)
        self._context.broker.send(provenance.topics.merges, 0, key, encode_adoption(provenance.group, record), 0)

    def stopped(self, partition: Partition, boundary: Boundary) -> None:
        """Take note that the partition's model has come to the end of a round; it learns nothing more for now."""
        follower = self._followers[partition.number]
        follower.stop(boundary, self._context.now())
        self._hold(follower, len(self._followers))

    def saving(self, partition: Partition, snapshot: Snapshot | SnapshotEncoder) -> None:
        """Take note that this snapshot of the partition's model has been begun, in the open transaction; record it."""
        follower = self._followers.get(partition.number)
        if follower is not None and follower.begin_to_save(snapshot):
            self._record(follower)
            self._released.add(partition.number)

    def before_commit(self) -> None:
        """Wait until the broker has the whole of a merged model in the transaction, as the note says where it is."""
        if self._leader is not None:
            self._leader.finish()

    def progress(self, owned: Iterable[Partition]) -> dict[Partition, Committed]:
        """Return what the next transaction must commit, when all snapshots in it are complete."""
        if not self._followers:
            return {partition: new for partition in owned if (new := partition.progress()) is not None}
        found = {}
        for partition in owned:
            follower = self._followers[partition.number]
            due = follower.due or (partition.number == 0 and self._sent is not None)
            committed = partition.progress(self._note(follower), due=due)
            if committed is not None:
                found[partition] = committed
        return found

    def _note(self, follower: Follower) -> MergeNote:
        """Return the note to commit with the partition's next offset."""
        if follower.partition.number == 0 and self._leader is not None:
            return follower.note._replace(merged=self._sent or self._leader.newest)
        return follower.note

    def committed(self, progress: Mapping[Partition, Committed]) -> None:
        """Take note that a transaction is committed, with these offsets and their notes."""
        if not self._followers:
            return
        # The notes are made again here: nothing that they depend on has changed since `progress`.
        for partition in progress:
            follower = self._followers[partition.number]
            boundary = follower.has_committed(self._note(follower))
            if boundary is not None and boundary.state is BoundaryState.CONTRIBUTED:
                pointer = partition.snapshot
                _log.info(
                    "round_contributed",
                    partition=partition.number,
                    round=boundary.round,
                    offset=boundary.at,
                    digest=None if pointer is None else pointer.digest,
                )
        if self._leader is not None and self._leader.sent is not None:
            self._leader.committed()
        if any(self._followers[partition.number].waiting or partition.number == 0 for partition in progress):
            self._poll_at = self._context.now()  # what has just been committed need not wait for the next poll
            if self._leader is not None:
                self._leader.look_soon()

    def _lead(self) -> None:
        """Do a little of the leader's work, if partition 0 is in this worker and answers records."""
        first = self._followers.get(0)
        if first is None or first.partition.state not in ANSWERING:
            return
        if self._leader is None:
            merge = first.partition.plan.merge
            newest = None if merge is None else merge.merged
            self._leader = Leader(self._context, self._log, self._learning.run_aside, self._begin, newest)
        self._leader.step()
