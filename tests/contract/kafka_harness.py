"""The contract suite's harness on a real Kafka broker, and on the adapter that the worker uses."""

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # exports are not marked
from contract.harness import Seen, seen
from support.kafka.connections import members_of
from support.topics import create_topics, read_to_end
from support.waiting import DEADLINE_S, wait_until

from stream_apple.adapters.kafka.broker import KafkaBroker
from stream_apple.adapters.kafka.client_properties import Identity

_PARTITIONS = 2
_SHORT_SESSION_MS = 6_000
# Records of tests are older than any retention time.
_KEPT = {"retention.ms": "-1"}
# The cleaner leaves the newest segment alone, so segments are short.
_COMPACTED = {
    "cleanup.policy": "compact,delete",
    "retention.ms": "-1",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.001",
    "max.compaction.lag.ms": "1",
}


class _Foreign:
    def __init__(self, harness: "KafkaHarness", transactional_id: str) -> None:
        self._harness = harness
        self._producer = Producer(harness.properties({"transactional.id": transactional_id}))
        self._producer.init_transactions(DEADLINE_S)
        self._producer.begin_transaction()

    def append(self, topic: str, partition: int, *values: bytes) -> None:
        for value in values:
            self._producer.produce(topic, value, value, partition, timestamp=1)
        assert self._producer.flush(DEADLINE_S) == 0

    def offsets(self, offsets: Mapping[int, int]) -> None:
        examples = self._harness.examples
        positions = [TopicPartition(examples, partition, offset) for partition, offset in offsets.items()]
        # A consumer that has not joined commits as one who assigns partitions by hand: nobody's generation is asked.
        outsider = Consumer(self._harness.properties({"group.id": self._harness.group}))
        self._producer.send_offsets_to_transaction(positions, outsider.consumer_group_metadata(), DEADLINE_S)
        outsider.close()

    def commit(self) -> None:
        self._producer.commit_transaction(DEADLINE_S)

    def abort(self) -> None:
        self._producer.abort_transaction(DEADLINE_S)


class KafkaHarness:
    """See `harness.Harness`; `bootstrap` is the address of a broker that other tests may use too."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        stem = uuid.uuid4().hex[:12]
        self.examples, self.outputs, self.models = f"examples-{stem}", f"outputs-{stem}", f"models-{stem}"
        self.missing = f"missing-{stem}"
        self.group = f"group-{stem}"
        self._topics = [self.examples, self.outputs, self.models]
        self._admin = AdminClient(self.properties())
        # Without idempotence a message that has to be sent again, as to a topic just made, comes after later ones.
        self._producer = Producer(self.properties({"linger.ms": 0, "enable.idempotence": True}))
        configs = [_KEPT, _KEPT, _COMPACTED]
        new = [
            NewTopic(name, _PARTITIONS, 1, config=config) for name, config in zip(self._topics, configs, strict=True)
        ]
        create_topics(bootstrap, *new)

    def properties(self, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Of a client that says nothing on the standard error stream."""
        return {"bootstrap.servers": self._bootstrap, "log_level": 0, **(more or {})}

    def broker(self, instance: str, *, short_session: bool = False) -> KafkaBroker:
        """The adapter, with the properties that a user would set."""
        # A member hears of a rebalance with its next heartbeat.
        properties: dict[str, str | int | float | bool] = self.properties({"heartbeat.interval.ms": 300})
        if short_session:
            properties |= {"session.timeout.ms": _SHORT_SESSION_MS, "max.poll.interval.ms": _SHORT_SESSION_MS}
        identity = Identity(self.group, instance, self.transactional_id(instance))
        return KafkaBroker(properties, identity, self.examples, idle_readers=1)

    def append(self, topic: str, partition: int, *values: bytes, key: bytes | None = None) -> list[int]:
        """Plain records."""
        offsets: list[int] = []

        def written(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            offsets.append(message.offset() or 0)

        for value in values:
            self._producer.produce(topic, value, key or value, partition, timestamp=1, on_delivery=written)
        assert self._producer.flush(DEADLINE_S) == 0
        return offsets

    def foreign(self, transactional_id: str) -> _Foreign:
        """Begin."""
        return _Foreign(self, transactional_id)

    def transactional_id(self, instance: str) -> str:
        """One to one."""
        return f"{self.group}.{instance}"

    def read(self, topic: str, partition: int) -> list[Seen]:
        """Up to the last stable offset at the time of the call."""
        messages = read_to_end(self._bootstrap, topic, _PARTITIONS)[partition]
        return [seen(message) for message in messages]  # type: ignore[arg-type]  # what is consumed has an offset

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """What retention does."""
        (future,) = self._admin.delete_records([TopicPartition(topic, partition, offset)]).values()
        assert future.result(DEADLINE_S).low_watermark == offset

    def compact(self, topic: str, partition: int) -> None:
        """Wait until the cleaner has done its work; new records make the segments roll."""
        newest = {message.key: message.offset for message in self.read(topic, partition)}

        def compacted() -> bool:
            present = self.read(topic, partition)
            return all(newest.get(message.key, message.offset) <= message.offset for message in present)

        def roll() -> None:
            self._producer.produce(topic, b"", b"to make the segment roll", partition)
            assert self._producer.flush(DEADLINE_S) == 0
            time.sleep(0.2)

        wait_until(compacted, f"{topic}-{partition} compacted", meanwhile=roll)

    def expire(self, instance: str, others: Callable[[], object]) -> None:
        """Wait until the coordinator has given up on it: its client stops by itself when it is not asked to fetch."""

        def removed() -> bool:
            return instance not in members_of(self._bootstrap, self.group)

        wait_until(removed, f"{instance} out of the group", meanwhile=others)

    def close(self) -> None:
        """Delete the topics."""
        for future in self._admin.delete_topics(self._topics).values():
            future.result(DEADLINE_S)
