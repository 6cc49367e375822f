"""Whether a worker that starts now would find the model of every partition: offsets, snapshots and records."""

from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from stream_apple.adapters.admin import REQUEST_SECONDS, SILENT, Cluster, text
from stream_apple.adapters.finding import Finding
from stream_apple.config import Config
from stream_apple.errors import ConfigurationError
from stream_apple.runtime.lineage import Pointer, committed_note
from stream_apple.runtime.ports import Committed


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
    committed = Committed(place.offset, place.metadata or "")
    where = f"{place.topic}-{place.partition}"
    try:
        note = committed_note(committed, config.model_settings(), place.topic, place.partition, config.worker.group)
    except ConfigurationError as error:
        yield Finding("fault", subject, str(error))
        return
    low, high = consumer.get_watermark_offsets(place, REQUEST_SECONDS)
    if committed.offset > high:
        yield Finding(
            "fault",
            subject,
            f"{where}: expected to reach the committed offset {committed.offset}, found its end at {high}: "
            f"was the topic made anew? Use a new worker.group to begin a new model",
        )
        return
    needed = note.lineage.start if note.snapshot is None else note.snapshot.at
    source = "no snapshot" if note.snapshot is None else f"a snapshot up to {needed}"
    if low > needed:
        gap = f"{where}: expected the records from offset {needed} on ({source}), found {low} as the first"
        if (place.partition, needed) in config.worker.accepted_gaps:
            yield Finding("note", subject, f"{gap}; worker.accept_gap lets the model go on without the others")
        else:
            yield Finding(
                "fault",
                subject,
                f"{gap}: a worker refuses to start; to go on without the others, set "
                f'worker.accept_gap = ["{place.partition}@{needed}"]',
            )
    if note.snapshot is not None:
        yield from _snapshot(consumer, note.snapshot, TopicPartition(config.topics.models, place.partition), subject)


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
