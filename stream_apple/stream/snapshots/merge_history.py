"""Which rounds have been merged, and where: what each manifest says of all before it, in bounded space.

The newest merges are listed with their places. Of those before, only the rounds are known, as ranges: so it is always
known whether a round has been merged, even if partitions whose clocks are far apart have merged in another order.
"""

from itertools import pairwise
from typing import NamedTuple

from stream_apple.stream.positions.merge_note import MergedPointer

MOST_MERGES = 256
"""Listed with their places."""
MOST_RANGES = 64
"""Of rounds without. If there are more, the closest become one, and what lies between them counts as merged."""


class MergeHistory(NamedTuple):
    """Records all merges of a group.

    merges   the newest, in the order in which they were committed
    dropped  ranges of the rounds of all before: first and last round of each, ascending, with gaps between them
    """

    merges: tuple[MergedPointer, ...] = ()
    dropped: tuple[tuple[int, int], ...] = ()

    def find(self, number: int) -> MergedPointer | None:
        """Return where the merged model of this round is, if that is known."""
        return next((each for each in reversed(self.merges) if each.round == number), None)

    def has(self, number: int) -> bool:
        """Whether this round has been merged."""
        return self.find(number) is not None or any(first <= number <= last for first, last in self.dropped)

    def gone(self, number: int) -> bool:
        """Whether this round has been merged so long ago that it is not known where."""
        return self.has(number) and self.find(number) is None

    def add(self, newest: MergedPointer) -> "MergeHistory":
        """Return a history that has this merge, too."""
        merges, dropped = (*self.merges, newest), self.dropped
        for old in merges[:-MOST_MERGES]:
            dropped = _with(dropped, old.round)
        return MergeHistory(merges[-MOST_MERGES:], dropped)


def _with(ranges: tuple[tuple[int, int], ...], number: int) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for first, last in sorted({*ranges, (number, number)}):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    while len(joined) > MOST_RANGES:
        gaps = [after[0] - before[1] for before, after in pairwise(joined)]
        closest = gaps.index(min(gaps))
        joined[closest : closest + 2] = [(joined[closest][0], joined[closest + 1][1])]
    return tuple(joined)
