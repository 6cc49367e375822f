"""Where time goes: each moment of a thread belongs to exactly one phase."""

import time
from collections.abc import Iterable
from enum import StrEnum
from typing import Generic, TypeVar


class Phase(StrEnum):
    """Names what the loop is doing."""

    FETCH = "fetch"
    WAIT = "wait"  # for the threads that learn
    SEND = "send"
    SNAPSHOT = "snapshot"
    COMMIT = "commit"
    RESTORE = "restore"
    REBALANCE = "rebalance"


class Step(StrEnum):
    """Names what a thread is doing with a model."""

    DECODE = "decode"
    LEARN = "learn"
    GROW = "grow"
    ENCODE = "encode"


_Kind = TypeVar("_Kind", Phase, Step)


class TimeBudget(Generic[_Kind]):
    """Seconds spent in each phase since the start; their sum is the age of the budget."""

    def __init__(self, phases: Iterable[_Kind]) -> None:
        self.seconds: dict[_Kind, float] = dict.fromkeys(phases, 0.0)
        self._last = time.perf_counter()

    def lap(self, phase: _Kind) -> float:
        """Add the time since the last call to `phase`; return it, in seconds."""
        now = time.perf_counter()
        spent = now - self._last
        self.seconds[phase] += spent
        self._last = now
        return spent
