"""Rebuilds offsets of a group that are lost, or whose notes another consumer has replaced, from what it has written."""

from collections.abc import Generator, Sequence
from contextlib import closing, suppress
from typing import NamedTuple, TypeVar, cast

from stream_apple.adapters.kafka.admin import REQUEST_S, Cluster
from stream_apple.adapters.kafka.log_reader import KafkaLogs, commit_outside
from stream_apple.adapters.kafka.preflight.cluster_check import members_of
from stream_apple.adapters.kafka.retry import RetryPolicy
from stream_apple.config import Config
from stream_apple.errors import ConfigurationError
from stream_apple.stream.log.ports import Committed
from stream_apple.stream.positions.lineage import ForeignNoteError, OffsetMetadata, Provenance
from stream_apple.stream.snapshots.evidence import AnswerLogs, newest_answers
from stream_apple.stream.snapshots.newest import newest_snapshot

_T = TypeVar("_T")


class Repair(NamedTuple):
    """Says what is committed of a partition, and what should be.

    text       the evidence; if it is not enough, what is missing; "" if nothing is damaged
    committed  what to commit instead of `found`; None if nothing is damaged, or if evidence is missing
    """

    partition: int
    found: Committed | None
    text: str = ""
    committed: Committed | None = None

    @property
    def missing(self) -> bool:
        """Whether the offset is damaged, and can't be rebuilt."""
        return bool(self.text) and self.committed is None


def plan_repair(config: Config) -> list[Repair]:
    """Return what is to be done for each partition; ConfigurationError if the group has members."""
    cluster, group = Cluster(config.kafka), config.worker.group
    _refuse_members(cluster, group)
    provenance = Provenance.of(config)
    with closing(KafkaLogs(config, cluster, RetryPolicy(REQUEST_S))) as logs:
        offsets = logs.decided(logs.chosen(()))
        return [plan_partition(logs, provenance, number, committed) for number, committed in offsets.items()]


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
            f"expected group {config.worker.group} to hold {wanted}, which was committed, found {found}: stop what "
            f"else commits in this group, and repeat `stream-apple repair`"
        )


def _refuse_members(cluster: Cluster, group: str) -> None:
    if members := members_of(cluster, group):
        raise ConfigurationError(
            f"expected no member of group {group}, found {', '.join(members)}: stop them, and wait until their "
            f"session.timeout.ms has passed"
        )


def plan_partition(logs: AnswerLogs, provenance: Provenance, number: int, committed: Committed | None) -> Repair:
    """Return what is to be done for a partition of which this is committed; ConfigurationError for other settings."""
    repair, topics = Repair(number, committed), provenance.topics
    with suppress(ForeignNoteError):
        if committed is not None:
            provenance.read_metadata(number, committed)
            return repair
    log, answers = logs.log_range(topics.examples, number), logs.log_range(topics.predictions, number)
    newest = _result(newest_snapshot(logs, provenance, number))
    pointer, lineage = newest or (None, provenance.lineage(number, log.low))
    if lineage is None:
        return repair._replace(text="its newest snapshot is of a model with other settings: restore these first")
    predicted, refused, others = _result(newest_answers(logs, provenance, number, lineage))
    if committed is None and pointer is None and predicted < 0:
        return repair
    last = max(predicted, refused)
    offset = max(last + 1, log.low if pointer is None else pointer.at)
    snapshot = "no snapshot" if pointer is None else f"a snapshot at {pointer.at}"
    text = f"{snapshot}, {'no answer' if last < 0 else f'answers up to {last}'} of model {lineage.model}"
    if provenance.merging is not None:
        text = "its model is merged, and only the lost note knew the rounds that it has passed"
    elif others > predicted:
        text += f", and a later prediction, of record {others}, of another model"
    elif predicted < 0 and (pointer is not None or answers.high > 0):
        text += ", and no prediction of it: nothing proves which records have answers"
    elif offset > log.high:
        text += f", and the end of {topics.examples}-{number} at {log.high}: records are lost"
    else:
        return repair._replace(text=text, committed=Committed(offset, OffsetMetadata(lineage, pointer).to_text()))
    return repair._replace(text=text)


def _result(steps: Generator[None, None, _T]) -> _T:
    """Run to the end, and return what comes out."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("_T", end.value)
