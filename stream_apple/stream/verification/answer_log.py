"""An output log, message by message: the answers of the model in question, and what must not be there.

Readers know an answer by topic, partition and offset of its example. Whatever gives them a second one, an answer to no
example, or nothing that they can read, is a fault, whoever wrote it. What other groups write about other examples, or
into a dead-letter topic that they share, does them no harm and is counted.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from stream_apple.stream.log.log_scan import LogScan
from stream_apple.stream.log.ports import Record
from stream_apple.stream.model.dead_letters import dead_letter_origin
from stream_apple.stream.positions.lineage import Origin
from stream_apple.stream.verification.faults import Fault, Faults, Kind

_MOST_UNDECIDED = 100_000  # answers behind what was committed at first: a transaction's, unless they are faults


def origin_of_dead_letter(record: Record) -> Origin | None:
    """The origin of a dead letter, from its headers; None if they are not those of one."""
    told = dead_letter_origin(record)
    return None if told is None else Origin(told.model, told.topic, told.partition, told.offset)


Identify = Callable[[Record], Origin | None]
"""The origin of a message; None of one that readers can't use."""


class Subject(NamedTuple):
    """Names a model, and the examples in question.

    topic, partition  of the examples
    models            fingerprints that the model has had, in their order: it gets a new one with every accepted gap
    answered          offsets of all examples that it has answered, as far as the verification goes
    examples          offsets of the examples in question
    gaps              offsets of examples that it has left out; answers to them are not compared
    """

    topic: str
    partition: int
    models: Sequence[str] = ()
    answered: range = range(0)
    examples: range = range(0)
    gaps: Sequence[range] = ()

    def left_out(self, example: int) -> bool:
        """Whether the model has left out this example, because it lies in a gap."""
        return any(example in gap for gap in self.gaps)


class OutputPartition(NamedTuple):
    """Describes one partition of an output topic, as it was at some moment.

    low, end    its messages
    identify    their origins; None for one that readers can't use
    home        partition of the examples -> partition of this topic that has its answers, None if there is no such
    one_group   whether a second group's answers would be taken for ours: predictions name no group
    first_look  whether nobody has told yet what else is wrong here: several partitions may share this one
    """

    topic: str
    partition: int
    low: int
    end: int
    identify: Identify
    home: Callable[[int], int | None]
    one_group: bool
    first_look: bool


class Reach(NamedTuple):
    """How far the examples go, asked for when the ends of the outputs were known.

    log_end    of the examples: what was published before answers none behind it
    committed  offset of the group
    decided    asks for the committed offset anew, and waits for open transactions
    """

    log_end: int
    committed: int
    decided: Callable[[], int]


class FoundAnswer(NamedTuple):
    """An answer that an output log holds. `age`: which of the model's fingerprints it has, 0 for the first."""

    record: Record
    age: int
    example: int


