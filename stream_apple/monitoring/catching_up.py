"""Estimates how far partitions are behind, and for how long: while they recover, and while they work off a backlog.

Metrics and probes show this. Estimates are from the pace of the last minute; they are for people, and decide nothing.
"""

import math
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from stream_apple.stream.partitions.state import RecoveryLeft

PACE_S = 60.0
"""A pace is the mean of so many seconds, as records come and are committed in bursts."""
BEHIND_S, LEVEL_S = 10.0, 2.0
"""A partition with more than BEHIND_S seconds of work is behind, until it has less than LEVEL_S."""
_LOOKS = 3  # so many looks in a row must show that: a burst that is worked off at once does not count
_TREND_S = 3.0  # seconds after the longest backlog before the end is estimated
_ENDLESS_S = 10.0


class CatchingUp(NamedTuple):
    """A partition, or several, that work off a backlog.

    records             how many wait
    records_per_second  how many are processed, in the mean of the last minute
    seconds_left        until the backlog is worked off, at the present pace; NaN while that is not known
    endless             whether no end is in sight, as at least as many records come as are processed
    """

    records: float
    records_per_second: float
    seconds_left: float
    endless: bool

    def facts(self) -> dict[str, float | bool | None]:
        """Return the fields in JSON types, rounded."""
        return {
            "records": int(self.records),
            "records_per_second": round(self.records_per_second, 1),
            "seconds_left": None if math.isnan(self.seconds_left) else round(self.seconds_left, 1),
            "endless": self.endless,
        }


def together(parts: Iterable[CatchingUp]) -> CatchingUp | None:
    """Return the backlog of a worker whose partitions have these backlogs; None if there is none.

    Partitions go on side by side, so it takes as long as the slowest; the time is NaN while it is not known of one.
    """
    found = list(parts)
    if not found:
        return None
    return CatchingUp(
        sum(part.records for part in found),
        sum(part.records_per_second for part in found),
        math.nan if any(math.isnan(part.seconds_left) for part in found) else max(part.seconds_left for part in found),
        any(part.endless for part in found),
    )


class _Look(NamedTuple):
    at: float
    offset: int
    backlog: int


class Pace:
    """Measures how fast one partition goes, and so whether it is behind, about once a second.

    behind  its backlog; None while it is not behind
    """

    def __init__(self) -> None:
        self.behind: CatchingUp | None = None
        self._looks: deque[_Look] = deque()
        self._behind_looks = 0

    def look(self, at: float, offset: int, backlog: int, left: RecoveryLeft, *, recovering: bool) -> None:
        """Take in that the model stands at `offset` at `at` monotonic seconds, with this backlog, -1 if not known."""
        if self._looks and offset < self._looks[-1].offset:
            self._looks.clear()  # it has gone back to its snapshot
        self._looks.append(_Look(at, offset, max(backlog, 0)))
        while at - self._looks[0].at > PACE_S:
            self._looks.popleft()
        last = self._looks[-1]
        if recovering:
            waiting = max(backlog, left.records)
            self.behind = CatchingUp(waiting, self._speed(), left.seconds, endless=False)
            return
        per_second = max(self._speed(), self._speed(BEHIND_S))
        bound = per_second * (LEVEL_S if self.behind is not None else BEHIND_S)
        self._behind_looks = self._behind_looks + 1 if len(self._looks) > 1 and last.backlog > bound else 0
        if self._behind_looks == 0:
            self.behind = None
        elif self._behind_looks >= _LOOKS or self.behind is not None:
            self.behind = self._estimate(last)

    def _speed(self, seconds: float = PACE_S) -> float:
        """Return the records per second in the last `seconds`; 0 before the second look."""
        last = self._looks[-1]
        first = next(look for look in self._looks if last.at - look.at <= seconds)
        return (last.offset - first.offset) / (last.at - first.at) if last.at > first.at else 0.0

    def _estimate(self, last: _Look) -> CatchingUp:
        """Estimate the end from how the backlog has shrunk since it was longest."""
        most = max(self._looks, key=lambda look: (look.backlog, look.at))
        since = last.at - most.at
        shrinks = (most.backlog - last.backlog) / since if since >= _TREND_S else 0.0
        endless = since < _TREND_S and last.at - self._looks[0].at >= _ENDLESS_S
        return CatchingUp(last.backlog, self._speed(), last.backlog / shrinks if shrinks > 0 else math.nan, endless)
