"""What both loops, the worker's and the joiner's, report to those who watch them; `watchers.py` has the rest."""

from collections.abc import Iterable
from typing import Protocol

from stream_apple.stream.partitions.state import State


class MemberRecorder(Protocol):
    """Measures what the worker and the joiner both do: they write transactions, and are members of a group."""

    def committed(self, seconds: float) -> None:
        """Note that the loop has committed a transaction, which took `seconds`."""

    def aborted(self) -> None:
        """Note that the loop has aborted a transaction."""

    def rebalanced(self, event: str) -> None:
        """Note a rebalance of the group; `event` is assigned, revoked or lost."""


class OwnedPartition(Protocol):
    """A partition that a loop owns, as far as health needs it."""

    @property
    def number(self) -> int:
        """Return the partition's number."""

    @property
    def state(self) -> State:
        """Return the partition's state."""


class LoopHealth(Protocol):
    """Knows from a loop's calls whether the loop still iterates."""

    def iterated(self, partitions: Iterable[OwnedPartition] | None, learning_s: float = 0.0) -> None:
        """Note that an iteration is over; `partitions` are the loop's, None while the group has assigned none.

        learning_s  seconds for which a thread has been busy with one batch, the longest of all threads
        """

    def leave(self) -> None:
        """Note that the loop ends. Signal handlers call this, too."""
