"""Which rounds have been merged, and where: each manifest has the history of all merges before it, in bounded space.

The newest merges are listed with their places. Of older ones only the rounds are known, as ranges. So it is always
known whether a round has been merged, even if rounds were merged out of order as the clocks of partitions differ.
"""

from itertools import pairwise
from typing import NamedTuple

from stream_apple.stream.positions.merge_note import MergedPointer

MOST_MERGES = 256
"""How many merges are listed with their places."""
MOST_RANGES = 64
"""How many ranges of older rounds are kept. If there are more, the two closest become one: the rounds between them then
count as merged."""


class MergeHistory(NamedTuple):
    """Records all merges of a group.

    merges   the newest, in the order in which they were committed
    dropped  the rounds of all older merges as ranges: first and last round of each, ascending, with gaps between them
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
        """Whether this round has been merged so long ago that the place is no longer known."""
        return self.has(number) and self.find(number) is None

    def add(self, newest: MergedPointer) -> "MergeHistory":
        """Return this history with a further merge."""
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
