"""The life of a loop: it starts, iterates until it is asked to stop, commits its work, and closes its clients."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

import structlog

ASSIGNMENT_LATE_S = 10.0
"""A join that takes longer waits for somebody, as a rule for the session of a member that has just stopped."""

_log = structlog.get_logger()


class Leaver(Protocol):
    """Learns that a loop ends."""

    def leave(self) -> None:
        """Note that the loop ends. Signal handlers call this, too."""
        ...


class MemberLoop(ABC):
    """A member of a consumer group. `run` is called once and lasts its whole life; a signal handler may call `stop`."""

    def __init__(self, health: Leaver, now: Callable[[], float] = time.monotonic) -> None:
        self._health = health
        self._now = now
        self._stopping = False
        self._unassigned_since: float | None = None
        self._is_said = False

    def stop(self) -> None:
        """Ask `run` to end: it finishes its iteration, commits what there is to commit, and returns."""
        self._stopping = True
        self._health.leave()

    def run(self) -> None:
        """Work until `stop`; StreamAppleError if the loop can't go on. Closing aborts what was not committed."""
        try:
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
        """Log, once each time, that the group has assigned no partitions for ASSIGNMENT_LATE_S; `assigned`: it has."""
        if assigned:
            self._unassigned_since, self._is_said = None, False
        elif self._unassigned_since is None:
            self._unassigned_since = self._now()
        elif not self._is_said and (seconds := self._now() - self._unassigned_since) >= ASSIGNMENT_LATE_S:
            self._is_said = True
            _log.info("assignment_awaited", seconds=round(seconds, 3))

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
