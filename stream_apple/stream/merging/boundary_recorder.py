"""What merging tells whoever counts it: the calls of a recorder, all on the loop's thread."""

from collections.abc import Iterable
from typing import Protocol

from stream_apple.stream.merging.leader import MergeSummary
from stream_apple.stream.positions.merge_note import BoundaryNote
from stream_apple.stream.snapshots.merge_messages import MergeManifest


class BoundaryRecorder(Protocol):
    """Counts what becomes of boundaries."""

    def merged(self, summary: MergeSummary) -> None:
        """This worker's leader has merged, and it is committed."""
        ...

    def noted(self, partition: int, boundary: BoundaryNote | None) -> None:
        """The partition has come to us, and this is its newest boundary by what is committed."""
        ...

    def held(self, partition: int, number: int) -> None:
        """The partition waits at the end of this round."""
        ...

    def saw(self, merge: MergeManifest) -> None:
        """A partition here has adopted this merge, whoever has made it."""
        ...

    def went_on(self, partition: int, outcome: str, seconds: float) -> None:
        """The partition goes on after so long: it has "adopted" a merge that it is in, "late" another, or "skipped"."""
        ...

    def dropped(self, partitions: Iterable[int]) -> None:
        """The worker does not own these partitions any more, or is to find them anew."""
        ...
