"""What a worker looks at before it fences anybody: whatever would end it right after, and is known without it.

The one that works under its identity goes on if this one can't: with a topic that is missing or does not fit, without
a permission, with settings that the group's models don't have, or where they need what is gone. `stream-apple check`
finds the same, and looks at more: at what may go wrong one day.

A restart waits for the answers, so there are few questions. Only a definite answer ends a worker here: what a broker
does not tell, or not now, it is not accused of. Nothing here may import numpy or numba.

The group is asked for its offsets alone, which takes the permission to see it. Whether a worker may be its member, only
a description says, which `stream-apple check` asks for: librdkafka 2.16 aborts the process if the coordinator dies
while it is being asked for one (its pull request 5397), as it does with all questions of an admin to a coordinator.
"""

from collections.abc import Iterator
from contextlib import closing

from stream_apple.adapters.kafka import topics as needs
from stream_apple.adapters.kafka.admin import Cluster, Finding, timeout_faults
from stream_apple.adapters.kafka.client_properties import reader_properties
from stream_apple.adapters.kafka.log_reader import GroupView
from stream_apple.adapters.kafka.retry import RetryPolicy
from stream_apple.config import Config
from stream_apple.errors import BrokerError, ConfigurationError
from stream_apple.stream.partitions.recovery import Exceptions, check_in_log, plan_recovery
from stream_apple.stream.positions.lineage import Provenance


def check_before_fencing(cluster: Cluster, config: Config) -> None:
    """Return if nothing is known that would end a worker.

    ConfigurationError, GapError or SnapshotError, as the worker would have ended with; BrokerError if the group's
    offsets can't be had. The topics exist.
    """
    found = [*_topics(cluster, config), *_client(cluster)]
    if found:
        raise ConfigurationError("; ".join(f"{each.subject}: {each.text}" for each in found))
    _check_models(cluster, config)


def _topics(cluster: Cluster, config: Config) -> Iterator[Finding]:
    """Faults of partitions and permissions, which the worker needs to take the first step."""
    if not cluster.has_controller:
        return  # librdkafka's own cluster answers no such question
    topics = config.topics
    try:
        found = needs.existing(cluster, topics.names(merging=config.merging), settings=False)
    except BrokerError:
        return
    for name, topic in found.items():
        # Dead letters fold into fewer partitions.
        folds = name == topics.dead_letters or topics.examples not in found
        count = topic.partitions if folds else needs.partitions_of(topics, name, found[topics.examples].partitions)
        faults = [
            f"{each.property}: expected {each.expected}, found {each.found}"
            for each in needs.compare(name, topic, [], count)
        ]
        faults += needs.missing_permissions(topics, name, topic.operations)
        yield from (Finding("fault", f"topic {name}", fault) for fault in faults)


def _client(cluster: Cluster) -> Iterator[Finding]:
    """Faults of timeouts that the brokers would refuse, that of the session only after the fencing."""
    if not {"session.timeout.ms", "transaction.timeout.ms"} & cluster.properties.keys():
        return  # every broker would have to be asked, and each takes ours by its own defaults
    try:
        faults = timeout_faults(cluster)
    except BrokerError:
        return
    yield from (Finding("fault", "kafka", fault) for fault in faults)


def _check_models(cluster: Cluster, config: Config) -> None:
    """Plan the recovery of every partition, as its owner will."""
    examples, models = config.topics.examples, config.topics.models
    provenance, exceptions = Provenance.of(config), Exceptions.of(config)
    # A transaction that a dead predecessor left open is not waited for: only the fencing ends it.
    with closing(GroupView(reader_properties(config.kafka, config.worker.group), examples, RetryPolicy())) as view:
        offsets = view.committed(range(cluster.topics.get(examples, 0)))
    committed = {number: each for number, each in offsets.items() if each is not None}
    notes = {number: provenance.read_metadata(number, each) for number, each in committed.items()}
    saved = [number for number, note in notes.items() if note.snapshot is not None]
    try:
        logs, snapshots = cluster.log_ranges(examples, committed), cluster.log_ranges(models, saved)
    except BrokerError:
        return
    for number, each in committed.items():
        plan = plan_recovery(provenance, exceptions, number, each, logs[number])
        if plan.snapshot is not None:
            check_in_log(provenance, number, plan.snapshot, snapshots[number])
