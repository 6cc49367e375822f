"""Topics of a test: made, and read to their end."""

import uuid
from collections.abc import Callable, Mapping

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # exports are not marked
from support.waiting import DEADLINE_S, wait_until

FOREVER = {"retention.ms": "-1"}
"""For records with the event times of tests, which are years ago: by default the broker would delete them at once."""
COMPACTED = {"cleanup.policy": "compact"}
_SECONDS = 90.0

TopicFactory = Callable[..., str]
"""Makes a topic of a name, or a stem, with `partitions` (1) and a `config` (none); returns the name."""


def create_topics(bootstrap: str, *topics: NewTopic) -> None:
    """Make the topics, and wait until they are seen: a broker hears of them after the controller has made them."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    for future in client.create_topics(list(topics)).values():
        future.result(_SECONDS)
    names = {topic.topic for topic in topics}
    wait_until(lambda: names <= set(client.list_topics(timeout=DEADLINE_S).topics), f"topics {names}", _SECONDS)


def named_topics(bootstrap: str) -> TopicFactory:
    """Makes topics of just the names that it is given: for a broker that no other test uses.

    They have as many replicas as the cluster gives by default.
    """

    def create(name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        create_topics(bootstrap, NewTopic(name, partitions, -1, config=dict(config or {})))
        return name

    return create


def unique_topics(bootstrap: str) -> TopicFactory:
    """Makes topics whose names, a stem and something random, were never used: for a broker that tests share."""
    create = named_topics(bootstrap)

    def create_unique(stem: str = "topic", partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        return create(f"{stem}-{uuid.uuid4().hex[:12]}", partitions, config)

    return create_unique


def create_worker_topics(
    create: TopicFactory, partitions: int = 1, dead_letters: int = 1, *, merges: bool = False
) -> dict[str, str]:
    """Make the topics of a worker; that of dead letters may have fewer partitions than the others.

    merges  whether its models are merged: that takes one topic more

    Returns section `topics` of the worker's configuration.
    """
    topics = {
        "examples": create("examples", partitions, FOREVER),
        "predictions": create("predictions", partitions, FOREVER),
        "dead_letters": create("dead-letters", dead_letters, FOREVER),
        "models": create("models", partitions, COMPACTED),
    }
    return topics | {"merges": create("merges", 1, FOREVER)} if merges else topics


def read_to_end(
    bootstrap: str, topic: str, partitions: int = 1, isolation: str = "read_committed"
) -> dict[int, list[Message]]:
    """All messages that a reader with this isolation level finds at this moment, by partition, in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        found: dict[int, list[Message]] = {number: [] for number in range(partitions)}
        unread = set(found)

        def read() -> None:
            for message in consumer.consume(10_000, 0.05):
                number, error = message.partition() or 0, message.error()
                if error is None:
                    found[number].append(message)
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    unread.discard(number)

        wait_until(lambda: not unread, lambda: f"the end of {topic}, partitions {unread}", _SECONDS, meanwhile=read)
        return found
    finally:
        consumer.close()


def read_all(bootstrap: str, topic: str, partitions: int = 1, isolation: str = "read_committed") -> list[Message]:
    """What `read_to_end` finds, one partition after the other."""
    return [message for found in read_to_end(bootstrap, topic, partitions, isolation).values() for message in found]


class LogEnds:
    """How long logs are, asked again and again through one connection."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "log_level": 0})

    def of(self, topic: str, partition: int = 0) -> int:
        """How many messages, markers of transactions included, were ever written to the partition.

        KafkaException if it has no leader at the moment.
        """
        return int(self._consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=DEADLINE_S)[1])
