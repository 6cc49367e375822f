"""When a round is merged, and which partitions are in it: only the notes of all partitions and time decide that.

A partition that has reached the end of a round and contributed to it opens the round. The round is closed when every
other partition has contributed too, has passed it, or is idle; or when patience is over. A partition that is not in the
merge goes on with the merged model when it comes to the boundary itself.

Patience does not close a round if fewer partitions have contributed than are still at work before its end: the clocks
of those few are likely to be wrong, and all others would have to adopt their merge when they come to the boundary.
"""

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from stream_apple.stream.positions.lineage import SnapshotPointer
from stream_apple.stream.positions.merge_note import BoundaryNote, BoundaryState
from stream_apple.stream.snapshots.merge_history import MergeHistory
from stream_apple.stream.snapshots.merge_messages import Exclusion, RosterEntry


class ExclusionReason(StrEnum):
    """Says why a partition is not in a merge."""

    IDLE = "idle"  # nothing of it had moved for a while when the round was opened
    LATE = "late"  # it had not contributed when patience was over
    PASSED = "passed"  # it has been at a later boundary, or has gone on alone
    DISPLACED = "displaced"  # its contribution could not be read any more


class Standing(NamedTuple):
    """Says what is known of a partition at one moment.

    offset    the committed one; -1 if nothing is committed
    end       of its log; -1 if that is not known
    boundary  the newest that it has reached, None before the first
    snapshot  the newest of its model
    """

    offset: int = -1
    end: int = -1
    boundary: BoundaryNote | None = None
    snapshot: SnapshotPointer | None = None

    def contribution(self, number: int) -> SnapshotPointer | None:
        """Return the snapshot that the partition contributes to this round; None if it does not wait there."""
        boundary, snapshot = self.boundary, self.snapshot
        if boundary is None or snapshot is None or boundary.state is not BoundaryState.CONTRIBUTED:
            return None
        return snapshot if (boundary.round, boundary.at) == (number, snapshot.at) else None

    @property
    def waits(self) -> bool:
        """Whether it is held at a boundary: it does not move then, but is not idle."""
        return self.boundary is not None and self.boundary.state is BoundaryState.CONTRIBUTED

    def passed(self, number: int) -> bool:
        """Whether it has come to this round's end or a later one; without a contribution there it will make none."""
        return self.boundary is not None and self.boundary.round >= number


class ClosedRound(NamedTuple):
    """A round to be merged now.

    partitions  how many the group has
    roster      the contributions in it, by partition
    excluded    the partitions that are not in it, by partition
    """

    round: int
    partitions: int
    roster: tuple[RosterEntry, ...]
    excluded: tuple[Exclusion, ...]


class _Seen(NamedTuple):
    """Remembers where a partition stood, and since when; times are seconds of the leader's clock.

    place   its offset, the end of its log, and its newest boundary: a partition that has just passed one is not idle
    since   when it was first seen there
    worked  when its offset was last seen to move; -inf: never
    """

    place: tuple[int, int, BoundaryNote | None]
    since: float
    worked: float


class OpenRounds:
    """The rounds that wait for contributions, as one leader sees them; it knows nothing from before it led.

    patience_s  how long an open round waits; infinite: until every partition has come to it

    opened  round -> when this leader first saw it open, in seconds of its clock
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self.opened: Mapping[int, float] = {}
        self._standings: Sequence[Standing] = ()
        self._seen: dict[int, _Seen] = {}
        self._displaced: set[tuple[int, RosterEntry]] = set()

    @property
    def ends_matter(self) -> bool:
        """Whether the ends of logs are needed: with infinite patience they are not, as no partition counts as idle."""
        return self._patience_s < math.inf

    def observe(self, standings: Sequence[Standing], history: MergeHistory, now: float) -> list[int]:
        """Take in where all partitions stand now; return the rounds that this has opened."""
        self._standings = standings
        for number, standing in enumerate(standings):
            place, before = (standing.offset, standing.end, standing.boundary), self._seen.get(number)
            if before is None or before.place != place:
                worked = before is not None and before.place[0] != standing.offset
                earlier = -math.inf if before is None else before.worked
                self._seen[number] = _Seen(place, now, now if worked else earlier)
        waiting = sorted(
            {s.boundary.round for s in standings if s.boundary is not None and s.contribution(s.boundary.round)}
        )
        before_now = self.opened
        self.opened = {number: before_now.get(number, now) for number in waiting if not history.has(number)}
        self._displaced = {each for each in self._displaced if each[0] in self.opened}
        return [number for number in self.opened if number not in before_now]

    def closed(self, now: float) -> ClosedRound | None:
        """Return the first round that is to be merged now; None if there is none."""
        for number in self.opened:
            roster, reasons = self._sort(number)
            over = now - self.opened[number] >= self._patience_s and not self._few(number, roster, reasons)
            if roster and (over or ExclusionReason.LATE not in reasons.values()):
                excluded = tuple(Exclusion(partition, str(reason)) for partition, reason in reasons.items())
                return ClosedRound(number, len(self._standings), tuple(roster), excluded)
        return None

    def displaced(self, number: int, entry: RosterEntry) -> None:
        """Note that this contribution to an open round can't be read any more."""
        self._displaced.add((number, entry))

    def _sort(self, number: int) -> tuple[list[RosterEntry], dict[int, ExclusionReason]]:
        """Return who is in the round, and why each other partition is not."""
        roster: list[RosterEntry] = []
        reasons: dict[int, ExclusionReason] = {}
        for partition, standing in enumerate(self._standings):
            contribution = standing.contribution(number)
            if contribution is not None:
                entry = RosterEntry(partition, *contribution)
                if (number, entry) in self._displaced:
                    reasons[partition] = ExclusionReason.DISPLACED
                else:
                    roster.append(entry)
            elif standing.passed(number):
                reasons[partition] = ExclusionReason.PASSED
            elif self._idle(partition, standing, self.opened[number]):
                reasons[partition] = ExclusionReason.IDLE
            else:
                reasons[partition] = ExclusionReason.LATE
        return roster, reasons

    def _few(self, number: int, roster: list[RosterEntry], reasons: Mapping[int, ExclusionReason]) -> bool:
        """Whether the roster is smaller than the number of late partitions that are at work.

        Those have committed since the round was opened, or wait at the end of another open round.
        """
        late = [partition for partition, reason in reasons.items() if reason is ExclusionReason.LATE]
        return len(roster) < sum(self._at_work(partition, self.opened[number]) for partition in late)

    def _at_work(self, partition: int, opened: float) -> bool:
        boundary = self._standings[partition].boundary
        waits = self._standings[partition].waits and boundary is not None and boundary.round in self.opened
        return waits or self._seen[partition].worked > opened

    def _idle(self, partition: int, standing: Standing, opened: float) -> bool:
        return not standing.waits and self._seen[partition].since <= opened - self._patience_s
