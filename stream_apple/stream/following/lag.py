"""How far a model is behind an end that moves, in offsets and in seconds."""

import time
from collections import deque
from collections.abc import Callable

_MOST = 1_000  # samples; beyond that, every second one is dropped


class Lag:
    """Measures how far a model is behind an end that is reported now and then; `now` returns monotonic seconds.

    The lag in seconds is the time since the newest report whose end the model has reached. So it grows while no end is
    reported, as records may have come since. It is infinite before the first reported end is reached.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._ends: deque[tuple[float, int]] = deque()  # time of the report, and the end, both ascending
        self._end = 0
        self._at = -1
        self._reached = float("-inf")

    def tell(self, end: int) -> None:
        """Report where the end is now."""
        if end < self._end:  # the log has been made anew
            self._ends.clear()
        self._end = end
        if self._at >= end:
            self._reached = self._now()
        elif not self._ends or self._ends[-1][1] < end:
            self._ends.append((self._now(), end))
            if len(self._ends) > _MOST:
                self._ends = deque(list(self._ends)[::2])

    def reach(self, at: int) -> None:
        """Note that everything before this offset has been learned."""
        self._at = at
        while self._ends and self._ends[0][1] <= at:
            self._reached = max(self._reached, self._ends.popleft()[0])

    @property
    def records(self) -> int:
        """Return the offsets between the model and the last reported end."""
        return max(self._end - self._at, 0) if self._at >= 0 else self._end

    @property
    def seconds(self) -> float:
        """Return the seconds since the newest report whose end has been reached."""
        return self._now() - self._reached

    @property
    def waited_s(self) -> float:
        """Return for how many seconds the first end that is not reached has been known; 0 if there is none."""
        try:
            told, _ = self._ends[0]
        except IndexError:  # a test for emptiness would not do, as another thread may empty it after that
            return 0.0
        return self._now() - told
