"""Checks before a worker fences its predecessor: all that would end the worker soon after, and is known before.

So the predecessor goes on if this worker can't: if a topic is missing or does not fit, a permission is missing, or the
group's models have other settings, need records that are gone, or have no offset any more. `stream-apple check` finds
the same, and also what may go wrong later.

A restart waits for the answers, so few questions are asked. Only a definite answer ends a worker here: if a broker does
not answer, the worker goes on. Nothing here may import numpy or numba.

Of the group only its offsets are asked for, which takes the permission to see it. Whether a worker may be a member only
a description of the group says, for which `stream-apple check` asks: librdkafka 2.16 aborts the process if the
coordinator dies while an admin client asks it anything (its pull request 5397).
"""

from collections.abc import Iterator
from contextlib import closing, suppress

from stream_apple.adapters.kafka.admin import Cluster, Finding
from stream_apple.adapters.kafka.log_reader import KafkaLogs, committed_now
from stream_apple.adapters.kafka.preflight.cluster_faults import client_faults, lasting_faults
from stream_apple.adapters.kafka.retry import RetryPolicy
from stream_apple.adapters.kafka.topic_faults import NeededOfTopics
from stream_apple.adapters.kafka.topics import NeededTopics, compare, visible
from stream_apple.config import Config
from stream_apple.errors import BrokerError, ConfigurationError, GapError
from stream_apple.stream.partitions.recovery import Exceptions, can_replay, check_in_log, plan_recovery
from stream_apple.stream.positions.lineage import Provenance


def check_before_fencing(cluster: Cluster, config: Config) -> None:
    """Return if nothing is known that would end a worker; the topics must exist.

    Raise the ConfigurationError, GapError or SnapshotError with which the worker would end; BrokerError if the group's
    offsets can't be read, or if no broker can be reached at the address that it advertises.
    """
    cluster.refuse_unreachable()
    absent = absent_partitions(config, cluster.topics.get(config.topics.examples, 0))
    names = [f"{found.subject}: {found.text}" for found in absent]
    lasting = lasting_faults(cluster, NeededOfTopics.by_worker(config))
    faults = [*_topic_faults(cluster, config), *client_faults(cluster), *names, *lasting]
    if faults:
        raise ConfigurationError("; ".join(faults))
    _check_models(cluster, config)


def absent_partitions(config: Config, partitions: int) -> Iterator[Finding]:
    """Yield faults of settings that name a partition which the examples topic, of so many, does not have."""
    for setting, names in (("accept_gap", config.worker.accept_gap), ("skip", config.worker.skip)):
        for name in names:
            if 0 < partitions <= int(name.partition("@")[0]):
                text = f"expected partitions of {config.topics.examples} below {partitions}, found {name}"
                yield Finding("fault", f"worker.{setting}", text)


def _topic_faults(cluster: Cluster, config: Config) -> Iterator[str]:
    """Yield faults of partitions and permissions that would stop the worker at once."""
    if not cluster.has_controller:
        return  # librdkafka's mock cluster does not answer such requests
    needs = NeededTopics(config.topics, merging=config.merging)
    try:
        found, _ = visible(cluster, needs.names)
    except BrokerError:
        return
    for name, topic in found.items():
        examples = found.get(config.topics.examples, topic).partitions
        count = needs.needed_partitions(name, examples)
        faults = [*map(str, compare(name, topic, [], count)), *needs.missing_permissions(name, topic.operations)]
        yield from (f"topic {name}: {fault}" for fault in faults)


def _check_models(cluster: Cluster, config: Config) -> None:
    """Plan the recovery of every partition as its owner will; raise what the owner would."""
    examples, models = config.topics.examples, config.topics.models
    provenance, exceptions = Provenance.of(config), Exceptions.of(config)
    # This must not wait for a transaction that a dead predecessor left open, as only the fencing ends that.
    offsets = committed_now(config.kafka, config.worker.group, examples, range(cluster.topics.get(examples, 0)))
    committed = {number: each for number, each in offsets.items() if each is not None}
    if not committed:
        _refuse_lost_offsets(cluster, config, provenance)
    notes = {number: provenance.read_metadata(number, each) for number, each in committed.items()}
    saved = [number for number, note in notes.items() if note.snapshot is not None]
    try:
        logs, snapshots = cluster.log_ranges(examples, committed), cluster.log_ranges(models, saved)
    except BrokerError:
        return
    for number, each in committed.items():
        plan = plan_recovery(provenance, exceptions, number, each, logs[number])
        if plan.snapshot is not None and not can_replay(provenance, plan, logs[number], snapshots[number]):
            check_in_log(provenance, number, plan.snapshot, snapshots[number])


def _refuse_lost_offsets(cluster: Cluster, config: Config, provenance: Provenance) -> None:
    """Raise ConfigurationError if the group, which has no offset of the examples topic, has a snapshot.

    So its offsets are lost, or it learned another topic. Only the first log that has snapshots is read: those of a new
    group are empty, but other groups may have many in the same topic.
    """
    models = config.topics.models
    with suppress(BrokerError, GapError):
        logs = cluster.log_ranges(models, range(cluster.topics.get(models, 0)))
        first = next((number for number, log in logs.items() if log.low < log.high), None)
        if first is None:
            return
        # This imports numba, for which the first start of a group has time.
        from stream_apple.adapters.kafka.preflight.recovery_check import lost_offset

        with closing(KafkaLogs(config, cluster, RetryPolicy(cluster.request_s))) as readers:
            if (error := lost_offset(readers, provenance, first)) is not None:
                raise error
