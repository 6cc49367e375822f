"""The transaction coordinator in memory: who may write under a transactional id, and the end of each transaction.

A transactional id belongs to one producer epoch at a time. `init` begins a new one: what the previous epoch left open
is aborted, and every request of it is refused from then on. Offsets that are sent to a transaction are pending in their
group until it ends.

Each public method obeys one of Kafka's requests, by what is true when the request arrives. A request names its epoch,
but not its transaction. So a late one, of an earlier transaction of the current epoch, is taken for one of the open
transaction; if none is open, `add` begins one.

The end of a transaction is decided before everybody knows it: as with Kafka, its markers may reach the logs, and its
offsets the group, a while after the producer has been told that it is done.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple, Protocol

from simulation.log import Message, PartitionLog

from stream_apple.errors import FencedError
from stream_apple.stream.log.ports import AbortableError, Committed


class Producer(NamedTuple):
    """One holder of a transactional id."""

    transactional_id: str
    epoch: int


class Participant(Protocol):
    """A partition's log, or a group: what takes part in a transaction learns how it ends."""

    def mark(self, transaction: int, *, committed: bool) -> None:
        """The transaction has ended: what belongs to it becomes valid, or never does."""
        ...


class OffsetStore(Participant, Protocol):
    """Where a group keeps its committed offsets."""

    def prepare(self, transaction: int, offsets: Mapping[int, Committed]) -> None:
        """Note offsets that become valid if the transaction is committed."""
        ...


@dataclass
class _Transaction:
    number: int
    participants: list[Participant] = field(default_factory=list)


class Coordinator:
    """Epochs of producers, and open transactions. `lags` says whether the markers of one that ends now come late."""

    def __init__(self) -> None:
        self.lags: Callable[[], bool] = lambda: False
        self._ending: dict[str, tuple[_Transaction, bool]] = {}
        self._epochs: dict[str, int] = {}
        self._open: dict[str, _Transaction] = {}
        self._ended: dict[str, bool] = {}  # whether the current epoch's latest transaction was committed
        self._timed_out: set[Producer] = set()
        self._written: dict[tuple[Producer, PartitionLog], list[int]] = {}
        self._numbers = count(1)

    def init(self, transactional_id: str) -> Producer:
        """Begin a new epoch: the previous one is fenced, and its open transaction aborted (InitProducerId)."""
        self._end(transactional_id, committed=False)
        self._ended.pop(transactional_id, None)
        self._epochs[transactional_id] = self._epochs.get(transactional_id, -1) + 1
        return Producer(transactional_id, self._epochs[transactional_id])

    def check(self, producer: Producer) -> None:
        """FencedError if there is a newer epoch; AbortableError if it began because a transaction took too long.

        Kafka's answer is the same for both, but a client knows for how long its transaction has been open.
        """
        if producer in self._timed_out:
            raise AbortableError(f"{producer.transactional_id}: open for longer than transaction.timeout.ms (_FENCED)")
        if self._epochs[producer.transactional_id] != producer.epoch:
            raise FencedError(f"{producer.transactional_id}: there is a newer producer with this id (_FENCED)")

    def add(self, producer: Producer, participant: Participant) -> None:
        """Add to the open transaction, or begin one (AddPartitionsToTxn, AddOffsetsToTxn)."""
        self.check(producer)
        # The next transaction of a producer waits for the end of the one before.
        self._settle(producer.transactional_id)
        if producer.transactional_id not in self._open:
            self._open[producer.transactional_id] = _Transaction(next(self._numbers))
        participants = self._open[producer.transactional_id].participants
        if participant not in participants:
            participants.append(participant)

    def append(self, producer: Producer, log: PartitionLog, message: Message, sequence: int | None = None) -> int:
        """The offset of a record in the open transaction (Produce).

        sequence  how many records of this epoch the log has before this one; None: as many as it has now. A record
                  that the log has already is not written again.
        """
        self.check(producer)
        written = self._written.setdefault((producer, log), [])
        if sequence is not None and sequence < len(written):
            return written[sequence]
        transaction = self._with(producer, log)
        if sequence is not None and sequence > len(written):
            raise AbortableError(f"{log.topic}-{log.number}: record {len(written)} is missing (OUT_OF_ORDER)")
        written.append(log.append(message, transaction.number))
        return written[-1]

    def prepare(self, producer: Producer, store: OffsetStore, offsets: Mapping[int, Committed]) -> None:
        """Have the open transaction commit offsets (TxnOffsetCommit)."""
        self.check(producer)
        store.prepare(self._with(producer, store).number, offsets)

    def end(self, producer: Producer, *, committed: bool) -> None:
        """Commit or abort the open transaction; it may have ended before, in the same way (EndTxn)."""
        self.check(producer)
        transactional_id = producer.transactional_id
        if transactional_id in self._open:
            self._end(transactional_id, committed=committed)
            self._ended[transactional_id] = committed
        elif self._ended.get(transactional_id) is not committed:
            raise AbortableError(f"{transactional_id}: no transaction is open (INVALID_TXN_STATE)")

    def time_out(self, transaction: int) -> None:
        """Abort a transaction as if it had been open for too long; its epoch ends."""
        for transactional_id, opened in list(self._open.items()):
            if opened.number == transaction:
                self._timed_out.add(Producer(transactional_id, self._epochs[transactional_id]))
                self.init(transactional_id)

    def settle(self) -> None:
        """All markers that were late have arrived."""
        for transactional_id in list(self._ending):
            self._settle(transactional_id)

    def open_ids(self) -> dict[str, int]:
        """Transactional id -> its open transaction."""
        return {transactional_id: opened.number for transactional_id, opened in self._open.items()}

    def _with(self, producer: Producer, participant: Participant) -> _Transaction:
        transaction = self._open.get(producer.transactional_id)
        if transaction is None or participant not in transaction.participants:
            raise AbortableError(f"{producer.transactional_id}: not in the transaction (INVALID_TXN_STATE)")
        return transaction

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
        for participant in ended.participants:
            participant.mark(ended.number, committed=committed)
