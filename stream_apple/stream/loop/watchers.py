"""What a loop tells those who watch it; all calls are on its thread, so they must cost next to nothing.

The loop knows only these ports: metrics, health and the observer are made elsewhere, and handed to it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from stream_apple.learners.port import Census
from stream_apple.stream.log.ports import Record
from stream_apple.stream.loop.member_watchers import LoopHealth, MemberRecorder
from stream_apple.stream.model.partition_model import BatchResult
from stream_apple.stream.model.time_budget import Phase, TimeBudget
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.partitions.state import RecoveryLeft, State
from stream_apple.stream.snapshots.writer import SnapshotRecorder


class LoopRecorder(SnapshotRecorder, MemberRecorder, Protocol):
    """Measures what a loop does, for metrics."""

    def counted(self, partitions: int) -> None:
        """Note how many partitions the examples topic has."""

    def iterated(
        self,
        budget: TimeBudget[Phase],
        owned: Mapping[int, Partition],
        backlog: Callable[[int], int],
        left: Callable[[Partition], RecoveryLeft],
    ) -> None:
        """Note that an iteration of the loop is over; `backlog` and `left` may be asked about each partition."""

    def processed(self, partition: Partition, result: BatchResult) -> None:
        """Note that a batch of the partition has been learned and sent."""

    def counted_monomials(self, partition: Partition, census: Census) -> None:
        """Note how many monomials a model has that has come to this worker."""

    def entered(self, partition: Partition, state: State) -> None:
        """Note that the partition has begun `state`."""


class Observer(Protocol):
    """Sees the records that a loop has learned."""

    def processed(self, partition: Partition, records: Sequence[Record], result: BatchResult) -> None:
        """Take a batch of the partition that has been learned and sent; `records` is empty where an offset has none."""


class Watchers(NamedTuple):
    """Holds all who watch one loop: who measures it, who answers probes about it, and who sees what was learned."""

    metrics: LoopRecorder
    health: LoopHealth
    observer: Observer
