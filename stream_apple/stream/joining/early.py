"""Impressions that were read and are not due yet, by id, where they are sent as soon as they have an outcome.

An impression is considered once a heartbeat that covers it has been taken in: from then on its time is final. It is
sent with the first outcome of its window, in the order of the log of outcomes, and passed over when its turn comes.

It is not recorded which impressions were sent, as that follows from the two logs: an impression that was seen has been
sent if it is covered, and an outcome of its window has been taken in. A successor must find that outcome and the
heartbeat for this. So both are kept, and are read again after a restart, until the impression's turn has come.
"""

import heapq
from bisect import bisect_right
from collections import deque
from typing import NamedTuple

from stream_apple.stream.joining.own_messages import HeartbeatEntry, Impression
from stream_apple.stream.joining.time_index import TimedById


class Waiting(NamedTuple):
    """An impression, and its time."""

    impression: Impression
    time_ms: int

    @property
    def offset(self) -> int:
        """Return the impression's offset."""
        return self.impression.offset


class _High(NamedTuple):
    """A heartbeat that covers more than all before it."""

    covers: int
    time_ms: int
    offset: int


class EarlyImpressions:
    """Keeps the impressions that were offered, and that neither were sent nor had their turn.

    below       only impressions below this offset are kept; None: all are
    covered_to  impressions below this offset are covered by a heartbeat
    """

    def __init__(self, below: int | None) -> None:
        self.below = below
        self.covered_to = 0
        self._highs: list[_High] = []
        self._uncovered: deque[Impression] = deque()
        self._by_id = TimedById[Waiting]()
        self._sent: set[int] = set()
        self._needed: list[tuple[int, int]] = []

    def add(self, impression: Impression) -> Waiting | None:
        """Add the next impression of the log; return it with its time if it is covered already."""
        if self.below is not None and impression.offset >= self.below:
            return None
        if impression.offset >= self.covered_to:
            self._uncovered.append(impression)
            return None
        first = self._highs[bisect_right(self._highs, impression.offset, key=lambda each: each.covers)]
        return self._cover(impression, first)

    def cover(self, entry: HeartbeatEntry) -> list[Waiting]:
        """Take in a heartbeat; return the impressions that it is the first to cover."""
        if entry.covers <= self.covered_to:
            return []
        self.covered_to = entry.covers
        high = _High(entry.covers, entry.time_ms, entry.offset)
        self._highs.append(high)
        found = []
        while self._uncovered and self._uncovered[0].offset < entry.covers:
            found.append(self._cover(self._uncovered.popleft(), high))
        return found

    def _cover(self, impression: Impression, high: _High) -> Waiting:
        waiting = Waiting(impression, min(impression.time_ms, high.time_ms))
        self._by_id.add(impression.outer.id, waiting)
        return waiting

    def first_of(self, key: bytes, from_ms: int, to_ms: int) -> Waiting | None:
        """Return the first covered impression of an id, by its offset, whose time is in this range, if there is one."""
        return self._by_id.find(key, from_ms, to_ms)

    def sent(self, waiting: Waiting, outcome: int) -> None:
        """Note that the impression has been sent with the outcome at this offset."""
        offset = waiting.impression.offset
        self._remove(waiting.impression)
        self._sent.add(offset)
        heapq.heappush(self._needed, (outcome, offset))

    def withdraw(self, waiting: Waiting) -> None:
        """Keep an impression from being sent before its turn."""
        self._remove(waiting.impression)

    def turn(self, impression: Impression) -> bool:
        """Note that the impression's turn has come; return whether it was sent before."""
        if impression.offset in self._sent:
            self._sent.remove(impression.offset)
            return True
        if self._uncovered and self._uncovered[0] is impression:
            self._uncovered.popleft()
        else:
            self._remove(impression)
        return False

    def needed_from(self, next_impression: int) -> int | None:
        """Return the offset from which a successor needs the outcomes, to know what was sent; None: it needs none."""
        while self._highs and self._highs[0].covers <= next_impression:
            del self._highs[0]
        while self._needed and self._needed[0][1] < next_impression:
            heapq.heappop(self._needed)
        found = [self._highs[0].offset] if self._highs else []
        found += [self._needed[0][0]] if self._needed else []
        return min(found, default=None)

    def _remove(self, impression: Impression) -> None:
        self._by_id.remove(impression.outer.id, impression.offset)
