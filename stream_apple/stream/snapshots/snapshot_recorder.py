"""What writing and reading snapshots report to metrics: the calls of a recorder, all on the loop's thread."""

from typing import Protocol

from stream_apple.stream.partitions.partition import Partition


class SnapshotRecorder(Protocol):
    """Measures how large snapshots are and how long they take."""

    def saved(self, partition: Partition, size: int, seconds: float) -> None:
        """Note that a snapshot of `size` bytes is written, which took `seconds`."""

    def restored(self, seconds: float) -> None:
        """Note that a snapshot has been restored, which took `seconds`."""
