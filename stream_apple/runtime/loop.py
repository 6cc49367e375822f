"""The consume-learn-publish loop: the only place that begins, commits or aborts a transaction.

One thread turns: fetch, process each partition's records, send what came of them, and now and then commit. A
transaction holds, in this order:

    1. begin      lazily, with the first output, so that an idle worker has none open
    2. produce    predictions and dead letters, as batches are processed
    3. snapshot   of a model, when one is due (`saving.py`); the transaction stays open until it is complete
    4. offsets    of every partition with progress, each with the lineage of its model and where its snapshot is
    5. commit

Readers see all of it or nothing. A model is always ahead of what is committed; if a transaction fails, the models
are dropped and found again as after a crash (`recovery.py`): restored from the snapshot (`restoring.py`), and
replayed in silence up to the committed offset. So there is one recovery path, and it is used daily.

What is in a transaction never depends on when it is committed: time decides only how much is lost in a crash.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import structlog

from stream_apple.errors import BrokerError, ConfigurationError
from stream_apple.runtime.deadletters import dead_letter_headers
from stream_apple.runtime.health import Health
from stream_apple.runtime.metrics import Metrics
from stream_apple.runtime.partition import Partition, State
from stream_apple.runtime.phases import Phase, TimeBudget
from stream_apple.runtime.ports import AbortableError, Broker, Record, Start
from stream_apple.runtime.recovering import Recoveries
from stream_apple.runtime.recovery import Recovery
from stream_apple.runtime.restoring import Restorer
from stream_apple.runtime.saving import Saver
from stream_apple.runtime.step import Outcome, PartitionModel
from stream_apple.runtime.watching import Blind, Observer

FETCH_TIMEOUT_S = 0.1
"""How long a signal may have to wait: the client's fetch can't be interrupted."""
BUSY_FETCH_TIMEOUT_S = 0.005
"""While a snapshot is on its way."""
MAX_ABORTS = 10
"""Aborted transactions in a row after which a restart of the process is better than another try."""
SAVING_S = 8.0
"""After so long no further snapshot is begun in a revocation or a stop: others wait, or a supervisor does."""
WORTH_SAVING = 20_000
"""Records; to replay fewer takes less than a second, and a partition that is revoked mostly comes back."""

_log = structlog.get_logger()


class Topics(NamedTuple):
    """Where records come from and go to."""

    examples: str
    predictions: str
    dead_letters: str
    models: str


class Pace(NamedTuple):
    """How much is fetched at once, what makes a commit due, whichever comes first, and how often models are saved."""

    fetch_records: int
    commit_records: int
    commit_interval_s: float
    snapshot_interval_s: float


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
        observer: Observer | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._broker = broker
        self._topics = topics
        self._pace = pace
        self._recovery = recovery
        self._restorer = Restorer(broker, topics.models, recovery.group, metrics, now)
        self._recoveries = Recoveries(now)
        self._saver = Saver(broker, topics.models, recovery.group, pace.snapshot_interval_s, metrics, now)
        self._metrics = metrics
        self._health = health
        self._observer = Blind() if observer is None else observer
        self._now = now
        self._budget = TimeBudget()
        self._owned: dict[int, Partition] = {}
        self._kept: dict[int, PartitionModel] = {}
        self._dead_letter_partitions = 1
        self._reassigned = False
        self._in_transaction = False
        self._began_at = 0.0
        self._uncommitted = 0
        self._standstill = False
        self._aborts = 0
        self._stopping = False

    @property
    def owned(self) -> Mapping[int, Partition]:
        """The partitions that this worker has at this moment; may be asked by any thread."""
        return self._owned

    def stop(self) -> None:
        """Finish the batch in hand, commit, save the models and leave."""
        self._stopping = True

    def run(self) -> None:
        """Work until `stop`; StreamAppleError if going on makes no sense. What was not committed is aborted."""
        try:
            self.start()
            while not self._stopping:
                self.turn()
            self.drain()
        except BaseException as error:
            _log.error("stopping", error=str(error), kind=type(error).__name__)
            raise
        finally:
            # An open transaction is aborted by closing: one failure must not hide another.
            self._restorer.close()
            self._broker.close()

    def start(self) -> None:
        """Join the group; ConfigurationError if a topic is not as needed."""
        self._check_topics()
        self._broker.join(self)

    def turn(self) -> None:
        """Fetch once, and do all that is due."""
        try:
            records = self._broker.fetch(self._pace.fetch_records, self._fetch_timeout())
            self._budget.lap(Phase.FETCH)
            if self._reassigned:
                self._check_topics()  # partitions may have been added since the last time
                self._reassigned = False
            for partition, batch in self._by_partition(records):
                self._process(partition, batch)
            self._restore()
            self._save()
            if self._commit_is_due():
                self._commit()
        except AbortableError as error:
            self._start_over(error)
        self._recoveries.turned(self._owned.values())
        self._metrics.turned(self._budget, self._owned, self._broker.backlog, self._recoveries.left)
        self._health.turned(self._owned.values())

    def drain(self) -> None:
        """Commit what was processed, and save all models."""
        try:
            self._commit()
            self._save_now(self._owned.values(), 0)
        except AbortableError as error:
            # Nothing is lost: the next owner of the partitions processes these records again.
            self._abort(str(error))

    def _check_topics(self) -> None:
        counts = {topic: self._broker.partition_count(topic) for topic in self._topics}
        examples, predictions, dead_letters, models = self._topics
        for topic in (predictions, models):
            if counts[topic] != counts[examples]:
                raise ConfigurationError(
                    f"expected topic {topic} to have {counts[examples]} partitions, as many as {examples}, "
                    f"found {counts[topic]}"
                )
        self._dead_letter_partitions = counts[dead_letters]
        self._metrics.counted(counts[examples])

    def _fetch_timeout(self) -> float:
        if self._restorer.busy:
            return 0.0
        return BUSY_FETCH_TIMEOUT_S if self._saver.busy else FETCH_TIMEOUT_S

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
            self._saver.epoch_ended(partition)
            _log.info(
                "epoch_ended",
                partition=partition.number,
                epoch=end.epoch,
                offset=end.offset,
                digest=end.digest,
                parents_added=end.growth.added,
                parents_by_degree=end.growth.parents.tolist(),
            )
        self._metrics.processed(partition, outcome)
        self._observer.processed(partition, records, outcome)

    def _publish(self, partition: Partition, records: list[Record], outcome: Outcome) -> None:
        """Steps 1 and 2: send what came of `records`, in a transaction begun for it if none is open."""
        if not (outcome.predictions or outcome.rejects):
            return
        self._begin()
        number, topic, send = partition.number, self._topics.predictions, self._broker.send
        for index, prediction in zip(outcome.indices, outcome.predictions, strict=True):
            record = records[index]
            send(topic, number, record.key(), prediction, record.timestamp()[1])
        for reject in outcome.rejects:
            record = records[reject.record]
            headers = dead_letter_headers(record, reject, self._topics.examples, partition.lineage.model)
            target = number % self._dead_letter_partitions
            timestamp_ms = record.timestamp()[1]
            send(self._topics.dead_letters, target, record.key(), record.value(), timestamp_ms, headers)
        self._uncommitted += len(outcome.predictions) + len(outcome.rejects)

    def _begin(self) -> None:
        if not self._in_transaction:
            self._in_transaction = True
            self._broker.begin()
            self._began_at = self._now()

    def _restore(self) -> None:
        """Read on in a snapshot; a partition whose model is complete begins to replay."""
        if self._restorer.busy:
            partition = self._restorer.turn()
            if partition is not None:
                self._go_on(partition)
                self._broker.release(partition.number)
            self._budget.lap(Phase.RESTORE)

    def _save(self) -> None:
        """Step 3, in small steps."""
        due = self._saver.due(self._owned)
        if due is not None:
            self._begin()
            self._saver.begin(due)
        if self._saver.busy:
            self._saver.turn()
            self._budget.lap(Phase.SNAPSHOT)

    def _save_now(self, partitions: Iterable[Partition], worth: int) -> None:
        """Save the models of those partitions that a successor would replay more than `worth` records of."""
        end = self._now() + SAVING_S
        for partition in partitions:
            if partition.state is not State.LIVE or partition.unsaved <= worth:
                continue
            if self._now() > end:
                _log.warning("snapshot_skipped", partition=partition.number, records_to_replay=partition.unsaved)
                continue
            self._begin()
            self._saver.begin(partition)
            self._commit()

    def _commit_is_due(self) -> bool:
        if not self._in_transaction or self._saver.busy:
            return False
        # Readers have waited for a recovery, or its snapshot for a commit: not any longer.
        saved = any(partition.written is not None for partition in self._owned.values())
        return (
            saved
            or self._standstill
            or self._uncommitted >= self._pace.commit_records
            or self._now() - self._began_at >= self._pace.commit_interval_s
        )

    def _commit(self) -> None:
        """Steps 4 and 5: make all outputs since the last commit, and the offsets they stand for, durable at once."""
        if not self._in_transaction:
            return
        self._saver.finish()
        for partition in self._owned.values():
            if partition.jumped and partition.state is State.LIVE and partition.written is None:
                # Its lineage has changed: the last snapshot is not one of this model.
                self._saver.begin(partition)
                self._saver.finish()
        self._budget.lap(Phase.SNAPSHOT)
        progress = {p: committed for p in self._owned.values() if (committed := p.progress()) is not None}
        self._broker.commit({partition.number: committed for partition, committed in progress.items()})
        self._in_transaction = False
        self._uncommitted = 0
        self._standstill = False
        self._aborts = 0
        for partition, committed in progress.items():
            partition.has_committed(committed)
        self._metrics.committed(self._budget.lap(Phase.COMMIT))

    def _start_over(self, error: AbortableError) -> None:
        """The one way out of doubt, the same as after a crash."""
        self._abort(str(error))
        self._aborts += 1
        if self._aborts >= MAX_ABORTS:
            raise BrokerError(f"{self._aborts} transactions in a row failed; the last one: {error}") from error
        self._broker.rejoin()

    def _abort(self, reason: str) -> None:
        """Undo what was sent, if anything was, and forget every model: they may have learned from it."""
        self._saver.drop()
        if self._in_transaction:
            _log.warning("transaction_aborted", reason=reason)
            self._metrics.aborted()
            self._in_transaction = False
            self._uncommitted = 0
            self._broker.abort()
        for partition in self._owned.values():
            self._give_up(partition, State.LOST)
        self._owned = {}
        self._kept = {}

    def assigned(self, partitions: Sequence[int]) -> Mapping[int, Start]:
        """Find a model for each partition; the broker then delivers from where each model stands."""
        self._budget.lap(Phase.FETCH)
        self._metrics.rebalanced("assigned")
        self._reassigned = True
        kept = {number: model for number, model in self._kept.items() if number in partitions}
        self._kept = {}
        committed = self._broker.committed(partitions)
        self._owned = {}
        for number in partitions:
            log = self._broker.log_range(self._topics.examples, number)
            partition = Partition(self._recovery.find(number, committed[number], log, kept.get(number)))
            self._owned[number] = partition
            if partition.found.restore:
                self._enter(partition, State.RESTORING)
                self._restorer.add(partition)
            else:
                self._go_on(partition)
        self._health.assigned()
        self._budget.lap(Phase.REBALANCE)
        return {
            number: Start(partition.found.start, held=partition.state is State.RESTORING)
            for number, partition in self._owned.items()
        }

    def _go_on(self, partition: Partition) -> None:
        """The model stands at its snapshot, or at its start: learn from here."""
        jump = partition.found.jump
        if jump is not None:
            partition.model.jump(*jump)
            _log.warning("gap_accepted", partition=partition.number, start=jump.gap.start, stop=jump.gap.stop)
        self._saver.watch(partition)
        self._enter(partition, State.LIVE if partition.model.live else State.REPLAYING)

    def revoked(self, partitions: Sequence[int]) -> None:
        """Commit what is ours for the last time, and keep the models in case the partitions come back."""
        self._budget.lap(Phase.FETCH)
        self._metrics.rebalanced("revoked")
        try:
            self._commit()
            self._save_now([self._owned[number] for number in partitions if number in self._owned], WORTH_SAVING)
        except AbortableError as error:
            self._abort(str(error))
        for number in partitions:
            partition = self._owned.pop(number, None)
            if partition is not None:
                if partition.state is not State.RESTORING:  # half a model is none
                    self._kept[number] = partition.model
                self._give_up(partition, State.REVOKED)
        self._budget.lap(Phase.REBALANCE)

    def lost(self, partitions: Sequence[int]) -> None:
        """Another worker may be learning these records already: nothing of ours may be committed."""
        self._budget.lap(Phase.FETCH)
        self._metrics.rebalanced("lost")
        self._abort(f"partitions {list(partitions)} were lost")
        self._budget.lap(Phase.REBALANCE)

    def _give_up(self, partition: Partition, state: State) -> None:
        self._restorer.drop(partition)
        self._saver.forget(partition)
        self._enter(partition, state)

    def _enter(self, partition: Partition, state: State) -> None:
        partition.enter(state)
        if state is State.LIVE and partition.model.publish_from > partition.lineage.start:
            self._standstill = True
        self._metrics.entered(partition, state)
        _log.info(
            state.value,
            partition=partition.number,
            offset=partition.found.start if state is State.RESTORING else partition.model.next_offset,
            publish_from=partition.model.publish_from,
            model=partition.lineage.model,
        )
