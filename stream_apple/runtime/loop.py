"""The consume-learn-publish loop: the only place that begins, commits or aborts a transaction.

One thread turns: fetch, process each partition's records, send what came of them, and now and then commit. A
transaction holds, in this order:

    1. begin      lazily, with the first output, so that an idle worker has none open
    2. produce    predictions and dead letters, as batches are processed
    3. snapshot   of models; none is written so far, and a lost model replays its partition from the start
    4. offsets    of every partition with progress, each with the lineage of its model
    5. commit

Readers see all of it or nothing. A model is always ahead of what is committed; if a transaction fails, the models
are dropped and found again as after a crash. So there is one recovery path, and it is used daily.

What is in a transaction never depends on when it is committed: time decides only how much is lost in a crash.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import structlog

from stream_apple.errors import BrokerError, ConfigurationError
from stream_apple.runtime.deadletters import dead_letter_headers
from stream_apple.runtime.health import Health
from stream_apple.runtime.metrics import Metrics
from stream_apple.runtime.partition import Partition, State
from stream_apple.runtime.phases import Phase, TimeBudget
from stream_apple.runtime.ports import AbortableError, Broker, Record
from stream_apple.runtime.recovery import Recovery
from stream_apple.runtime.step import Outcome, PartitionModel

FETCH_TIMEOUT_S = 0.1
"""How long a signal may have to wait: the client's fetch can't be interrupted."""
MAX_ABORTS = 10
"""Aborted transactions in a row after which a restart of the process is better than another try."""

_log = structlog.get_logger()


class Topics(NamedTuple):
    """Where records come from and go to."""

    examples: str
    predictions: str
    dead_letters: str


class Pace(NamedTuple):
    """How much is fetched at once, and what makes a commit due, whichever comes first."""

    fetch_records: int
    commit_records: int
    commit_interval_s: float


class Loop:
    """A member of the consumer group. `run` is its life; `stop` may be called from a signal handler."""

    def __init__(
        self,
        broker: Broker,
        topics: Topics,
        pace: Pace,
        recovery: Recovery,
        metrics: Metrics,
        health: Health,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._broker = broker
        self._topics = topics
        self._pace = pace
        self._recovery = recovery
        self._metrics = metrics
        self._health = health
        self._now = now
        self._budget = TimeBudget()
        self._owned: dict[int, Partition] = {}
        self._kept: dict[int, PartitionModel] = {}
        self._dead_letter_partitions = 1
        self._in_transaction = False
        self._began_at = 0.0
        self._uncommitted = 0
        self._aborts = 0
        self._stopping = False

    def stop(self) -> None:
        """Finish the batch in hand, commit and leave."""
        self._stopping = True

    def run(self) -> None:
        """Work until `stop`; StreamAppleError if going on makes no sense. What was not committed is aborted."""
        try:
            self._check_topics()
            self._broker.join(self)
            while not self._stopping:
                self._turn()
            self._commit_last()
        except BaseException as error:
            _log.error("stopping", error=str(error), kind=type(error).__name__)
            raise
        finally:
            # An open transaction is aborted by closing: one failure must not hide another.
            self._broker.close()

    def _check_topics(self) -> None:
        examples, predictions, dead_letters = map(self._broker.partition_count, self._topics)
        if predictions != examples:
            raise ConfigurationError(
                f"expected topic {self._topics.predictions} to have {examples} partitions, as many as "
                f"{self._topics.examples}, found {predictions}"
            )
        self._dead_letter_partitions = dead_letters

    def _turn(self) -> None:
        try:
            records = self._broker.fetch(self._pace.fetch_records, FETCH_TIMEOUT_S)
            self._budget.lap(Phase.FETCH)
            for partition, batch in self._by_partition(records):
                self._process(partition, batch)
            if self._commit_is_due():
                self._commit()
        except AbortableError as error:
            self._start_over(error)
        self._metrics.turned(self._budget, self._owned, self._broker.backlog)
        self._health.turned(self._owned.values())

    def _by_partition(self, records: Sequence[Record]) -> list[tuple[Partition, list[Record]]]:
        groups: dict[int, list[Record]] = defaultdict(list)
        for record in records:
            groups[record.partition()].append(record)
        # What arrives for a partition that is no longer ours is its new owner's to learn.
        return [(self._owned[number], group) for number, group in groups.items() if number in self._owned]

    def _process(self, partition: Partition, records: list[Record]) -> None:
        outcome = partition.model.process(records, self._budget.lap)
        self._publish(partition, records, outcome)
        self._budget.lap(Phase.SEND)
        if partition.state is State.REPLAYING and partition.model.live:
            self._enter(partition, State.LIVE)
        for end in outcome.ends:
            _log.info(
                "epoch_ended",
                partition=partition.number,
                epoch=end.epoch,
                offset=end.offset,
                parents_added=end.growth.added,
                parents_by_degree=end.growth.parents.tolist(),
            )
        self._metrics.processed(partition, outcome)

    def _publish(self, partition: Partition, records: list[Record], outcome: Outcome) -> None:
        """Steps 1 and 2: send what came of `records`, in a transaction begun for it if none is open."""
        if not (outcome.predictions or outcome.rejects):
            return
        if not self._in_transaction:
            self._in_transaction = True
            self._broker.begin()
            self._began_at = self._now()
        number, topic, send = partition.number, self._topics.predictions, self._broker.send
        for index, prediction in zip(outcome.indices, outcome.predictions, strict=True):
            record = records[index]
            send(topic, number, record.key(), prediction, record.timestamp()[1])
        for reject in outcome.rejects:
            record = records[reject.record]
            headers = dead_letter_headers(record, reject, self._topics.examples)
            target = number % self._dead_letter_partitions
            timestamp_ms = record.timestamp()[1]
            send(self._topics.dead_letters, target, record.key(), record.value(), timestamp_ms, headers)
        self._uncommitted += len(outcome.predictions) + len(outcome.rejects)

    def _commit_is_due(self) -> bool:
        return self._in_transaction and (
            self._uncommitted >= self._pace.commit_records
            or self._now() - self._began_at >= self._pace.commit_interval_s
        )

    def _commit(self) -> None:
        """Steps 4 and 5: make all outputs since the last commit, and the offsets they stand for, durable at once."""
        if not self._in_transaction:
            return
        progress = {p: committed for p in self._owned.values() if (committed := p.progress()) is not None}
        self._broker.commit({partition.number: committed for partition, committed in progress.items()})
        self._in_transaction = False
        self._uncommitted = 0
        self._aborts = 0
        for partition, committed in progress.items():
            partition.committed = committed.offset
        self._metrics.committed(self._budget.lap(Phase.COMMIT))

    def _commit_last(self) -> None:
        try:
            self._commit()
        except AbortableError as error:
            # Nothing is lost: the next owner of the partitions processes these records again.
            self._abort(str(error))

    def _start_over(self, error: AbortableError) -> None:
        """The one way out of doubt, the same as after a crash."""
        self._abort(str(error))
        self._aborts += 1
        if self._aborts >= MAX_ABORTS:
            raise BrokerError(f"{self._aborts} transactions in a row failed; the last one: {error}") from error
        self._broker.rejoin()

    def _abort(self, reason: str) -> None:
        """Undo what was sent, if anything was, and forget every model: they may have learned from it."""
        if self._in_transaction:
            _log.warning("transaction_aborted", reason=reason)
            self._metrics.aborted()
            self._in_transaction = False
            self._uncommitted = 0
            self._broker.abort()
        for partition in self._owned.values():
            self._enter(partition, State.LOST)
        self._owned = {}
        self._kept = {}

    def assigned(self, partitions: Sequence[int]) -> Mapping[int, int]:
        """Find a model for each partition; the broker then delivers from where each model stands."""
        self._budget.lap(Phase.FETCH)
        self._metrics.rebalanced("assigned")
        self._check_topics()  # partitions may have been added since
        kept = {number: model for number, model in self._kept.items() if number in partitions}
        self._kept = {}
        committed = self._broker.committed(partitions)
        self._owned = {}
        for number in partitions:
            log = self._broker.log_range(number)
            model = self._recovery.model_for(number, committed[number], log, kept.get(number))
            partition = Partition(model)
            self._owned[number] = partition
            self._enter(partition, State.LIVE if model.live else State.REPLAYING)
        self._health.assigned()
        self._budget.lap(Phase.REBALANCE)
        return {number: partition.model.next_offset for number, partition in self._owned.items()}

    def revoked(self, partitions: Sequence[int]) -> None:
        """Commit what is ours for the last time, and keep the models in case the partitions come back."""
        self._budget.lap(Phase.FETCH)
        self._metrics.rebalanced("revoked")
        try:
            self._commit()
        except AbortableError as error:
            self._abort(str(error))
        for number in partitions:
            partition = self._owned.pop(number, None)
            if partition is not None:
                self._enter(partition, State.REVOKED)
                self._kept[number] = partition.model
        self._budget.lap(Phase.REBALANCE)

    def lost(self, partitions: Sequence[int]) -> None:
        """Another worker may be learning these records already: nothing of ours may be committed."""
        self._budget.lap(Phase.FETCH)
        self._metrics.rebalanced("lost")
        self._abort(f"partitions {list(partitions)} were lost")
        self._budget.lap(Phase.REBALANCE)

    def _enter(self, partition: Partition, state: State) -> None:
        partition.enter(state)
        self._metrics.entered(partition, state)
        _log.info(
            state.value,
            partition=partition.number,
            offset=partition.model.next_offset,
            publish_from=partition.model.publish_from,
            model=partition.lineage.model,
        )
