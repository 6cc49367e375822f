"""Impressions that have been read and are not due, by id: those that are to be sent as soon as they have an outcome.

An impression is looked at once a heartbeat that covers it has been taken in: from then on its time is known for good.
It is sent with the first outcome of its window, in the order of their log, and passed over when its turn comes.

Nobody writes down what has been sent. It follows from the two logs again: an impression that has been seen was sent if
it is covered, and an outcome of its window has been taken in. For that, a successor has to find that outcome, and the
heartbeat. So they are kept, and are read again, until the impression's turn has come.
"""

import heapq
from bisect import bisect_right
from collections import deque
from typing import NamedTuple

from stream_apple.stream.joining.own_messages import HeartbeatEntry, Impression


class Waiting(NamedTuple):
    """An impression, and its time."""

    impression: Impression
    time_ms: int


class _High(NamedTuple):
    """A heartbeat that covers more than all before it."""

    covers: int
    time_ms: int
    offset: int


class EarlyImpressions:
    """What has been offered, has not been sent, and has not had its turn.

    below  offset of the first impression that is none of these; None: all are
    """

    def __init__(self, below: int | None) -> None:
        self.below = below
        self.covered_to = 0
        self._highs: list[_High] = []
        self._uncovered: deque[Impression] = deque()
        self._by_id: dict[bytes, dict[int, Waiting]] = {}
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
        """Take in a heartbeat; return the impressions that it covers, and that none before it did."""
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
        self._by_id.setdefault(impression.outer.id, {})[impression.offset] = waiting
        return waiting

    def of(self, key: bytes) -> tuple[Waiting, ...]:
        """Return the impressions of an id that are covered."""
        return tuple(self._by_id.get(key, {}).values())

    def sent(self, waiting: Waiting, outcome: int) -> None:
        """The impression has been sent with the outcome at this offset."""
        offset = waiting.impression.offset
        self._remove(waiting.impression)
        self._sent.add(offset)
        heapq.heappush(self._needed, (outcome, offset))

    def turn(self, impression: Impression) -> bool:
        """The impression's turn has come; return whether it has been sent before."""
        if impression.offset in self._sent:
            self._sent.remove(impression.offset)
            return True
        if self._uncovered and self._uncovered[0] is impression:
            self._uncovered.popleft()
        else:
            self._remove(impression)
        return False

    def needed_from(self, next_impression: int) -> int | None:
        """Return from where on a successor needs the log of outcomes, to know what has been sent; None: it does not."""
        while self._highs and self._highs[0].covers <= next_impression:
            del self._highs[0]
        while self._needed and self._needed[0][1] < next_impression:
            heapq.heappop(self._needed)
        found = [self._highs[0].offset] if self._highs else []
        found += [self._needed[0][0]] if self._needed else []
        return min(found, default=None)

    def _remove(self, impression: Impression) -> None:
        same = self._by_id.get(impression.outer.id, {})
        same.pop(impression.offset, None)
        if not same:
            self._by_id.pop(impression.outer.id, None)
