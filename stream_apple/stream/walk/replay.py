"""Replays: learns a model again from the log, and collects the answers that it had to publish."""

from collections.abc import Generator, Sequence
from typing import NamedTuple

from stream_apple.stream.log.ports import Record
from stream_apple.stream.model.dead_letters import dead_letter
from stream_apple.stream.model.partition_model import BatchResult, PartitionModel
from stream_apple.stream.positions.lineage import Gap, Lineage, OffsetMetadata, Skip
from stream_apple.stream.positions.merge_note import BoundaryState
from stream_apple.stream.walk.answers import Answer, Answers, Outputs, Unproved
from stream_apple.stream.walk.crossing import Crossing


class _Event(NamedTuple):
    """An event before the record at offset `at`, of one of three kinds.

    jump   the gap that begins here is left out, and the model has this lineage from there on
    skips  whether the record at this offset is left out; if neither, the model's digest is taken, for its snapshot
    """

    at: int
    jump: tuple[Gap, Lineage] | None = None
    skips: bool = False


StandStill = Generator[PartitionModel]
"""Yields the model each time that it stands at a boundary, before it goes on."""


class Replay:
    """Has a model learn up to offset `stop`.

    model     new, or restored from a snapshot
    metadata  the committed one: it has the gaps to leave out, and the snapshot to compare with
    lineages  all that the model has had
    crossing  takes it through its boundaries; None if models are not merged

    digest    of the model at the snapshot's offset; None if it has not passed that
    unproved  the examples that could not be learned; None if all were
    """

    def __init__(
        self,
        model: PartitionModel,
        metadata: OffsetMetadata,
        lineages: Sequence[Lineage],
        stop: int,
        crossing: Crossing | None = None,
    ) -> None:
        self.model = model
        self.metadata = metadata
        self.crossing = crossing
        self.start = model.next_offset
        self.stop = stop
        self.records = 0
        self.predictions = 0
        self.dead_letters = 0
        self.digest: str | None = None
        self.unproved: Unproved | None = None
        self._lineages = lineages
        self._events = self._events_from(model)

    def _events_from(self, model: PartitionModel) -> list[_Event]:
        """Return the events before `stop`, in order, and tell the model which records to skip."""
        events: list[_Event] = []
        metadata, start, stop = self.metadata, model.next_offset, self.stop
        # A snapshot at a gap was taken before the jump over it.
        if metadata.snapshot is not None and start < metadata.snapshot.at <= stop and not self.saved_at_boundary:
            events.append(_Event(metadata.snapshot.at))
        gaps = {gap.stop: gap for gap in metadata.lineage.gaps}
        ends = sorted([*gaps, *(offset + 1 for offset in metadata.lineage.skips)])
        for end, lineage in zip(ends, self._lineages[1:], strict=True):
            gap = gaps.get(end)
            if gap is None and start < end <= stop:
                model.skips.append(Skip(end - 1, lineage))
                events.append(_Event(end - 1, skips=True))
            elif gap is not None and start <= gap.start < stop:
                events.append(_Event(gap.start, (gap, lineage)))
        return sorted(events, key=lambda event: (event.at, event.jump is not None, event.skips))

    @property
    def from_start(self) -> bool:
        """Whether the replay began with the first record of the model."""
        return self.start == self.metadata.lineage.start

    @property
    def saved_at_boundary(self) -> bool:
        """Whether the newest snapshot was taken at a boundary, before or just after the model passed it."""
        noted, snapshot = None if self.crossing is None else self.crossing.noted, self.metadata.snapshot
        return noted is not None and snapshot is not None and noted.at == snapshot.at

    @property
    def lacks_boundary(self) -> bool:
        """Whether a round ends at `stop`, and the model does not know that yet, as only the next record shows it."""
        noted, rounds = None if self.crossing is None else self.crossing.noted, self.model.rounds
        if noted is None or rounds is None or rounds.held is not None or rounds.passed:
            return False
        return noted.at == self.stop == self.model.next_offset

    def learn(self, records: list[Record], answers: Outputs) -> StandStill:
        """Learn the next records, which are below `stop`; it raises what `PartitionModel.process` does."""
        rest = records
        while rest and self._events and rest[-1].offset() >= self._events[0].at:
            event = self._events[0]
            yield from self._process([record for record in rest if record.offset() < event.at], answers)
            rest = [record for record in rest if record.offset() >= event.at]
            if event.skips:
                yield from self._look_at_skipped(rest[0])
            if self._events and self._events[0] is event:  # else the event lies among records that could not be learned
                self._pass()
        yield from self._process(rest, answers)

    def finish(self) -> None:
        """Pass the events that are left, as there are no further records before `stop`."""
        while self._events:
            self._pass()

    def look_behind(self, record: Record) -> StandStill:
        """If the model stops before this record, which it must not learn, have it stop, and pass the boundary."""
        if self.model.stops_before(record):
            self.model.process([record])
            yield from self.stand()

    def _look_at_skipped(self, record: Record) -> StandStill:
        """Pass a boundary before a skipped record: the operator may have named it when the model stood there."""
        if self.crossing is not None and self.crossing.recorded(self.model.next_offset):
            yield from self.look_behind(record)

    def _pass(self) -> None:
        at, jump, skips = self._events.pop(0)
        if jump is not None:
            gap, lineage = jump
            self.model.jump(lineage, gap)
            if self.crossing is not None:
                self.crossing.jumped(self.model, at)
        elif not skips:
            self.digest = self.model.digest()

    def _process(self, records: list[Record], answers: Outputs) -> StandStill:
        while records := self._unlearned(records):
            for part, result in self.model.process_in_turn(records):
                self._count(part, result, answers)
            if self.model.held is None:
                return
            yield from self.stand()
            if self.model.held is not None:
                return

    def _unlearned(self, records: list[Record]) -> list[Record]:
        at = self.model.next_offset
        return records if records and records[0].offset() >= at else [each for each in records if each.offset() >= at]

    def stand(self) -> StandStill:
        """Have the model pass the boundary at which it stands, unless it must wait there, or can't pass it."""
        crossing, boundary = self.crossing, self.model.held
        assert crossing is not None
        assert boundary is not None
        if self.unproved is not None and boundary.at == self.unproved.start:
            return  # as it did before
        crossing.stand(self.model)
        yield self.model
        saved = self.saved_at_boundary and crossing.noted is not None and crossing.noted.at == boundary.at
        own = saved and self.start < boundary.at
        if own and crossing.noted is not None and crossing.noted.state is not BoundaryState.ADOPTED:
            self.digest = self.model.digest()
        if crossing.waits(boundary):
            return
        why = crossing.cross(self.model)
        if why is not None:
            self._leave_out(boundary.at, why)
        elif own and self.digest is None:
            self.digest = self.model.digest()

    def _leave_out(self, at: int, why: str) -> None:
        """Go on with the newest snapshot's model, if it is behind the records that can't be learned, or end here."""
        snapshot, restored = self.metadata.snapshot, None
        assert self.crossing is not None
        if snapshot is not None and at <= snapshot.at <= self.stop and self.start < snapshot.at:
            restored = self.crossing.restored()
        self.unproved = Unproved(at, self.stop if restored is None else restored.next_offset, why)
        self._events = []
        if restored is not None:
            self.model = restored
            self._events = self._events_from(restored)

    def _count(self, records: Sequence[Record], result: BatchResult, answers: Outputs) -> None:
        # Records that `look_behind` has looked at are not counted here, as they have no answer yet.
        topic, model = self.model.topic, self.model.lineage.model
        if result.predictions:
            answers.predictions.append(Answers(model, result.examples, result.predictions))
        for reject in result.rejects:
            letter = dead_letter(reject, topic, model, self.model.limits.max_record_bytes)
            answers.dead_letters.append(Answer(model, reject.record.offset(), *letter))
        self.records += len(records)
        self.predictions += len(result.predictions)
        self.dead_letters += len(result.rejects)
