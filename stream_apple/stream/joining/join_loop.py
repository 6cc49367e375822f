"""The loop of a joiner: which partitions it has, what it sends, and when it commits.

The consumer group only assigns the partitions of the impressions: readers outside of the group read both logs, so that
each partition is read only as far as its join needs. A transaction holds the examples, the dead letters, heartbeats,
and the offset of the impressions, whose metadata says how far the outcomes were read (`position.py`). Readers see all
of it or nothing; in doubt it is aborted, and the joiner begins again from what is committed.

Heartbeats go into the outcomes topic: once a second for each partition, with the time of day and the end of the log of
impressions. So the log shows that time passes even if no outcome comes. Their key says who joins into which topic, so
that nobody joins the same impressions into it once more.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from sys import float_info
from typing import NamedTuple, Protocol

import structlog

from stream_apple.core.batch import Limits
from stream_apple.records.framing import Schemas
from stream_apple.records.message.rejects import explain
from stream_apple.stream.joining.joined_partition import JoinedPartition
from stream_apple.stream.joining.mapped_messages import JoinInput
from stream_apple.stream.joining.own_messages import heartbeat_key, heartbeat_value
from stream_apple.stream.joining.partition_join import Joined, Refused
from stream_apple.stream.joining.rule import JoinRule
from stream_apple.stream.joining.starting_point import JoinLogs, starting_point
from stream_apple.stream.log.ports import AbortableError, Broker, Start
from stream_apple.stream.loop.added_partitions import AddedPartitions
from stream_apple.stream.loop.life_cycle import MemberLoop
from stream_apple.stream.loop.member_watchers import LoopHealth, MemberRecorder
from stream_apple.stream.loop.transaction import CommitSettings, LoopTopics, Transaction
from stream_apple.stream.model.dead_letters import DeadLetterMessage, Reject, dead_letter

IDLE_S = 0.05
"""Seconds to wait for a rebalance while there is nothing to join."""
HEARTBEAT_S = 1.0

_log = structlog.get_logger()


class JoinLoopSettings(NamedTuple):
    """Says how a joiner works.

    fetch_records  how many records it reads at once, and takes in one step of a partition
    accepted_gaps  of the impressions, each as partition and first missing offset
    group          whose joiner it is, as its heartbeats say
    """

    fetch_records: int
    commits: CommitSettings
    accepted_gaps: Collection[tuple[int, int]] = ()
    group: str = ""


class JoinRecorder(MemberRecorder, Protocol):
    """Measures what a joiner does, for metrics; all calls are on the loop's thread."""

    def iterated(self, owned: Mapping[int, JoinedPartition]) -> None:
        """Note that an iteration of the loop is over."""

    def joined(self, partition: int, joined: Joined) -> None:
        """Note that the results of a step of the partition have been sent."""


