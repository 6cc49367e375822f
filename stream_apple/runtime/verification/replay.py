"""A model that is learned again from what is in the log, and what it publishes on the way."""

from collections.abc import Generator, Sequence
from typing import NamedTuple

from stream_apple.errors import GapError
from stream_apple.runtime.dead_letters import dead_letter
from stream_apple.runtime.lineage import Gap, Lineage, OffsetMetadata, Skip
from stream_apple.runtime.merging.note import BoundaryState
from stream_apple.runtime.partition_model import BatchResult, PartitionModel
from stream_apple.runtime.ports import Header, Record
from stream_apple.runtime.verification.comparison import Answer
from stream_apple.runtime.verification.crossing import Crossing, Impasse
from stream_apple.runtime.verification.report import Unproved


class Answers(NamedTuple):
    """What had to be published, in the order of the examples."""

    predictions: list[Answer]
    dead_letters: list[Answer]


StandStill = Generator[PartitionModel]
"""Gives the model each time that it stands at a boundary, before it goes on."""


class Replay:
    """A model on its way to offset `stop`.

    model     as it stands at the beginning: new, or restored from a snapshot
    metadata  what is committed: the gaps to leave out, and the snapshot to compare with on the way
    lineages  all that the model has had
    crossing  how it goes through boundaries; None if it is not merged with others

    digest    of the model at the snapshot's offset; None if it has not learned its way there
    unproved  what could not be learned, if anything
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
        self.start = model.next_offset
        self.stop = stop
        self.records = 0
        self.predictions = 0
        self.dead_letters = 0
        self.digest: str | None = None
        self.unproved: Unproved | None = None
        self._metadata = metadata
        self._lineages = lineages
        self._crossing = crossing
        self._events = self._events_from(model)

    def _events_from(self, model: PartitionModel) -> list[tuple[int, tuple[Gap, Lineage] | None]]:
        """What happens on the way besides learning, in order; the model itself knows from here what to skip."""
        events: list[tuple[int, tuple[Gap, Lineage] | None]] = []
        metadata, start, stop = self._metadata, model.next_offset, self.stop
        # A snapshot at a gap was taken before the jump over it.
        if metadata.snapshot is not None and start < metadata.snapshot.at <= stop and not self._saved_at_boundary:
            events.append((metadata.snapshot.at, None))
        gaps = {gap.stop: gap for gap in metadata.lineage.gaps}
        ends = sorted([*gaps, *(offset + 1 for offset in metadata.lineage.skips)])
        for end, lineage in zip(ends, self._lineages[1:], strict=True):
            gap = gaps.get(end)
            if gap is None and start < end <= stop:
                model.skips.append(Skip(end - 1, lineage))
            elif gap is not None and start <= gap.start < stop:
                events.append((gap.start, (gap, lineage)))
        return sorted(events, key=lambda event: (event[0], event[1] is not None))

    @property
    def _saved_at_boundary(self) -> bool:
        """Whether the newest snapshot is that of a model that stood at a boundary, or had just gone on from it."""
        noted, snapshot = None if self._crossing is None else self._crossing.noted, self._metadata.snapshot
        return noted is not None and snapshot is not None and noted.at == snapshot.at

    @property
    def lacks_boundary(self) -> bool:
        """Whether it has learned all, and not seen that a round ends there: only the record behind tells."""
        noted, rounds = None if self._crossing is None else self._crossing.noted, self.model.rounds
        if noted is None or rounds is None or rounds.held is not None or rounds.passed:
            return False
        return noted.at == self.stop == self.model.next_offset

    def learn(self, records: Sequence[Record], answers: Answers) -> StandStill:
        """Learn the next records, as far as they are to be learned; errors as of `PartitionModel.process`.

        GapError if the model can't be had behind a boundary, because records, or merged models, are gone.
        """
        rest = [record for record in records if record.offset() < self.stop]
        while rest and self._events and rest[-1].offset() >= self._events[0][0]:
            event = self._events[0]
            yield from self._process([record for record in rest if record.offset() < event[0]], answers)
            rest = [record for record in rest if record.offset() >= event[0]]
            if self._events and self._events[0] is event:  # else what was to happen lies in what could not be learned
                self._pass()
        yield from self._process(rest, answers)

    def finish(self) -> None:
        """There are no further records before `stop`."""
        while self._events:
            self._pass()

    def look_behind(self, record: Record) -> StandStill:
        """Show the model the first record that it is not to learn: it stands at a boundary before it."""
        yield from self._process([record], Answers([], []))

    def _pass(self) -> None:
        at, jump = self._events.pop(0)
        if jump is None:
            self.digest = self.model.digest()
        else:
            gap, lineage = jump
            self.model.jump(lineage, gap)
            if self._crossing is not None:
                self._crossing.jumped(self.model, at)

    def _process(self, records: list[Record], answers: Answers) -> StandStill:
        while records := [record for record in records if record.offset() >= self.model.next_offset]:
            for part, result in self.model.process_in_turn(records):
                self._count(part, result, answers)
            if self.model.held is None:
                return
            yield from self.stand()
            if self.model.held is not None:
                return

    def stand(self) -> StandStill:
        """The model stands at a boundary: go on from there, unless it is to wait, or can't."""
        crossing, boundary = self._crossing, self.model.held
        assert crossing is not None
        assert boundary is not None
        if self.unproved is not None and boundary.at == self.unproved.start:
            return  # as it did before
        crossing.stand(self.model)
        yield self.model
        saved = self._saved_at_boundary and crossing.noted is not None and crossing.noted.at == boundary.at
        own = saved and self.start < boundary.at
        if own and crossing.noted is not None and crossing.noted.state is not BoundaryState.ADOPTED:
            self.digest = self.model.digest()
        if crossing.waits(boundary):
            return
        impasse = crossing.cross(self.model)
        if impasse is not None:
            self._leave_out(boundary.at, impasse)
        elif own and self.digest is None:
            self.digest = self.model.digest()

    def _leave_out(self, at: int, impasse: Impasse) -> None:
        """Go on with the newest snapshot, if it is behind what could not be learned, or learn no more."""
        snapshot, restored = self._metadata.snapshot, None
        assert self._crossing is not None
        if snapshot is not None and at <= snapshot.at <= self.stop and self.start < snapshot.at:
            restored = self._crossing.restored()
        if restored is None and impasse.gone:
            raise GapError(f"{impasse.why}, and no newer snapshot can be restored")
        self.unproved = Unproved(at, self.stop if restored is None else restored.next_offset, impasse.why)
        self._events = []
        if restored is not None:
            self.model = restored
            self._events = self._events_from(restored)

    def _count(self, records: Sequence[Record], result: BatchResult, answers: Answers) -> None:
        # A record that is only looked at, for what it says about the end, has no answer yet.
        topic, model = self.model.topic, self.model.lineage.model
        for record, value in zip(result.examples, result.predictions, strict=True):
            answers.predictions.append(_answer(model, record, record.key(), value, []))
        for reject in result.rejects:
            letter = dead_letter(reject, topic, model, self.model.limits.max_record_bytes)
            answers.dead_letters.append(_answer(model, reject.record, *letter))
        self.records += len(records)
        self.predictions += len(result.predictions)
        self.dead_letters += len(result.rejects)


def _answer(model: str, record: Record, key: bytes | None, value: bytes | None, headers: list[Header]) -> Answer:
    """With the timestamp of its example, as `outputs.py` sends it."""
    return Answer(model, record.offset(), key, value, record.timestamp()[1], headers)
