"""A worker's connection in a test: made, filled, fetched from, and read back."""

import time
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import Consumer, ConsumerGroupState, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exports are not marked
    AdminClient,
    ConsumerGroupDescription,
)
from runtime.records import stream

from stream_apple.adapters.clients import Identity, Properties
from stream_apple.adapters.kafka import KafkaBroker
from stream_apple.runtime.ports import Record, Start

TopicFactory = Callable[..., str]
FOREVER = {"retention.ms": "-1"}
DEADLINE_S = 60.0


class Recorder:
    """An assignment that starts where it is told and remembers what it was told."""

    def __init__(self, positions: Mapping[int, int], held: Sequence[int] = ()) -> None:
        self.positions = positions
        self.held = held
        self.told: list[str] = []

    def assigned(self, partitions: Sequence[int]) -> Mapping[int, Start]:
        """All partitions at once."""
        self.told.append("assigned")
        return {number: Start(self.positions[number], number in self.held) for number in partitions}

    def revoked(self, partitions: Sequence[int]) -> None:
        """In order."""
        self.told.append(f"revoked {list(partitions)}")

    def lost(self, partitions: Sequence[int]) -> None:
        """Without warning."""
        self.told.append(f"lost {list(partitions)}")


def connect(bootstrap: str, examples: str, name: str = "worker-0", group: str | None = None) -> KafkaBroker:
    """A worker's clients."""
    group = group or f"group-of-{examples}"
    properties: Properties = {"bootstrap.servers": bootstrap, "session.timeout.ms": 6000}
    return KafkaBroker(properties, Identity(group, name, f"{group}-{name}"), examples)


def fetch_some(broker: KafkaBroker, count: int = 1) -> list[Record]:
    """At least `count` records, within the deadline."""
    records: list[Record] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records after {DEADLINE_S} s"
        records += broker.fetch(1000, 0.1)
    return records


def fetch_until(broker: KafkaBroker, done: Callable[[], bool], what: str) -> list[Record]:
    """Everything that is fetched until `done`, within the deadline."""
    records: list[Record] = []
    deadline = time.monotonic() + DEADLINE_S
    while not done():
        assert time.monotonic() < deadline, f"not within {DEADLINE_S} s: {what}"
        records += broker.fetch(1000, 0.1)
    return records


def members_of(bootstrap: str, group: str) -> list[str]:
    """Instance ids of the group's static members, in their order."""
    found = _described(AdminClient({"bootstrap.servers": bootstrap}), group)
    return sorted(member.group_instance_id or "" for member in found.members)


def wait_for_assignment(bootstrap: str, group: str) -> None:
    """Until the group's only member has been given partitions, whether or not it has looked yet."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    deadline = time.monotonic() + DEADLINE_S
    while True:
        found = _described(client, group)
        if found.state == ConsumerGroupState.STABLE and found.members[0].assignment.topic_partitions:
            break
        assert time.monotonic() < deadline, f"{group}: {found.state} after {DEADLINE_S} s"
        time.sleep(0.05)
    time.sleep(0.5)  # the client has its answer from the broker a moment after the group is stable


def _described(client: AdminClient, group: str) -> ConsumerGroupDescription:
    found: ConsumerGroupDescription = client.describe_consumer_groups([group])[group].result(DEADLINE_S)
    return found


def fill(bootstrap: str, topic_name: str, count: int, partition: int = 0) -> None:
    """The sample of one partition."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for record in stream(count, partition=partition):
        producer.produce(topic_name, record.payload, record.named, partition, timestamp=record.time_ms or 1)
    assert producer.flush(30) == 0


def make_topics(mock_cluster: str, *names: str) -> None:
    """The embedded cluster makes a topic when a producer asks for it."""
    producer = Producer({"bootstrap.servers": mock_cluster})
    for name in names:
        producer.list_topics(name, timeout=10)
    producer.close()


def read_all(bootstrap: str, topic_name: str, partitions: int = 1) -> list[Message]:
    """What a reader of committed data finds at this moment, by partition and offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True})
    try:
        consumer.assign([TopicPartition(topic_name, number, 0) for number in range(partitions)])
        found: list[Message] = []
        ends = 0
        deadline = time.monotonic() + DEADLINE_S
        while ends < partitions:
            assert time.monotonic() < deadline
            for message in consumer.consume(1000, 0.2):
                if message.error() is None:
                    found.append(message)
                else:
                    ends += 1
    finally:
        consumer.close()
    return sorted(found, key=lambda message: (message.partition() or 0, message.offset() or 0))
