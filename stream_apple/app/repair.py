"""Rebuilds committed offsets whose notes something else has replaced, from the snapshots and answers of the group."""

from collections.abc import Generator, Sequence
from contextlib import closing
from typing import NamedTuple, TypeVar, cast

from stream_apple.adapters.kafka.admin import REQUEST_S, Cluster
from stream_apple.adapters.kafka.log_reader import KafkaLogs, commit_outside
from stream_apple.adapters.kafka.preflight.cluster_check import members_of
from stream_apple.adapters.kafka.retry import RetryPolicy
from stream_apple.config import Config
from stream_apple.errors import ConfigurationError
from stream_apple.stream.log.ports import Broker, Committed
from stream_apple.stream.positions.lineage import ForeignNoteError, OffsetMetadata, Provenance
from stream_apple.stream.snapshots.evidence import newest_answer
from stream_apple.stream.snapshots.newest import newest_snapshot

_T = TypeVar("_T")


class Repair(NamedTuple):
    """Says what is committed of a partition, and what should be.

    found      the committed offset
    evidence   what the logs have: the newest snapshot and answer
    committed  what to commit instead; None if `found` has a note, or if `missing`
    missing    why the note can't be rebuilt; "" if it can, or need not be
    """

    partition: int
    found: Committed | None
    evidence: str = ""
    committed: Committed | None = None
    missing: str = ""


def plan_repair(config: Config) -> list[Repair]:
    """Return what is to be done for each partition; ConfigurationError if the group has members."""
    cluster, group = Cluster(config.kafka), config.worker.group
    _refuse_members(cluster, group)
    provenance = Provenance.of(config)
    with closing(KafkaLogs(config, cluster, RetryPolicy(REQUEST_S))) as logs:
        offsets = logs.decided(logs.chosen(()))
        return [_planned(logs, provenance, number, committed) for number, committed in offsets.items()]


def carry_out(config: Config, repairs: Sequence[Repair]) -> None:
    """Commit what is planned, and read it back; ConfigurationError if the group has members, or other offsets then."""
    cluster, topic = Cluster(config.kafka), config.topics.examples
    _refuse_members(cluster, config.worker.group)
    wanted = {each.partition: each.committed for each in repairs if each.committed is not None}
    commit_outside(config.kafka, config.worker.group, topic, wanted)
    with closing(KafkaLogs(config, cluster, RetryPolicy(REQUEST_S))) as logs:
        found = logs.decided(list(wanted))
    if found != wanted:
        raise ConfigurationError(
            f"expected group {config.worker.group} to hold what was committed, {wanted}, found {found}: something else "
            f"commits in this group; stop it, and repeat `stream-apple repair`"
        )


def _refuse_members(cluster: Cluster, group: str) -> None:
    if members := members_of(cluster, group):
        raise ConfigurationError(
            f"expected no member of group {group}, found {', '.join(members)}: stop them, and wait until their "
            f"session.timeout.ms has passed"
        )


def _planned(logs: KafkaLogs, provenance: Provenance, number: int, committed: Committed | None) -> Repair:
    found = Repair(number, committed)
    if committed is None:
        return found
    try:
        provenance.read_metadata(number, committed)
    except ForeignNoteError:
        pass
    else:
        return found
    if provenance.merging is not None:
        return found._replace(missing="its model is merged, and only the lost note knew the rounds that it has passed")
    topics = provenance.topics
    log = logs.log_range(topics.examples, number)
    newest = _result(newest_snapshot(logs, provenance, number))
    pointer, lineage = newest or (None, provenance.lineage(number, log.low))
    # The reader of undecided records, which only a broker has, is not needed: the ends of these logs include them.
    predicted, last = _result(newest_answer(cast("Broker", logs), provenance, number, lineage))
    evidence = (
        f"{'no snapshot' if pointer is None else f'a snapshot at {pointer.at}'}, "
        f"{'no answer' if last < 0 else f'answers up to {last}'} of model {lineage.model}"
    )
    found = found._replace(evidence=evidence)
    if pointer is None and predicted < 0:
        return found._replace(
            missing=f"found {evidence}, which would begin with the first record in the log, {log.low}: nothing proves "
            f"where the model began"
        )
    if predicted < 0 and logs.log_range(topics.predictions, number).low > 0:
        return found._replace(missing=f"found {evidence}: answers after the snapshot may have been deleted")
    offset = max(last + 1, 0 if pointer is None else pointer.at)
    if offset > log.high or (0 if pointer is None else pointer.at) < log.low * (pointer is not None):
        return found._replace(missing=f"found {evidence}, but the records from {log.low} to {log.high} in the log")
    return found._replace(committed=Committed(offset, OffsetMetadata(lineage, pointer).to_text()))


def _result(steps: Generator[None, None, _T]) -> _T:
    """Run to the end, and return what comes out."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("_T", end.value)
