"""Checks whether a worker that starts now would find every model: its offset, its snapshot and the records it needs."""

from collections.abc import Collection, Iterator
from contextlib import closing

from stream_apple.adapters.kafka.admin import REQUEST_S, Cluster, Finding
from stream_apple.adapters.kafka.log_reader import KafkaLogs
from stream_apple.adapters.kafka.preflight.before_fencing import absent_partitions
from stream_apple.adapters.kafka.retry import RetryPolicy
from stream_apple.config import Config
from stream_apple.errors import BrokerError, ConfigurationError, GapError, SnapshotError
from stream_apple.stream.log.ports import Committed
from stream_apple.stream.partitions.recovery import Exceptions, can_replay, check_in_log, plan_recovery
from stream_apple.stream.positions.lineage import Provenance
from stream_apple.stream.snapshots.evidence import find_no_snapshot


def check_recovery(cluster: Cluster, config: Config) -> Iterator[Finding]:
    """Yield a finding about the group's offsets, and a fault for each partition at which `run` would refuse to go on.

    A consumer that joins no group asks, as the admin client's request for offsets ends the process if the coordinator
    has just moved (librdkafka issue 5040).
    """
    subject, examples = f"group {config.worker.group}", config.topics.examples
    provenance = Provenance.of(config)
    yield from absent_partitions(config, cluster.topics.get(examples, 0))
    with closing(KafkaLogs(config, cluster, RetryPolicy(REQUEST_S))) as logs:
        try:
            offsets = logs.committed_now(range(cluster.topics.get(examples, 0)))
            committed = {number: each for number, each in offsets.items() if each is not None}
            findings = [
                finding
                for number, each in committed.items()
                for finding in _partition(logs, config, provenance, number, each, cluster.topics)
            ]
            if config.topics.models in cluster.topics:
                lost = (lost_offset(logs, provenance, number) for number in offsets.keys() - committed.keys())
                findings += [Finding("fault", subject, str(error)) for error in lost if error is not None]
        except (BrokerError, ConfigurationError) as error:
            yield Finding("fault", subject, f"expected readable offsets, found: {error}")
            return
    yield Finding("ok", subject, f"readable, partitions of {examples} with an offset: {len(committed)}")
    yield from findings


def _partition(
    logs: KafkaLogs,
    config: Config,
    provenance: Provenance,
    partition: int,
    committed: Committed,
    there: Collection[str],
) -> Iterator[Finding]:
    """Yield faults and notes about one partition that has a committed offset; `there` are the topics that exist."""
    subject = f"group {config.worker.group}"
    topics = provenance.topics
    log = logs.log_range(topics.examples, partition)
    try:
        plan = plan_recovery(provenance, Exceptions.of(config), partition, committed, log)
    except (ConfigurationError, GapError) as error:
        yield Finding("fault", subject, str(error))
        return
    if plan.jump is not None:
        start, stop = plan.jump.gap
        yield Finding(
            "note",
            subject,
            f"{topics.examples}-{partition}: worker.accept_gap lets the model go on without the records from offset "
            f"{start} on, found {stop} as the first",
        )
    for skip in plan.skips:
        yield Finding(
            "note",
            subject,
            f"{topics.examples}-{partition}: worker.skip makes a dead letter of the record at offset {skip.offset}, "
            f"unread; the log ends at {log.high}",
        )
    if plan.snapshot is not None and topics.models in there:
        if can_replay(provenance, plan, log, logs.log_range(topics.models, partition)):
            again = f"the snapshot is gone, and the model is learned again from offset {plan.lineage.start} on"
            yield Finding("note", subject, f"{topics.models}-{partition}: {again}")
            return
        try:
            check_in_log(provenance, partition, plan.snapshot, logs.log_range(topics.models, partition))
        except SnapshotError as error:
            yield Finding("fault", subject, str(error))


def lost_offset(logs: KafkaLogs, provenance: Provenance, partition: int) -> ConfigurationError | None:
    """Return the error with which a worker would end if the group has a snapshot of a partition, but no offset."""
    try:
        for _ in find_no_snapshot(logs, provenance, partition):
            pass
    except ConfigurationError as error:
        # A worker may have begun meanwhile.
        if logs.committed_now([partition])[partition] is None:
            return error
    return None
