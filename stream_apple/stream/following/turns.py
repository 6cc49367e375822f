"""Turns on a model: one thread learns on it, others score by it, and nobody sees it half changed."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """Gives turns in the order in which they are asked for, or nearly so.

    A plain lock would do, but for fairness: a thread that learns gives it back and takes it again at once, and one that
    waits for it would wait for as long as there is something to learn. Whoever waits for the model keeps `_next`, so
    that the one that has just had it stands behind.
    """

    def __init__(self) -> None:
        self._next = threading.Lock()
        self._model = threading.Lock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Have the model for oneself while this lasts."""
        with self._next:
            self._model.acquire()
        try:
            yield
        finally:
            self._model.release()
