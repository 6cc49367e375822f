"""How far partitions are behind, and for how long: while they recover, and while they work off what waits for them.

For metrics and probes. An estimate is of the pace of the last minute; it is for people, and decides nothing.
"""

import math
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from stream_apple.stream.partitions.recovery_progress import RecoveryLeft

PACE_S = 60.0
"""A pace is the mean of so long: records come and are committed in gusts."""
BEHIND_S, LEVEL_S = 10.0, 2.0
"""Who has more to do than so many seconds' work is behind, until it is less than so many."""
_LOOKS = 3  # in a row that say so: a gust that is worked off at once is none
_TREND_S = 3.0  # since there was most to do: before, nothing is said of the end
_ENDLESS_S = 10.0


class CatchingUp(NamedTuple):
    """A partition, or several, that work off a backlog.

    records             that wait
    records_per_second  that are processed, the mean of the last minute
    seconds_left        until it is done, at the present pace; NaN while that is not known
    endless             whether no end is to be seen, because as much comes as is worked off, or more
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
    """What a worker has before it whose partitions are so far behind; None if none is.

    They go on side by side, so it takes as long as the slowest; as long as that is not known of one, nothing is said.
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
    """How fast one partition goes, and so whether it is behind; looked at about once a second.

    behind  None while it is not
    """

    def __init__(self) -> None:
        self.behind: CatchingUp | None = None
        self._looks: deque[_Look] = deque()
        self._late = 0

    def look(self, at: float, offset: int, backlog: int, left: RecoveryLeft, *, recovering: bool) -> None:
        """The model stands at `offset` at `at` monotonic seconds, with so many records behind it, -1 if not known."""
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
        self._late = self._late + 1 if len(self._looks) > 1 and last.backlog > bound else 0
        if self._late == 0:
            self.behind = None
        elif self._late >= _LOOKS or self.behind is not None:
            self.behind = self._estimate(last)

    def _speed(self, seconds: float = PACE_S) -> float:
        """Records a second of the last so many seconds; 0 before the second look."""
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
