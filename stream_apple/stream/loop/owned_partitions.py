"""What a worker owns: its partitions with their models, the restores under way, and models kept for a return.

The loop says when partitions come and go; this module makes, keeps and drops their models. It begins, commits and
aborts no transaction.
"""

import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import structlog

from stream_apple.records.framing import Schemas
from stream_apple.stream.log.columns import runs_by_partition
from stream_apple.stream.log.ports import Broker, Record, Start
from stream_apple.stream.loop.watchers import LoopRecorder
from stream_apple.stream.model.partition_model import BatchResult, ModelFactory, PartitionModel
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.partitions.recovery import NO_EXCEPTIONS, Exceptions, plan_recovery
from stream_apple.stream.partitions.recovery_progress import RecoveryProgress
from stream_apple.stream.partitions.schema_gate import SchemaGate
from stream_apple.stream.partitions.state import INCOMPLETE, RECOVERING, State
from stream_apple.stream.positions.lineage import Provenance
from stream_apple.stream.snapshots.evidence import is_untouched
from stream_apple.stream.snapshots.restorer import Restorer

_log = structlog.get_logger()


class OwnedPartitions:
    """Holds the partitions of one worker.

    provenance  whose models they are
    new_model   makes a model that has learned nothing
    exceptions  what the operator lets models leave out
    schemas     of a registry, for records that are framed; None: no record is

    assigned      whether the group has assigned partitions, and has not taken any back since
    progress      of the recoveries, for logs and metrics
    by_number     the partitions that this worker owns now; replaced as a whole, as other threads read it
    recovering    those of them whose records are not answered yet, by number
    arrived       partitions whose models have become complete; the loop removes them from here
    """

    def __init__(
        self,
        broker: Broker,
        provenance: Provenance,
        new_model: ModelFactory,
        metrics: LoopRecorder,
        exceptions: Exceptions = NO_EXCEPTIONS,
        now: Callable[[], float] = time.monotonic,
        schemas: Schemas | None = None,
    ) -> None:
        self.provenance = provenance
        self.assigned = False
        self.progress = RecoveryProgress(now)
        self.by_number: Mapping[int, Partition] = {}
        self.recovering: dict[int, Partition] = {}
        self.arrived: list[Partition] = []
        self._broker = broker
        self._new_model = new_model
        self._exceptions = exceptions
        self._metrics = metrics
        self._now = now
        self._restorer = Restorer(broker, provenance, metrics, new_model, now, exceptions.gaps)
        self._kept: dict[int, PartitionModel] = {}
        self._schemas = schemas

    def __iter__(self) -> Iterator[Partition]:
        return iter(self.by_number.values())

    def get(self, number: int) -> Partition | None:
        """Return the partition; None if this worker does not own it."""
        return self.by_number.get(number)

    def sort(self, records: Sequence[Record]) -> Iterator[tuple[Partition, list[Record]]]:
        """Yield each partition's records, up to the first that can't be read yet.

        Records of a partition that this worker no longer owns are left out: their new owner learns them.
        AbortableError if the record that can't be read, and those behind it, can't be had again.
        """
        groups: dict[int, list[Record]] = defaultdict(list)
        for number, run in runs_by_partition(records):
            groups[number].extend(run)
        for number, group in groups.items():
            partition = self.by_number.get(number)
            if partition is not None:
                readable = partition.gate.readable(group)
                if partition.gate.awaited is not None:
                    self._broker.pause(number, partition.gate.awaited.offset)
                if readable:
                    yield partition, readable

    def go_on_where_schemas_came(self) -> None:
        """Resume the partitions that waited for a schema which has come."""
        if self._schemas is None:
            return
        for partition in self:
            # If the model is held at the end of a round, the partition is resumed when that is over.
            if partition.gate.opens() and partition.model.held is None:
                self._broker.resume(partition.number)

    @property
    def restoring(self) -> bool:
        """Whether the model of a partition is still to be found."""
        return self._restorer.busy

    def assign(self, numbers: Sequence[int]) -> dict[int, Start]:
        """Own exactly these partitions: find a model for each, and return the offset at which each goes on.

        ConfigurationError if a committed offset belongs to another model, GapError if records are gone.
        """
        before, self._kept = self._kept, {}
        kept = {number: before[number] for number in numbers if number in before}
        committed = self._broker.decided(numbers)
        owned: dict[int, Partition] = {}
        self.by_number = owned
        for number in numbers:
            log = self._broker.log_range(self.provenance.topics.examples, number)
            plan = plan_recovery(
                self.provenance, self._exceptions, number, committed[number], log, kept.pop(number, None)
            )
            model = self._new_model(number, plan.lineage) if plan.kept is None else plan.kept
            if plan.kept is None and not plan.restore:
                model.begin()
            model.publish_from = plan.publish_from
            model.skips = deque(plan.skips)
            partition = owned[number] = Partition(model, plan, SchemaGate(number, self._schemas, self._now))
            if plan.kept is not None or (plan.first and is_untouched(self._broker, self.provenance, number)):
                self._go_on(partition)
                continue
            if plan.restore:
                self.enter(partition, State.RESTORING)
            else:
                self._metrics.entered(partition, State.ASSIGNED)
            self._restorer.add(partition)
        self.assigned = True
        return {
            number: Start(
                partition.plan.fetch_from, paused=partition.state in INCOMPLETE or partition.model.held is not None
            )
            for number, partition in owned.items()
        }

    def restore(self) -> None:
        """Read on in what one partition's model is found by; resume the partition when its model is complete."""
        partition = self._restorer.read_on()
        if partition is not None:
            if partition.restarted:
                self._broker.pause(partition.number, partition.plan.fetch_from)
            self._go_on(partition)
            if partition.model.held is None:
                self._broker.resume(partition.number)

    def pass_on(self, partition: Partition, result: BatchResult) -> None:
        """Note that the outputs of `result` are the next that are sent of the partition."""
        partition.pass_on(result)
        if result.lineage is not None:
            _log.warning(
                "record_skipped",
                partition=partition.number,
                offset=result.lineage.skips[-1],
                dead_letters=len(result.rejects),
                model=result.lineage.model,
            )

    def enter_live_if_replayed(self, partition: Partition) -> None:
        """Let the partition be live if the batch just learned was the last one to replay."""
        if partition.state is State.REPLAYING and partition.replayed:
            self.enter(partition, State.LIVE)

    def give_back(self, numbers: Collection[int]) -> None:
        """Own these partitions no longer; keep their models in case they return."""
        self.assigned = False
        gone = [self.by_number[number] for number in numbers if number in self.by_number]
        left = self.by_number.keys() - set(numbers)
        self.by_number = {number: each for number, each in self.by_number.items() if number in left}
        for partition in gone:
            if partition.state not in INCOMPLETE:  # a model that is partly restored is of no use
                self._kept[partition.number] = partition.model
            self._restorer.drop(partition)
            self.enter(partition, State.REVOKED)

    def drop_all(self) -> None:
        """Own nothing and forget every model: each may have learned what was never committed."""
        self.assigned = False
        gone, self.by_number, self._kept = self.by_number, {}, {}
        for partition in gone.values():
            self._restorer.drop(partition)
            self.enter(partition, State.LOST)

    def close(self) -> None:
        """Close the readers that restores hold open."""
        self._restorer.close()

    def _go_on(self, partition: Partition) -> None:
        """Let the partition learn from now on: its model stands at its snapshot, or at its start."""
        model, plan = partition.model, partition.plan
        if model.rounds is not None and plan.kept is None and plan.merge is not None:
            model.rounds.restore(plan.merge.boundary, model.next_offset)
        jump = partition.plan.jump
        if jump is not None:
            partition.model.jump(*jump)
            partition.lineage = jump.lineage
            _log.warning("gap_accepted", partition=partition.number, start=jump.gap.start, stop=jump.gap.stop)
        partition.unsaved_since = self._now()
        self.enter(partition, State.LIVE if partition.replayed else State.REPLAYING)
        self.arrived.append(partition)

    def enter(self, partition: Partition, state: State) -> None:
        """Let the partition begin `state`, and report that to the metrics and the log."""
        partition.enter(state)
        if state in RECOVERING:
            self.recovering[partition.number] = partition
        else:
            self.recovering.pop(partition.number, None)
        if state is State.LIVE and partition.model.publish_from > partition.lineage.start:
            partition.recovered = True
        self._metrics.entered(partition, state)
        _log.info(
            state.value,
            partition=partition.number,
            offset=partition.sent_offset,
            publish_from=partition.model.publish_from,
            model=partition.lineage.model,
        )
