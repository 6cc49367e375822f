"""How far a model is behind an end that moves, in offsets and in seconds."""

import time
from collections import deque
from collections.abc import Callable

_MOST = 1_000  # samples; then every second one is left out


class Lag:
    """Measures the distance to an end that is told now and then. `now` is monotonic seconds.

    In seconds, it is the time since the newest moment whose end the model has reached by now: it grows while nothing is
    told, for nobody knows then what there is. Infinite before the first end has been reached.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._ends: deque[tuple[float, int]] = deque()  # when it was told, and the end, both ascending
        self._end = 0
        self._at = -1
        self._reached = float("-inf")

    def tell(self, end: int) -> None:
        """Take note of where the end is at this moment."""
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
        """Take note that all before this offset has been learned."""
        self._at = at
        while self._ends and self._ends[0][1] <= at:
            self._reached = max(self._reached, self._ends.popleft()[0])

    @property
    def records(self) -> int:
        """Offsets between the model and the end, as it was told last."""
        return max(self._end - self._at, 0) if self._at >= 0 else self._end

    @property
    def seconds(self) -> float:
        """Seconds since the newest moment at which there was no more than what has been learned by now."""
        return self._now() - self._reached

    @property
    def waited_s(self) -> float:
        """For how many seconds the first end that has not been reached has been known; 0 if there is none."""
        try:
            told, _ = self._ends[0]
        except IndexError:  # asked first whether there is one, another thread might reach it meanwhile
            return 0.0
        return self._now() - told
