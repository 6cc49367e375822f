"""Reading a partition of any topic beside the group."""

import random
import time
import uuid

import pytest
from adapters.connections import DEADLINE_S, FOREVER, Recorder, TopicFactory, connect
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from stream_apple.adapters.reader import PartitionReader
from stream_apple.errors import GapError
from stream_apple.runtime.ports import LogRange, Reader, Record


def read(reader: Reader, count: int, limit: int = 16) -> list[Record]:
    """The next `count` records, within the deadline."""
    records: list[Record] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records after {DEADLINE_S} s"
        records += reader.fetch(limit, 0.05)
    return records


def write(bootstrap: str, topic_name: str, groups: list[tuple[list[bytes], bool]]) -> None:
    """One transaction for each list of values, committed or not."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": uuid.uuid4().hex, "linger.ms": 0})
    producer.init_transactions(30)
    for values, committed in groups:
        producer.begin_transaction()
        for value in values:
            producer.produce(topic_name, value, b"key", 0)
        assert producer.flush(30) == 0
        if committed:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    producer.close()


def test_reads_what_is_committed_from_an_offset_on(kafka: str, topic: TopicFactory) -> None:
    """In order, without what was aborted; the numbers are the log's, markers counted."""
    name = topic("models")
    write(kafka, name, [([b"a", b"b"], True), ([b"x"], False), ([b"c"], True)])
    broker = connect(kafka, topic("examples"))
    reader = broker.reader(name, 0, 1)
    found = read(reader, 2)
    assert [(record.offset(), record.key(), record.value()) for record in found] == [
        (1, b"key", b"b"),
        (5, b"key", b"c"),
    ]
    assert reader.fetch(16, 0.2) == []
    assert broker.log_range(name, 0) == LogRange(0, 7)
    write(kafka, name, [([b"d"], True)])
    assert [record.value() for record in read(reader, 1)] == [b"d"]
    reader.close()
    broker.close()


def test_several_readers_and_the_group_do_not_disturb_each_other(kafka: str, topic: TopicFactory) -> None:
    """Two readers of one partition each find everything, before the worker joins and while it is a member."""
    name, examples = topic("models"), topic("examples", config=FOREVER)
    write(kafka, name, [([b"a", b"b"], True)])
    broker = connect(kafka, examples)
    first, second = broker.reader(name, 0, 0), broker.reader(name, 0, 0)
    assert [record.value() for record in read(first, 1, limit=1)] == [b"a"]
    recorder = Recorder({0: 0})
    broker.join(recorder)
    deadline = time.monotonic() + DEADLINE_S
    while not recorder.told:
        assert time.monotonic() < deadline
        broker.fetch(10, 0.05)
    assert [record.value() for record in read(second, 2)] == [b"a", b"b"]
    assert [record.value() for record in read(first, 1)] == [b"b"]
    first.close()
    second.close()
    broker.fetch(10, 0.05)
    assert recorder.told == ["assigned"]
    broker.close()


@pytest.mark.parametrize("offset", [0, 1000])
def test_a_position_outside_the_log_is_a_gap(kafka: str, topic: TopicFactory, offset: int) -> None:
    """Deleted or not written yet: the message says where, and the position is not moved."""
    name = topic("models")
    write(kafka, name, [([b"a", b"b"], True)])
    client = AdminClient({"bootstrap.servers": kafka})
    (future,) = client.delete_records([TopicPartition(name, 0, 1)]).values()
    future.result(30)
    reader = PartitionReader({"bootstrap.servers": kafka}, "group", name, 0, offset)
    with pytest.raises(GapError, match=f"{name}-0@{offset}: expected the next record to be in the log"):
        read(reader, 1)
    reader.close()


def test_a_broker_that_is_not_there_is_no_error() -> None:
    """Nothing comes, in the time that was given."""
    reader = PartitionReader({"bootstrap.servers": "127.0.0.1:1"}, "group", "models", 0, 0)
    started = time.monotonic()
    for _ in range(5):
        assert reader.fetch(16, 0.1) == []
    assert time.monotonic() - started < DEADLINE_S / 2
    reader.close()


def test_large_messages_come_whole(kafka: str, topic: TopicFactory) -> None:
    """A snapshot's worth of half-megabyte messages, more than the client keeps ahead, is read to the byte."""
    name = topic("models")
    draw = random.Random(5)
    chunks = [draw.randbytes(500_000) for _ in range(20)]
    write(kafka, name, [(chunks * 8, True)])
    reader = PartitionReader({"bootstrap.servers": kafka}, "group", name, 0, 0)
    assert [record.value() for record in read(reader, 160)] == chunks * 8
    reader.close()
