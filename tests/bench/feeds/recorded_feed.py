# ruff: noqa: ARG002  the port has more arguments than a recording needs
"""A broker that is elsewhere: its records are here already, and what is sent to it costs next to nothing."""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

sys.path.append(str(Path(__file__).parents[2]))

from support.records import FakeRecord

from stream_apple.stream.log.ports import Assignment, Committed, Header, LogRange, Record

_FAR, _NOW_MS = 1 << 40, 1_700_000_000_000


class StoredReader:
    """Reads on in a list, from a place in it."""

    def __init__(self, messages: Sequence[Record], at: int) -> None:
        self.position = at
        self.log_end = len(messages)
        self._messages = messages

    def fetch(self, limit: int, _timeout_s: float) -> Sequence[Record]:
        """The next ones."""
        found = self._messages[self.position : self.position + limit]
        self.position += len(found)
        return found

    def close(self) -> None:
        """Nothing is held."""


class RecordedFeed:
    """The broker port for one worker that owns all partitions.

    batches  what each fetch gives

    offsets   what is committed
    models    the models topic, by partition
    """

    def __init__(self, batches: Iterator[Sequence[Record]], partitions: int) -> None:
        self.offsets: dict[int, Committed] = {}
        self.models: dict[int, list[FakeRecord]] = defaultdict(list)
        self._batches = batches
        self._partitions = partitions
        self._assignment: Assignment | None = None
        self._paused: set[int] = set()
        self._written: list[tuple[Callable[[int], None], int]] = []

    def partition_count(self, topic: str) -> int:
        """The same for all topics."""
        return self._partitions

    def join(self, assignment: Assignment) -> None:
        """Assigned in the next fetch."""
        self._assignment = assignment

    def rejoin(self) -> None:
        """Nothing fails here."""
        raise NotImplementedError

    def fetch(self, limit: int, timeout_s: float) -> Sequence[Record]:
        """The assignment first; then the next batch, whatever its size."""
        self.flush()
        if self._assignment is not None:
            assignment, self._assignment = self._assignment, None
            starts = assignment.assigned(range(self._partitions))
            self._paused = {number for number, start in starts.items() if start.paused}
            return ()
        return () if self._paused else next(self._batches, ())

    def pause(self, partition: int, offset: int) -> None:
        """Nothing is merged here."""
        raise NotImplementedError

    def committed_now(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """Nothing is merged here."""
        raise NotImplementedError

    def resume(self, partition: int) -> None:
        """Deliver it too."""
        self._paused.discard(partition)

    def decided(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """What this feed has been told."""
        return {number: self.offsets.get(number) for number in partitions}

    def log_range(self, topic: str, partition: int) -> LogRange:
        """The models that are kept, no predictions, and examples without an end."""
        ends = {"models": len(self.models[partition]), "predictions": 0}
        return LogRange(0, ends.get(topic, _FAR))

    def reader(self, topic: str, partition: int, offset: int) -> StoredReader:
        """Of the models topic."""
        return StoredReader(self.models[partition], offset)

    @property
    def undecided(self) -> Self:
        """All is decided."""
        return self

    def backlog(self, partition: int) -> int:
        """Not known."""
        return -1

    def begin(self) -> None:
        """Everything is kept."""

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
        """Keep parts of snapshots; nobody takes the rest."""
        if on_written is not None:
            log = self.models[partition]
            self._written.append((on_written, len(log)))
            log.append(FakeRecord(partition, len(log), value, _NOW_MS, key))

    def send_all(
        self,
        topic: str,
        partition: int,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps_ms: Sequence[int],
    ) -> None:
        """Nobody takes predictions."""

    def flush(self) -> None:
        """All is written."""
        written, self._written = self._written, []
        for on_written, offset in written:
            on_written(offset)

    def commit(self, offsets: Mapping[int, Committed]) -> None:
        """Remember how far it is."""
        self.offsets.update(offsets)

    def abort(self) -> None:
        """Nothing fails here."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing is held."""
