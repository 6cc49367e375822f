"""A log in memory whose group commits so many examples a second, for replicas that follow it."""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))

from support.records import FakeRecord

from stream_apple.stream.log.ports import Committed, LogRange, Record
from stream_apple.stream.positions.lineage import OffsetMetadata, Provenance

START_MS = 1_700_000_000_000
COMMIT_S = 0.5
"""As `worker.commit_interval` is by default: so long a replica has nothing to learn, and then all at once."""


class PacedLogs:
    """`Logs` of one partition, of payloads that come again and again; nothing is in it before `start`."""

    def __init__(self, provenance: Provenance, payloads: Sequence[bytes], rate: float) -> None:
        self._payloads = payloads
        self._rate = rate
        self._metadata = OffsetMetadata(provenance.lineage(0, 0), None).to_text()
        self._began: float | None = None

    def start(self) -> None:
        """Begin with the pace."""
        self._began = time.monotonic()

    @property
    def end(self) -> int:
        """What has been committed by now."""
        if self._began is None:
            return 0
        commits = int((time.monotonic() - self._began) / COMMIT_S)
        return int(commits * COMMIT_S * self._rate)

    def record(self, offset: int) -> Record:
        """The record at an offset."""
        return FakeRecord(0, offset, self._payloads[offset % len(self._payloads)], START_MS + offset // 20)

    def partition_count(self, topic: str) -> int:  # noqa: ARG002
        """One."""
        return 1

    def count_now(self) -> int:
        """One."""
        return 1

    def committed_now(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:  # noqa: ARG002
        """All that there is."""
        return {0: Committed(self.end, self._metadata)}

    decided = committed_now

    def log_range(self, topic: str, partition: int) -> LogRange:  # noqa: ARG002
        """All that there is; of other topics, nothing."""
        return LogRange(0, self.end)

    def reader(self, topic: str, partition: int, offset: int) -> "PacedReader":  # noqa: ARG002
        """Read the examples."""
        return PacedReader(self, offset)


class PacedReader:
    """`ports.Reader` of them."""

    def __init__(self, logs: PacedLogs, offset: int) -> None:
        self._logs = logs
        self.position = offset

    @property
    def log_end(self) -> int:
        """Where all ends that has been committed."""
        return self._logs.end

    def fetch(self, limit: int, timeout_s: float) -> Sequence[Record]:  # noqa: ARG002
        """What there is."""
        start, self.position = self.position, min(self.position + limit, self._logs.end)
        return [self._logs.record(offset) for offset in range(start, self.position)]

    def close(self) -> None:
        """Nothing to give back."""
