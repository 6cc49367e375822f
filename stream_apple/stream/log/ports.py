"""The port of a message broker: all that the loop needs of one.

The loop is the only caller, from one thread. Every method may block for as long as the implementation's own
deadline. A method raises one of two kinds of errors:

    AbortableError      neither this transaction nor the ownership of partitions can be trusted: the loop aborts, drops
                        the models and rejoins, which is the same path as after a crash
    a StreamAppleError  (BrokerError, ConfigurationError, GapError, FencedError) the loop ends: waiting does not help

Methods raise no retriable errors: the implementation retries until its deadline.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from stream_apple.errors import BrokerError

Header = tuple[str, str | bytes | None]
Place = tuple[str, int]
"""A topic and the number of a partition."""


class AbortableError(Exception):
    """The open transaction can't be committed, but a new one may. The loop handles this itself."""


@contextmanager
def nothing_to_abort() -> Iterator[None]:
    """Inside this context, AbortableError is BrokerError: the loop that would start over does not run yet."""
    try:
        yield
    except AbortableError as error:
        raise BrokerError(str(error)) from error


class Record(Protocol):
    """One message of a topic: the methods of `confluent_kafka.Message`, so that none is copied."""

    def partition(self) -> int:
        """Return the partition that the record was read from."""

    def offset(self) -> int:
        """Return the record's position in the partition; positions may be skipped, but are never repeated."""

    def key(self) -> bytes | None:
        """Return the key's bytes; None if the record has no key."""

    def value(self) -> bytes | None:
        """Return the value's bytes; None if the record is a tombstone."""

    def timestamp(self) -> tuple[int, int]:
        """Return (type, milliseconds since 1970); (0, a time of 0 or less) if the record has none."""

    def headers(self) -> Sequence[Header] | Mapping[str, str | bytes | None] | None:
        """Return the headers in their order; None if the record has none."""


class Committed(NamedTuple):
    """Holds the next offset to process, and the text stored with it."""

    offset: int
    metadata: str


class LogRange(NamedTuple):
    """Offsets [low, high) are in the log; high is the last stable offset: all transactions below it are decided."""

    low: int
    high: int


class Start(NamedTuple):
    """Says from which offset to deliver a partition, and whether it is paused until `Broker.resume`."""

    offset: int
    paused: bool


class Assignment(Protocol):
    """Is called by the broker about ownership, always from inside `fetch`.

    An error that is raised here is raised by that `fetch`, after the partitions have been given up.
    """

    def assigned(self, partitions: Sequence[int]) -> Mapping[int, Start]:
        """Own exactly these partitions from now on; return where to begin with each."""

    def revoked(self, partitions: Sequence[int]) -> None:
        """Give up these partitions; what was processed of them can still be committed during this call."""

    def lost(self, partitions: Sequence[int]) -> None:
        """Give up these partitions, which may have another owner already: nothing of them may be committed."""


class Reader(Protocol):
    """Reads one partition of any topic, in the order of offsets, outside of the group."""

    @property
    def position(self) -> int:
        """Return, from memory, an offset below which all committed records have been delivered."""

    @property
    def log_end(self) -> int:
        """Return the end of the log, with undecided records, as of the latest answer; -1 before the first."""

    def fetch(self, limit: int, timeout_s: float) -> Sequence[Record]:
        """Return at most `limit` further records of committed transactions, perhaps none.

        GapError if the position is not in the log any more. An unreachable broker is no error: nothing comes.
        """

    def close(self) -> None:
        """Give back the reader's resources; it can't be used any more."""


class ReaderSource(Protocol):
    """Opens readers of logs."""

    def reader(self, topic: str, partition: int, offset: int) -> Reader:
        """Return a reader of a partition of any topic, from `offset` on; several may be open at once."""


class Readers(ReaderSource, Protocol):
    """Opens readers of logs, and knows where these end."""

    def log_range(self, topic: str, partition: int) -> LogRange:
        """Return the offsets that the log has now; this asks the broker."""


class Broker(Readers, Protocol):
    """A consumer of one topic, the input, and a transactional producer. A worker's input is the examples topic."""

    @property
    def undecided(self) -> ReaderSource:
        """Return what opens readers that wait for no transaction, and deliver the records of aborted ones, too."""

    def partition_count(self, topic: str) -> int:
        """Return how many partitions the topic has; ConfigurationError if it does not exist.

        Don't call it from inside `Assignment`: confluent-kafka ends the process when a consumer is asked for topics in
        its own callback.
        """

    def join(self, assignment: Assignment) -> None:
        """Fence predecessors of the same identity, abort what they left open, and join the group."""

    def rejoin(self) -> None:
        """Give up every partition without calling `Assignment`; a later `fetch` calls `assigned`."""

    def fetch(self, limit: int, timeout_s: float) -> Sequence[Record]:
        """Return at most `limit` committed records, in the order of offsets within a partition, perhaps none.

        No record is from before the partition's latest assignment, or of a paused partition. AbortableError if the
        position is not in the log any more: which records are missing is said by what is committed. BrokerError if no
        broker has answered for too long; FencedError if another process has joined the group with this identity,
        within seconds, even if nothing comes and nothing is sent.
        """

    def pause(self, partition: int, offset: int) -> None:
        """Deliver nothing of the partition before `resume`, and then records from `offset` on, again if need be.

        This has no effect if the partition is not owned. AbortableError if it fails.
        """

    def resume(self, partition: int) -> None:
        """Deliver the paused partition's records from now on; no effect if it has been given up meanwhile."""

    def decided(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """Return the group's committed offsets, once transactions that are still deciding them have ended.

        No earlier transaction of this worker, and none of a predecessor, can change them afterwards.
        """

    def committed_now(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """Return the group's committed offsets, or those of a moment ago, without waiting for transactions.

        The partitions may be any of the input topic, whichever members own them.
        """

    def backlog(self, partition: int) -> int:
        """Return, from memory, how many offsets in the log `fetch` has not passed yet; -1 if not known yet."""

    def begin(self) -> None:
        """Begin a transaction; none may be open."""

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

        A later `fetch` or `flush` calls `on_written` with the message's offset, once the broker has the message and in
        the same transaction; it is not called if the transaction fails.
        """

    def send_all(
        self,
        topic: str,
        partition: int,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps_ms: Sequence[int],
    ) -> None:
        """Add a message for each value, in order, with its key and timestamp, as `send` would one by one.

        ValueError if the sequences have different lengths. After any other error, some first messages may be added.
        """

    def flush(self) -> None:
        """Wait until the broker has every message of the open transaction; all `on_written` have been called."""

    def commit(self, offsets: Mapping[int, Committed]) -> None:
        """Commit the open transaction with these offsets of the input topic; when it returns, both are durable.

        After AbortableError it may have been committed or not: `decided` says which, and nothing changes afterwards.
        """

    def abort(self) -> None:
        """Abort the transaction if one is open: no read_committed reader ever sees any of its messages."""

    def close(self) -> None:
        """Leave from any state: abort an open transaction, and call `Assignment` and `on_written` no more."""
