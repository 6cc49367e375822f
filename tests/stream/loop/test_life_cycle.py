"""A loop's life: what is called in which order, whatever happens."""

from collections.abc import Callable

import pytest
from structlog.typing import EventDict
from support.clock import Clock

from stream_apple.errors import BrokerError
from stream_apple.stream.log.ports import AbortableError
from stream_apple.stream.loop.life_cycle import ASSIGNMENT_SLOW_S, MemberLoop


class FakeLoop(MemberLoop):
    """Writes down what it is told; `effects` are what its iterations do, one after the other."""

    def __init__(self, *effects: Callable[[], None]) -> None:
        self.clock = Clock(0.0)
        super().__init__(self, self.clock)
        self.told: list[str] = []
        self.effects = list(effects)

    def start(self) -> None:
        """Join."""
        self.told.append("start")

    def iterate(self) -> None:
        """Have the next effect."""
        self.told.append("iterate")
        self.effects.pop(0)()

    def drain(self) -> None:
        """Commit."""
        self.told.append("drain")

    def close(self) -> None:
        """Close."""
        self.told.append("close")

    def iterated(self, partitions: object, learning_s: float = 0.0) -> None:
        """Ignore an iteration."""

    def leave(self) -> None:
        """Answer probes for the last time."""
        self.told.append("leave")


def test_a_stop_lets_the_iteration_end_and_drains() -> None:
    """Probes know of the stop at once."""
    loop = FakeLoop(lambda: None)
    loop.effects.append(loop.stop)
    loop.run()
    assert loop.told == ["start", "iterate", "iterate", "leave", "drain", "leave", "close"]


def test_a_stop_before_the_start() -> None:
    """It joins and leaves, without an iteration."""
    loop = FakeLoop()
    loop.stop()
    loop.run()
    assert loop.told == ["leave", "start", "drain", "leave", "close"]


def test_doubt_before_the_first_iteration_ends_it() -> None:
    """There is nothing to abort, and nobody yet who would start over."""

    class Doubtful(FakeLoop):
        def start(self) -> None:
            raise AbortableError("no coordinator")

    loop = Doubtful()
    with pytest.raises(BrokerError, match="no coordinator"):
        loop.run()
    assert loop.told == ["leave", "close"]


def test_an_error_is_logged_and_nothing_more_is_committed(log_events: list[EventDict]) -> None:
    """It is closed all the same, and whoever runs it gets the error."""

    def fail() -> None:
        raise BrokerError("made to fail")

    loop = FakeLoop(fail)
    with pytest.raises(BrokerError, match="made to fail"):
        loop.run()
    assert loop.told == ["start", "iterate", "leave", "close"]
    assert log_events == [
        {"event": "stopping", "log_level": "error", "error": "made to fail", "kind": "BrokerError"},
    ]


def test_who_waits_for_partitions_says_so(log_events: list[EventDict]) -> None:
    """Once each time that the group assigns none for ten seconds, and not where it assigns them sooner."""
    loop = FakeLoop()
    for assigned, seconds in ((False, ASSIGNMENT_SLOW_S - 1), (True, 100.0), (False, 25.0), (True, 1.0), (False, 11.5)):
        for _ in range(int(seconds * 2)):
            loop._say_if_unassigned(assigned=assigned)
            loop.clock.now += 0.5
    waited = {"event": "assignment_awaited", "log_level": "info", "seconds": ASSIGNMENT_SLOW_S}
    assert log_events == [waited, waited]
