"""What the loop needs of a message broker, and nothing more: one synchronous port.

The loop is the only caller, from one thread. Every method may block for as long as the implementation's own
deadline. An error crosses the port as one of two kinds:

    AbortableError   nothing of this transaction, and nothing of what we believe to own, can be trusted: abort,
                     drop the models and rejoin, the same path as after a crash
    a StreamAppleError  (BrokerError, ConfigurationError, GapError, FencedError) leave: waiting does not help

Retriable errors never cross it: the implementation retries them until its deadline.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

Header = tuple[str, str | bytes | None]


class AbortableError(Exception):
    """The open transaction can't be committed, but a new one may. Never leaves the loop."""


class Record(Protocol):
    """One message of a topic: the methods of `confluent_kafka.Message`, so that none is copied."""

    def partition(self) -> int:
        """Return the partition that the record was read from."""
        ...

    def offset(self) -> int:
        """Its position in the partition; positions may be skipped, never repeated."""
        ...

    def key(self) -> bytes | None:
        """Return the key's bytes; None if the record has no key."""
        ...

    def value(self) -> bytes | None:
        """Return the value's bytes; None is a tombstone."""
        ...

    def timestamp(self) -> tuple[int, int]:
        """(type, milliseconds since 1970); type 0, with a time that is not above 0, means that there is none."""
        ...

    def headers(self) -> Sequence[Header] | Mapping[str, str | bytes | None] | None:
        """Return the headers in their order; None if the record has none."""
        ...


class Committed(NamedTuple):
    """Holds the next offset to process, and the text stored with it."""

    offset: int
    metadata: str


class LogRange(NamedTuple):
    """Offsets [low, high) are in the log; high is the last stable offset: what is below it is decided."""

    low: int
    high: int


class Start(NamedTuple):
    """Where to begin with a partition. `paused`: deliver nothing of it before `Broker.resume`."""

    offset: int
    paused: bool


class Assignment(Protocol):
    """What the broker tells the loop about ownership, always from inside `fetch`.

    An error raised here comes out of that `fetch`, after the partitions have been given up.
    """

    def assigned(self, partitions: Sequence[int]) -> Mapping[int, Start]:
        """We own exactly these partitions now; returns where to begin with each."""
        ...

    def revoked(self, partitions: Sequence[int]) -> None:
        """The partitions are about to go; what was processed of them can still be committed."""
        ...

    def lost(self, partitions: Sequence[int]) -> None:
        """The partitions are gone and may have another owner: nothing of them may be committed."""
        ...


class Reader(Protocol):
    """One partition of any topic, read in offset order, outside of the group."""

    @property
    def position(self) -> int:
        """Everything below has been delivered, or is no record of a committed transaction; from memory."""
        ...

    @property
    def log_end(self) -> int:
        """The end of the log, with what is not decided yet, as of the latest answer; -1 before the first."""
        ...

    def fetch(self, limit: int, timeout_s: float) -> Sequence[Record]:
        """At most `limit` further records of committed transactions, perhaps none.

        GapError if the position is not in the log any more. An unreachable broker is no error: nothing comes.
        """
        ...

    def close(self) -> None:
        """Give back what the reader holds; it is of no more use."""
        ...


class Broker(Protocol):
    """Consumer of one topic, the input, and transactional producer in one. A worker's input are examples."""

    def partition_count(self, topic: str) -> int:
        """How many partitions the topic has; ConfigurationError if it does not exist.

        Not from inside `Assignment`: confluent-kafka ends the process when a consumer is asked for topics in its own
        callback.
        """
        ...

    def join(self, assignment: Assignment) -> None:
        """Fence predecessors with our identity, abort what they left open, and join the group."""
        ...

    def rejoin(self) -> None:
        """Give up every partition without being told so; `assigned` follows out of a later `fetch`."""
        ...

    def fetch(self, limit: int, timeout_s: float) -> Sequence[Record]:
        """At most `limit` committed records, in offset order within a partition, perhaps none.

        No record comes from before the partition's latest assignment, and none of a partition that is paused.
        GapError if the position is not in the log any more; BrokerError if no broker has answered for too long;
        FencedError, within seconds even if nothing comes and nothing is sent, if somebody else has our identity.
        """
        ...

    def pause(self, partition: int, offset: int) -> None:
        """Deliver nothing of the partition before `resume`, and then what comes from `offset` on; again, if need be.

        No effect if it is not ours. AbortableError if that can't be had.
        """
        ...

    def resume(self, partition: int) -> None:
        """Deliver the paused partition's records from now on; no effect if it has been given up meanwhile."""
        ...

    def committed(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """The group's committed offsets, after transactions that are still deciding them have ended."""
        ...

    def peek(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """The group's committed offsets, or those of a moment ago: transactions that decide others aren't waited for.

        Of any partitions of the input topic, whoever owns them.
        """
        ...

    def log_range(self, topic: str, partition: int) -> LogRange:
        """Return which offsets the log has now, as the broker tells."""
        ...

    def reader(self, topic: str, partition: int, offset: int) -> Reader:
        """Read a partition of any topic from `offset` on; several may be open at once."""
        ...

    def backlog(self, partition: int) -> int:
        """Offsets in the log that `fetch` has not passed yet, from memory; -1 if not known yet."""
        ...

    def begin(self) -> None:
        """Begin a transaction; there is none open."""
        ...

    def send(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: list[Header] | None = None,
        on_written: Callable[[int], None] | None = None,
    ) -> None:
        """Add a message to the open transaction; timestamp 0 means now.

        `on_written` is told the message's offset when the broker has it, from inside a later `fetch` or `flush`
        of the same transaction; never, if the transaction fails.
        """
        ...

    def send_all(
        self,
        topic: str,
        partition: int,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps_ms: Sequence[int],
    ) -> None:
        """Add a message for each value, in order, with its key and timestamp; as `send` would one by one.

        ValueError if the sequences are not of one length. Whatever the error, the first messages may have been added.
        """
        ...

    def flush(self) -> None:
        """Wait until the broker has every message of the open transaction; all `on_written` have been called."""
        ...

    def commit(self, offsets: Mapping[int, Committed]) -> None:
        """Commit the open transaction with these offsets of the input topic; when it returns, both are durable."""
        ...

    def abort(self) -> None:
        """Abort the transaction if one is open: no read_committed reader ever sees any of its messages."""
        ...

    def close(self) -> None:
        """Leave, whatever state we are in: an open transaction is aborted, and no event is delivered any more."""
        ...
