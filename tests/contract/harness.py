"""What the contract suite needs of a broker besides the port, and a client that records what the port tells it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, NoReturn, Protocol

from support.waiting import wait_until

from stream_apple.stream.log.ports import AbortableError, Broker, Committed, Header, Reader, Record, Start

LIMIT = 100


class Seen(NamedTuple):
    """A record as any reader of a topic sees it."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: tuple[int, int]
    headers: tuple[Header, ...]


def seen(record: Record) -> Seen:
    """A record of the port, for comparison."""
    headers = record.headers() or ()
    assert not isinstance(headers, Mapping)
    return Seen(record.offset(), record.key(), record.value(), record.timestamp(), tuple(headers))


class ForeignTransaction(Protocol):
    """A transaction of somebody who does not use the port."""

    def append(self, topic: str, partition: int, *values: bytes) -> None:
        """Add messages that are their own keys; they have reached the log when this returns."""
        ...

    def offsets(self, offsets: Mapping[int, int]) -> None:
        """Add offsets of the examples topic in the harness's group, without metadata."""
        ...

    def commit(self) -> None:
        """End it well."""
        ...

    def abort(self) -> None:
        """End it."""
        ...


class Harness(Protocol):
    """A broker with topics of its own for one test; each has two partitions."""

    examples: str
    outputs: str
    models: str
    missing: str
    group: str

    def broker(self, instance: str, *, short_session: bool = False) -> Broker:
        """A worker's connection, not yet joined. Instances and their transactional ids are one to one."""
        ...

    def append(self, topic: str, partition: int, *values: bytes, key: bytes | None = None) -> list[int]:
        """Plain records, by default with themselves as keys; their offsets."""
        ...

    def foreign(self, transactional_id: str) -> ForeignTransaction:
        """Begin a transaction; a predecessor with that id is fenced."""
        ...

    def transactional_id(self, instance: str) -> str:
        """That of a worker."""
        ...

    def read(self, topic: str, partition: int) -> list[Seen]:
        """All that a read_committed reader can see now."""
        ...

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """What retention does."""
        ...

    def compact(self, topic: str, partition: int) -> None:
        """Return when of all present records of a key only the newest is left. May append keys of its own."""
        ...

    def expire(self, instance: str, others: Callable[[], object]) -> None:
        """Return when the group has removed a member that does not fetch; `others` fetch meanwhile."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


class Client:
    """A broker connection, what it was told, and what it fetched since the latest assignment.

    start      where to begin with a partition; by default at the committed offset, or else at the log's low end
    held       partitions that are assigned held
    on_revoke  called inside `revoked`
    """

    def __init__(self, broker: Broker, topic: str) -> None:
        self.broker = broker
        self.topic = topic
        self.start: Callable[[int], int] = self._resume
        self.paused: set[int] = set()
        self.on_revoke: Callable[[], None] = lambda: None
        self.events: list[tuple[str, tuple[int, ...]]] = []
        self.owned: set[int] = set()
        self.records: list[Record] = []
        self._closed = False

    def join(self) -> "Client":
        """Join, without fetching."""
        self.broker.join(self)
        return self

    def close(self) -> None:
        """Once, however often it is called."""
        if not self._closed:
            self._closed = True
            self.broker.close()

    def turn(self) -> None:
        """Fetch once."""
        for record in self.broker.fetch(LIMIT, 0.1):
            assert record.partition() in self.owned
            self.records.append(record)

    def values(self, partition: int) -> list[bytes | None]:
        """Of the fetched records, in their order."""
        return [record.value() for record in self.records if record.partition() == partition]

    def offsets(self, partition: int) -> list[int]:
        """Of the fetched records, in their order."""
        return [record.offset() for record in self.records if record.partition() == partition]

    def publish(self, topic: str, *values: bytes, offsets: Mapping[int, Committed]) -> None:
        """A whole transaction with messages into partition 0."""
        self.broker.begin()
        for value in values:
            self.broker.send(topic, 0, None, value, 1)
        self.broker.commit(offsets)

    def assigned(self, partitions: Sequence[int]) -> Mapping[int, Start]:
        """Noted."""
        self.events.append(("assigned", tuple(sorted(partitions))))
        self.owned = set(partitions)
        self.records = []
        return {number: Start(self.start(number), number in self.paused) for number in partitions}

    def revoked(self, partitions: Sequence[int]) -> None:
        """Noted."""
        self.events.append(("revoked", tuple(sorted(partitions))))
        self.on_revoke()
        self.owned -= set(partitions)

    def lost(self, partitions: Sequence[int]) -> None:
        """Noted."""
        self.events.append(("lost", tuple(sorted(partitions))))
        self.owned -= set(partitions)

    def _resume(self, partition: int) -> int:
        committed = self.broker.decided([partition])[partition]
        return self.broker.log_range(self.topic, partition).low if committed is None else committed.offset


def until(condition: Callable[[], bool], *clients: Client) -> None:
    """Let the clients fetch in turn until the condition holds."""

    def turn_each() -> None:
        for client in clients:
            client.turn()

    wait_until(condition, lambda: [client.events for client in clients], meanwhile=turn_each)


def owning(partitions: Iterable[int], client: Client) -> Callable[[], bool]:
    """Whether the client owns just these."""
    wanted = set(partitions)
    return lambda: client.owned == wanted


Join = Callable[..., Client]
"""`join("a", short_session=False)` makes a client that has joined."""


def read(harness: Harness, topic: str, count: int, partition: int = 0) -> list[Seen]:
    """What readers of a topic see when they see `count` messages or more.

    The end of a transaction is durable when `commit` returns; readers learn of it a moment later.
    """
    found: list[Seen] = []

    def enough() -> bool:
        found[:] = harness.read(topic, partition)
        return len(found) >= count

    wait_until(enough, lambda: f"{count} messages in {topic}-{partition}, found {found}")
    return found


def values(harness: Harness, topic: str, *expected: bytes) -> bool:
    """Whether these are just what readers see in partition 0, and nothing more comes to light later."""
    harness.append(topic, 0, b"last")
    return [message.value for message in read(harness, topic, len(expected) + 1)] == [*expected, b"last"]


def read_on(reader: Reader, count: int) -> list[Record]:
    """The next `count` records of a reader, however many fetches of two it takes."""
    found: list[Record] = []

    def fetch() -> None:
        fetched = reader.fetch(2, 0.1)
        assert len(fetched) <= 2
        found.extend(fetched)

    wait_until(lambda: len(found) >= count, lambda: f"{count} records, found {found}", meanwhile=fetch)
    return found


def no_answer(_partition: int) -> NoReturn:
    """What an assignment can't bear."""
    raise AbortableError("can't find out where to begin")
