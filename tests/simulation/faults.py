"""A broker port in which any call can go wrong, and which remembers what was called.

The calls that one process makes of the port, readers included, are numbered from 0 in the order in which they
begin. A fault strikes one of them, before it takes effect, after, or (a commit) when it is half done.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeAlias, TypeVar

import pytest
from simulation.client_state import OnWritten
from simulation.memory_broker import MemoryBroker

from stream_apple.errors import BrokerError
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

MADE_TO_FAIL = "made to fail"
"""What the message of every error of ours begins with."""

_T = TypeVar("_T")


class CrashError(BaseException):
    """The process is killed: nothing of it may run on, so it is no Exception."""


class When(StrEnum):
    """Where in a call a fault strikes."""

    BEFORE = "before"
    WITHIN = "within"  # the offsets of a transaction are sent, its commit is not
    AFTER = "after"


class Kind(StrEnum):
    """What a fault is to the process."""

    CRASH = "crash"
    ABORTABLE = "abortable"
    BROKER = "broker"

    def error(self, where: str) -> BaseException:
        """What the call raises."""
        kinds = {Kind.CRASH: CrashError, Kind.ABORTABLE: AbortableError, Kind.BROKER: BrokerError}
        return kinds[self](f"{MADE_TO_FAIL} {where}")


ABORTABLE_CALLS = frozenset({"fetch", "pause", "decided", "begin", "send", "flush", "commit"})
"""Calls that the real broker can answer with an AbortableError."""
QUIET_CALLS = frozenset({"backlog", "close", "resume", "reader.close"})
"""Calls that reach no broker, or that must not fail: only a crash can strike them."""


def possible(name: str, kind: Kind, when: When) -> bool:
    """Whether such a fault can strike a call of this name."""
    if when is When.WITHIN and name != "commit":
        return False
    if kind is Kind.ABORTABLE:
        return name in ABORTABLE_CALLS
    return kind is Kind.CRASH or name not in QUIET_CALLS


def struck(calls: Sequence[str], kind: Kind, when: When) -> list[int]:
    """Return the numbers of the calls that such a fault can strike: at another it would strike the next of these."""
    return [number for number, name in enumerate(calls) if possible(name, kind, when)]


def situations(calls: Sequence[str], places: Sequence[int]) -> list[int]:
    """Return the first place of each situation: which call came before, which comes, and which comes next."""
    found: dict[tuple[str, ...], int] = {}
    for number in places:
        found.setdefault(tuple(calls[max(number - 1, 0) : number + 2]), number)
    return list(found.values())


def every_place(_calls: Sequence[str], places: Sequence[int]) -> list[int]:
    """Return all places, though many are in a situation that has been before."""
    return list(places)


at_any_call = pytest.mark.parametrize(
    "pick", [situations, pytest.param(every_place, marks=pytest.mark.long)], ids=["situations", "calls"]
)
"""Whether a test strikes once in each situation, or, if it may take long, at every single call."""
Pick: TypeAlias = Callable[[Sequence[str], Sequence[int]], list[int]]


class Fault(NamedTuple):
    """Strikes the first call from number `call` on that it can strike, once."""

    call: int
    kind: Kind
    when: When = When.BEFORE


class FaultyBroker:
    """`ports.Broker` that passes every call on, and strikes where it was told to.

    calls       the name of every call so far
    interludes  number of a call -> what happens before it takes effect, while this process stands still
    """

    def __init__(self, broker: MemoryBroker, faults: Sequence[Fault] = ()) -> None:
        self._broker = broker
        self._faults = list(faults)
        self.calls: list[str] = []
        self.interludes: dict[int, Callable[[], None]] = {}
        self.dead = False
        self.closed = False
        self.losing = False

    def order(self, fault: Fault) -> None:
        """One more."""
        self._faults.append(fault)

    def call(self, name: str, effect: Callable[[], _T]) -> _T:
        """Count the call, and let it fail if its turn has come."""
        assert not self.dead, f"expected no call after the process was killed, found {name}"
        number = len(self.calls)
        self.calls.append(name)
        self.interludes.pop(number, lambda: None)()
        due = (fault for fault in self._faults if fault.call <= number and possible(name, fault.kind, fault.when))
        fault = next(due, None)
        if fault is None:
            return effect()
        self._faults.remove(fault)
        where = f"{fault.when} call {number} ({name}) takes effect"
        if fault.when is When.BEFORE:
            self._strike(fault.kind, where)
        if fault.when is When.WITHIN:
            self._broker.before_commit = lambda: self._strike(fault.kind, where)
        try:
            result = effect()
        finally:
            self._broker.before_commit = lambda: None
        assert fault.when is not When.WITHIN, "expected the commit to be struck"
        if fault.when is When.AFTER:
            self._strike(fault.kind, where)
        return result

    def _strike(self, kind: Kind, where: str) -> None:
        self.dead = kind is Kind.CRASH
        raise kind.error(where)

    def partition_count(self, topic: str) -> int:
        """Pass on."""
        return self.call("partition_count", lambda: self._broker.partition_count(topic))

    def join(self, assignment: Assignment) -> None:
        """Pass on, and watch what is done while partitions are being lost."""
        self.call("join", lambda: self._broker.join(_Watched(self, assignment)))

    def rejoin(self) -> None:
        """Pass on."""
        self.call("rejoin", self._broker.rejoin)

    def fetch(self, limit: int, timeout_s: float) -> Sequence[Record]:
        """Pass on; a signal must not wait longer than this."""
        assert timeout_s <= 0.1
        return self.call("fetch", lambda: self._broker.fetch(limit, timeout_s))

    def pause(self, partition: int, offset: int) -> None:
        """Pass on."""
        self.call("pause", lambda: self._broker.pause(partition, offset))

    def resume(self, partition: int) -> None:
        """Pass on."""
        self.call("resume", lambda: self._broker.resume(partition))

    def decided(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """Pass on."""
        return self.call("decided", lambda: self._broker.decided(partitions))

    def committed_now(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """Pass on."""
        return self.call("committed_now", lambda: self._broker.committed_now(partitions))

    def log_range(self, topic: str, partition: int) -> LogRange:
        """Pass on."""
        return self.call("log_range", lambda: self._broker.log_range(topic, partition))

    def reader(self, topic: str, partition: int, offset: int) -> Reader:
        """Pass on; the reader's calls are counted too."""
        return self.call("reader", lambda: _FaultyReader(self, self._broker.reader(topic, partition, offset)))

    @property
    def undecided(self) -> ReaderSource:
        """Pass on."""
        return self._broker.undecided

    def backlog(self, partition: int) -> int:
        """Pass on; not counted, since it asks nobody."""
        return self._broker.backlog(partition)

    def begin(self) -> None:
        """Pass on."""
        self.call("begin", self._broker.begin)

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
        """Pass on."""
        self.call("send", lambda: self._broker.send(topic, partition, key, value, timestamp_ms, headers, on_written))

    def send_all(
        self,
        topic: str,
        partition: int,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps_ms: Sequence[int],
    ) -> None:
        """One after another, so that a fault can strike between any two."""
        for key, value, timestamp_ms in zip(keys, values, timestamps_ms, strict=True):
            self.send(topic, partition, key, value, timestamp_ms)

    def flush(self) -> None:
        """Pass on."""
        self.call("flush", self._broker.flush)

    def commit(self, offsets: Mapping[int, Committed]) -> None:
        """Pass on, if nothing is being committed that has no place in a transaction."""
        assert offsets, "expected every transaction to carry offsets"
        assert not self.losing, "expected nothing to be committed of partitions that are lost"
        for partition, offset in offsets.items():
            self._broker.check_progress(partition, offset)
        self.call("commit", lambda: self._broker.commit(offsets))

    def abort(self) -> None:
        """Pass on."""
        self.call("abort", self._broker.abort)

    def close(self) -> None:
        """Pass on, unless the process is dead: it closes nothing."""
        assert not self.closed, "expected one close() only"
        self.closed = True
        if not self.dead:
            self.call("close", self._broker.close)


class _Watched:
    def __init__(self, process: FaultyBroker, assignment: Assignment) -> None:
        self._process = process
        self.assigned = assignment.assigned
        self.revoked = assignment.revoked
        self._lost = assignment.lost

    def lost(self, partitions: Sequence[int]) -> None:
        self._process.losing = True
        self._lost(partitions)
        self._process.losing = False


class _FaultyReader:
    def __init__(self, process: FaultyBroker, reader: Reader) -> None:
        self._process = process
        self._reader = reader

    @property
    def position(self) -> int:
        return self._reader.position

    @property
    def log_end(self) -> int:
        return self._reader.log_end

    def fetch(self, limit: int, timeout_s: float) -> Sequence[Record]:
        assert timeout_s <= 0.1
        return self._process.call("reader.fetch", lambda: self._reader.fetch(limit, timeout_s))

    def close(self) -> None:
        if not self._process.dead:
            self._process.call("reader.close", self._reader.close)
