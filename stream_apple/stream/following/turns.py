"""Turns on a model: one thread has it learn, others score by it, and no one sees it while it changes.

There is one lock, and no second copy of the model: a copy would have to learn everything once more, for which one core
may not suffice. A question waits for one portion of learning at most.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

GRACE_S = 0.0003
"""Seconds after an answer within which a busy server asks its next question."""
_PAUSE_S = 0.0001


class Turns:
    """Gives turns on one model; `now` returns monotonic seconds.

    With a plain lock, each question would wait for a portion of learning as long as there is something to learn, and
    questions that come faster than portions end would pile up. So learning lets questions go first, for a while.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep) -> None:
        self._now = now
        self._sleep = sleep
        self._lock = threading.Lock()
        self._asking: deque[None] = deque()  # one for each question: a number would need a lock of its own
        self._answered_at = float("-inf")

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Inside this context, use the model, which does not change."""
        self._asking.append(None)
        try:
            with self._lock:
                yield
        finally:
            self._answered_at = self._now()
            self._asking.pop()

    @contextmanager
    def learning(self, patience_s: float) -> Iterator[None]:
        """Inside this context, change the model; before it is entered, questions go first for at most `patience_s`."""
        until = self._now() + patience_s
        while (now := self._now()) < until and (self._asking or now - self._answered_at < GRACE_S):
            self._sleep(_PAUSE_S)
        with self._lock:
            yield
