"""A model that is learned again from what is in the log, and what it publishes on the way."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stream_apple.runtime.deadletters import dead_letter_headers
from stream_apple.runtime.lineage import Gap, Lineage, Note, lineage_of
from stream_apple.runtime.ports import Record
from stream_apple.runtime.published import Answer
from stream_apple.runtime.step import PartitionModel


def lineages_of(settings: Mapping[str, Any], topic: str, partition: int, lineage: Lineage) -> list[Lineage]:
    """Every lineage that the model has had: the first knows of no gap, the last is `lineage`."""
    count = len(lineage.gaps)
    return [lineage_of(settings, topic, partition, lineage.start, lineage.gaps[:n]) for n in range(count + 1)]


class Answers(NamedTuple):
    """What had to be published, in the order of the examples."""

    predictions: list[Answer]
    dead_letters: list[Answer]


class Relearning:
    """A model on its way to offset `stop`.

    model     as it stands at the beginning: new, or restored from a snapshot
    note      what is committed: the gaps to leave out, and the snapshot to compare with on the way
    lineages  all that the model has had

    digest    of the model at the snapshot's offset; None if it has not learned its way there
    """

    def __init__(self, model: PartitionModel, note: Note, lineages: Sequence[Lineage], stop: int) -> None:
        self.model = model
        self.start = model.next_offset
        self.stop = stop
        self.records = 0
        self.predictions = 0
        self.dead_letters = 0
        self.digest: str | None = None
        # In their order; a snapshot at a gap was taken before the model jumped over it.
        self._events: list[tuple[int, tuple[Gap, Lineage] | None]] = []
        if note.snapshot is not None and self.start < note.snapshot.at <= stop:
            self._events.append((note.snapshot.at, None))
        for gap, lineage in zip(note.lineage.gaps, lineages[1:], strict=True):
            if self.start <= gap.start < stop:
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
        outcome = self.model.process(records)
        topic, model = self.model.topic, self.model.lineage.model
        for index, value in zip(outcome.indices, outcome.predictions, strict=True):
            record = records[index]
            answer = Answer(model, record.offset(), record.key(), value, record.timestamp()[1], [])
            answers.predictions.append(answer)
        for reject in outcome.rejects:
            record = records[reject.record]
            headers = dead_letter_headers(record, reject, topic, model)
            time_ms = record.timestamp()[1]
            answers.dead_letters.append(Answer(model, record.offset(), record.key(), record.value(), time_ms, headers))
        self.records += len(records)
        self.predictions += len(outcome.predictions)
        self.dead_letters += len(outcome.rejects)
