"""One partition's log in memory: records and transaction markers at offsets, and what a read_committed reader sees.

open transaction     blocks: nothing at or above its first record is read (the last stable offset)
aborted transaction  its records are stepped over
marker               the commit or abort of a transaction takes an offset of its own, and is no record
compaction           below the last stable offset, only the newest committed record of a key stays
retention            records below an offset are gone; whoever needs them finds a gap
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from support.records import FakeRecord

from stream_apple.errors import GapError
from stream_apple.stream.log.ports import Header, LogRange


class Message(NamedTuple):
    """What a producer hands over; a negative time is none."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[Header, ...] = ()


class Entry(NamedTuple):
    """One offset in use: a record, or a marker if `record` is None. `transaction` is None for a plain record."""

    offset: int
    record: FakeRecord | None
    transaction: int | None


class PartitionLog:
    """Entries in offset order, and the fate of the transactions they belong to."""

    def __init__(self, topic: str, number: int) -> None:
        self.topic = topic
        self.number = number
        self.low = 0
        self.end = 0
        self._entries: list[Entry] = []
        self._open: dict[int, int] = {}
        self._aborted: set[int] = set()

    @property
    def stable(self) -> int:
        """The last stable offset: everything below it is decided."""
        return min(self._open.values(), default=self.end)

    @property
    def undecided(self) -> frozenset[int]:
        """The open transactions that have records here."""
        return frozenset(self._open)

    def range(self) -> LogRange:
        """As a read_committed client is told."""
        return LogRange(self.low, max(self.low, self.stable))

    def skip_to(self, offset: int) -> None:
        """Leave a hole: the next record gets `offset`."""
        assert offset >= self.end
        self.end = offset

    def append(self, message: Message, transaction: int | None = None) -> int:
        """The offset of a record added at the end."""
        # A text in a header is stored, and comes back, as bytes.
        headers = [(name, value.encode() if isinstance(value, str) else value) for name, value in message.headers]
        offset = self._take()
        record = FakeRecord(self.number, offset, message.value, message.timestamp_ms, message.key, headers or None)
        self._entries.append(Entry(offset, record, transaction))
        if transaction is not None:
            self._open.setdefault(transaction, offset)
        return offset

    def mark(self, transaction: int, *, committed: bool) -> None:
        """Decide a transaction's records."""
        self._entries.append(Entry(self._take(), None, transaction))
        self._open.pop(transaction, None)
        if not committed:
            self._aborted.add(transaction)

    def read(self, position: int, limit: int) -> tuple[list[FakeRecord], int]:
        """At most `limit` committed records from `position` on, and the position behind them; GapError if gone."""
        if not self.low <= position <= self.end:
            raise GapError(
                f"{self.topic}-{self.number}@{position}: expected the next record to be in the log, found the log "
                f"to be [{self.low}, {self.end})"
            )
        stable = self.stable
        found: list[FakeRecord] = []
        for entry in self._from(position):
            if entry.offset >= stable:
                break
            if entry.record is None or entry.transaction in self._aborted:
                continue
            if len(found) == limit:
                return found, found[-1].at + 1 if found else position
            found.append(entry.record)
        return found, max(position, stable)

    def entries(self) -> Sequence[Entry]:
        """All that is in the log, markers and what was aborted included."""
        return self._entries

    def committed(self) -> list[FakeRecord]:
        """Everything that a reader sees now."""
        return self.read(self.low, len(self._entries))[0]

    def compact(self) -> None:
        """Keep, below the last stable offset, the newest committed record of each key; markers stay."""
        stable = self.stable
        newest = {record.named: record.at for record in self.committed()}
        self._entries = [
            entry
            for entry in self._entries
            if entry.offset >= stable or entry.record is None or newest.get(entry.record.named) == entry.offset
        ]

    def delete_before(self, offset: int) -> None:
        """What retention does: the log begins at `offset` from now on."""
        self.low = max(self.low, min(offset, self.end))
        self._entries = list(self._from(self.low))

    def _from(self, position: int) -> Sequence[Entry]:
        return self._entries[bisect_left(self._entries, position, key=lambda entry: entry.offset) :]

    def _take(self) -> int:
        self.end += 1
        return self.end - 1
