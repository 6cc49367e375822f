"""What a loop tells those who watch it; all calls are on its thread, so they must cost next to nothing.

The loop knows these ports alone: who measures, answers probes or remembers is made elsewhere, and handed to it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from stream_apple.core.learner.parent_selection import Census
from stream_apple.stream.log.ports import Record
from stream_apple.stream.model.partition_model import BatchResult
from stream_apple.stream.model.time_budget import Phase, TimeBudget
from stream_apple.stream.partitions.partition import Partition, State
from stream_apple.stream.partitions.recovery_progress import RecoveryLeft
from stream_apple.stream.snapshots.snapshot_recorder import SnapshotRecorder


class MemberRecorder(Protocol):
    """Measures what any member of a consumer group does that writes transactions."""

    def committed(self, seconds: float) -> None:
        """The loop has committed a transaction, which took `seconds`."""
        ...

    def aborted(self) -> None:
        """The loop has aborted a transaction."""
        ...

    def rebalanced(self, event: str) -> None:
        """The group has told it something: assigned, revoked or lost."""
        ...


class LoopRecorder(SnapshotRecorder, MemberRecorder, Protocol):
    """Measures what a loop does, for metrics."""

    def counted(self, partitions: int) -> None:
        """The examples topic has so many partitions."""
        ...

    def iterated(
        self,
        budget: TimeBudget[Phase],
        owned: Mapping[int, Partition],
        backlog: Callable[[int], int],
        left: Callable[[Partition], RecoveryLeft],
    ) -> None:
        """An iteration of the loop is over; `backlog` and `left` may be asked about each partition."""
        ...

    def processed(self, partition: Partition, result: BatchResult) -> None:
        """A batch of the partition has been learned and sent."""
        ...

    def counted_monomials(self, partition: Partition, census: Census) -> None:
        """The monomials of a model that has come to this worker have been counted."""
        ...

    def entered(self, partition: Partition, state: State) -> None:
        """The partition has changed its state."""
        ...


class LoopHealth(Protocol):
    """Knows from the loop's calls whether it still turns."""

    def iterated(self, partitions: Iterable[Partition] | None, learning_s: float = 0.0) -> None:
        """An iteration of the loop is over; `partitions` are those we own, None while the group has not said which.

        learning_s  for so long a thread has been busy with one batch, the longest of all
        """
        ...

    def leave(self) -> None:
        """The loop ends. Signal handlers call this, too."""
        ...


class Observer(Protocol):
    """Sees the records that a loop has learned."""

    def processed(self, partition: Partition, records: Sequence[Record], result: BatchResult) -> None:
        """A batch of the partition has been learned and sent; there is no record where an offset has none."""
        ...


class Watchers(Protocol):
    """Holds all who watch one loop."""

    @property
    def metrics(self) -> LoopRecorder:
        """Return who measures what the loop does."""
        ...

    @property
    def health(self) -> LoopHealth:
        """Return who answers probes about the loop."""
        ...

    @property
    def observer(self) -> Observer:
        """Return who remembers records that were learned."""
        ...
