"""Turns on a model: one thread learns on it, others score by it, and nobody sees it half changed.

One lock, and not a second copy of the model: a copy would have to learn everything once more, and of one core there is
not so much to spare; whoever asks waits for one portion of learning at most.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

GRACE_S = 0.0003
"""So long after an answer the next question of a server that is busy has come to the model."""
_PAUSE_S = 0.0001


class Turns:
    """Gives turns on one model. `now` is monotonic seconds.

    A plain lock would go to and fro between a question and a portion of learning for as long as there is something to
    learn, and questions that come closer together than that would pile up. So who learns lets questions go first, for
    a while.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep) -> None:
        self._now = now
        self._sleep = sleep
        self._lock = threading.Lock()
        self._asking: deque[None] = deque()  # one for each question: a number would need a lock of its own
        self._answered_at = float("-inf")

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Have the model as it is while this lasts."""
        self._asking.append(None)
        try:
            with self._lock:
                yield
        finally:
            self._answered_at = self._now()
            self._asking.pop()

    @contextmanager
    def learning(self, patience_s: float) -> Iterator[None]:
        """Have the model to change it; questions go first for so long."""
        until = self._now() + patience_s
        while (now := self._now()) < until and (self._asking or now - self._answered_at < GRACE_S):
            self._sleep(_PAUSE_S)
        with self._lock:
            yield
