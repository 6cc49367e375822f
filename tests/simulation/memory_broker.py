"""The broker port on a cluster in memory: one worker's connection, which dies with it.

A message waits in the client until something delivers it: `flush`, `commit`, or as many as `delivery` says with each
`send` and `fetch`. So it depends on the schedule, as it does with librdkafka, what of a transaction reaches the log
before an abort, and when.

Requests of the producer may be sent twice, and arrive late (`network.py`). The next transaction keeps the producer's
epoch only after a commit whose transaction needed every request only once.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, TypeVar

from simulation.client_state import AssignedPartitions, Membership, OnWritten, OpenTransaction, Queued, SendQueue
from simulation.cluster import NOW_MS, MemoryCluster
from simulation.group import Group, Standing
from simulation.log import Message, PartitionLog
from simulation.merging.notes import check_commit
from simulation.network import RESENT, Request
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

_T = TypeVar("_T")
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
    keeps_epochs = False
    """Whether the epoch is kept whatever may still be on its way: wrong, for tests of what that does."""

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
        self._epoch_over = True
        self._sequences: Counter[PartitionLog] = Counter()
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
        self._epoch_over = True
        self._fence()
        self._membership.joining = True

    def rejoin(self) -> None:
        """The group hears of it with the next fetch."""
        self._drop_partitions()
        self._membership.generation = -1
        self._membership.joining = True

    def fetch(self, limit: int, timeout_s: float) -> Sequence[Record]:  # noqa: ARG002  nothing takes time here
        """Deliver, hear what became of it, take the next step in the group, and read."""
        self._cluster.network.pass_time()
        self._deliver(self._delivery(len(self._queue.waiting)))
        self._tell_written()
        self._check_fatal()
        self._step_in_group()
        try:
            return self._read(limit)
        except GapError as error:
            raise AbortableError(str(error)) from error

    def pause(self, partition: int, offset: int) -> None:
        """If it is ours."""
        if partition in self._partitions.positions:
            self._partitions.positions[partition] = offset
            self._partitions.paused.add(partition)

    def resume(self, partition: int) -> None:
        """If it is ours."""
        self._partitions.paused.discard(partition)

    def decided(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """The end of transactions is waited for; one that is still open is given no more time.

        What is late of this client's own earlier transactions changes nothing afterwards.
        """
        self._fence()
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
        self._fence()
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
        try:
            self._commit(transaction, offsets)
        except AbortableError as error:
            transaction.failed = str(error)
            raise
        self._end()
        self._epoch_over = transaction.resent and not self.keeps_epochs

    def _commit(self, transaction: OpenTransaction, offsets: Mapping[int, Committed]) -> None:
        producer, group, coordinator = self._live_producer(), self._group, self._cluster.transactions
        member = self.who.instance, self._membership.id, self._membership.generation

        def commit_offsets() -> None:
            group.check_commit(*member)
            coordinator.prepare(producer, group, offsets)

        self._request(Request.ADD_OFFSETS, partial(coordinator.add, producer, group))
        self._request(Request.COMMIT_OFFSETS, commit_offsets)
        self.before_commit()
        transaction.committing = True
        self._request(Request.END, partial(coordinator.end, producer, committed=True))

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
        transaction = self._transaction
        if transaction is None:
            return
        self._check_fatal()
        self._epoch_over = transaction.failed is not None or not self.keeps_epochs
        if transaction.added and not transaction.committing:
            # If it fails, the next epoch aborts the transaction.
            with suppress(AbortableError):
                self._request(
                    Request.END, partial(self._cluster.transactions.end, self._live_producer(), committed=False)
                )
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

    def _fence(self) -> None:
        """Begin a new epoch if the last one is over: what is late of it is refused from now on."""
        if self._epoch_over:
            begin = partial(self._cluster.transactions.init, self.who.transactional_id)
            self._producer = self._request(Request.INIT, begin)
            self._sequences.clear()
            self._epoch_over = False

    def _request(self, request: Request, effect: Callable[[], _T]) -> _T:
        network = self._cluster.network
        fate = network.fate(request)
        if self._transaction is not None:
            self._transaction.resent |= fate in RESENT
        return network.carry(request, fate, effect)

    def _deliver(self, count: int) -> None:
        waiting, transaction = self._queue.waiting, self._transaction
        ready, self._queue.waiting = waiting[:count], waiting[count:]
        try:
            for queued in ready:
                self._produce(self._check_open(), queued)
        except BrokerError as error:
            self._fatal = str(error)
            self._queue.waiting.clear()
        except AbortableError as error:
            if transaction is not None and transaction.failed is None:
                transaction.failed = str(error)
            self._queue.waiting.clear()

    def _produce(self, transaction: OpenTransaction, queued: Queued) -> None:
        producer, log, coordinator = self._live_producer(), queued.log, self._cluster.transactions
        if log not in transaction.added:
            transaction.added.add(log)  # perhaps, if it fails
            self._request(Request.ADD_PARTITIONS, partial(coordinator.add, producer, log))
        number = self._sequences[log]
        offset = self._request(Request.PRODUCE, partial(coordinator.append, producer, log, queued.message, number))
        self._sequences[log] = number + 1
        if queued.on_written is not None:
            self._queue.written.append((queued.on_written, offset))

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
