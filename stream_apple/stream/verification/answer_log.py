"""Reads an output log message by message: finds the answers of the verified model, and messages that must not be there.

Readers identify an answer by topic, partition and offset of its example. A second answer, an answer to no example, and
a message that readers can't read are faults, whoever wrote them. Messages of other groups about other examples, or in a
shared topic of dead letters, do readers no harm and are only counted.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from stream_apple.stream.log.log_scan import LogScan
from stream_apple.stream.log.ports import Record
from stream_apple.stream.positions.lineage import Identify, Origin
from stream_apple.stream.walk.faults import Fault, Faults, Kind

_MOST_UNDECIDED = 100_000  # answers from the first committed offset on: of an open transaction, unless they are faults


class Subject(NamedTuple):
    """Names the verified model, and the examples whose answers are compared.

    topic, partition  of the examples
    models            fingerprints that the model has had, in order: it gets a new one with each gap or skipped record
    answered          offsets of all examples that it has answered, as far as the verification goes
    examples          offsets of the examples whose answers are compared
    gaps              offsets of examples that it has left out; answers to them are not compared
    """

    topic: str
    partition: int
    models: Sequence[str] = ()
    answered: range = range(0)
    examples: range = range(0)
    gaps: Sequence[range] = ()

    def left_out(self, example: int) -> bool:
        """Whether the model has left out this example, as it lies in a gap."""
        return any(example in gap for gap in self.gaps)


class OutputPartition(NamedTuple):
    """Describes one partition of an output topic, as it was at some moment.

    low, end    its messages have offsets [low, end)
    identify    returns the origin of a message
    home        partition of the examples -> partition of this topic that has its answers; None if there is none
    one_group   whether readers would take a second group's answers for this group's, as predictions name no group
    first_look  whether it is read for the first time, so that its unreadable and misplaced messages are to be reported
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
    """Says how far the examples go; it is found out after the ends of the outputs.

    log_end    the end of the log of examples: no message of the outputs may answer an example from there on
    committed  the group's committed offset
    decided    asks for the committed offset again, and waits for open transactions
    """

    log_end: int
    committed: int
    decided: Callable[[], int]


class FoundAnswer(NamedTuple):
    """An answer in an output log; `age` is the index of its fingerprint among the model's, 0 for the first."""

    record: Record
    age: int
    example: int


class AnswerLog:
    """Returns the answers of one model to the compared examples, one after the other, from an output log.

    scan  the output log from its first message on

    foreign     harmless messages of other groups: about other topics' examples, or of other models
    before_gap  answers to examples that the model has left out since; a state that is gone has given them
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
        """Return the index of this fingerprint among the model's, 0 for the first."""
        return self._ages[model]

    def peek(self) -> FoundAnswer | None:
        """Return the next answer, which stays the next; None at the end."""
        while self._next is None and (record := self._scan.take()) is not None:
            self._next = self._attribute(record)
        return self._next

    def skip(self) -> None:
        """Pass the next answer, as it has been dealt with."""
        self._next = None

    def ahead(self, most: int) -> list[Record]:
        """Return some of the next messages of the log, of any kind; none if `peek` holds one."""
        return [] if self._next is not None else self._scan.ahead(most)

    def skip_ahead(self, count: int) -> None:
        """Pass so many messages of `ahead`, which are the expected answers."""
        self._scan.skip(count)

    def leave_out(self, examples: range) -> None:
        """Compare no answers to these examples either."""
        self._subject = self._subject._replace(gaps=[*self._subject.gaps, examples])
        if self._next is not None and self._next.example in examples:
            self._pass(self._next)
            self._next = None

    def drain(self) -> None:
        """Judge all messages, if no answer is to be compared."""
        while self.peek() is not None:
            self.skip()
        self.judge_undecided()

    def fault(self, kind: Kind, offset: int | None, example: int | None, text: str) -> None:
        """Note a fault of the message at `offset`, or for None of a message that is missing."""
        self._faults.add(Fault(kind, self.output.topic, self.output.partition, offset, example, text))

    def _attribute(self, record: Record) -> FoundAnswer | None:
        """Return the answer in the message; None if it is not to be compared."""
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
        """Judge or return an answer to an example of the verified partition, of any model."""
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
        """Judge an answer that is not compared: its place in the order shows whether it is there twice."""
        if found.example <= self._passed:
            text = f"expected it before the answer to example {self._passed}, and once"
            self.fault(Kind.OUT_OF_ORDER, found.record.offset(), found.example, text)
        elif found.example >= self._reach.committed:
            self._undecided.append((found.record.offset(), found.example))
            if len(self._undecided) >= _MOST_UNDECIDED:
                self.judge_undecided()
        self._passed = max(self._passed, found.example)

    def judge_undecided(self) -> None:
        """Report answers behind the committed offset, as an answer and its offset become visible together.

        Call it after the last answer. The transactions of these may have been open at first.
        """
        if self._undecided:
            committed = self._reach.decided()
            for at, example in self._undecided:
                if example >= committed:
                    self.fault(Kind.EXTRA, at, example, f"expected no answer from the committed offset {committed} on")
            self._undecided.clear()
