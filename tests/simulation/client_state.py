"""What a client in memory holds between two calls: messages that wait, its place in the group, its partitions."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from simulation.log import Message, PartitionLog

from stream_apple.stream.log.ports import Start

OnWritten = Callable[[int], None]


class Queued(NamedTuple):
    """A message on its way to a log, and who is told its offset."""

    log: PartitionLog
    message: Message
    on_written: OnWritten | None


class SendQueue:
    """Messages that wait in the client, and those whose sender is yet to be told their offset."""

    def __init__(self) -> None:
        self.waiting: list[Queued] = []
        self.written: list[tuple[OnWritten, int]] = []

    def clear(self) -> None:
        """Nothing waits any more, and nobody is told."""
        self.waiting.clear()
        self.written.clear()


class OpenTransaction:
    """What a client knows of its transaction.

    failed      why it can only be aborted
    added       the logs that the cluster has added to it
    resent      whether the client has sent any request of it more than once
    committing  whether the client has asked for its commit: it can't ask for the opposite any more
    """

    def __init__(self) -> None:
        self.failed: str | None = None
        self.added: set[PartitionLog] = set()
        self.resent = False
        self.committing = False


class Membership:
    """What a consumer knows of its place in the group."""

    def __init__(self) -> None:
        self.id: int | None = None
        self.generation = -1
        self.joining = False


class AssignedPartitions:
    """The consumer's partitions: where each stands, and which are held."""

    def __init__(self, starts: Mapping[int, Start]) -> None:
        self.positions = {number: start.offset for number, start in starts.items()}
        self.paused = {number for number, start in starts.items() if start.paused}
        self.turn = 0

    def in_turn(self) -> list[int]:
        """Those that are not held, each time another first."""
        numbers = [number for number in self.positions if number not in self.paused]
        self.turn += 1
        return [numbers[(index + self.turn) % len(numbers)] for index in range(len(numbers))]
