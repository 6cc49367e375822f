"""The independent checker finds each kind of fault on a real broker, and nothing in what is whole."""

import ast
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import support.independent_checker
from confluent_kafka import Consumer, Producer, TopicPartition
from support.independent_checker import Fault, Names, check_independently, examine
from support.topics import TopicFactory
from support.waiting import DEADLINE_S

COUNT = 6


class Stream:
    """Topics with examples in partition 1 of two, one of them aborted, and whatever a test adds to them."""

    def __init__(self, kafka: str, topic: TopicFactory) -> None:
        self._kafka = kafka
        examples = topic("examples", 2)
        self.names = Names(examples, topic("predictions", 2), topic("dead-letters"), f"group-{examples}")
        self._producer = self._client(examples)
        self.examples = []
        for number in range(COUNT):
            self._transaction(self.names.examples, [b"example"], abort=number == 1)
            # Each transaction takes an offset for its marker.
            self.examples += [] if number == 1 else [2 * number]

    def _client(self, name: str) -> Producer:
        made = Producer({"bootstrap.servers": self._kafka, "transactional.id": name, "linger.ms": 0})
        made.init_transactions(DEADLINE_S)
        return made

    def _transaction(self, topic: str, values: list[bytes], *, abort: bool = False) -> None:
        self._producer.begin_transaction()
        for value in values:
            self._producer.produce(topic, value, partition=1)
        self._producer.flush(DEADLINE_S)
        (self._producer.abort_transaction if abort else self._producer.commit_transaction)(DEADLINE_S)

    def answer(self, *offsets: int, abort: bool = False) -> None:
        """Predictions, in one transaction."""
        places = [{"topic": self.names.examples, "partition": 1, "offset": offset} for offset in offsets]
        self._transaction(self.names.predictions, [json.dumps(place).encode() for place in places], abort=abort)

    def reject(self, offset: int) -> None:
        """A dead letter."""
        facts = {"topic": self.names.examples, "partition": "1", "offset": str(offset)}
        headers: list[tuple[str, str | bytes | None]] = [
            (f"__stream_apple.errors.{name}", value.encode()) for name, value in facts.items()
        ]
        self._producer.begin_transaction()
        self._producer.produce(self.names.dead_letters or "", b"bad", partition=0, headers=headers)
        self._producer.commit_transaction(DEADLINE_S)

    def commit(self, offset: int) -> None:
        """The group's offset."""
        consumer = Consumer({"bootstrap.servers": self._kafka, "group.id": self.names.group})
        consumer.commit(offsets=[TopicPartition(self.names.examples, 1, offset)], asynchronous=False)
        consumer.close()

    def faults(self) -> dict[Fault, list[int]]:
        """What the checker finds, by kind."""
        count, findings = examine(self._kafka, self.names)
        assert count == len(self.examples)
        assert {finding.partition for finding in findings} <= {1}
        return {finding.fault: finding.offsets for finding in findings}


@pytest.fixture
def stream(kafka: str, topic: TopicFactory) -> Stream:
    """Five examples, no answers."""
    return Stream(kafka, topic)


def whole(stream: Stream) -> None:
    """Aborted answers do not count."""
    stream.answer(0, 2, abort=True)
    stream.answer(0)
    stream.reject(4)
    stream.answer(6, 8, 10)
    stream.commit(12)


def test_whole(kafka: str, stream: Stream) -> None:
    """One answer each, and a committed offset after all of them."""
    whole(stream)
    assert stream.faults() == {}
    assert check_independently(kafka, stream.names) == COUNT - 1


def lost(stream: Stream) -> None:
    """The example at 4 has no answer."""
    stream.answer(0, 6, 8, 10)
    stream.commit(12)


def duplicated(stream: Stream) -> None:
    """A prediction and a dead letter."""
    whole(stream)
    stream.reject(8)


def read_aborted(stream: Stream) -> None:
    """Record 2 was never committed."""
    stream.answer(0, 2, 4, 6, 8, 10)
    stream.commit(12)


def answers_without_offset(stream: Stream) -> None:
    """Half a transaction."""
    stream.answer(0, 4, 6, 8, 10)
    stream.commit(8)


def offset_without_answers(stream: Stream) -> None:
    """The other half."""
    stream.answer(0, 4, 6)
    stream.commit(12)


def disordered(stream: Stream) -> None:
    """One came too late."""
    stream.answer(0, 6, 4, 8, 10)
    stream.commit(12)


@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        (lost, {Fault.LOST: [4]}),
        (duplicated, {Fault.DUPLICATE: [8]}),
        (read_aborted, {Fault.ABORTED_READ: [2]}),
        (answers_without_offset, {Fault.TORN: [8, 10]}),
        (offset_without_answers, {Fault.LOST: [8, 10], Fault.TORN: [8, 10]}),
        (disordered, {Fault.ORDER: [4]}),
    ],
)
def test_planted(kafka: str, stream: Stream, plant: Callable[[Stream], None], expected: dict[Fault, list[int]]) -> None:
    """Each kind of fault is found, and no other."""
    plant(stream)
    assert stream.faults() == expected
    with pytest.raises(AssertionError, match="the independent checker found"):
        check_independently(kafka, stream.names)


def test_it_is_independent() -> None:
    """It is short, and imports neither the product nor the product's client."""
    source = Path(support.independent_checker.__file__).read_text(encoding="utf-8")
    nodes = list(ast.walk(ast.parse(source)))
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    roots = {name.partition(".")[0] for name in imported}
    assert "kafka" in roots
    assert not roots & {"stream_apple", "confluent_kafka", "support"}
    assert len(source.splitlines()) <= 300
