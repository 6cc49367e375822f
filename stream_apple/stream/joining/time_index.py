"""Finds the first record of an id whose time is in a range, however many records of this id there are.

A tree of spans: each node holds the lowest and the highest time of up to FAN nodes below it. A search passes over
nodes whose span does not meet the range. In a log whose times rise, apart from some disorder, a search and a removal
look at a number of nodes that grows as the logarithm of the number of records.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar


class Timed(Protocol):
    """A record of a log."""

    @property
    def offset(self) -> int:
        """Return its offset."""

    @property
    def time_ms(self) -> int:
        """Return its time, at least 0."""


_Item = TypeVar("_Item", bound=Timed)

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

    def first(self, most: int) -> Sequence[_Item]:
        """Return the first `most` records."""
        if self._live == len(self._items) - self._first:
            return self._items[self._first : self._first + most]
        lows = self._lows[0]
        return [each for place, each in enumerate(self._items) if lows[place] != _NO_LOW][:most]

    def append(self, item: _Item) -> None:
        """Add a record whose offset is above all others."""
        place, time_ms = len(self._items), item.time_ms
        self._offsets.append(item.offset)
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


class TimedById(Generic[_Item]):
    """Keeps records by their id. Most ids have one record, which takes no more memory than the record itself."""

    def __init__(self) -> None:
        self._by_id: dict[bytes, _Item | TimeIndex[_Item]] = {}

    def add(self, key: bytes, item: _Item) -> None:
        """Add a record whose offset is above all others of its id."""
        found = self._by_id.get(key)
        if found is None:
            self._by_id[key] = item
        elif isinstance(found, TimeIndex):
            found.append(item)
        else:
            self._by_id[key] = several = TimeIndex[_Item]()
            several.append(found)
            several.append(item)

    def remove(self, key: bytes, offset: int) -> None:
        """Remove the record of an id at this offset, if it is here."""
        found = self._by_id.get(key)
        if isinstance(found, TimeIndex):
            found.remove(offset)
            if not found:
                del self._by_id[key]
        elif found is not None and found.offset == offset:
            del self._by_id[key]

    def first(self, key: bytes, most: int) -> Sequence[_Item]:
        """Return the first `most` records of an id."""
        found = self._by_id.get(key)
        if isinstance(found, TimeIndex):
            return found.first(most)
        return () if found is None else (found,)

    def find(self, key: bytes, from_ms: int, to_ms: int) -> _Item | None:
        """Return the first record of an id whose time is in this range, both ends included; None if there is none."""
        found = self._by_id.get(key)
        if isinstance(found, TimeIndex):
            return found.find(from_ms, to_ms)
        return found if found is not None and from_ms <= found.time_ms <= to_ms else None
