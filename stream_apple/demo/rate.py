"""Measures how fast a count grows."""

from collections import deque


class Rate:
    """Measures how fast a count grows, over the last two seconds."""

    _SPAN_S = 2.0

    def __init__(self) -> None:
        self._moments: deque[tuple[float, int]] = deque()

    def after(self, now: float, count: int) -> float:
        """Return how much the count has grown per second, given its value `now`; 0 at first."""
        self._moments.append((now, count))
        while self._moments[0][0] < now - self._SPAN_S:
            self._moments.popleft()
        then, before = self._moments[0]
        return (count - before) / (now - then) if now > then else 0.0
