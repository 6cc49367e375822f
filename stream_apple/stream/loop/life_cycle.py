"""The life of a loop: it starts, iterates until it is asked to stop, commits what it has, and is closed."""

from typing import Protocol

import structlog

_log = structlog.get_logger()


class Leaver(Protocol):
    """Answers probes about a loop."""

    def leave(self) -> None:
        """The loop ends. Signal handlers call this, too."""
        ...


class IteratedLoop(Protocol):
    """A loop, as a life is made of it."""

    def start(self) -> None:
        """Join the group; ConfigurationError if a topic is not as needed."""
        ...

    def iterate(self) -> None:
        """Do all that is due, once."""
        ...

    def drain(self) -> None:
        """Commit what is in hand."""
        ...

    def close(self) -> None:
        """Close all clients. An open transaction is aborted by that: one failure must not hide another."""
        ...


class LifeCycle:
    """Runs one loop, once. `stop` may be called from a signal handler."""

    def __init__(self, health: Leaver) -> None:
        self._health = health
        self._stopping = False

    def stop(self) -> None:
        """Have the loop drained after the iteration that it is in."""
        self._stopping = True
        self._health.leave()

    def run(self, loop: IteratedLoop) -> None:
        """Let the loop work until `stop`; StreamAppleError if going on makes no sense."""
        try:
            loop.start()
            while not self._stopping:
                loop.iterate()
            loop.drain()
        except BaseException as error:
            _log.error("stopping", error=str(error), kind=type(error).__name__)
            raise
        finally:
            self._health.leave()
            loop.close()
