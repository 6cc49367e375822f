"""A replica of one partition's model: it learns the records that the group has answered, and publishes nothing.

It is never ahead of the group's committed offset. So it knows of records that are left out, of adopted models and of
gaps before it comes to them; its state at the offset of each newer snapshot can be compared with the worker's; and it
gives no answer by a model that the group turns out not to have.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Literal, Protocol

import structlog

from stream_apple.errors import BrokerError, ConfigurationError, GapError, StreamAppleError
from stream_apple.stream.following.lag import Lag
from stream_apple.stream.following.turns import Turns
from stream_apple.stream.log.ports import Committed, Reader, Record
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import SnapshotPointer, behind_gap
from stream_apple.stream.positions.merge_note import BoundaryState, MergeNote
from stream_apple.stream.walk.answers import Outputs
from stream_apple.stream.walk.faults import Faults
from stream_apple.stream.walk.moment import Moment
from stream_apple.stream.walk.rebuilding import pass_through
from stream_apple.stream.walk.replay import Replay
from stream_apple.stream.walk.sources import Sources

Source = Literal["log", "snapshots"]
"""What a model follows: the log, or only the snapshots of the group."""

PORTION_S = 0.001
"""Seconds in which a portion of records is learned; a question waits for one portion at most. With shorter portions,
calls would cost more than learning."""
_MOST_RECORDS = 1_000
_FEWEST_RECORDS = 16
_AT_ONCE = 200  # records of a fetch: the client blocks the interpreter while it makes them
_RETRY_S = 5.0
UNDECIDED_S = 5.0
"""How long an open transaction of a dead worker may stop the reading of merges before the other replicas go on."""
_PATIENCE_S = 0.002  # seconds for which questions go before learning
_BEHIND_S = 1.0  # from this lag on, learning is as urgent as questions
GONE_S = 30.0
"""Seconds after which it is believed that a group has no offset any more: a broker that is just coming back may know of
none, and give no error."""

_log = structlog.get_logger()


class DigestCheck(StrEnum):
    """Says how a replica's state compares with a worker's snapshot; MISSED if it was not computed at that offset."""

    EQUAL = "equal"
    DIFFERENT = "different"
    MISSED = "missed"


class ReplicaRecorder(Protocol):
    """Counts what replicas do."""

    def following(self, replica: "Replica") -> None:
        """Note that the replica follows its partition from now on."""

    def checked(self, partition: int, outcome: DigestCheck) -> None:
        """Note that the model has been compared with a newer snapshot of the worker."""

    def restored(self, partition: int) -> None:
        """Note that the model has been made anew."""


class Replica:
    """Follows the model of one partition. One thread calls `tell` and `step`; any thread may use the model in a turn.

    model      None before there is one, and after it was found to differ from the group's
    turns      on the model
    own_lag    the lag behind the group's committed offset
    total_lag  the lag behind the end of the log; if only snapshots are followed, behind the committed offset
    """

    def __init__(
        self,
        number: int,
        sources: Sources,
        source: Source,
        recorder: ReplicaRecorder,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.number = number
        self.model: PartitionModel | None = None
        self.turns = Turns()
        self.own_lag, self.total_lag = Lag(now), Lag(now)
        self._sources = sources
        self._source = source
        self._recorder = recorder
        self._now = now
        self._place = f"{sources.provenance.topics.examples}-{number}"
        self._retry_at = float("-inf")
        self._committed: Committed | None = None
        self._gone_since: float | None = None
        self._reader: Reader | None = None
        self._waiting: deque[Record] = deque()
        self._portion = _FEWEST_RECORDS
        self._forget()

    def _forget(self) -> None:
        self._replay: Replay | None = None
        self._stop: Committed | None = None  # the offset that `_replay` leads to, or that the last one has led to
        self._pointer: SnapshotPointer | None = None  # of the newest snapshot that has been compared
        self._noted: MergeNote | None = None
        self._faults = Faults()

    def tell(self, committed: Committed | None) -> None:
        """Take in what the group has committed by now."""
        if committed is None and self._committed is not None:
            if self._gone_since is None:
                self._gone_since = self._now()
            if self._now() - self._gone_since < GONE_S:
                return
            self._drop("expected what the group has committed to stay, found that it is gone")
        self._committed, self._gone_since = committed, None
        if committed is not None:
            self.own_lag.tell(committed.offset)
            # The end is taken only now that the cluster has answered: without answers, the reader's end may be old.
            self.total_lag.tell(max(self._log_end, committed.offset))

    def tell_empty(self) -> None:
        """Take in that the log has no record, and the group no offset: nothing is behind."""
        for lag in (self.own_lag, self.total_lag):
            lag.reach(0)
            lag.tell(0)

    @property
    def absence(self) -> str:
        """Return what a question is told that finds no model."""
        if self._committed is None:
            return "that no offset is known that the group has committed: no worker has answered an example of it"
        if self._source == "snapshots":
            return "that no snapshot of it has been restored yet"
        return "that it is still to be restored"

    def step(self) -> bool:
        """Do a little work; return whether there was any. Log errors, and drop a model that they put in doubt."""
        if self._committed is None or self._now() < self._retry_at:
            return False
        try:
            return self._restore() if self.model is None else self._follow(self.model)
        except BrokerError as error:
            # The model is right as of its offset; it is only unknown whether there are more records.
            self._wait(error)
        except GapError as error:
            # Records are gone. The model is right as of its offset, and goes on if the group leaves them out, too.
            if self._is_overtaken():
                self._drop(str(error))
            self.close()
            self._wait(error)
        except StreamAppleError as error:
            self._drop(str(error))
            self._wait(error)
        return False

    def _is_overtaken(self) -> bool:
        """Whether the group has a snapshot that is ahead of the model."""
        if self._committed is None or self.model is None:
            return False
        try:
            snapshot = self._sources.provenance.read_metadata(self.number, self._committed).snapshot
        except ConfigurationError:
            return True  # the group has other models by now
        return snapshot is not None and snapshot.at > self.model.next_offset

    def close(self) -> None:
        """Close the reader of the examples."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._waiting.clear()

    def _wait(self, error: StreamAppleError) -> None:
        self._retry_at = self._now() + _RETRY_S
        _log.warning("replica_failed", partition=self.number, error=str(error), kind=type(error).__name__)

    def _drop(self, why: str) -> None:
        """Drop the model; it gives no answer before it is restored."""
        if self.model is not None:
            _log.error("replica_dropped", partition=self.number, offset=self.model.next_offset, reason=why)
        self.model = None  # a thread that scores by it now has a turn, in which it does not change
        self.close()
        self._forget()

    def _restore(self) -> bool:
        """Make the model; return whether there is one now."""
        committed, began = self._committed, self._now()
        assert committed is not None
        metadata, model, _ = self._sources.newest(self.number, committed)
        if model is None:
            if self._source == "snapshots":
                return False
            model = self._sources.from_start(self.number, metadata)
        # The snapshot may be newer than the committed offset that was taken in; then there is nothing to learn yet.
        self._pointer = metadata.snapshot
        self._take(model)
        seconds = self._now() - began
        self._recorder.restored(self.number)
        _log.info(
            "replica_restored",
            partition=self.number,
            offset=model.next_offset,
            digest=None if metadata.snapshot is None else metadata.snapshot.digest,
            seconds=round(seconds, 3),
        )
        return True

    def _take(self, model: PartitionModel) -> None:
        model.publish_from = 1 << 62  # nothing is published
        self.model = model
        self._reached(model.next_offset)

    def _follow(self, model: PartitionModel) -> bool:
        if self._source == "snapshots":
            return self._follow_snapshots()
        if self._replay is None:
            if self._committed == self._stop:
                return self._look_ahead(model)
            self._begin(model)
        return True if self._replay is None else self._learn_on(self._replay)

    def _follow_snapshots(self) -> bool:
        assert self._committed is not None
        metadata = self._sources.provenance.read_metadata(self.number, self._committed)
        if metadata.snapshot in (None, self._pointer):
            return False
        return self._restore()

    def _begin(self, model: PartitionModel) -> None:
        """Begin to replay up to the offset that is committed now."""
        stop, provenance = self._committed, self._sources.provenance
        assert stop is not None
        metadata = provenance.read_metadata(self.number, stop)
        lineages = provenance.lineages(self.number, metadata.lineage)
        if (stop.offset < model.next_offset and self._stop is not None) or model.lineage not in lineages:
            self._drop(
                f"expected the group to go on from {self._place}@{model.next_offset} with model {model.lineage.model}, "
                f"found model {metadata.lineage.model} at {stop.offset}"
            )
            return
        if self._sources.merges is not None and (metadata.merge != self._noted or model.held is not None):
            self._sources.merges.read_on(UNDECIDED_S)
        self._noted = metadata.merge
        self._stop = stop
        self._replay = replay = self._sources.replay(model, metadata, stop.offset, self._faults)
        if model.next_offset == self._at_new_snapshot and not replay.saved_at_boundary:
            self._compare(model.digest())
        if model.held is not None:
            with self._changing():
                pass_through(replay.stand())
                self._compare_at_boundary(replay)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Inside this context, only the caller uses the model, and may change it; an error inside drops the model."""
        behind = self.own_lag.waited_s > _BEHIND_S
        with self.turns.learning(0.0 if behind else _PATIENCE_S):
            try:
                yield
            except BaseException:
                self.model = None
                raise

    def _learn_on(self, replay: Replay) -> bool:
        """Learn a portion of the fetched records; return whether something was done."""
        fetched = self._fetch()
        self._look_behind(replay)
        portion = [] if self._replay is None else self._take_portion(replay)
        if portion:
            with self._changing():
                began = self._now()
                pass_through(replay.learn(portion, Outputs([], [])))
                self._adapt(len(portion), self._now() - began)
                self._compare_on_the_way(replay)
            self._reached(replay.model.next_offset)
        if self._replay is not None and self._has_arrived(replay):
            self._finish(replay)
            return True
        return bool(portion) or fetched > 0

    def _look_behind(self, replay: Replay) -> None:
        """Have the model look at the next record, and stop, if the group's model has ended a round where it stands."""
        noted, model = None if replay.crossing is None else replay.crossing.noted, replay.model
        if noted is None or not self._waiting or (model.next_offset, Moment.of(model).boundary) != (noted.at, ""):
            return
        with self._changing():
            pass_through(replay.look_behind(self._waiting[0]))
            self._compare_on_the_way(replay)
            self._compare_at_boundary(replay)

    def _take_portion(self, replay: Replay) -> list[Record]:
        """Take the next records below the stop, at most as many as are learned in PORTION_S."""
        held = replay.model.held
        if held is not None and held.at < replay.stop:
            return []  # records behind the boundary can't be learned; `_finish` reports why
        portion: list[Record] = []
        waiting = self._waiting
        while waiting and len(portion) < self._portion and waiting[0].offset() < replay.stop:
            record = waiting.popleft()
            if record.offset() >= replay.model.next_offset:
                portion.append(record)
        return portion

    def _adapt(self, learned: int, seconds: float) -> None:
        fitting = int(learned * PORTION_S / max(seconds, 1e-6))
        self._portion = min(max((self._portion + fitting) // 2, _FEWEST_RECORDS), _MOST_RECORDS)

    def _has_arrived(self, replay: Replay) -> bool:
        if replay.unproved is not None or self._faults.counts.total():
            return True
        if self._waiting and self._waiting[0].offset() < replay.stop:
            return replay.model.held is not None and replay.model.held.at < replay.stop
        if not self._waiting and max(self._position, replay.model.next_offset) < replay.stop:
            return False
        # If the round has ended here, wait for the next record, which the worker has seen and stopped before.
        return not replay.lacks_boundary or self._committed != self._stop

    def _finish(self, replay: Replay) -> None:
        """End the replay, as the model has come to its end; drop the model if it has led elsewhere."""
        if replay.unproved is None and not self._faults.counts.total():
            with self._changing():
                replay.finish()
                self._compare_on_the_way(replay)
        if self.model is None:
            return
        if replay.unproved is not None or self._faults.counts.total():
            why = self._faults.first[0].text if replay.unproved is None else replay.unproved.why
            self._drop(why)
            return
        snapshot = self._new_snapshot
        if snapshot is not None and snapshot.at < replay.model.next_offset:
            self._count(DigestCheck.MISSED)
        self._replay = None
        self._reached(replay.stop)

    @property
    def _new_snapshot(self) -> SnapshotPointer | None:
        """Return the newest snapshot; None if the model has been compared with it already."""
        snapshot = None if self._replay is None else self._replay.metadata.snapshot
        return None if snapshot == self._pointer else snapshot

    @property
    def _at_new_snapshot(self) -> int | None:
        return None if self._new_snapshot is None else self._new_snapshot.at

    def _compare_on_the_way(self, replay: Replay) -> None:
        """Compare the digest that the replay has taken at the newest snapshot's offset, if it has just passed that."""
        if replay.digest is not None and self._new_snapshot is not None:
            self._compare(replay.digest)

    def _compare_at_boundary(self, replay: Replay) -> None:
        """Compare a model that is held at a boundary, or has passed it, with a snapshot of the same state there."""
        model, noted = replay.model, None if replay.crossing is None else replay.crossing.noted
        if noted is None or not replay.saved_at_boundary or model.next_offset != self._at_new_snapshot:
            return
        stage = "held" if noted.state is BoundaryState.CONTRIBUTED else "passed"
        if Moment.of(model).boundary == stage:
            self._compare(model.digest())

    def _compare(self, digest: str) -> None:
        """Compare the model's digest at the newest snapshot's offset with the worker's; drop it if they differ."""
        assert self._replay is not None
        pointer = self._replay.metadata.snapshot
        assert pointer is not None
        if digest == pointer.digest:
            self._count(DigestCheck.EQUAL)
            _log.info("replica_checked", partition=self.number, offset=pointer.at, digest=digest)
            return
        self._count(DigestCheck.DIFFERENT)
        self._drop(f"expected digest {pointer.digest} of the worker's snapshot at offset {pointer.at}, found {digest}")

    def _count(self, outcome: DigestCheck) -> None:
        assert self._replay is not None
        self._pointer = self._replay.metadata.snapshot
        self._recorder.checked(self.number, outcome)

    def _fetch(self) -> int:
        """Fetch further records, if there is room; return how many came."""
        model = self.model
        if model is None:
            return 0
        if self._reader is None:
            start = behind_gap(model.next_offset, [] if self._replay is None else self._replay.metadata.lineage.gaps)
            self._reader = self._sources.logs.reader(self._sources.provenance.topics.examples, self.number, start)
        records = []
        if len(self._waiting) < self._sources.fetch_records:
            records = list(self._reader.fetch(_AT_ONCE, 0.0))
            self._waiting.extend(records)
        return len(records)

    def _look_ahead(self, model: PartitionModel) -> bool:
        """Fetch what the group has not answered yet; return whether anything came.

        Nothing is behind where only the end of a transaction is left, or one that was aborted: no model learns these.
        """
        fetched = self._fetch()
        if not self._waiting:
            self.total_lag.reach(max(model.next_offset, self._position))
        return fetched > 0

    @property
    def _position(self) -> int:
        return -1 if self._reader is None else self._reader.position

    @property
    def _log_end(self) -> int:
        return -1 if self._reader is None else self._reader.log_end

    def _reached(self, offset: int) -> None:
        """Note that everything before this offset has been learned."""
        self.own_lag.reach(offset)
        self.total_lag.reach(offset if self._waiting else max(offset, self._position))
