"""Checks the configuration against a live cluster: finds everything that would stop a worker before it starts."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

# The package types its admin module and does not mark what it exports.
from confluent_kafka.admin import ConsumerGroupDescription, MemberDescription  # type: ignore[attr-defined]

from stream_apple.adapters.kafka.admin import REQUEST_S, SILENT, Cluster, Finding, timeout_faults
from stream_apple.adapters.kafka.client_properties import property_faults, queues_of, with_room
from stream_apple.adapters.kafka.errors import as_kafka_exception, error_text, translated
from stream_apple.adapters.kafka.preflight.join_check import check_join
from stream_apple.adapters.kafka.preflight.recovery_check import check_recovery
from stream_apple.adapters.kafka.retry import RetryPolicy
from stream_apple.adapters.kafka.topic_faults import (
    NeededOfTopics,
    OpenTransactions,
    internal_faults,
    unavailable,
)
from stream_apple.adapters.kafka.topics import (
    FOREVER,
    RETENTION_MS,
    UNLIMITED,
    Existing,
    NeededTopics,
    compare,
    existing,
    refused,
)
from stream_apple.config import Config
from stream_apple.config.duration import format_duration
from stream_apple.config.memory import memory_limit, queue_bytes, too_large, worker_bytes
from stream_apple.errors import BrokerError, ConfigurationError
from stream_apple.records.message.message_size import largest_dead_letter

_OUTAGE_MS = RETENTION_MS // 2
"""How long a worker may be down, such as over a weekend: `topics` keeps records for at least that long."""

_OPEN_S = 3.0
"""How long a transaction must be open to be reported: longer than transactions of most clients last."""

# librdkafka's own defaults, and the size of an answer besides its batches.
_RECEIVE_BYTES, _BATCH_BYTES, _RESPONSE_BYTES = 100_000_000, 1_000_000, 512

# A coordinator that has just started, or is being elected, gives these for a moment.
_COORDINATOR_ERRORS = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}


def check_cluster(config: Config, threads: int = 1) -> Iterator[Finding]:
    """Yield the findings of all checks in order, each as soon as it is known; a fault of the cluster is the last one.

    threads  how many learn, if the configuration does not say it
    """
    try:
        cluster = Cluster(config.kafka)
    except (BrokerError, ConfigurationError) as error:
        yield Finding("fault", "cluster", str(error))
        return
    if unreachable := cluster.unreachable():
        yield Finding("fault", "cluster", "; ".join(unreachable))
        return
    brokers = "1 broker" if len(cluster.brokers) == 1 else f"{len(cluster.brokers)} brokers"
    yield Finding("ok", "cluster", f"{cluster.id} answers at {cluster.bootstrap}, {brokers}")
    yield from _properties(cluster, config)
    yield from _memory(config, cluster.topics.get(config.topics.examples, 1), threads, len(cluster.brokers))
    yield from _guarded("topics", _topics(cluster, config))
    if internal := [*map(str, internal_faults(cluster))]:
        yield Finding("fault", "cluster", "; ".join(internal))
        return
    subject = f"group {config.worker.group}"
    yield from _guarded(subject, check_recovery(cluster, config))
    yield from _guarded(subject, _group(cluster, config.worker.group))
    yield _transactions(cluster, f"{config.worker.transactional_id}-check")
    if config.joining:
        joiner = config.with_worker(group=config.join.group).worker
        subject = f"group {joiner.group}"
        yield from _guarded(subject, check_join(cluster, config))
        yield from _guarded(subject, _group(cluster, joiner.group))
        yield _transactions(cluster, f"{joiner.transactional_id}-check")


def _properties(cluster: Cluster, config: Config) -> Iterator[Finding]:
    """Compare the [kafka] section with the rest of the configuration, and with what the brokers accept."""
    largest = largest_dead_letter(config.limits.max_record_bytes)
    faults = property_faults(with_room(config.kafka, largest), config.worker.commit_interval, largest)
    try:
        faults += timeout_faults(cluster)
    except BrokerError as error:
        yield Finding("note", "brokers", f"session and transaction timeouts are not compared with theirs: {error}")
    for fault in faults:
        yield Finding("fault", "kafka", fault)
    if not faults:
        yield Finding("ok", "kafka", "timeouts and sizes fit together, and the brokers")


def _memory(config: Config, partitions: int, threads: int, brokers: int) -> Iterator[Finding]:
    """Check whether models and records fit into the memory of the machine on which the check runs."""
    limit = memory_limit()
    if limit is None:
        return
    options = config.learner.options(config.limits.max_features_per_example)
    queues = queues_of(with_room(config.kafka, largest_dead_letter(config.limits.max_record_bytes)), brokers)
    queued = queue_bytes(options, config.limits, config.worker.threads or threads, queues)
    merged = partitions if config.merging else 0
    start = int(bool(config.worker.from_model))  # a further model, which new ones adopt
    most = (limit.bytes - worker_bytes(options, start, queued, merged)) // options.model_bytes()
    if most < 1:
        yield Finding(
            "fault", "memory", too_large(options, worker_bytes(options, start + 1, queued, merged), limit, queued)
        )
    elif most < partitions:
        text = f"a worker here has memory for {most} of the {partitions} partitions, by the {limit.origin}: "
        yield Finding("note", "memory", f"{text}so many it may own, also while others are down")
    else:
        yield Finding("ok", "memory", f"a worker here has room for all {partitions} partitions, by the {limit.origin}")


def _guarded(subject: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    try:
        yield from findings
    except (BrokerError, ConfigurationError) as error:
        yield Finding("fault", subject, str(error))


def _topics(cluster: Cluster, config: Config) -> Iterator[Finding]:
    needs, examples = NeededTopics.of(config), config.topics.examples
    found = existing(cluster, needs.names)
    settings = {name: topic.settings for name, topic in found.items()}
    for name, requirements in needs.requirements({**needs.creation(RETENTION_MS), **settings}).items():
        subject = f"topic {name}"
        if name not in found:
            yield Finding("fault", subject, "expected an existing topic, found none: `stream-apple topics` creates it")
            continue
        topic = found[name]
        count = needs.needed_partitions(name, found.get(examples, topic).partitions)
        faults = [
            *map(str, compare(name, topic, requirements, count)),
            *(fault.text for fault in unavailable(name, topic, written=name != needs.input)),
            *needs.missing_permissions(name, topic.operations),
        ]
        for fault in faults:
            yield Finding("fault", subject, fault)
        if not faults:
            held = ", ".join(f"{item.setting} {topic.settings[item.setting]}" for item in requirements)
            yield Finding("ok", subject, f"partitions {topic.partitions}, replicas {topic.replicas}, {held}")
        yield from _log(subject, topic, name, config)
    yield from _batches(config, [topic for name, topic in found.items() if name != needs.input])
    yield from _open_transactions(cluster, config, found)


def _open_transactions(cluster: Cluster, config: Config, found: Mapping[str, Existing]) -> Iterator[Finding]:
    """Yield notes of transactions that stay open for OPEN_S, for which workers and joiners wait."""
    read = {*NeededOfTopics.by_worker(config).read, *(NeededOfTopics.by_joiner(config).read if config.joining else ())}
    topics = sorted(read & found.keys())
    partitions = range(max((found[name].partitions for name in topics), default=0))
    opened = OpenTransactions(_OPEN_S)
    opened.look(cluster, topics, partitions)
    if opened.any_open:
        time.sleep(_OPEN_S)
        for fault in opened.look(cluster, topics, partitions):
            yield Finding("note", f"topic {fault.topic}", fault.text)


def _log(subject: str, topic: Existing, name: str, config: Config) -> Iterator[Finding]:
    """Yield notes about a log whose records are learned or joined, and faults of its sizes; nothing of others."""
    who, refusal = {
        config.join.impressions: ("what is joined follows", "a joiner that still has to join them refuses to go on"),
        config.join.outcomes: ("what is joined follows", "impressions that may need them are late"),
        config.topics.examples: ("epochs follow", "a worker that still has to learn them refuses to go on"),
    }.get(name, ("", ""))
    if who:
        yield _clock(subject, topic, who, config.input.timestamp)
        yield from _retention(subject, topic, refusal)
        yield from _sizes(subject, topic, config)


def _sizes(subject: str, topic: Existing, config: Config) -> Iterator[Finding]:
    """Yield a fault if the consumer does not take what the topic may hold, and a note of what is not answered whole."""
    largest = int(topic.settings["max.message.bytes"])
    answer = int(config.kafka.get("receive.message.max.bytes", _RECEIVE_BYTES)) - _RESPONSE_BYTES
    if largest > answer:
        yield Finding(
            "fault",
            subject,
            f"max.message.bytes: expected at most {answer} (receive.message.max.bytes of the client, less "
            f"{_RESPONSE_BYTES} for what is around a batch), found {largest}",
        )
    whole = largest_dead_letter(config.limits.max_record_bytes)
    if largest > whole:
        yield Finding(
            "note",
            subject,
            f"max.message.bytes {largest}: a record above {whole} bytes, which limits.max_record_bytes "
            f"{config.limits.max_record_bytes} refuses, is not repeated in its dead letter",
        )


def _batches(config: Config, outputs: list[Existing]) -> Iterator[Finding]:
    """Yield a fault if the producer's batches may be larger than an output topic takes."""
    properties = config.kafka
    batch = int(properties.get("batch.size", _BATCH_BYTES))
    most = min((int(topic.settings["max.message.bytes"]) for topic in outputs), default=batch)
    if batch > most:
        yield Finding(
            "fault", "kafka.batch.size", f"expected at most {most} (the least max.message.bytes), found {batch}"
        )


