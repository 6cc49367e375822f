"""The life of a loop: it starts, iterates until it is asked to stop, commits its work, and closes its clients."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

import structlog

from stream_apple.stream.log.ports import nothing_to_abort
from stream_apple.stream.loop.member_watchers import LoopHealth

ASSIGNMENT_SLOW_S = 10.0
"""A join that takes longer waits for somebody, as a rule for the session of a member that has just stopped."""

_log = structlog.get_logger()


class MemberLoop(ABC):
    """A member of a consumer group. `run` is called once and lasts its whole life; a signal handler may call `stop`."""

    def __init__(self, health: LoopHealth, now: Callable[[], float] = time.monotonic) -> None:
        self._health = health
        self._now = now
        self._stopping = False
        self._say_unassigned_at: float | None = None

    def stop(self) -> None:
        """Ask `run` to end: it finishes its iteration, commits what there is to commit, and returns."""
        self._stopping = True
        self._health.leave()

    def run(self) -> None:
        """Work until `stop`; StreamAppleError if the loop can't go on. Closing aborts what was not committed."""
        try:
            with nothing_to_abort():
                self.start()
            while not self._stopping:
                self.iterate()
            self.drain()
        except BaseException as error:
            _log.error("stopping", error=str(error), kind=type(error).__name__)
            raise
        finally:
            self._health.leave()
            self.close()

    def _say_if_unassigned(self, *, assigned: bool) -> None:
        """Log, once each time, that the group has assigned no partitions for ASSIGNMENT_SLOW_S; `assigned`: it has."""
        if assigned:
            self._say_unassigned_at = None
        elif self._say_unassigned_at is None:
            self._say_unassigned_at = self._now() + ASSIGNMENT_SLOW_S
        elif (over_s := self._now() - self._say_unassigned_at) >= 0:
            self._say_unassigned_at = math.inf
            _log.info("assignment_awaited", seconds=round(ASSIGNMENT_SLOW_S + over_s, 3))

    @abstractmethod
    def start(self) -> None:
        """Join the group; ConfigurationError if a topic has another number of partitions than is needed."""

    @abstractmethod
    def iterate(self) -> None:
        """Do once all that is due."""

    @abstractmethod
    def drain(self) -> None:
        """Commit the work that has begun, after the last iteration."""

    @abstractmethod
    def close(self) -> None:
        """Close all clients, which aborts an open transaction. It raises nothing: one failure must not hide another."""
