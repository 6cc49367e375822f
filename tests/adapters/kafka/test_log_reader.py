"""Reading a partition on Kafka, as far as that is not the contract's."""

import random
import time
import uuid
from contextlib import closing

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]  # exports are not marked
from support.kafka.connections import fetch_some
from support.topics import TopicFactory
from support.waiting import DEADLINE_S, wait_until

from stream_apple.adapters.kafka.client_properties import reader_properties
from stream_apple.adapters.kafka.log_reader import CommittedReader, KafkaLogs, PartitionReader, log_range
from stream_apple.adapters.kafka.retry import RetryPolicy
from stream_apple.config import load
from stream_apple.errors import BrokerError, ConfigurationError
from stream_apple.stream.log.ports import LogRange


def write(bootstrap: str, topic_name: str, values: list[bytes]) -> None:
    """One transaction that holds all values."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": uuid.uuid4().hex, "linger.ms": 0})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic_name, value, b"key", 0)
    producer.commit_transaction(DEADLINE_S)
    producer.close()


def test_a_broker_that_is_not_there_is_no_error() -> None:
    """Nothing comes, in the time that was given."""
    reader = PartitionReader(reader_properties({"bootstrap.servers": "127.0.0.1:1"}, "group"), "models", 0, 0)
    started = time.monotonic()
    for _ in range(5):
        assert reader.fetch(16, 0.1) == []
    assert time.monotonic() - started < DEADLINE_S / 2
    reader.close()


def test_whether_checksums_are_checked_is_the_users_choice(mock_examples: str) -> None:
    """They are by default, and what ends a transaction on the in-process cluster has none that is right."""
    for _ in range(2):
        write(mock_examples, "examples", [b"x"])
    unchecked: dict[str, str | bool] = {"bootstrap.servers": mock_examples, "check.crcs": False}
    reader = PartitionReader(reader_properties(unchecked, "group"), "examples", 0, 0)
    assert len(fetch_some(reader, 2)) == 2
    reader.close()
    reader = PartitionReader(reader_properties({"bootstrap.servers": mock_examples}, "group"), "examples", 0, 0)
    assert len(fetch_some(reader, 1)) == 1
    assert reader.fetch(1, 0.5) == []
    reader.close()


class Forgetful(Consumer):
    """Answers about a log as a broker does that has just come back: at first without its end, or knowing of none."""

    def __init__(self, answers: list[tuple[int, int] | int]) -> None:
        super().__init__({"group.id": "group"})
        self.answers = answers

    def get_watermark_offsets(self, *_: object, **__: object) -> tuple[int, int]:
        """The next of the answers, the last for ever; a number is the code of an error."""
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, int):
            raise KafkaException(KafkaError(answer))
        return answer


def test_an_answer_without_offsets_is_none() -> None:
    """It is asked again until there are some, and never taken for the log's end."""
    retry = RetryPolicy(5.0)
    consumer = Forgetful([(0, OFFSET_INVALID), (OFFSET_INVALID, OFFSET_INVALID), (3, 9699)])
    assert log_range(consumer, retry, "examples", 0) == LogRange(3, 9699)
    with pytest.raises(BrokerError, match=r"watermarks of examples-0: .*-1001"):
        log_range(Forgetful([(0, OFFSET_INVALID)]), RetryPolicy(0.2), "examples", 0)


