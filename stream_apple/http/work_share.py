"""Bounds a thread to a share of a core: it must rest after work, so that no client can make it use more.

It shares the interpreter with the threads that learn from the stream, which come first.
"""

import time
from collections.abc import Callable


class WorkShare:
    """The bound of one thread, which asks `rest_s` after each piece of work.

    share    of a core, in the long run
    burst_s  seconds of work that need no rest after a quiet time
    used     seconds of work that the calling thread has done so far
    """

    def __init__(
        self,
        share: float,
        burst_s: float,
        used: Callable[[], float] = time.thread_time,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._share = share
        self._burst_s = burst_s
        self._used = used
        self._now = now
        self._credit_s = burst_s
        self._seen_s = 0.0
        self._at = now()

    def rest_s(self) -> float:
        """Return for how many seconds the thread has to rest now after its work, which is 0 most of the time."""
        now, used = self._now(), self._used()
        earned = min(self._burst_s, self._credit_s + self._share * (now - self._at))
        self._credit_s = earned - (used - self._seen_s)
        self._at, self._seen_s = now, used
        return max(0.0, -self._credit_s / self._share)
