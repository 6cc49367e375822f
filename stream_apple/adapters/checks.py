"""The configuration against a live cluster: everything that would stop a worker, found before it starts."""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from stream_apple.adapters import topics as needs
from stream_apple.adapters.admin import REQUEST_SECONDS, SILENT, Cluster, text
from stream_apple.adapters.topics import Existing
from stream_apple.config import Config, TopicSettings
from stream_apple.errors import BrokerError, ConfigurationError


class Finding(NamedTuple):
    """One line of the report. `note`: good to know, stops nothing."""

    verdict: Literal["ok", "note", "fault"]
    subject: str
    text: str


def inspect(config: Config) -> Iterator[Finding]:
    """Every check in order, each as soon as it is known; only the first if the cluster does not answer."""
    try:
        cluster = Cluster(config.kafka)
    except (BrokerError, ConfigurationError) as error:
        yield Finding("fault", "cluster", str(error))
        return
    brokers = "1 broker" if cluster.brokers == 1 else f"{cluster.brokers} brokers"
    yield Finding("ok", "cluster", f"{cluster.id} answers at {cluster.bootstrap}, {brokers}")
    yield from _guarded("topics", _topics(cluster, config.topics))
    group = config.worker.group
    yield from _guarded(f"group {group}", _group(cluster, group, config.topics.examples))
    yield _transactions(cluster, f"{config.worker.transactional_id}-check")


def _guarded(subject: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    try:
        yield from findings
    except BrokerError as error:
        yield Finding("fault", subject, str(error))


def _topics(cluster: Cluster, topics: TopicSettings) -> Iterator[Finding]:
    found = needs.existing(cluster, list(topics.model_dump().values()))
    needed = needs.requirements(topics, needs.largest_example(topics, found))
    partitions = found[topics.examples].partitions if topics.examples in found else None
    permissions = {
        topics.examples: {"READ"},
        topics.predictions: {"WRITE"},
        topics.dead_letters: {"WRITE"},
        topics.models: {"READ", "WRITE"},
    }
    for name, requirements in needed.items():
        subject = f"topic {name}"
        if name not in found:
            yield Finding("fault", subject, "expected an existing topic, found none: `stream-apple topics` creates it")
            continue
        topic = found[name]
        faults = [
            f"{fault.property}: expected {fault.expected}, found {fault.found}"
            for fault in needs.compare(name, topic, requirements, partitions or topic.partitions)
        ]
        faults += _availability(topic, written="WRITE" in permissions[name])
        if not permissions[name] <= topic.operations:
            faults.append(_refused(permissions[name], topic.operations))
        for fault in faults:
            yield Finding("fault", subject, fault)
        if not faults:
            held = ", ".join(f"{item.setting} {topic.settings[item.setting]}" for item in requirements)
            yield Finding("ok", subject, f"partitions {topic.partitions}, replicas {topic.replicas}, {held}")
        if name == topics.examples:
            yield _clock(subject, topic)
            yield from _retention(subject, topic)


def _refused(needed: set[str], allowed: frozenset[str]) -> str:
    return f"permissions: expected {', '.join(sorted(needed))}, found {', '.join(sorted(allowed)) or 'none'}"


def _availability(topic: Existing, *, written: bool) -> list[str]:
    # With more in-sync replicas demanded than there are, every write is refused for ever.
    in_sync = int(topic.settings.get("min.insync.replicas", "1"))
    if not written or in_sync <= topic.replicas:
        return []
    return [f"min.insync.replicas: expected at most {topic.replicas} (the replicas there are), found {in_sync}"]


def _clock(subject: str, topic: Existing) -> Finding:
    kind = topic.settings.get("message.timestamp.type", "nothing")
    whose = "the producer's" if kind == "CreateTime" else "the broker's"
    return Finding("note", subject, f"message.timestamp.type {kind}: epochs follow {whose} clock")


def _retention(subject: str, topic: Existing) -> Iterator[Finding]:
    limits = {name: topic.settings.get(name, needs.FOREVER) for name in ("retention.ms", "retention.bytes")}
    found = ", ".join(f"{name} {value}" for name, value in limits.items() if value != needs.FOREVER)
    if found:
        yield Finding(
            "note",
            subject,
            f"{found}: a restarted worker needs every record of its model, and refuses to start without",
        )


def _group(cluster: Cluster, group: str, examples: str) -> Iterator[Finding]:
    subject = f"group {group}"
    yield from _offsets(cluster, group, examples)
    client = cluster.client
    try:
        description = cluster.settled(
            lambda: client.describe_consumer_groups(
                [group], include_authorized_operations=True, request_timeout=REQUEST_SECONDS
            )[group]
        )
    except KafkaException as error:
        # A group that no worker has joined yet is not there to be described.
        if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
            yield Finding("fault", subject, f"expected a description, found: {text(error)}")
        return
    operations = frozenset(operation.name for operation in description.authorized_operations or ())
    if "READ" not in operations:
        yield Finding("fault", subject, _refused({"READ"}, operations))
    if description.members:
        names = sorted(member.group_instance_id or member.client_id for member in description.members)
        yield Finding("note", subject, f"{description.state.name.lower()}, members now: {', '.join(names)}")


def _offsets(cluster: Cluster, group: str, examples: str) -> Iterator[Finding]:
    """The group's offsets, and a fault for each partition whose next record is gone: a worker would stop there.

    A consumer asks, which never joins: the admin client's request for offsets ends the process when the
    coordinator has just moved (librdkafka issue 5040).
    """
    subject = f"group {group}"
    places = [TopicPartition(examples, partition) for partition in range(cluster.topics.get(examples, 0))]
    settings: dict[str, Any] = {**cluster.properties, "group.id": group, "logger": SILENT}
    consumer = Consumer(settings)
    try:
        committed = [place for place in consumer.committed(places, REQUEST_SECONDS) if place.offset >= 0]
        yield Finding("ok", subject, f"readable, partitions of {examples} with an offset: {len(committed)}")
        for place in committed:
            earliest, _ = consumer.get_watermark_offsets(place, REQUEST_SECONDS)
            if earliest > place.offset:
                yield Finding(
                    "fault",
                    subject,
                    f"{place.topic}[{place.partition}]: expected a record at the committed offset "
                    f"{place.offset}, found the earliest at {earliest}",
                )
    except KafkaException as error:
        yield Finding("fault", subject, f"expected readable offsets, found: {text(error)}")
    finally:
        consumer.close()


def _transactions(cluster: Cluster, probe: str) -> Finding:
    """Open and abort an empty transaction under an id that no worker uses, so that none is fenced."""
    subject = f"transactional id {probe}"
    try:
        settings: dict[str, Any] = {**cluster.properties, "transactional.id": probe, "logger": SILENT}
        producer = Producer(settings)
        producer.init_transactions(REQUEST_SECONDS)
        producer.begin_transaction()
        producer.abort_transaction(REQUEST_SECONDS)
        producer.close()
    except KafkaException as error:
        if error.args[0].code() == KafkaError._UNSUPPORTED_FEATURE:  # noqa: SLF001  the client's name for it
            return Finding("fault", subject, f"expected a broker with transactions, found: {text(error)}")
        return Finding("fault", subject, f"expected a usable transactional id, found: {text(error)}")
    return Finding("ok", subject, "the broker has transactions, and this id may use them")
