"""Finds the first record of a log whose time is in a range, however many records there are.

A tree of spans: each node holds the lowest and the highest time of up to FAN nodes below it. A search passes over
nodes whose span does not meet the range. In a log whose times rise, apart from some disorder, a search and a removal
look at a number of nodes that grows as the logarithm of the number of records.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Generic, TypeVar

_Item = TypeVar("_Item")

FAN = 32
_NO_LOW, _NO_HIGH = 1 << 63, -1
"""The span of a record that was removed, which meets no range."""


class TimeIndex(Generic[_Item]):
    """Keeps records in the order of their offsets.

    looked_at  how many nodes all searches have looked at
    """

    def __init__(self) -> None:
        self.looked_at = 0
        self._live = self._first = 0
        self._offsets: list[int] = []
        self._items: list[_Item] = []
        self._lows: list[list[int]] = [[]]
        self._highs: list[list[int]] = [[]]

    def __len__(self) -> int:
        return self._live

    def first(self, most: int) -> Iterator[_Item]:
        """Yield the first `most` records."""
        lows, found = self._lows[0], 0
        for place in range(self._first, len(lows)):
            if found == most:
                return
            if lows[place] != _NO_LOW:
                found += 1
                yield self._items[place]

    def append(self, offset: int, time_ms: int, item: _Item) -> None:
        """Add a record whose offset is above all others; its time is at least 0."""
        place = len(self._items)
        self._offsets.append(offset)
        self._items.append(item)
        self._live += 1
        for lows, highs in zip(self._lows, self._highs, strict=True):
            if place == len(lows):
                lows.append(time_ms)
                highs.append(time_ms)
            else:
                lows[place] = min(lows[place], time_ms)
                highs[place] = max(highs[place], time_ms)
            place //= FAN
        if len(self._lows[-1]) > FAN:
            self._add_level()

    def remove(self, offset: int) -> None:
        """Remove the record at this offset, if it is here."""
        place = bisect_left(self._offsets, offset)
        if place == len(self._offsets) or self._offsets[place] != offset or self._lows[0][place] == _NO_LOW:
            return
        self._live -= 1
        self._lows[0][place], self._highs[0][place] = _NO_LOW, _NO_HIGH
        while self._first < len(self._items) and self._lows[0][self._first] == _NO_LOW:
            self._first += 1
        if 2 * self._live < len(self._items) - FAN:
            self._rebuild()
            return
        for level in range(1, len(self._lows)):
            place //= FAN
            children = slice(place * FAN, (place + 1) * FAN)
            self._lows[level][place] = min(self._lows[level - 1][children])
            self._highs[level][place] = max(self._highs[level - 1][children])

    def find(self, from_ms: int, to_ms: int) -> _Item | None:
        """Return the first record whose time is in this range, both ends included; None if there is none."""
        top = len(self._lows) - 1
        place = self._find(top, range(len(self._lows[top])), from_ms, to_ms)
        return None if place is None else self._items[place]

    def _find(self, level: int, places: range, from_ms: int, to_ms: int) -> int | None:
        lows, highs = self._lows[level], self._highs[level]
        for place in places:
            self.looked_at += 1
            if lows[place] <= to_ms and highs[place] >= from_ms:
                if level == 0:
                    return place
                below = range(place * FAN, min((place + 1) * FAN, len(self._lows[level - 1])))
                found = self._find(level - 1, below, from_ms, to_ms)
                if found is not None:
                    return found
        return None

    def _add_level(self) -> None:
        lows, highs = self._lows[-1], self._highs[-1]
        starts = range(0, len(lows), FAN)
        self._lows.append([min(lows[start : start + FAN]) for start in starts])
        self._highs.append([max(highs[start : start + FAN]) for start in starts])

    def _rebuild(self) -> None:
        """Forget the places of removed records, which takes no longer than it took to remove them."""
        lows = self._lows[0]
        kept = [place for place in range(self._first, len(lows)) if lows[place] != _NO_LOW]
        self._offsets = [self._offsets[place] for place in kept]
        self._items = [self._items[place] for place in kept]
        times = [lows[place] for place in kept]
        self._first, self._lows, self._highs = 0, [times], [times.copy()]
        while len(self._lows[-1]) > FAN:
            self._add_level()
