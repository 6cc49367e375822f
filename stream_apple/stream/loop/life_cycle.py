"""The life of a loop: it starts, iterates until it is asked to stop, commits what it has, and is closed."""

from abc import ABC, abstractmethod
from typing import Protocol

import structlog

_log = structlog.get_logger()


class Leaver(Protocol):
    """Answers probes about a loop."""

    def leave(self) -> None:
        """The loop ends. Signal handlers call this, too."""
        ...


class MemberLoop(ABC):
    """A member of a consumer group. `run` is its life, once; `stop` may be called from a signal handler."""

    def __init__(self, health: Leaver) -> None:
        self._health = health
        self._stopping = False

    def stop(self) -> None:
        """Finish the iteration in hand, commit what there is to commit, and leave."""
        self._stopping = True
        self._health.leave()

    def run(self) -> None:
        """Work until `stop`; StreamAppleError if going on makes no sense. What was not committed is aborted."""
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

    @abstractmethod
    def start(self) -> None:
        """Join the group; ConfigurationError if a topic is not as needed."""

    @abstractmethod
    def iterate(self) -> None:
        """Do all that is due, once."""

    @abstractmethod
    def drain(self) -> None:
        """Commit what is in hand."""

    @abstractmethod
    def close(self) -> None:
        """Close all clients. An open transaction is aborted by that: one failure must not hide another."""