class JoinLoop(MemberLoop):
    """A member of the joiners' consumer group.

    now          monotonic seconds
    time_of_day  seconds since 1970
    schemas      of a registry, for records that are framed
    """

    def __init__(
        self,
        broker: Broker,
        rule: JoinRule,
        dead_letters: str,
        settings: JoinLoopSettings,
        metrics: JoinRecorder,
        health: LoopHealth,
        now: Callable[[], float] = time.monotonic,
        time_of_day: Callable[[], float] = time.time,
        schemas: Schemas | None = None,
    ) -> None:
        super().__init__(health, now)
        self.owned: dict[int, JoinedPartition] = {}
        self._broker = broker
        self._rule = rule
        self._records = JoinInput(rule, schemas)
        self._fingerprint = rule.fingerprint
        self._settings = settings
        self._metrics = metrics
        self._time_of_day = time_of_day
        topics = LoopTopics(rule.impressions, (rule.outcomes, rule.examples), dead_letters)
        self._transaction = Transaction(broker, topics, settings.commits, metrics, now)
        self._heartbeat_key = heartbeat_key(settings.group, rule.impressions, rule.examples)
        self._limits = Limits(0, rule.max_bytes, float_info.max, -float_info.max, float_info.max, binary=False)
        self._kept: dict[int, JoinedPartition] = {}
        self._assigned = False
        self._beaten_at = -HEARTBEAT_S
        self._added = AddedPartitions(broker, now)
        self._partitions = 0

    def start(self) -> None:
        """Join the group; ConfigurationError if a topic has another number of partitions than is needed."""
        self._partitions = self._transaction.check_topics()
        self._broker.join(self)

    def iterate(self) -> None:
        """Take a step in each partition, and do all that is due."""
        try:
            busy = False
            for partition in tuple(self.owned.values()):
                busy |= self._step(partition)
            self._broker.fetch(1, 0.0 if busy else IDLE_S)
            if self._transaction.topics_in_doubt:
                self._partitions = self._transaction.check_topics()
            self._beat()
            if self._transaction.due:
                self._commit()
            if self._assigned:
                self._added.claim(self._partitions, self.owned, self)
        except AbortableError as error:
            self._abort(str(error))
            self._transaction.start_over(error)
        self._metrics.iterated(self.owned)
        self._health.iterated(self.owned.values() if self._assigned else None)
        self._say_if_unassigned(assigned=self._assigned)

    def drain(self) -> None:
        """Commit the open transaction, if there is one."""
        try:
            self._commit()
        except AbortableError as error:
            self._abort(str(error))

    def close(self) -> None:
        """Close all clients, which aborts an open transaction."""
        self._drop_all()
        self._broker.close()

    def _step(self, partition: JoinedPartition) -> bool:
        """Take a step in the partition, and send its results; return whether there was anything to do."""
        before, restoring = partition.join.position, partition.join.restoring
        joined = partition.step(self._settings.fetch_records)
        if not partition.live_logged and not partition.join.restoring:
            partition.live_logged = True
            _log.info("join_live", partition=partition.number, offset=before.impressions, outcomes=before.outcomes)
        if partition.join.full != partition.full_logged:
            partition.full_logged = partition.join.full
            if partition.full_logged:
                _log.warning("join_full", partition=partition.number, outcomes=partition.join.window.outcomes)
        self._transaction.send(
            self._rule.examples,
            partition.number,
            joined.keys,
            joined.values,
            joined.timestamps_ms,
            list(map(self._letter, joined.refused)),
        )
        self._metrics.joined(partition.number, joined)
        return restoring or partition.join.position != before

    def _letter(self, refused: Refused) -> DeadLetterMessage:
        topic, record, reason, place, fault = refused
        message = explain(reason, place, record.value(), self._limits) if fault is None else fault
        return dead_letter(Reject(record, reason, message), topic, self._fingerprint, self._rule.max_bytes)

    def _beat(self) -> None:
        """Write a heartbeat into each partition of the outcomes, if one is due."""
        live = self._live()
        if not live or self._now() < self._beaten_at + HEARTBEAT_S:
            return
        self._beaten_at = self._now()
        self._transaction.begin()
        for number in (partition.number for partition in live):
            # The broker is asked each time, as the end that the reader knows is as old as its last fetch: a heartbeat
            # must cover all impressions that were in the log before it.
            value = heartbeat_value(self._broker.log_range(self._rule.impressions, number).high)
            self._broker.send(self._rule.outcomes, number, self._heartbeat_key, value, int(self._time_of_day() * 1000))

    def _live(self) -> list[JoinedPartition]:
        """Return the partitions that join new records."""
        return [partition for partition in self.owned.values() if not partition.join.restoring]

    def _commit(self) -> None:
        if not self._transaction.open:
            return
        begun = self._now()
        # Positions that have not moved are committed, too: without offsets, Kafka would not check the membership.
        positions = {partition.number: partition.join.position for partition in self._live()}
        self._transaction.commit(
            {number: position.to_committed(self._rule, self._fingerprint) for number, position in positions.items()}
        )
        for number, position in positions.items():
            self.owned[number].committed = position
        self._metrics.committed(self._now() - begun)

    def _abort(self, reason: str) -> None:
        """Abort the transaction, if one is open, and forget every state, which may be ahead of what is committed."""
        self._transaction.abort(reason)
        self._drop_all()

    def _drop_all(self) -> None:
        for partition in (*self.owned.values(), *self._kept.values()):
            partition.close()
        self.owned, self._kept, self._assigned = {}, {}, False

    def assigned(self, partitions: Sequence[int]) -> Mapping[int, Start]:
        """Find where to go on with each partition; all are paused, as the group's own client delivers nothing."""
        self._metrics.rebalanced("assigned")
        self._transaction.topics_in_doubt = True  # partitions may have been added since the last time
        committed = self._broker.decided(partitions)
        rule = self._rule
        for number in partitions:
            # In this order: what heartbeats among these outcomes cover is among the impressions.
            outcomes = self._broker.log_range(rule.outcomes, number)
            logs = JoinLogs(self._broker.log_range(rule.impressions, number), outcomes)
            found = starting_point(rule, number, committed[number], logs, self._settings.accepted_gaps)
            found.log(number)
            position = found.position
            known = self._kept.get(number)
            if known is not None and known.committed == position:
                self.owned[number] = self._kept.pop(number)
            else:
                self.owned[number] = JoinedPartition(self._broker, rule, self._records, number, position, logs)
            _log.info("join_assigned", partition=number, offset=position.impressions, outcomes=position.window_from)
        for partition in self._kept.values():
            partition.close()
        self._kept = {}
        self._assigned = True
        return {
            number: Start(partition.join.position.impressions, paused=True) for number, partition in self.owned.items()
        }

    def revoked(self, partitions: Sequence[int]) -> None:
        """Commit for the last time what was joined of these partitions, and keep their states in case they return."""
        self._metrics.rebalanced("revoked")
        try:
            self._commit()
        except AbortableError as error:
            self._abort(str(error))
        self._assigned = False
        for number in partitions:
            partition = self.owned.pop(number, None)
            if partition is not None:
                self._kept[number] = partition
                _log.info("join_revoked", partition=number, offset=partition.join.position.impressions)

    def lost(self, partitions: Sequence[int]) -> None:
        """Abort: another joiner may own these partitions already, so nothing that is open here may be committed."""
        self._metrics.rebalanced("lost")
        self._abort(f"partitions {list(partitions)} were lost")
