"""Whether a worker that starts now would find the model of every partition: offsets, snapshots and records."""

from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from stream_apple.adapters.admin import REQUEST_SECONDS, SILENT, Cluster, text
from stream_apple.adapters.finding import Finding
from stream_apple.config import Config
from stream_apple.errors import ConfigurationError, GapError
from stream_apple.runtime.lineage import Pointer
from stream_apple.runtime.ports import Committed, LogRange
from stream_apple.runtime.recovery import Origin, plan


def recoverability(cluster: Cluster, config: Config) -> Iterator[Finding]:
    """The group's offsets, and a fault for each partition at which `run` would refuse to go on.

    A consumer asks, which never joins: the admin client's request for offsets ends the process when the
    coordinator has just moved (librdkafka issue 5040).
    """
    subject = f"group {config.worker.group}"
    examples = config.topics.examples
    places = [TopicPartition(examples, partition) for partition in range(cluster.topics.get(examples, 0))]
    settings: dict[str, Any] = {**cluster.properties, "group.id": config.worker.group, "logger": SILENT}
    consumer = Consumer(settings)
    try:
        found = cluster.settled(lambda: consumer.committed(places, REQUEST_SECONDS))
        committed = [place for place in found if place.offset >= 0]
        findings = [finding for place in committed for finding in _partition(consumer, place, config, subject)]
    except KafkaException as error:
        yield Finding("fault", subject, f"expected readable offsets, found: {text(error)}")
        return
    finally:
        consumer.close()
    yield Finding("ok", subject, f"readable, partitions of {examples} with an offset: {len(committed)}")
    yield from findings


def _partition(consumer: Consumer, place: TopicPartition, config: Config, subject: str) -> Iterator[Finding]:
    """Faults and notes about one partition that has a committed offset."""
    origin = Origin(place.topic, config.worker.group, config.model_settings())
    committed = Committed(place.offset, place.metadata or "")
    log = LogRange(*consumer.get_watermark_offsets(place, REQUEST_SECONDS))
    try:
        found = plan(origin, config.worker.accepted_gaps, place.partition, committed, log)
    except (ConfigurationError, GapError) as error:
        yield Finding("fault", subject, str(error))
        return
    if found.jump is not None:
        start, stop = found.jump.gap
        yield Finding(
            "note",
            subject,
            f"{place.topic}-{place.partition}: worker.accept_gap lets the model go on without the records from offset "
            f"{start} on, found {stop} as the first",
        )
    if found.snapshot is not None:
        yield from _snapshot(consumer, found.snapshot, TopicPartition(config.topics.models, place.partition), subject)


def _snapshot(consumer: Consumer, pointer: Pointer, place: TopicPartition, subject: str) -> Iterator[Finding]:
    """A fault if the messages of the snapshot can't all be there; compaction leaves the newest where they were."""
    low, high = consumer.get_watermark_offsets(place, REQUEST_SECONDS)
    if low > pointer.first or high <= pointer.last:
        yield Finding(
            "fault",
            subject,
            f"{place.topic}-{place.partition}: expected the snapshot in messages {pointer.first} to {pointer.last}, "
            f"found {low} to {high - 1} in the log: use a new worker.group to begin a new model",
        )
