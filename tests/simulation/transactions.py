"""The transaction coordinator in memory: who may write under a transactional id, and the end of each transaction.

A transactional id belongs to one producer at a time. `init` gives it to a newcomer: what the predecessor left open
is aborted, and whatever the predecessor tries from then on is refused. Offsets that are sent to a transaction are
pending in their group until it ends.

The end of a transaction is decided before everybody knows it: as with Kafka, its markers may reach the logs, and its
offsets the group, a while after the producer has been told that it is done.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple, Protocol

from simulation.log import Message, PartitionLog

from stream_apple.errors import FencedError
from stream_apple.stream.log.ports import Committed


class Producer(NamedTuple):
    """One holder of a transactional id."""

    transactional_id: str
    epoch: int


class OffsetStore(Protocol):
    """Where a group keeps its committed offsets."""

    def prepare(self, transaction: int, offsets: Mapping[int, Committed]) -> None:
        """Note offsets that become valid if the transaction is committed."""
        ...

    def decide(self, transaction: int, *, committed: bool) -> None:
        """The transaction has ended: its offsets are stored, or forgotten."""
        ...


@dataclass
class _Transaction:
    number: int
    logs: list[PartitionLog] = field(default_factory=list)
    stores: list[OffsetStore] = field(default_factory=list)


class Coordinator:
    """Epochs of producers, and open transactions. `lags` says whether the markers of one that ends now come late."""

    def __init__(self) -> None:
        self.lags: Callable[[], bool] = lambda: False
        self._ending: dict[str, tuple[_Transaction, bool]] = {}
        self._epochs: dict[str, int] = {}
        self._open: dict[str, _Transaction] = {}
        self._numbers = count(1)

    def init(self, transactional_id: str) -> Producer:
        """Give the id to a newcomer: its predecessor is fenced, and its open transaction aborted."""
        self._end(transactional_id, committed=False)
        self._epochs[transactional_id] = self._epochs.get(transactional_id, -1) + 1
        return Producer(transactional_id, self._epochs[transactional_id])

    def check(self, producer: Producer) -> None:
        """FencedError if somebody else holds the producer's id, or its transaction took too long."""
        if self._epochs[producer.transactional_id] != producer.epoch:
            raise FencedError(f"{producer.transactional_id}: there is a newer producer with this id (_FENCED)")

    def append(self, producer: Producer, log: PartitionLog, message: Message) -> int:
        """The offset of a record written in the producer's transaction, which begins with it if there is none."""
        transaction = self._transaction(producer)
        if log not in transaction.logs:
            transaction.logs.append(log)
        return log.append(message, transaction.number)

    def prepare(self, producer: Producer, store: OffsetStore, offsets: Mapping[int, Committed]) -> None:
        """Add committed offsets to the producer's transaction."""
        transaction = self._transaction(producer)
        if store not in transaction.stores:
            transaction.stores.append(store)
        store.prepare(transaction.number, offsets)

    def end(self, producer: Producer, *, committed: bool) -> None:
        """Commit or abort the producer's transaction; one that the broker never heard of is no transaction."""
        self.check(producer)
        self._end(producer.transactional_id, committed=committed)

    def time_out(self, transaction: int) -> None:
        """Abort a transaction as if it had been open for too long; its producer is fenced."""
        for transactional_id, opened in list(self._open.items()):
            if opened.number == transaction:
                self.init(transactional_id)

    def settle(self) -> None:
        """All markers that were late have arrived."""
        for transactional_id in list(self._ending):
            self._settle(transactional_id)

    def open_ids(self) -> dict[str, int]:
        """Transactional id -> its open transaction."""
        return {transactional_id: opened.number for transactional_id, opened in self._open.items()}

    def _transaction(self, producer: Producer) -> _Transaction:
        self.check(producer)
        # The next transaction of a producer waits for the end of the one before.
        self._settle(producer.transactional_id)
        if producer.transactional_id not in self._open:
            self._open[producer.transactional_id] = _Transaction(next(self._numbers))
        return self._open[producer.transactional_id]

    def _end(self, transactional_id: str, *, committed: bool) -> None:
        self._settle(transactional_id)
        opened = self._open.pop(transactional_id, None)
        if opened is not None:
            self._ending[transactional_id] = (opened, committed)
            if not self.lags():
                self._settle(transactional_id)

    def _settle(self, transactional_id: str) -> None:
        if transactional_id not in self._ending:
            return
        ended, committed = self._ending.pop(transactional_id)
        for log in ended.logs:
            log.mark(ended.number, committed=committed)
        for store in ended.stores:
            store.decide(ended.number, committed=committed)
