"""One life of a group's member in a simulation: the real loop, taken iteration by iteration, until it ends."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

from simulation.cluster import MemoryCluster
from simulation.faults import MADE_TO_FAIL, CrashError, Fault, FaultyBroker
from simulation.memory_broker import Member, MemoryBroker

from stream_apple.errors import StreamAppleError
from stream_apple.stream.loop.life_cycle import MemberLoop

Delivery = Callable[[int], int]
"""Of so many records that wait, how many a fetch returns."""


def at_once(waiting: int) -> int:
    """Deliver all."""
    return waiting


class End(StrEnum):
    """How a process ended."""

    CRASHED = "crashed"
    LEFT = "left"  # with an error
    STOPPED = "stopped"  # as it was asked to


class Ending(NamedTuple):
    """How a process ended; `unprovoked` if neither a fault nor another member explains the error it left with."""

    how: End
    error: StreamAppleError | None = None
    unprovoked: bool = False


class Unmeasured:
    """In place of metrics, which cost more than all the rest of a small run: whatever is told, nothing is counted."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


class MemberProcess:
    """A process with an identity; several may have the same. Whoever inherits makes the loop, on `broker`."""

    loop: MemberLoop

    def __init__(
        self,
        cluster: MemoryCluster,
        member: Member,
        topic: str,
        faults: Sequence[Fault] = (),
        delivery: Delivery = at_once,
    ) -> None:
        self.memory = MemoryBroker(cluster, member, topic, delivery=delivery)
        self.broker = FaultyBroker(self.memory, faults)
        self._ending: Ending | None = None
        self._started = False

    @property
    def instance(self) -> str:
        """Its identity in the group."""
        return self.memory.who.instance

    @property
    def ended(self) -> End | None:
        """How it ended; None while it lives."""
        return None if self._ending is None else self._ending.how

    @property
    def error(self) -> StreamAppleError | None:
        """What it left with."""
        return None if self._ending is None else self._ending.error

    @property
    def unprovoked(self) -> bool:
        """Whether it left with an error that nothing explains."""
        return self._ending is not None and self._ending.unprovoked

    def step(self) -> None:
        """Start, or iterate once. What would end a life cycle ends the process."""
        assert self.ended is None
        self._live(self.loop.iterate if self._started else self.loop.start)
        self._started = True

    def stop(self) -> None:
        """Be asked to stop: the last commit, then leave."""
        assert self.ended is None
        self._live(self.loop.drain if self._started else lambda: None)
        if self.ended is None:
            self._close(Ending(End.STOPPED))

    def kill(self) -> None:
        """Nothing of it runs on, and nobody is told."""
        self._ending = Ending(End.CRASHED)
        self.broker.dead = True  # what is collected of it makes no calls

    def _live(self, part: Callable[[], None]) -> None:
        try:
            part()
        except CrashError:
            self._ending = Ending(End.CRASHED)
        except StreamAppleError as error:
            unprovoked = self.memory.in_good_standing and MADE_TO_FAIL not in str(error)
            self._close(Ending(End.LEFT, error, unprovoked))

    def _close(self, ending: Ending) -> None:
        self._ending = ending
        try:
            self.loop.close()
        except CrashError:
            self._ending = Ending(End.CRASHED)
