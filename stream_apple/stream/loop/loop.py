"""The consume-learn-publish loop, which says what is in a transaction, and when it is committed or aborted.

One thread iterates: fetch, have other threads learn each partition's records (`learning/scheduler.py`), send what came
of them, and now and then commit. A transaction holds, in this order:

    1. begin      lazily, with the first output, so that an idle worker has none open
    2. produce    predictions and dead letters, as batches are processed (`transaction.py`)
    3. snapshot   of a model, when one is due (`snapshots/writer.py`): of a state whose outputs are all in it or before
                  it; the transaction stays open until it is complete
    4. offsets    of every partition with progress, each with the lineage of its model and where its snapshot is
    5. commit

Readers see all of it or nothing. A model is always ahead of what is sent, and that of what is committed; if a
transaction fails, the models are dropped and found again as after a crash (`partitions/recovery.py`): restored from the
snapshot (`snapshots/restorer.py`), and replayed in silence up to the committed offset: one recovery path, and a daily
one.

What is in a transaction never depends on when it is committed: time decides only how much is lost in a crash.
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
from stream_apple.stream.loop.life_cycle import MemberLoop
from stream_apple.stream.loop.owned_partitions import OwnedPartitions
from stream_apple.stream.loop.transaction import CommitSettings, LoopTopics, Transaction
from stream_apple.stream.loop.watchers import Watchers
from stream_apple.stream.merging.merging import MergingFactory, no_merging
from stream_apple.stream.model.dead_letters import dead_letter
from stream_apple.stream.model.model_image import ModelImage
from stream_apple.stream.model.partition_model import BatchResult, PartitionModel
from stream_apple.stream.model.time_budget import Phase, TimeBudget
from stream_apple.stream.partitions.partition import ANSWERING, Partition
from stream_apple.stream.snapshots.codec import Snapshot, encode_snapshot
from stream_apple.stream.snapshots.writer import SnapshotWriter

FETCH_TIMEOUT_S = 0.1
"""How long a signal may have to wait: the client's fetch can't be interrupted."""
BUSY_S = 0.005
"""To wait for records while a snapshot is on its way, or for what is being learned while records may come."""
FULL_S = 0.05
"""To wait for what is being learned while there is no room for more."""
BATCHES_AHEAD = 4
"""Of each thread, fetched and not sent yet: Kafka's client gives many records of one partition, then of another."""
SAVING_S = 8.0
"""After so long no further snapshot is begun in a revocation or a stop: others wait, or a supervisor does."""
WORTH_SAVING = 20_000
"""Records; to replay fewer takes less than a second, and a partition that is revoked mostly comes back."""

_log = structlog.get_logger()


