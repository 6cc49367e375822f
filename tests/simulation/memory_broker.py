"""The broker port on a cluster in memory: one worker's connection, which dies with it.

A message waits in the client until something delivers it: `flush`, `commit`, or as many as `delivery` says with each
`send` and `fetch`. So it depends on the schedule, as it does with librdkafka, what of a transaction reaches the log
before an abort, and when.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from simulation.client_state import AssignedPartitions, Membership, OnWritten, OpenTransaction, Queued, SendQueue
from simulation.cluster import NOW_MS, MemoryCluster
from simulation.group import Group, Standing
from simulation.log import Message, PartitionLog
from simulation.merging.notes import check_commit
from simulation.transactions import Producer

from stream_apple.errors import BrokerError, FencedError, GapError
from stream_apple.stream.log.ports import (
    AbortableError,
    Assignment,
    Committed,
    Header,
    LogRange,
    Reader,
    ReaderSource,
    Record,
)

_LONG = 5
"""So often a reader may ask in vain before transactions that keep records from it have been open for too long."""


class Member(NamedTuple):
    """Who a worker is to the cluster, the same after every restart."""

    group: str
    instance: str
    transactional_id: str


class MemoryReader:
    """`ports.Reader` on one partition's log; `owner` is the transactional id of who reads."""

    def __init__(self, cluster: MemoryCluster, owner: str, log: PartitionLog, offset: int) -> None:
        self._cluster = cluster
        self._owner = owner
        self._log = log
        self._position = offset
        self._in_vain = 0
        self._closed = False

    @property
    def position(self) -> int:
        """Behind what was read."""
        return self._position

    @property
    def log_end(self) -> int:
        """With what is not decided yet."""
        return self._log.end

    def fetch(self, limit: int, timeout_s: float) -> Sequence[Record]:  # noqa: ARG002  nothing takes time here
        """What is there; if there is nothing, time passes."""
        assert not self._closed
        records, self._position = self._log.read(self._position, limit)
        self._in_vain = 0 if records else self._in_vain + 1
        if not records:
            self._cluster.transactions.settle()
        if self._in_vain > _LONG:
            own = self._cluster.transactions.open_ids().get(self._owner)  # which it ends by itself
            for number in self._log.undecided - {own}:
                self._cluster.transactions.time_out(number)
        return records

    def close(self) -> None:
        """Once."""
        assert not self._closed
        self._closed = True


class UndecidedReader(MemoryReader):
    """Waits for no transaction."""

    def fetch(self, limit: int, timeout_s: float) -> Sequence[Record]:  # noqa: ARG002  nothing takes time here
        """What is there, committed or not."""
        records = [entry.record for entry in self._log.entries() if entry.record and entry.offset >= self._position]
        self._position = self._log.end
        return records[:limit]


class UndecidedReaders:
    """`ports.ReaderSource` of such readers."""

    def __init__(self, cluster: MemoryCluster, owner: str) -> None:
        self._cluster = cluster
        self._owner = owner

    def reader(self, topic: str, partition: int, offset: int) -> Reader:
        """Of any topic."""
        return UndecidedReader(self._cluster, self._owner, self._cluster.log(topic, partition), offset)


