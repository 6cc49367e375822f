"""Whether an output topic holds exactly what a model had to publish: each answer once, in order, to the byte.

Expected answers and found messages are both in the order of the input, so that they are merged as they come: memory
does not grow with the topic. Messages of other models, partitions and topics are passed over.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgpack

from stream_apple.runtime.dead_letters import PREFIX, header_list
from stream_apple.runtime.log_scan import LogScan
from stream_apple.runtime.ports import Header, Record

LISTED = 10
"""Faults that are told one by one; the others are counted."""
_REMEMBERED = 100_000  # absent answers that may still come, out of order
_LOG_APPEND_TIME = 2  # the type of a timestamp that the broker has put in the producer's place
_NOW = 0  # the timestamp that a client replaces by the time of day


class Kind(StrEnum):
    """What can be wrong."""

    MISSING = "missing"
    DUPLICATED = "duplicated"
    DIFFERENT = "different"
    OUT_OF_ORDER = "out of order"
    EXTRA = "extra"
    SNAPSHOT = "snapshot"


class Fault(NamedTuple):
    """One fault.

    topic, partition  where it shows
    offset            of the message there; None if it is the lack of one
    example           offset of the example that it is about
    """

    kind: Kind
    topic: str
    partition: int
    offset: int | None
    example: int
    text: str


class Faults:
    """All faults counted, and the first of each kind kept."""

    def __init__(self) -> None:
        self.counts: Counter[Kind] = Counter()
        self._kept: dict[Kind, list[Fault]] = {kind: [] for kind in Kind}

    def add(self, fault: Fault) -> None:
        """Take note of a fault."""
        self.counts[fault.kind] += 1
        if len(self._kept[fault.kind]) < LISTED:
            self._kept[fault.kind].append(fault)

    @property
    def first(self) -> list[Fault]:
        """At most LISTED of them, in the order of the examples they are about."""
        kept = [fault for faults in self._kept.values() for fault in faults]
        return sorted(kept, key=lambda fault: (fault.example, fault.topic))[:LISTED]


class Answer(NamedTuple):
    """What had to be published about the example at offset `example` by the model with fingerprint `model`."""

    model: str
    example: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: list[Header]


class Origin(NamedTuple):
    """Which model an output message is of, and the offset of its example."""

    model: str
    example: int


Identify = Callable[[Record], Origin | None]
"""The origin of an output message; None if it is not about the partition in question."""


def origin_of_prediction(record: Record, topic: str, partition: int) -> Origin | None:
    """The origin of a prediction, from its value."""
    try:
        told = msgpack.unpackb(record.value() or b"")
        place, origin = (told["topic"], told["partition"]), Origin(told["model"], told["offset"])
    except (ValueError, TypeError, KeyError, msgpack.UnpackException):
        return None
    return origin if place == (topic, partition) and isinstance(origin.example, int) else None


def origin_of_dead_letter(record: Record, topic: str, partition: int) -> Origin | None:
    """The origin of a dead letter, from its headers."""
    # Its own headers come first, and are those of another dead letter if it was one before.
    told = {name.removeprefix(PREFIX): text for name, text in header_list(record) if name.startswith(PREFIX)}
    try:
        place = (told["topic"], told["partition"])
        origin = Origin(_text(told["model"]), int(_text(told["offset"])))
    except (KeyError, ValueError):
        return None
    return origin if place == (topic.encode(), str(partition).encode()) else None


def _text(value: str | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""


class FoundAnswer(NamedTuple):
    """An answer that an output log holds. `age`: which of the model's fingerprints it has, 0 for the first."""

    record: Record
    age: int
    example: int


class AnswerLog:
    """The messages of an output log that are answers of one model to the examples in question, one after the other.

    log       the output log from its first message on
    models    fingerprints that the model has had, in their order: it gets a new one with every accepted gap
    examples  offsets of the examples in question
    gaps      offsets of examples that the model has left out; answers to them are not judged

    foreign   messages that were passed over: of other models, partitions and topics
    """

    def __init__(
        self, log: LogScan, identify: Identify, models: Sequence[str], examples: range, gaps: Sequence[range] = ()
    ) -> None:
        self.foreign = 0
        self._log = log
        self._identify = identify
        self._ages = {model: age for age, model in enumerate(models)}
        self._examples = examples
        self._gaps = gaps
        self._next: FoundAnswer | None = None

    def age_of(self, model: str) -> int:
        """Which of the model's fingerprints this is, 0 for the first."""
        return self._ages[model]

    def peek(self) -> FoundAnswer | None:
        """The next answer, which stays the next; None at the end."""
        while self._next is None and (record := self._log.take()) is not None:
            origin = self._identify(record)
            if origin is None or origin.model not in self._ages:
                self.foreign += 1
            elif origin.example in self._examples and not any(origin.example in gap for gap in self._gaps):
                self._next = FoundAnswer(record, self._ages[origin.model], origin.example)
        return self._next

    def skip(self) -> None:
        """The next answer has been dealt with."""
        self._next = None


