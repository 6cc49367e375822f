"""A site with ads: for each visit it asks how likely a click is, shows the ad, and perhaps hears of a click later.

It publishes two streams. An impression has an id and the features that were asked about; an outcome has the id and the
label 1. If there is no click, there is no outcome.
"""

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np

from stream_apple.demo.traffic import now_ms
from stream_apple.records.message.example import Example, Features

_MEAN_DELAY, _LONGEST_DELAY = 0.25, 0.6  # of the wait: what is left is for machines that are busy
_TICK_S = 0.02
_LATENCIES = 100_000


class Shown(NamedTuple):
    """Holds an impression, and what came of it.

    known_ms  when it is known what came of it, milliseconds since 1970
    log_odds  of a click, as answered; None if there was no answer
    """

    known_ms: int
    log_odds: float | None
    clicked: bool


class Site(AbstractContextManager["Site"]):
    """Publishes two streams, each read by a thread of its own, and counts for a third; a context, whose end ends both.

    visits   features, and label 1 for a click
    ask      returns the log-odds of a click, or None for no answer, given features and key
    wait_ms  so long after an impression its click may come
    seed     of how late clicks come

    asked      questions so far
    answered   of them
    clicks     outcomes that were published, or will be
    latencies  of the latest answers, seconds
    """

    def __init__(
        self,
        visits: Iterable[Example],
        ask: Callable[[Features, str], float | None],
        wait_ms: int,
        seed: int,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self.asked = self.answered = self.clicks = 0
        self.latencies: deque[float] = deque(maxlen=_LATENCIES)
        self._visits = visits
        self._ask = ask
        self._wait_ms = wait_ms
        self._rng = np.random.default_rng(seed)
        self._clock = clock
        self._began_ms = clock()  # ids are unique, also after a restart
        self._shown: deque[Shown] = deque()
        self._coming: list[tuple[int, str]] = []  # a heap: time, id
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._closed = threading.Event()

    @property
    def undecided(self) -> int:
        """Return the number of impressions of which it is not known yet what came of them."""
        return len(self._shown)

    @property
    def clicks_to_come(self) -> int:
        """Return the number of outcomes that have not been published yet."""
        return len(self._coming)

    def impressions(self) -> Iterator[Example]:
        """Ask about each visit, and yield its impression, without a label, with the time at which it was answered."""
        for visit in self._visits:
            if self._closed.is_set():
                return
            began = time.perf_counter()
            self.asked += 1
            name = f"{self._began_ms}-{self.asked}"
            log_odds = self._ask(visit.features, name)
            if log_odds is not None:
                self.latencies.append(time.perf_counter() - began)
                self.answered += 1
            time_ms, clicked = self._clock(), visit.label == 1
            if clicked:
                self.clicks += 1
                delay = min(self._rng.exponential(_MEAN_DELAY), _LONGEST_DELAY)
                with self._lock:
                    heapq.heappush(self._coming, (time_ms + int(delay * self._wait_ms), name))
            self._shown.append(Shown(time_ms + self._wait_ms, log_odds, clicked))
            yield Example(None, 1.0, name, visit.features, time_ms)
        self._over.set()

    def outcomes(self) -> Iterator[Example]:
        """Yield each click when its time has come, until the last impression's."""
        while not self._closed.is_set():
            over = self._over.is_set()  # asked first: what is shown before the end is in the heap
            with self._lock:
                due = self._coming[0][0] if self._coming else None
                click = heapq.heappop(self._coming) if due is not None and due <= self._clock() else None
            if click is not None:
                yield Example(1.0, 1.0, click[1], {}, click[0])
            elif due is None and over:
                return
            else:
                self._closed.wait(_TICK_S)

    def decided(self) -> Iterator[Shown]:
        """Yield the impressions of which it has become known what came of them, in their order.

        Clicks are known earlier; who judged them then would see them first, and think that everybody clicks.
        """
        now = self._clock()
        while self._shown and self._shown[0].known_ms <= now:
            yield self._shown.popleft()

    def __exit__(self, *_: object) -> None:
        self._closed.set()
