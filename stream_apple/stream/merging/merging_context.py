"""What merging is given of its worker, and what it reports to metrics."""

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from stream_apple.learners.port import LearnerOptions
from stream_apple.stream.log.ports import Broker
from stream_apple.stream.model.partition_model import ModelFactory
from stream_apple.stream.positions.lineage import Provenance
from stream_apple.stream.positions.merge_note import BoundaryNote
from stream_apple.stream.snapshots.merge_messages import MergeManifest


class BoundaryRecorder(Protocol):
    """Counts what becomes of partitions at the ends of rounds; all calls are on the loop's thread."""

    def merged(self, merge: MergeManifest, seconds: float, read_bytes: int, written_bytes: int) -> None:
        """Note that this worker has made a merge, which took `seconds` from the round's closing to the commit."""

    def noted(self, partition: int, boundary: BoundaryNote | None) -> None:
        """Note the newest committed boundary of a partition that has just been assigned; None: there is none."""

    def held(self, partition: int, number: int) -> None:
        """Note that the partition waits at the end of the round `number`."""

    def saw(self, merge: MergeManifest) -> None:
        """Note that a partition of this worker has adopted this merge, whichever worker made it."""

    def went_on(self, partition: int, outcome: str, seconds: float) -> None:
        """Note that the partition goes on after a wait of `seconds`.

        outcome  "adopted": with a merge that it is in; "late": with a merge that it is not in; "skipped": without one
        """

    def dropped(self, partitions: Iterable[int]) -> None:
        """Note that the worker does not own these partitions any more, or recovers them anew."""


class MergingContext(NamedTuple):
    """Holds what merging needs of a worker.

    new_model  makes a model that has learned nothing
    recorder   is told what happens
    threads    how many merge at once
    """

    broker: Broker
    provenance: Provenance
    options: LearnerOptions
    new_model: ModelFactory
    recorder: BoundaryRecorder
    now: Callable[[], float] = time.monotonic
    threads: int = 1