def _clock(subject: str, topic: Existing, who: str, field: str) -> Finding:
    if field:
        return Finding("note", subject, f"input.timestamp: {who} the times in the field {field!r}")
    kind = topic.settings.get("message.timestamp.type", "nothing")
    whose = "the producer's" if kind == "CreateTime" else "the broker's"
    return Finding("note", subject, f"message.timestamp.type {kind}: {who} {whose} clock")


def _retention(subject: str, topic: Existing, refusal: str) -> Iterator[Finding]:
    """Yield notes about records that may be deleted before a worker that was down, or is behind, has learned them.

    refusal  says what happens then
    """
    size = int(topic.settings.get("retention.bytes", FOREVER))
    if size != FOREVER:
        yield Finding(
            "note", subject, f"retention.bytes {size}: the oldest records go whenever there are more; {refusal}"
        )
    kept = int(topic.settings.get("retention.ms", FOREVER))
    if kept == FOREVER:
        return
    if kept < _OUTAGE_MS:
        yield Finding("note", subject, f"retention.ms {kept}: records go after {format_duration(kept)}; {refusal}")
    oldest = int(topic.settings.get("message.timestamp.before.max.ms", UNLIMITED))
    if oldest >= kept and topic.settings.get("message.timestamp.type") == "CreateTime":
        yield Finding(
            "note",
            subject,
            f"message.timestamp.before.max.ms {oldest}: a record that is older than retention.ms {kept} by its own "
            f"timestamp is accepted, and deleted soon after; {refusal}",
        )


