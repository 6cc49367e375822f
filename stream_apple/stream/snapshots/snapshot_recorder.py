"""What the writing and reading of snapshots tell whoever measures them: calls on the loop's thread."""

from typing import Protocol

from stream_apple.stream.partitions.partition import Partition


class SnapshotRecorder(Protocol):
    """Measures how large snapshots are and how long they take."""

    def saved(self, partition: Partition, size: int, seconds: float) -> None:
        """A snapshot of `size` bytes is written, which took `seconds`."""
        ...

    def restored(self, seconds: float) -> None:
        """A snapshot was read back, which took `seconds`."""
        ...
