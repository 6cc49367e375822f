"""A model that is learned again from what is in the log, and what it publishes on the way."""

from collections.abc import Sequence
from typing import NamedTuple

from stream_apple.runtime.dead_letters import dead_letter
from stream_apple.runtime.lineage import Gap, Lineage, OffsetMetadata, Skip
from stream_apple.runtime.partition_model import BatchResult, PartitionModel
from stream_apple.runtime.ports import Header, Record
from stream_apple.runtime.verification.comparison import Answer


class Answers(NamedTuple):
    """What had to be published, in the order of the examples."""

    predictions: list[Answer]
    dead_letters: list[Answer]


class Replay:
    """A model on its way to offset `stop`.

    model     as it stands at the beginning: new, or restored from a snapshot
    metadata  what is committed: the gaps to leave out, and the snapshot to compare with on the way
    lineages  all that the model has had

    digest    of the model at the snapshot's offset; None if it has not learned its way there
    """

    def __init__(self, model: PartitionModel, metadata: OffsetMetadata, lineages: Sequence[Lineage], stop: int) -> None:
        self.model = model
        self.start = model.next_offset
        self.stop = stop
        self.records = 0
        self.predictions = 0
        self.dead_letters = 0
        self.digest: str | None = None
        # The model itself knows what to skip. In their order; a snapshot at a gap was taken before the jump over it.
        self._events: list[tuple[int, tuple[Gap, Lineage] | None]] = []
        if metadata.snapshot is not None and self.start < metadata.snapshot.at <= stop:
            self._events.append((metadata.snapshot.at, None))
        gaps = {gap.stop: gap for gap in metadata.lineage.gaps}
        ends = sorted([*gaps, *(offset + 1 for offset in metadata.lineage.skips)])
        for end, lineage in zip(ends, lineages[1:], strict=True):
            gap = gaps.get(end)
            if gap is None and self.start < end <= stop:
                model.skips.append(Skip(end - 1, lineage))
            elif gap is not None and self.start <= gap.start < stop:
                self._events.append((gap.start, (gap, lineage)))
        self._events.sort(key=lambda event: (event[0], event[1] is not None))

    def learn(self, records: Sequence[Record]) -> Answers:
        """Learn the next records, as far as they are to be learned; errors as of `PartitionModel.process`."""
        answers = Answers([], [])
        rest = [record for record in records if record.offset() < self.stop]
        while rest and self._events and rest[-1].offset() >= self._events[0][0]:
            offset = self._events[0][0]
            self._process([record for record in rest if record.offset() < offset], answers)
            rest = [record for record in rest if record.offset() >= offset]
            self._pass()
        self._process(rest, answers)
        return answers

    def finish(self) -> None:
        """There are no further records before `stop`."""
        while self._events:
            self._pass()

    def _pass(self) -> None:
        _, jump = self._events.pop(0)
        if jump is None:
            self.digest = self.model.digest()
        else:
            gap, lineage = jump
            self.model.jump(lineage, gap)

    def _process(self, records: list[Record], answers: Answers) -> None:
        records = [record for record in records if record.offset() >= self.model.next_offset]
        if not records:
            return
        for part, result in self.model.process_in_turn(records):
            self._count(part, result, answers)

    def _count(self, records: Sequence[Record], result: BatchResult, answers: Answers) -> None:
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