def _group(cluster: Cluster, group: str) -> Iterator[Finding]:
    """Yield a fault if this client may not be a member, and a note of the members; nothing if there is no group yet."""
    subject = f"group {group}"
    try:
        description = _describe(cluster, group)
    except KafkaException as error:
        yield Finding("fault", subject, f"expected a description, found: {error_text(error.args[0])}")
        return
    if description is None:
        return
    operations = frozenset(operation.name for operation in description.authorized_operations or ())
    if "READ" not in operations:
        yield Finding("fault", subject, refused({"READ"}, operations))
    if description.members:
        names = sorted(member.group_instance_id or member.client_id for member in description.members)
        yield Finding("note", subject, f"{description.state.name.lower()}, members now: {', '.join(names)}")
    if strangers := [_named(member) for member in description.members if not member.group_instance_id]:
        yield Finding(
            "fault",
            subject,
            f"expected only workers as members, which have a group.instance.id, found {', '.join(strangers)}: a commit "
            f"of others replaces workers' notes. Stop it; `stream-apple repair` rebuilds the notes",
        )


def _named(member: MemberDescription) -> str:
    return f"{member.client_id} at {member.host}"


def members_of(cluster: Cluster, group: str) -> list[str]:
    """Return the members of the group, each by its client id and host; none if there is no such group."""
    with translated(f"the members of group {group}"):
        description = _describe(cluster, group)
    return [] if description is None else [*map(_named, description.members)]


def _describe(cluster: Cluster, group: str) -> ConsumerGroupDescription | None:
    """Return the coordinator's description of the group; None if there is no group yet.

    A worker does not ask for it (`before_fencing` says why).
    """
    try:
        found: ConsumerGroupDescription = RetryPolicy(cluster.request_s).retry_while(
            lambda error: error.code() in _COORDINATOR_ERRORS,
            lambda: cluster.client.describe_consumer_groups(  # noqa: PLW0108  asked anew each time
                [group], include_authorized_operations=True, request_timeout=cluster.request_s
            )[group].result(),
        )
    except KafkaException as error:
        if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
            raise
        return None
    return found


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
