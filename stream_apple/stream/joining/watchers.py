"""What a joiner's loop tells those who watch it; all calls are on its thread, so they must cost next to nothing."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from stream_apple.stream.joining.joined_partition import JoinedPartition
from stream_apple.stream.joining.partition_join import Joined
from stream_apple.stream.loop.watchers import LoopHealth, MemberRecorder


class JoinRecorder(MemberRecorder, Protocol):
    """Measures what a joiner does, for metrics."""

    def iterated(self, owned: Mapping[int, JoinedPartition]) -> None:
        """Note that an iteration of the loop is over."""

    def joined(self, partition: int, joined: Joined) -> None:
        """Note that the results of a step of the partition have been sent."""


class JoinWatchers(NamedTuple):
    """Holds all who watch one joiner: who measures its loop, and who answers probes about it."""

    metrics: JoinRecorder
    health: LoopHealth