def test_a_partition_that_is_unknown_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while it is believed: the topic is gone, and somebody has to look."""
    answers: list[tuple[int, int] | int] = [KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART, (3, 9699)]
    assert log_range(Forgetful(answers), RetryPolicy(), "examples", 0) == LogRange(3, 9699)
    monkeypatch.setattr("stream_apple.adapters.kafka.log_reader.UNKNOWN_S", 0.0)
    with pytest.raises(
        ConfigurationError,
        match=r"topic examples: expected a partition 0, found: .*_UNKNOWN_PARTITION.*creates a topic that is missing",
    ):
        log_range(Forgetful([KafkaError._UNKNOWN_PARTITION]), RetryPolicy(), "examples", 0)


def test_a_partition_that_is_named_twice_is_read_once(mock_examples: str) -> None:
    """What `verify` counts would be too much otherwise."""
    logs = KafkaLogs(load(None, {"STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS": mock_examples}))
    assert list(logs.chosen([2, 0, 2])) == [2, 0]
    assert list(logs.chosen([])) == [0, 1, 2, 3]
    logs.close()


def test_partitions_that_are_added_are_counted(kafka: str, topic: TopicFactory) -> None:
    """By a client that has counted them before; a topic that is not there has none, and is no error."""
    name = topic("examples", partitions=2)
    variables = {"STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS": kafka, "STREAM_APPLE_TOPICS__EXAMPLES": name}
    admin = AdminClient({"bootstrap.servers": kafka})
    with closing(KafkaLogs(load(None, variables))) as logs:
        assert logs.count_now() == 2
        admin.create_partitions([NewPartitions(name, 3)])[name].result(DEADLINE_S)
        wait_until(lambda: logs.count_now() == 3, "the third partition", DEADLINE_S)
    with closing(KafkaLogs(load(None, variables | {"STREAM_APPLE_TOPICS__EXAMPLES": f"{name}-absent"}))) as logs:
        assert logs.count_now() == 0


def test_large_messages_come_whole(kafka: str, topic: TopicFactory) -> None:
    """A snapshot's worth of half-megabyte messages, more than the client keeps ahead, is read to the byte."""
    name = topic("models")
    draw = random.Random(5)
    chunks = [draw.randbytes(500_000) for _ in range(20)]
    write(kafka, name, chunks * 8)
    reader = PartitionReader(reader_properties({"bootstrap.servers": kafka}, "group"), name, 0, 0)
    assert [record.value() for record in fetch_some(reader, 160)] == chunks * 8
    reader.close()


def test_a_partition_that_is_held_goes_on_where_it_was_left(kafka: str, topic: TopicFactory) -> None:
    """Held and released again and again, whatever the client has fetched ahead: nothing is missing, in order."""
    name, count, draw = topic("held", 2), 20_000, random.Random(1)
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "linger.ms": 50})
    for at in range(count):
        for partition in range(2):
            producer.produce(name, b"%d" % at, partition=partition)
        producer.poll(0)
    assert producer.flush(DEADLINE_S) == 0
    reader = CommittedReader({"bootstrap.servers": kafka}, "group")
    reader.begin({(name, partition): 0 for partition in range(2)})
    found: dict[int, list[int]] = {0: [], 1: []}
    held, deadline = {0: False, 1: False}, time.monotonic() + DEADLINE_S
    while not reader.passed({(name, partition): count for partition in range(2)}):
        assert time.monotonic() < deadline
        came = [record for _, record in reader.fetch(500, 0.05)]
        for record in came:
            found[record.partition() or 0].append(record.offset())
        for partition in range(2):
            turn = draw.random() < 0.3 or not came
            if turn and held[partition]:
                reader.resume((name, partition))
                held[partition] = False
            elif turn and came:
                reader.pause((name, partition))
                held[partition] = True
    reader.close()
    assert found == {0: list(range(count)), 1: list(range(count))}


def test_nothing_comes_of_a_partition_that_is_held(kafka: str, topic: TopicFactory) -> None:
    """While the other is read to its end."""
    name, count = topic("held", 2), 5_000
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    for at in range(2 * count):
        producer.produce(name, b"x" * 100, partition=at % 2)
        producer.poll(0)
    assert producer.flush(DEADLINE_S) == 0
    reader = CommittedReader({"bootstrap.servers": kafka}, "group")
    reader.begin({(name, partition): 0 for partition in range(2)})
    reader.pause((name, 0))
    deadline, partitions = time.monotonic() + DEADLINE_S, set()
    while not reader.passed({(name, 1): count}):
        assert time.monotonic() < deadline
        partitions |= {record.partition() for _, record in reader.fetch(500, 0.05)}
    assert partitions == {1}
    assert not reader.passed({(name, 0): count})
    reader.close()
