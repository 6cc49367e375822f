"""The consume-learn-publish loop, which says what is in a transaction, and when it is committed or aborted.

One thread iterates: it fetches, has other threads learn each partition's records (`learning/scheduler.py`), sends the
outputs, and now and then commits. A transaction holds, in this order:

    1. begin      lazily, with the first output, so that an idle worker has none open
    2. produce    predictions and dead letters, as batches are processed (`transaction.py`)
    3. snapshot   of a model, when one is due (`snapshots/writer.py`): all outputs of the state in it are in this
                  transaction or an earlier one, which stays open until the snapshot is complete
    4. offsets    of every partition with progress, each with the lineage of its model and the place of its snapshot
    5. commit

Readers see all of it or nothing. A model has learned at least the records whose outputs are sent, and outputs are sent
before they are committed. So if a transaction fails, the models are dropped and made again as after a crash
(`partitions/recovery.py`): restored from the snapshot (`snapshots/restorer.py`), they learn again, without output, up
to the committed offset. There is one path of recovery, and it is taken daily.

The outputs never depend on when they are committed: time decides only how much must be done again after a crash.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import structlog

from stream_apple.stream.learning.scheduler import LearningScheduler
from stream_apple.stream.learning.threads import Threads
from stream_apple.stream.log.columns import keys_of
from stream_apple.stream.log.ports import AbortableError, Broker, Record, Start
from stream_apple.stream.loop.added_partitions import AddedPartitions
from stream_apple.stream.loop.life_cycle import MemberLoop
from stream_apple.stream.loop.owned_partitions import OwnedPartitions
from stream_apple.stream.loop.transaction import CommitSettings, LoopTopics, Transaction
from stream_apple.stream.loop.watchers import Watchers
from stream_apple.stream.merging.merging import MergedPartitions
from stream_apple.stream.merging.merging_context import MergingContext
from stream_apple.stream.model.dead_letters import dead_letter
from stream_apple.stream.model.partition_model import BatchResult
from stream_apple.stream.model.time_budget import Phase, TimeBudget
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.partitions.state import ANSWERING
from stream_apple.stream.snapshots.codec import Snapshot, SnapshotEncoder, encode_snapshot
from stream_apple.stream.snapshots.writer import SnapshotWriter

FETCH_TIMEOUT_S = 0.1
"""The longest wait for records, and so of a signal: the client's fetch can't be interrupted."""
BUSY_S = 0.005
"""The wait for records while a snapshot is being sent, or for learned batches while records may come."""
FULL_S = 0.05
"""The wait for learned batches while there is no room for more records."""
BATCHES_AHEAD = 4
"""Fetches for each thread that may be learned or waiting: the client gives many records of one partition in a row."""
SAVING_S = 8.0
"""No further snapshot is begun so long after a revocation or a stop: other members, or a supervisor, wait for it."""
WORTH_SAVING = 20_000
"""Records that a successor may have to replay: fewer take less than a second, and most revoked partitions come back."""

_log = structlog.get_logger()


class LoopSettings(NamedTuple):
    """Says how much a worker fetches at once, when it commits, how often it saves models, how many threads learn."""

    fetch_records: int
    commits: CommitSettings
    snapshot_interval_s: float
    threads: int = 1


class Loop(MemberLoop):
    """A worker: a member of the consumer group that learns and publishes."""

    def __init__(
        self,
        broker: Broker,
        owned: OwnedPartitions,
        settings: LoopSettings,
        watchers: Watchers,
        threads: Threads,
        merging: MergingContext,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(watchers.health, now)
        self._settings = settings
        self._broker = broker
        self._owned = owned
        self._topics = topics = owned.provenance.topics
        self._writer = SnapshotWriter(broker, owned.provenance, settings.snapshot_interval_s, watchers.metrics, now)
        self._watchers = watchers
        self._metrics = watchers.metrics
        self._budget = TimeBudget(Phase)
        most = BATCHES_AHEAD * settings.fetch_records * settings.threads
        self._learning = LearningScheduler(threads, self._publish, most)
        alike = (topics.predictions, topics.models)
        inner = LoopTopics(topics.examples, alike, topics.dead_letters, topics.merges)
        self._transaction = Transaction(broker, inner, settings.commits, watchers.metrics, now)
        self._merging = MergedPartitions(merging, self._transaction.begin, self._learning)
        self._added = AddedPartitions(broker, now)
        self._partitions = 0
        self._waited_for = False

    def start(self) -> None:
        """Join the group; ConfigurationError if a topic has another number of partitions than is needed."""
        self._count_partitions()
        self._broker.join(self)

    def iterate(self) -> None:
        """Fetch once, and do all that is due."""
        try:
            more = self._learning.room and self._fetch()
            self._count_monomials()
            # While records come and there is room for them, nothing is worth waiting for.
            self._learning.collect((0.0 if more else BUSY_S) if self._learning.room else FULL_S)
            self._budget.lap(Phase.WAIT)
            if self._owned.restoring:
                self._owned.restore()
                self._budget.lap(Phase.RESTORE)
            self._owned.go_on_where_schemas_came()
            merged = self._merging.iterate()
            self._save_what_is_due()
            if merged or self._commit_is_due():
                self._commit()
            if self._owned.assigned:
                self._added.claim(self._partitions, self._owned.by_number, self)
        except AbortableError as error:
            self._abort(str(error))
            self._transaction.start_over(error)
        self._owned.progress.iterated(self._owned.recovering)
        self._metrics.iterated(self._budget, self._owned.by_number, self._backlog, self._owned.progress.left)
        self._watchers.health.iterated(self._owned if self._owned.assigned else None, self._learning.longest_s)
        self._say_if_unassigned(assigned=self._owned.assigned)

    def _backlog(self, partition: int) -> int:
        """Return how many records of the partition wait, in the log or here, for its model; -1 if not known yet."""
        unfetched = self._broker.backlog(partition)
        return unfetched if unfetched < 0 else unfetched + self._learning.unlearned(partition)

    def drain(self) -> None:
        """Commit what is being learned, and save all models; the next owner fetches the other records again."""
        try:
            self._learning.settle(self._owned)
            self._commit()
            self._save_now(self._owned, 0)
        except AbortableError as error:
            self._abort(str(error))  # the next owner of the partitions processes these records again

    def close(self) -> None:
        """End the threads and close all clients, which aborts an open transaction."""
        self._learning.close()
        self._owned.close()
        self._merging.drop()
        self._broker.close()

    def _fetch(self) -> bool:
        """Fetch records, which may also bring a rebalance, and have them learned; return whether there were any."""
        waiting = self._learning.busy or self._owned.restoring
        busy = self._writer.sending or self._merging.busy
        timeout = 0.0 if waiting else BUSY_S if busy else min(FETCH_TIMEOUT_S, self._merging.due_in_s)
        records = self._broker.fetch(self._settings.fetch_records, timeout)
        self._budget.lap(Phase.FETCH)
        if self._transaction.topics_in_doubt:
            self._count_partitions()
        for partition, batch in self._owned.sort(records):
            self._learning.add(partition, batch)
        return bool(records)

    def _count_partitions(self) -> None:
        self._partitions = self._transaction.check_topics()
        self._metrics.counted(self._partitions)

    def _count_monomials(self) -> None:
        """Have the monomials of the models that have just arrived counted, on their threads: it reads whole tables."""
        while self._owned.arrived:
            partition = self._owned.arrived.pop()
            if self._owned.get(partition.number) is partition:
                counted = partial(self._metrics.counted_monomials, partition)
                self._learning.ask(partition, partition.model.learner.census, counted)

    def _publish(self, partition: Partition, records: list[Record], result: BatchResult) -> None:
        """Do steps 1 and 2: send the outputs of records that have been learned."""
        self._budget.lap(Phase.WAIT)
        self._owned.pass_on(partition, result)
        model, limit = partition.lineage.model, partition.model.limits.max_record_bytes
        self._transaction.send(
            self._topics.predictions,
            partition.number,
            keys_of(result.examples),
            result.predictions,
            result.timestamps,
            [dead_letter(reject, self._topics.examples, model, limit) for reject in result.rejects],
        )
        self._owned.enter_live_if_replayed(partition)
        if result.boundary is not None:
            self._merging.stopped(partition, result.boundary)
        if result.ends:
            partition.epoch_ended = True
        self._metrics.processed(partition, result)
        self._watchers.observer.processed(partition, records, result)
        self._waited_for |= partition.awaited
        if partition.jumped:
            self._writer.look_soon()
        self._budget.lap(Phase.SEND)

    def _save_what_is_due(self) -> None:
        """Do step 3: begin a snapshot that is due, and send a little of the one that is being sent."""
        if any(partition.jumped for partition in self._owned.arrived):
            self._writer.look_soon()
        # The outputs of all that the state has learned are sent before the thread gives it back.
        for urgent in self._writer.due_at_once(self._merging.unsaved):
            self._writer.expect(urgent, awaited=True)
            self._learning.ask(urgent, partial(encode_snapshot, urgent.model), partial(self._save, urgent))
        due = self._writer.due(self._owned)
        if due is not None:
            self._writer.expect(due)
            self._learning.ask(
                due, lambda: SnapshotEncoder(due.model, due.model.image().copy()), partial(self._save, due)
            )
        if self._writer.sending:
            self._waited_for |= self._writer.send_on()
            self._budget.lap(Phase.SNAPSHOT)

    def _save(self, partition: Partition, snapshot: Snapshot | SnapshotEncoder) -> None:
        """Begin to send the partition's snapshot in the transaction."""
        self._transaction.begin()
        self._writer.begin(partition, snapshot)
        self._merging.saving(partition, snapshot)

    def _save_now(self, partitions: Iterable[Partition], worth: int) -> None:
        """Save the models of the partitions of which a successor would have to replay more than `worth` records.

        No snapshot may be being sent.
        """
        end = self._now() + SAVING_S
        for partition in partitions:
            if partition.state not in ANSWERING or partition.unsaved <= worth:
                continue
            if self._now() > end:
                _log.warning("snapshot_skipped", partition=partition.number, records_to_replay=partition.unsaved)
                continue
            self._save(partition, SnapshotEncoder(partition.model, partition.model.image()))
            self._commit()

    def _commit_is_due(self) -> bool:
        if not self._transaction.open or self._writer.busy:
            return False
        # Readers have waited for a recovery, or a snapshot waits for its commit: neither waits any longer.
        return self._waited_for or self._writer.awaited or self._transaction.due

    def _commit(self) -> None:
        """Do steps 4 and 5: make all outputs since the last commit, and the offsets after them, durable together."""
        if not self._transaction.open:
            return
        if any(partition.jumped for partition in self._owned):
            self._learning.settle()
        self._writer.finish()
        self._merging.before_commit()
        for partition in [each for each in self._owned if each.jumped]:  # the last snapshot is of another lineage
            self._save(partition, SnapshotEncoder(partition.model, partition.model.image()))
            self._writer.finish()
        self._budget.lap(Phase.SNAPSHOT)
        progress = self._merging.progress(self._owned)
        self._transaction.commit({partition.number: committed for partition, committed in progress.items()})
        self._writer.committed()
        for partition, committed in progress.items():
            partition.has_committed(committed)
        self._merging.committed(progress)
        self._waited_for = False
        self._metrics.committed(self._budget.lap(Phase.COMMIT))

    def _abort(self, reason: str) -> None:
        """Abort the transaction, if one is open, and forget every model: they have learned what is not committed."""
        self._learning.drop()
        self._writer.drop()
        self._transaction.abort(reason)
        self._waited_for = False
        self._owned.drop_all()
        self._merging.drop()

    def assigned(self, partitions: Sequence[int]) -> Mapping[int, Start]:
        """Find a model for each partition; return the offset from which the broker is to deliver each of them."""
        self._budget.lap(Phase.FETCH)
        self._metrics.rebalanced("assigned")
        self._transaction.topics_in_doubt = True  # partitions may have been added since the last time
        starts = self._owned.assign(partitions)
        self._merging.assigned(self._owned)
        self._budget.lap(Phase.REBALANCE)
        return starts

    def revoked(self, partitions: Sequence[int]) -> None:
        """Commit for the last time what these partitions have learned, and keep their models in case they return."""
        self._budget.lap(Phase.FETCH)
        self._metrics.rebalanced("revoked")
        try:
            leaving = [each for number in partitions if (each := self._owned.get(number)) is not None]
            self._learning.settle(leaving)
            self._commit()
            self._save_now(leaving, WORTH_SAVING)
        except AbortableError as error:
            self._abort(str(error))
        self._owned.give_back(partitions)
        self._merging.drop()
        self._budget.lap(Phase.REBALANCE)

    def lost(self, partitions: Sequence[int]) -> None:
        """Abort: another worker may own these partitions already, so nothing that is open here may be committed."""
        self._budget.lap(Phase.FETCH)
        self._metrics.rebalanced("lost")
        self._abort(f"partitions {list(partitions)} were lost")
        self._budget.lap(Phase.REBALANCE)