class AnswerLog:
    """The answers of one model to the examples in question, one after the other, out of an output log.

    scan  the output log from its first message on

    foreign     messages of other groups: about other topics' examples, or other models' where they disturb nobody
    before_gap  answers to examples that the model has left out since: they were given before, by a state that is gone
    """

    def __init__(self, scan: LogScan, output: OutputPartition, subject: Subject, reach: Reach, faults: Faults) -> None:
        self.foreign = 0
        self.before_gap = 0
        self._gaps = subject.gaps
        self.output = output
        self._scan = scan
        self._subject = subject
        self._reach = reach
        self._faults = faults
        self._ages = {model: age for age, model in enumerate(subject.models)}
        self._next: FoundAnswer | None = None
        self._passed = -1  # the newest example whose answer is not compared
        self._undecided: list[tuple[int, int]] = []  # offset of the answer, and of its example

    def age_of(self, model: str) -> int:
        """Return which of the model's fingerprints this is, 0 for the first."""
        return self._ages[model]

    def peek(self) -> FoundAnswer | None:
        """Return the next answer, which stays the next; None at the end."""
        while self._next is None and (record := self._scan.take()) is not None:
            # What has come since the ends were looked at may answer what has come since, too.
            if record.offset() < self.output.end:
                self._next = self._attribute(record)
        return self._next

    def skip(self) -> None:
        """Go on to the answer behind the next one, which has been dealt with."""
        self._next = None

    def ahead(self, most: int) -> list[Record]:
        """The next messages, whatever they are, as they stand in the log; none if one has been looked at."""
        found = [] if self._next is not None else self._scan.ahead(most)
        return found if found and found[-1].offset() < self.output.end else []

    def skip_ahead(self, count: int) -> None:
        """Pass so many of the messages that are `ahead`, which are the answers that they had to be."""
        self._scan.skip(count)

    def leave_out(self, examples: range) -> None:
        """Leave the answers to these examples out of the comparison, too."""
        self._subject = self._subject._replace(gaps=[*self._subject.gaps, examples])
        if self._next is not None and self._next.example in examples:
            self._pass(self._next)
            self._next = None

    def drain(self) -> None:
        """Judge all that is there, where no answer is to be compared."""
        while self.peek() is not None:
            self.skip()
        self.finish()

    def finish(self) -> None:
        """All answers have been dealt with: judge those whose transactions may have been open at first."""
        self._judge_undecided()

    def fault(self, kind: Kind, offset: int | None, example: int | None, text: str) -> None:
        """Take note of a message at `offset` that is not as it must be, or of the lack of one."""
        self._faults.add(Fault(kind, self.output.topic, self.output.partition, offset, example, text))

    def _attribute(self, record: Record) -> FoundAnswer | None:
        """Return the answer that the message is; None if it is not to be compared."""
        output, subject = self.output, self._subject
        origin = output.identify(record)
        if origin is not None and origin.topic != subject.topic:
            self.foreign += 1
        elif origin is not None and output.home(origin.partition) == output.partition:
            return self._own_partition(record, origin) if origin.partition == subject.partition else None
        elif output.first_look and origin is None:
            found = "no value" if record.value() is None else "none"
            text = f"expected the place of an example and a model in a message of this topic, found {found}"
            self.fault(Kind.UNREADABLE, record.offset(), None, text)
        elif output.first_look and origin is not None:
            at = output.home(origin.partition)
            expected = "no such partition" if at is None else f"its answers in {output.topic}-{at}"
            text = f"an example of {origin.topic}-{origin.partition}: expected {expected}, found one here"
            self.fault(Kind.MISPLACED, record.offset(), origin.example, text)
        return None

    def _own_partition(self, record: Record, origin: Origin) -> FoundAnswer | None:
        """Judge or pass on an answer to an example of the partition in question, whichever model has made it."""
        subject, example, age = self._subject, origin.example, self._ages.get(origin.model)
        if example >= self._reach.log_end:
            text = f"expected no answer behind the last example, found the end of the log at {self._reach.log_end}"
            self.fault(Kind.EXTRA, record.offset(), example, text)
        elif age is None:
            self._other_model(record, origin)
        elif example < subject.answered.start:
            text = f"expected the first answer of this model to example {subject.answered.start} or a later one"
            self.fault(Kind.EXTRA, record.offset(), example, text)
        elif example in subject.examples and not subject.left_out(example):
            return FoundAnswer(record, age, example)
        else:
            self.before_gap += any(example in gap for gap in self._gaps)
            self._pass(FoundAnswer(record, age, example))
        return None

    def _other_model(self, record: Record, origin: Origin) -> None:
        subject, example = self._subject, origin.example
        if not self.output.one_group or example not in subject.answered or subject.left_out(example):
            self.foreign += 1
            return
        text = (
            f"expected answers of model {subject.models[-1]} alone, found one of {origin.model}: readers find two; "
            f"each group needs a topic of its own"
        )
        self.fault(Kind.OTHER_MODEL, record.offset(), example, text)

    def _pass(self, found: FoundAnswer) -> None:
        """Of answers that are not compared, the order shows whether any is there twice."""
        if found.example <= self._passed:
            text = f"expected it before the answer to example {self._passed}, and once"
            self.fault(Kind.OUT_OF_ORDER, found.record.offset(), found.example, text)
        elif found.example >= self._reach.committed:
            self._undecided.append((found.record.offset(), found.example))
            if len(self._undecided) >= _MOST_UNDECIDED:
                self._judge_undecided()
        self._passed = max(self._passed, found.example)

    def _judge_undecided(self) -> None:
        """An answer is committed with its offset: where readers see it, the offset has been decided."""
        if self._undecided:
            committed = self._reach.decided()
            for at, example in self._undecided:
                if example >= committed:
                    self.fault(Kind.EXTRA, at, example, f"expected no answer from the committed offset {committed} on")
            self._undecided.clear()