class Comparison:
    """The answers of a model to examples, held against an output log.

    place      topic and partition of the log
    first      offset of the first example in question
    truncated  whether retention has removed messages from the log's start

    matched  answers found at their place; those that differ are faults besides
    earlier  answers under an earlier fingerprint, behind a gap: what made them is gone, so they are only counted
    gone     answers from before the first message that retention has left
    """

    def __init__(
        self, log: AnswerLog, place: tuple[str, int], faults: Faults, first: int, *, truncated: bool = False
    ) -> None:
        self.matched = 0
        self.earlier = 0
        self.gone = 0
        self._log = log
        self._place = place
        self._faults = faults
        self._truncated = truncated
        self._seen = False
        self._oldest = 0
        self._last = first - 1
        self._absent: dict[int, None] = {}

    @property
    def foreign(self) -> int:
        """Messages of other models, partitions and topics."""
        return self._log.foreign

    def expect(self, answer: Answer) -> None:
        """The next answer, in the order of the examples."""
        found = self._log.peek()
        while found is not None and found.example < answer.example:
            self._stray(found)
            found = self._log.peek()
        if found is not None and found.example == answer.example:
            self._judge(found, answer)
        elif self._truncated and not self._seen:
            self.gone += 1
        else:
            self._absent[answer.example] = None
            if len(self._absent) > _REMEMBERED:
                self._miss(next(iter(self._absent)))
        self._last = answer.example

    def finish(self) -> None:
        """There are no further answers: what is left in the log is too much, and what did not come is missing."""
        while (found := self._log.peek()) is not None:
            self._stray(found)
        for example in list(self._absent):
            self._miss(example)

    def _stray(self, found: FoundAnswer) -> None:
        self._take()
        example = found.example
        if example in self._absent:
            del self._absent[example]
            self._fault(Kind.OUT_OF_ORDER, found, f"expected it before the answer to example {self._last}")
        elif example > self._last:
            self._fault(Kind.EXTRA, found, "expected no such answer to this example")
        else:
            self._fault(Kind.DUPLICATED, found, "expected no further answer to this example")

    def _judge(self, found: FoundAnswer, answer: Answer) -> None:
        self._take()
        if self._oldest <= found.age < self._log.age_of(answer.model):
            self.earlier += 1
            return
        self._oldest = max(self._oldest, found.age)
        self.matched += 1
        differing = _differences(found.record, answer)
        if differing:
            self._fault(Kind.DIFFERENT, found, "; ".join(differing))

    def _take(self) -> None:
        self._log.skip()
        self._seen = True

    def _miss(self, example: int) -> None:
        del self._absent[example]
        text = "expected an answer to this example, found none"
        self._faults.add(Fault(Kind.MISSING, *self._place, None, example, text))

    def _fault(self, kind: Kind, found: FoundAnswer, text: str) -> None:
        self._faults.add(Fault(kind, *self._place, found.record.offset(), found.example, text))


def _differences(record: Record, answer: Answer) -> list[str]:
    found = []
    if record.key() != answer.key:
        found.append(f"expected key {answer.key!r}, found {record.key()!r}")
    if record.value() != answer.value:
        found.append(f"expected value {_shown(answer.value)}, found {_shown(record.value())}")
    kind, timestamp_ms = record.timestamp()
    if answer.timestamp_ms not in {timestamp_ms, _NOW} and kind != _LOG_APPEND_TIME:
        found.append(f"expected timestamp {answer.timestamp_ms}, found {timestamp_ms}")
    headers = header_list(record)
    if headers != answer.headers:
        found.append(f"expected headers {answer.headers}, found {headers}")
    return found


def _shown(value: bytes | None, most: int = 200) -> str:
    """A value as people can compare it: the first bytes, and a map as such."""
    if value is None:
        return "none"
    try:
        text = str(msgpack.unpackb(value))
    except (ValueError, TypeError, msgpack.UnpackException):
        text = repr(value[: most // 2])
    return text if len(text) <= most else f"{text[:most]}... ({len(value)} bytes)"