class MemoryBroker:
    """See `ports.Broker` for the contract of each method.

    who             this worker's identity
    delivery        how many of so many waiting messages the client sends by itself now
    before_commit   called when the offsets of a transaction are sent and its commit is not
    """

    before_commit: Callable[[], None]

    def __init__(
        self,
        cluster: MemoryCluster,
        member: Member,
        input_topic: str,
        *,
        delivery: Callable[[int], int] = lambda waiting: waiting,
    ) -> None:
        self._cluster = cluster
        self.who = member
        self._input_topic = input_topic
        self._delivery = delivery
        self.before_commit = lambda: None
        self._assignment: Assignment | None = None
        self._producer: Producer | None = None
        self._membership = Membership()
        self._partitions = AssignedPartitions({})
        self._transaction: OpenTransaction | None = None
        self._fatal: str | None = None
        self._queue = SendQueue()

    @property
    def _group(self) -> Group:
        return self._cluster.group(self.who.group, self._input_topic)

    def partition_count(self, topic: str) -> int:
        """As made."""
        return len(self._cluster.logs(topic))

    def join(self, assignment: Assignment) -> None:
        """The producer's predecessor is fenced now, the consumer's by the first fetch."""
        self._assignment = assignment
        self._producer = self._cluster.transactions.init(self.who.transactional_id)
        self._membership.joining = True

    def rejoin(self) -> None:
        """The group hears of it with the next fetch."""
        self._drop_partitions()
        self._membership.generation = -1
        self._membership.joining = True

    def fetch(self, limit: int, timeout_s: float) -> Sequence[Record]:  # noqa: ARG002  nothing takes time here
        """Deliver, hear what became of it, take the next step in the group, and read."""
        self._deliver(self._delivery(len(self._queue.waiting)))
        self._tell_written()
        self._check_fatal()
        self._step_in_group()
        try:
            records = self._read(limit)
        except GapError as error:
            raise AbortableError(str(error)) from error
        if not records and self._transaction is None:  # who has nothing to do asks whether it is still needed
            self._cluster.transactions.check(self._live_producer())
        return records

    def pause(self, partition: int, offset: int) -> None:
        """If it is ours."""
        if partition in self._partitions.positions:
            self._partitions.positions[partition] = offset
            self._partitions.paused.add(partition)

    def resume(self, partition: int) -> None:
        """If it is ours."""
        self._partitions.paused.discard(partition)

    def decided(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """The end of transactions is waited for; one that is still open is given no more time."""
        self._cluster.transactions.settle()
        for partition in partitions:
            for number in self._group.undecided(partition):
                self._cluster.transactions.time_out(number)
        return {partition: self._group.offsets.get(partition) for partition in partitions}

    def committed_now(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """As it is known by now; then time passes, and late markers arrive."""
        found = {partition: self._group.offsets.get(partition) for partition in partitions}
        self._cluster.transactions.settle()
        return found

    def log_range(self, topic: str, partition: int) -> LogRange:
        """Up to the last stable offset."""
        return self._cluster.log(topic, partition).range()

    def reader(self, topic: str, partition: int, offset: int) -> Reader:
        """Of any topic."""
        return MemoryReader(self._cluster, self.who.transactional_id, self._cluster.log(topic, partition), offset)

    @property
    def undecided(self) -> ReaderSource:
        """They read the cluster's logs as they are."""
        return UndecidedReaders(self._cluster, self.who.transactional_id)

    def backlog(self, partition: int) -> int:
        """Counted exactly."""
        position = self._partitions.positions.get(partition)
        return -1 if position is None else max(self._cluster.log(self._input_topic, partition).stable - position, 0)

    def begin(self) -> None:
        """The cluster hears of it with the first message."""
        self._check_fatal()
        assert self._transaction is None
        self._transaction = OpenTransaction()

    def send(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: list[Header] | None = None,
        on_written: OnWritten | None = None,
    ) -> None:
        """Wait in the queue."""
        self._check_fatal()
        self._check_open()
        message = Message(key, value, timestamp_ms or NOW_MS, tuple(headers or ()))
        self._queue.waiting.append(Queued(self._cluster.log(topic, partition), message, on_written))
        self._deliver(self._delivery(len(self._queue.waiting)))

    def send_all(
        self,
        topic: str,
        partition: int,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps_ms: Sequence[int],
    ) -> None:
        """One after another."""
        for key, value, timestamp_ms in zip(keys, values, timestamps_ms, strict=True):
            self.send(topic, partition, key, value, timestamp_ms)

    def flush(self) -> None:
        """Everything is sent now."""
        self._deliver(len(self._queue.waiting))
        self._check_fatal()
        self._check_open()
        self._tell_written()

    def commit(self, offsets: Mapping[int, Committed]) -> None:
        """Messages, offsets, then the end."""
        self._deliver(len(self._queue.waiting))
        self._check_fatal()
        transaction = self._check_open()
        producer, transactions = self._live_producer(), self._cluster.transactions
        transactions.check(producer)
        try:
            self._group.check_commit(self.who.instance, self._membership.id, self._membership.generation)
        except AbortableError as error:
            transaction.failed = str(error)
            raise
        transactions.prepare(producer, self._group, offsets)
        self.before_commit()
        transactions.end(producer, committed=True)
        self._end()

    @property
    def in_good_standing(self) -> bool:
        """Whether the cluster would accept a commit of ours now."""
        if self._producer is None or self._fatal is not None:
            return False
        try:
            self._cluster.transactions.check(self._producer)
            self._group.check_commit(self.who.instance, self._membership.id, self._membership.generation)
        except (AbortableError, BrokerError):
            return False
        return True

    def check_progress(self, partition: int, offset: Committed) -> None:
        """AssertionError if a commit would be accepted that goes back, or that is not ours to make."""
        group, who = self._group, self.who.instance
        try:
            group.check_commit(who, self._membership.id, self._membership.generation)
        except (AbortableError, BrokerError):
            return
        before = group.offsets.get(partition)
        assert partition in group.share(who), f"{who} commits an offset of partition {partition}, which it does not own"
        if self._cluster.answers_lost:
            return  # they are given again, and offsets follow
        assert before is None or before.offset <= offset.offset, f"partition {partition} goes back: {before}, {offset}"
        check_commit(offset.offset, offset.metadata, None if before is None else before.metadata)

    def abort(self) -> None:
        """What waits in the queue never leaves it."""
        if self._transaction is None:
            return
        self._check_fatal()
        self._cluster.transactions.end(self._live_producer(), committed=False)
        self._end()

    def close(self) -> None:
        """The group still counts a static member in; its successor, or the end of its session, changes that."""
        self._assignment = None
        self._drop_partitions()
        self._queue.waiting.clear()
        try:
            self.abort()
        except BrokerError:
            # A newer producer with our id has ended the transaction already.
            self._end()

    def _live_producer(self) -> Producer:
        assert self._producer is not None, "expected join() to come first"
        return self._producer

    def _deliver(self, count: int) -> None:
        waiting = self._queue.waiting
        ready, self._queue.waiting = waiting[:count], waiting[count:]
        try:
            for log, message, on_written in ready:
                offset = self._cluster.transactions.append(self._live_producer(), log, message)
                if on_written is not None:
                    self._queue.written.append((on_written, offset))
        except BrokerError as error:
            self._fatal = str(error)
            self._queue.waiting.clear()

    def _tell_written(self) -> None:
        written, self._queue.written = self._queue.written, []
        for on_written, offset in written:
            on_written(offset)

    def _end(self) -> None:
        self._transaction = None
        self._queue.clear()

    def _check_fatal(self) -> None:
        if self._fatal is not None:
            raise FencedError(self._fatal)

    def _check_open(self) -> OpenTransaction:
        transaction = self._transaction
        assert transaction is not None, "expected an open transaction"
        if transaction.failed is not None:
            raise AbortableError(f"the transaction has failed already: {transaction.failed}")
        return transaction

    def _step_in_group(self) -> None:
        """At most one step, so that other members may take theirs between two of ours."""
        assignment = self._assignment
        assert assignment is not None, "expected join() to come first"
        who = self.who.instance
        if self._membership.joining or self._membership.id is None:
            self._membership.joining = False
            self._membership.id = self._group.join(who, self._membership.id)
            return
        standing = self._group.standing(who, self._membership.id, self._membership.generation)
        if standing is Standing.FENCED:
            self._fatal = f"{who}: somebody else is this member of group {self.who.group} (FENCED_INSTANCE_ID)"
            raise FencedError(self._fatal)
        if standing is Standing.UNKNOWN:
            self._membership.id = None
            self._give_up(assignment.lost)
        elif standing is Standing.REVOKE:
            self._membership.joining = True
            self._give_up(assignment.revoked)
        elif standing is Standing.ASSIGNED:
            self._membership.generation = self._group.generation
            starts = assignment.assigned(self._group.share(who))
            self._partitions = AssignedPartitions(starts)

    def _give_up(self, tell: Callable[[Sequence[int]], None]) -> None:
        owned = sorted(self._partitions.positions)
        try:
            if owned:
                tell(owned)
        finally:
            self._drop_partitions()

    def _drop_partitions(self) -> None:
        self._partitions = AssignedPartitions({})

    def _read(self, limit: int) -> Sequence[Record]:
        """From all partitions in turn, each time another first."""
        numbers, positions = self._partitions.in_turn(), self._partitions.positions
        records: list[Record] = []
        for index, number in enumerate(numbers):
            room = limit - len(records)
            share = room if index == len(numbers) - 1 else -(-room // 2)
            found, positions[number] = self._cluster.log(self._input_topic, number).read(positions[number], share)
            records += found
        return records