class LoopSettings(NamedTuple):
    """How much a worker fetches at once, when it commits, how often it saves models, how many threads learn."""

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
        now: Callable[[], float] = time.monotonic,
        merging: MergingFactory = no_merging,
    ) -> None:
        super().__init__(watchers.health)
        self._settings = settings
        self._broker = broker
        self._owned = owned
        self._topics = topics = owned.provenance.topics
        self._writer = SnapshotWriter(broker, owned.provenance, settings.snapshot_interval_s, watchers.metrics, now)
        self._watchers = watchers
        self._metrics = watchers.metrics
        self._now = now
        self._budget = TimeBudget(Phase)
        most = BATCHES_AHEAD * settings.fetch_records * settings.threads
        self._learning = LearningScheduler(threads, self._publish, most)
        alike = (topics.predictions, topics.models)
        inner = LoopTopics(topics.examples, alike, topics.dead_letters, topics.merges)
        self._transaction = Transaction(broker, inner, settings.commits, watchers.metrics, now)
        self._merging = merging(self._transaction.begin, self._learning, self._save_reference)
        self._waited_for = False

    def start(self) -> None:
        """Join the group; ConfigurationError if a topic is not as needed."""
        self._metrics.counted(self._transaction.check_topics())
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
        except AbortableError as error:
            self._abort(str(error))
            self._transaction.start_over(error)
        self._owned.progress.iterated(self._owned.recovering)
        self._metrics.iterated(self._budget, self._owned.by_number, self._broker.backlog, self._owned.progress.left)
        self._watchers.health.iterated(self._owned if self._owned.assigned else None, self._learning.longest_s)

    def drain(self) -> None:
        """Commit what is being learned, and save all models; what was fetched beyond that comes again."""
        try:
            self._learning.settle(self._owned)
            self._commit()
            self._save_now(self._owned, 0)
        except AbortableError as error:
            self._abort(str(error))  # the next owner of the partitions processes these records again

    def close(self) -> None:
        """End the threads and close all clients; an open transaction is aborted by that."""
        self._learning.close()
        self._owned.close()
        self._merging.drop()
        self._broker.close()

    def _fetch(self) -> bool:
        """Take records, and whatever else the broker has to tell; have the records learned. Whether there were any."""
        waiting = self._learning.busy or self._owned.restoring
        busy = self._writer.sending or self._merging.busy
        timeout = 0.0 if waiting else BUSY_S if busy else min(FETCH_TIMEOUT_S, self._merging.due_in_s)
        records = self._broker.fetch(self._settings.fetch_records, timeout)
        self._budget.lap(Phase.FETCH)
        if self._transaction.topics_in_doubt:
            self._metrics.counted(self._transaction.check_topics())
        for partition, batch in self._owned.sort(records):
            self._learning.add(partition, batch)
        return bool(records)

    def _count_monomials(self) -> None:
        """Have the monomials of new arrivals counted, which reads whole tables."""
        while self._owned.arrived:
            partition = self._owned.arrived.pop()
            if self._owned.get(partition.number) is partition:
                counted = partial(self._metrics.counted_monomials, partition)
                self._learning.ask(partition, partition.model.learner.census, counted)

    def _publish(self, partition: Partition, records: list[Record], result: BatchResult) -> None:
        """Steps 1 and 2: send what came of records that have been learned."""
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
        """Do step 3: begin with a snapshot that is due, and send a little of the one that is on its way."""
        if any(partition.jumped for partition in self._owned.arrived):
            self._writer.look_soon()
        # What a state has learned will have been sent by the time that it comes.
        for urgent in self._writer.due_at_once(self._merging.unsaved):
            self._writer.expect_at_once(urgent)
            self._learning.ask(
                urgent,
                partial(_encoded, urgent.model),
                partial(self._save_encoded, urgent),
            )
        due = self._writer.due(self._owned)
        if due is not None:
            self._writer.expect(due)
            self._learning.ask(due, due.model.copied_image, partial(self._save, due))
        if self._writer.sending:
            self._waited_for |= self._writer.send_on()
            self._budget.lap(Phase.SNAPSHOT)

    def _save_encoded(self, partition: Partition, encoded: tuple[ModelImage, Snapshot]) -> None:
        """Begin to send the snapshot of a model that stands still for others."""
        image, snapshot = encoded
        self._transaction.begin()
        self._writer.begin_encoded(partition, snapshot)
        self._merging.saving(partition, image)

    def _save_reference(self, partition: Partition, snapshot: Snapshot) -> bool:
        """Begin to send a snapshot that is a reference, unless another of the partition is on its way."""
        if self._writer.is_writing(partition):
            return False
        self._transaction.begin()
        self._writer.begin_encoded(partition, snapshot)
        return True

    def _save(self, partition: Partition, image: ModelImage) -> None:
        """Begin to send the partition's snapshot in the transaction."""
        self._transaction.begin()
        self._writer.begin(partition, image)
        self._merging.saving(partition, image)

    def _save_now(self, partitions: Iterable[Partition], worth: int) -> None:
        """Save the models of those partitions that a successor would replay more than `worth` records of.

        Nothing must be on its way.
        """
        end = self._now() + SAVING_S
        for partition in partitions:
            saved = partition.unsaved <= worth and not (partition.refers and worth == 0)
            if partition.state not in ANSWERING or saved:
                continue
            if self._now() > end:
                _log.warning("snapshot_skipped", partition=partition.number, records_to_replay=partition.unsaved)
                continue
            self._save(partition, partition.model.image())
            self._commit()

    def _commit_is_due(self) -> bool:
        if not self._transaction.open or self._writer.busy or self._merging.unwritten:
            return False
        # Readers have waited for a recovery, or a snapshot for its commit: not any longer.
        return self._waited_for or self._writer.awaited or self._transaction.due

    def _commit(self) -> None:
        """Steps 4 and 5: make all outputs since the last commit, and the offsets they stand for, durable at once."""
        if not self._transaction.open:
            return
        if any(partition.jumped for partition in self._owned):
            self._learning.settle()
        self._writer.finish()
        while self._merging.unwritten:
            self._learning.settle()
            self._merging.write()
            self._broker.flush()
            self._writer.finish()
        for partition in [each for each in self._owned if each.jumped]:  # the last snapshot is of another lineage
            self._save(partition, partition.model.image())
            self._writer.finish()
        self._budget.lap(Phase.SNAPSHOT)
        progress = self._merging.progress(self._owned)
        self._transaction.commit({partition.number: committed for partition, committed in progress.items()})
        for partition, committed in progress.items():
            partition.has_committed(committed)
        self._merging.committed(progress)
        self._waited_for = False
        self._metrics.committed(self._budget.lap(Phase.COMMIT))

    def _abort(self, reason: str) -> None:
        """Undo what was sent, if anything was, and forget every model: they may have learned from it."""
        self._learning.drop()
        self._writer.drop()
        self._transaction.abort(reason)
        self._waited_for = False
        self._owned.drop_all()
        self._merging.drop()

    def assigned(self, partitions: Sequence[int]) -> Mapping[int, Start]:
        """Find a model for each partition; the broker then delivers from where each model stands."""
        self._budget.lap(Phase.FETCH)
        self._metrics.rebalanced("assigned")
        self._transaction.topics_in_doubt = True  # partitions may have been added since the last time
        starts = self._owned.assign(partitions)
        self._merging.assigned(self._owned)
        self._budget.lap(Phase.REBALANCE)
        return starts

    def revoked(self, partitions: Sequence[int]) -> None:
        """Commit what is ours for the last time, and keep the models in case the partitions come back."""
        self._budget.lap(Phase.FETCH)
        self._metrics.rebalanced("revoked")
        try:
            going = [each for number in partitions if (each := self._owned.get(number)) is not None]
            self._learning.settle(going)
            self._commit()
            self._save_now(going, WORTH_SAVING)
        except AbortableError as error:
            self._abort(str(error))
        self._owned.give_back(partitions)
        self._merging.drop()
        self._budget.lap(Phase.REBALANCE)

    def lost(self, partitions: Sequence[int]) -> None:
        """Another worker may be learning these records already: nothing of ours may be committed."""
        self._budget.lap(Phase.FETCH)
        self._metrics.rebalanced("lost")
        self._abort(f"partitions {list(partitions)} were lost")
        self._budget.lap(Phase.REBALANCE)


def _encoded(model: PartitionModel) -> tuple[ModelImage, Snapshot]:
    """Return the state of a model that stands still, and its snapshot."""
    return model.image(), encode_snapshot(model)
