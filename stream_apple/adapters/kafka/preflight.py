"""The configuration against a live cluster: everything that would stop a worker, found before it starts."""

from collections.abc import Iterator
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from stream_apple.adapters.kafka import topics as needs
from stream_apple.adapters.kafka.admin import REQUEST_S, SILENT, Cluster, Finding
from stream_apple.adapters.kafka.errors import as_kafka_exception, error_text
from stream_apple.adapters.kafka.preflight_recovery import check_recovery
from stream_apple.adapters.kafka.topics import Existing
from stream_apple.config import Config, TopicSettings
from stream_apple.config.duration import format_duration
from stream_apple.errors import BrokerError, ConfigurationError

_OUTAGE_MS = needs.RETENTION_MS // 2
"""Time for a weekend and somebody to look; what `topics` leaves a worker that was away."""


def check_cluster(config: Config) -> Iterator[Finding]:
    """Every check in order, each as soon as it is known; only the first if the cluster does not answer."""
    try:
        cluster = Cluster(config.kafka)
    except (BrokerError, ConfigurationError) as error:
        yield Finding("fault", "cluster", str(error))
        return
    brokers = "1 broker" if cluster.brokers == 1 else f"{cluster.brokers} brokers"
    yield Finding("ok", "cluster", f"{cluster.id} answers at {cluster.bootstrap}, {brokers}")
    yield from _guarded("topics", _topics(cluster, config.topics))
    subject = f"group {config.worker.group}"
    yield from _guarded(subject, check_recovery(cluster, config))
    yield from _guarded(subject, _group(cluster, config.worker.group))
    yield _transactions(cluster, f"{config.worker.transactional_id}-check")


def _guarded(subject: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    try:
        yield from findings
    except BrokerError as error:
        yield Finding("fault", subject, str(error))


def _topics(cluster: Cluster, topics: TopicSettings) -> Iterator[Finding]:
    found = needs.existing(cluster, list(topics.model_dump().values()))
    made = needs.creation(topics, needs.RETENTION_MS)
    examples = found[topics.examples].settings if topics.examples in found else made[topics.examples]
    needed = needs.requirements(topics, examples)
    partitions = found[topics.examples].partitions if topics.examples in found else None
    permissions = {
        topics.examples: {"READ"},
        topics.predictions: {"READ", "WRITE"},
        topics.dead_letters: {"READ", "WRITE"},
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
    """Notes about records that may be deleted before a worker that was away, or is behind, has learned them."""
    refusal = "a worker that still has to learn them refuses to go on"
    size = int(topic.settings.get("retention.bytes", needs.FOREVER))
    if size != needs.FOREVER:
        yield Finding(
            "note", subject, f"retention.bytes {size}: the oldest records go whenever there are more; {refusal}"
        )
    kept = int(topic.settings.get("retention.ms", needs.FOREVER))
    if kept == needs.FOREVER:
        return
    if kept < _OUTAGE_MS:
        yield Finding("note", subject, f"retention.ms {kept}: records go after {format_duration(kept)}; {refusal}")
    oldest = int(topic.settings.get("message.timestamp.before.max.ms", needs.UNLIMITED))
    if oldest >= kept and topic.settings.get("message.timestamp.type") == "CreateTime":
        yield Finding(
            "note",
            subject,
            f"message.timestamp.before.max.ms {oldest}: a record that is older than retention.ms {kept} by its own "
            f"timestamp is accepted, and deleted soon after; {refusal}",
        )


def _group(cluster: Cluster, group: str) -> Iterator[Finding]:
    subject = f"group {group}"
    client = cluster.client
    try:
        description = cluster.ask_coordinator(
            lambda: client.describe_consumer_groups(  # noqa: PLW0108  asked anew each time
                [group], include_authorized_operations=True, request_timeout=REQUEST_S
            )[group].result()
        )
    except KafkaException as error:
        # A group that no worker has joined yet is not there to be described.
        if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
            yield Finding("fault", subject, f"expected a description, found: {error_text(error.args[0])}")
        return
    operations = frozenset(operation.name for operation in description.authorized_operations or ())
    if "READ" not in operations:
        yield Finding("fault", subject, _refused({"READ"}, operations))
    if description.members:
        names = sorted(member.group_instance_id or member.client_id for member in description.members)
        yield Finding("note", subject, f"{description.state.name.lower()}, members now: {', '.join(names)}")


def _transactions(cluster: Cluster, probe: str) -> Finding:
    """Open and abort an empty transaction under an id that no worker uses, so that none is fenced."""
    subject = f"transactional id {probe}"
    settings: dict[str, Any] = {**cluster.properties, "transactional.id": probe, "logger": SILENT}
    try:
        with as_kafka_exception():
            producer = Producer(settings)
            producer.init_transactions(REQUEST_S)
            producer.begin_transaction()
            producer.abort_transaction(REQUEST_S)
            producer.close()
    except KafkaException as error:
        if error.args[0].code() == KafkaError._UNSUPPORTED_FEATURE:  # noqa: SLF001  the client's name for it
            return Finding("fault", subject, f"expected a broker with transactions, found: {error_text(error.args[0])}")
        return Finding("fault", subject, f"expected a usable transactional id, found: {error_text(error.args[0])}")
    return Finding("ok", subject, "the broker has transactions, and this id may use them")
