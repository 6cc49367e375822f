"""A worker's connection in a test: made, filled, and fetched from."""

from collections.abc import Callable

from confluent_kafka import ConsumerGroupState, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exports are not marked
    AdminClient,
    ConsumerGroupDescription,
)
from support.records import stream
from support.waiting import DEADLINE_S, wait_until

from stream_apple.adapters.kafka.broker import KafkaBroker
from stream_apple.adapters.kafka.client_properties import Identity, Properties
from stream_apple.stream.log.ports import Broker, Reader, Record


def connect(bootstrap: str, examples: str, name: str = "worker-0", group: str | None = None) -> KafkaBroker:
    """A worker's clients."""
    group = group or f"group-of-{examples}"
    properties: Properties = {"bootstrap.servers": bootstrap, "session.timeout.ms": 6000}
    return KafkaBroker(properties, Identity(group, name, f"{group}-{name}"), examples)


def fetch_until(source: Broker | Reader, done: Callable[[list[Record]], bool], what: str) -> list[Record]:
    """Everything that is fetched until `done`, which is given it, within the deadline."""
    records: list[Record] = []
    wait_until(
        lambda: done(records),
        lambda: f"{what}, with {len(records)} records",
        meanwhile=lambda: records.extend(source.fetch(1000, 0.1)),
    )
    return records


def fetch_some(source: Broker | Reader, count: int = 1) -> list[Record]:
    """At least `count` records, within the deadline."""
    return fetch_until(source, lambda records: len(records) >= count, f"{count} records")


def members_of(bootstrap: str, group: str) -> list[str]:
    """Instance ids of the group's static members, in their order."""
    found = _described(AdminClient({"bootstrap.servers": bootstrap}), group)
    return sorted(member.group_instance_id or "" for member in found.members)


def wait_for_assignment(bootstrap: str, group: str) -> None:
    """Until the group's only member has been given partitions, whether or not it has heard of it."""
    client = AdminClient({"bootstrap.servers": bootstrap})

    def assigned() -> bool:
        found = _described(client, group)
        return found.state == ConsumerGroupState.STABLE and bool(found.members[0].assignment.topic_partitions)

    wait_until(assigned, f"an assignment of {group}")


def _described(client: AdminClient, group: str) -> ConsumerGroupDescription:
    found: ConsumerGroupDescription = client.describe_consumer_groups([group])[group].result(DEADLINE_S)
    return found


def fill(bootstrap: str, topic_name: str, count: int, partition: int = 0) -> None:
    """The sample of one partition, in its order."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for record in stream(count, partition=partition):
        producer.produce(topic_name, record.payload, record.named, partition, timestamp=record.time_ms or 1)
    assert producer.flush(DEADLINE_S) == 0
