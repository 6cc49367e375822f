"""A broker in memory, just enough for the loop: a log, transactions, committed offsets, and faults to order.

`Cluster` is what survives a worker; `FakeBroker` is one worker's connection and dies with it. The calls of the
port are numbered from 0, so that a test can make any of them fail, before or after it has taken effect.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from runtime.records import FakeRecord

from stream_apple.runtime.ports import Assignment, Committed, Header, LogRange, Record


class CrashError(BaseException):
    """The process is killed: nothing of it may run on, so it is no Exception."""


@dataclass(frozen=True)
class Message:
    """What a reader of an output topic sees."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[Header, ...]


@dataclass
class Cluster:
    """Topics, committed offsets, and the partitions that the group gives to its only member."""

    log: dict[int, list[FakeRecord]]
    partitions: dict[str, int] = field(default_factory=dict)
    low: int = 0
    visible: list[Message] = field(default_factory=list)
    offsets: dict[int, Committed] = field(default_factory=dict)
    commits: int = 0


@dataclass
class Fault:
    """`error` is raised by call number `call`, `after` it took effect or instead of it."""

    call: int
    error: BaseException
    after: bool = False


class FakeBroker:
    """`ports.Broker` on a `Cluster`.

    idle    called by a fetch that finds nothing more
    events  call number -> "revoke" or "lose", told by the first fetch from then on; all partitions come back
    """

    def __init__(
        self,
        cluster: Cluster,
        idle: Callable[[], None],
        faults: Sequence[Fault] = (),
        events: Mapping[int, str] | None = None,
    ) -> None:
        self.cluster = cluster
        self.idle = idle
        self.calls = 0
        self.aborts = 0
        self.closed = False
        self._faults = {fault.call: fault for fault in faults}
        self._events = dict(events or {})
        self._assignment: Assignment | None = None
        self._positions: dict[int, int] | None = None
        self._open: list[Message] | None = None

    def _call(self, effect: Callable[[], None] = lambda: None) -> None:
        fault = self._faults.get(self.calls)
        self.calls += 1
        if fault is None or fault.after:
            effect()
        if fault is not None:
            raise fault.error

    def partition_count(self, topic: str) -> int:
        """As many as the log has, unless the cluster says otherwise."""
        return self.cluster.partitions.get(topic, len(self.cluster.log))

    def join(self, assignment: Assignment) -> None:
        """The assignment is told by the first fetch."""
        self._assignment = assignment

    def rejoin(self) -> None:
        """Partitions are revoked, and assigned again by the next fetch."""
        assert self._assignment is not None
        self._assignment.revoked(list(self._positions or {}))
        self._positions = None

    def fetch(self, limit: int, timeout_s: float) -> Sequence[Record]:
        """Up to `limit` records, taken from all partitions in turn."""
        assert timeout_s <= 0.1
        due = next((call for call in self._events if call <= self.calls), None)
        event = None if due is None else self._events.pop(due)
        self._call()
        assert self._assignment is not None
        if event is not None and self._positions is not None:
            tell = {"revoke": self._assignment.revoked, "lose": self._assignment.lost}[event]
            if event == "lose":
                self._open = None  # as the broker does when the new owner arrives
            tell(list(self._positions))
            self._positions = None
        if self._positions is None:
            self._positions = dict(self._assignment.assigned(sorted(self.cluster.log)))
        records: list[FakeRecord] = []
        for number, position in self._positions.items():
            ready = [record for record in self.cluster.log[number] if record.at >= position]
            share = ready[: max(1, (limit - len(records)) // 2)]
            if share:
                self._positions[number] = share[-1].at + 1
            records += share
        if not records and not self._events:
            self.idle()
        return records

    def committed(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """As stored."""
        return {number: self.cluster.offsets.get(number) for number in partitions}

    def log_range(self, partition: int) -> LogRange:
        """From the cluster's low end to the last record."""
        return LogRange(self.cluster.low, self._end(partition))

    def backlog(self, partition: int) -> int:
        """Counted exactly."""
        return self._end(partition) - (self._positions or {}).get(partition, 0)

    def _end(self, partition: int) -> int:
        records = self.cluster.log[partition]
        return records[-1].at + 1 if records else 0

    def begin(self) -> None:
        """There must be none open."""
        assert self._open is None
        self._call(lambda: setattr(self, "_open", []))

    def send(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: list[Header] | None = None,
    ) -> None:
        """Only in a transaction."""
        opened = self._open
        assert opened is not None
        message = Message(topic, partition, key, value, timestamp_ms, tuple(headers or ()))
        self._call(lambda: opened.append(message))

    def commit(self, offsets: Mapping[int, Committed]) -> None:
        """All or nothing; every transaction must carry offsets, and none may go back."""
        opened = self._open
        assert opened is not None
        assert offsets
        for number, committed in offsets.items():
            assert number in (self._positions or {}), "committed a partition that we do not own"
            before = self.cluster.offsets.get(number)
            assert before is None or before.offset < committed.offset

        def take_effect() -> None:
            self.cluster.visible += opened
            self.cluster.offsets.update(offsets)
            self.cluster.commits += 1
            self._open = None

        self._call(take_effect)

    def abort(self) -> None:
        """Forget the open transaction, if there is one."""
        self._open = None
        self.aborts += 1

    def close(self) -> None:
        """Must come exactly once, at the end."""
        assert not self.closed
        self.closed = True


def records_of(cluster: Cluster) -> int:
    """How many records there are to answer for."""
    return sum(len(records) for records in cluster.log.values())
