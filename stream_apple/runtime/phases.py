"""Where the loop's time goes: each moment of its thread belongs to exactly one phase."""

import time
from collections.abc import Callable
from enum import StrEnum


class Phase(StrEnum):
    """What the loop is doing."""

    FETCH = "fetch"
    DECODE = "decode"
    LEARN = "learn"
    GROW = "grow"
    ENCODE = "encode"
    SEND = "send"
    SNAPSHOT = "snapshot"
    COMMIT = "commit"
    RESTORE = "restore"
    REBALANCE = "rebalance"


Lap = Callable[[Phase], object]
"""Books the time since the last call on a phase."""


class TimeBudget:
    """Seconds spent in each phase since the start; their sum is the age of the loop."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(Phase, 0.0)
        self._last = time.perf_counter()

    def lap(self, phase: Phase) -> float:
        """Book the time since the last call on `phase`; returns the seconds booked."""
        now = time.perf_counter()
        spent = now - self._last
        self.seconds[phase] += spent
        self._last = now
        return spent
