"""What merging reports to metrics: the calls of a recorder, all on the loop's thread."""

from collections.abc import Iterable
from typing import Protocol

from stream_apple.stream.merging.leader import MergeSummary
from stream_apple.stream.positions.merge_note import BoundaryNote
from stream_apple.stream.snapshots.merge_messages import MergeManifest


class BoundaryRecorder(Protocol):
    """Counts what becomes of partitions at the ends of rounds."""

    def merged(self, summary: MergeSummary) -> None:
        """Note that this worker has made a merge, and that it is committed."""
        ...

    def noted(self, partition: int, boundary: BoundaryNote | None) -> None:
        """Note the newest committed boundary of a partition that has just been assigned; None: there is none."""
        ...

    def held(self, partition: int, number: int) -> None:
        """Note that the partition waits at the end of the round `number`."""
        ...

    def saw(self, merge: MergeManifest) -> None:
        """Note that a partition of this worker has adopted this merge, whichever worker made it."""
        ...

    def went_on(self, partition: int, outcome: str, seconds: float) -> None:
        """Note that the partition goes on after a wait of `seconds`.

        outcome  "adopted": with a merge that it is in; "late": with a merge that it is not in; "skipped": without one
        """
        ...

    def dropped(self, partitions: Iterable[int]) -> None:
        """Note that the worker does not own these partitions any more, or recovers them anew."""
        ...
