"""When a round is merged, who is in it, and why the others are not: a table of situations."""

import math

import pytest

from stream_apple.stream.merging.open_rounds import ClosedRound, ExclusionReason, OpenRounds, Standing
from stream_apple.stream.positions.lineage import SnapshotPointer
from stream_apple.stream.positions.merge_note import BoundaryNote, BoundaryState, MergedPointer
from stream_apple.stream.snapshots.merge_history import MergeHistory
from stream_apple.stream.snapshots.merge_messages import Exclusion, RosterEntry

PATIENCE_S = 10.0
NONE = MergeHistory()


def at(number: int, state: BoundaryState = BoundaryState.CONTRIBUTED, offset: int = 100, end: int = 500) -> Standing:
    """A partition whose newest boundary is the end of that round."""
    snapshot = SnapshotPointer(offset, 7, 9, f"{offset:032d}")
    return Standing(offset, end, BoundaryNote(number, offset, state), snapshot)


def going(offset: int, end: int = 500) -> Standing:
    """A partition that has not been at a boundary yet."""
    return Standing(offset, end)


def entry(partition: int, offset: int = 100) -> RosterEntry:
    """The contribution of such a partition."""
    return RosterEntry(partition, offset, 7, 9, f"{offset:032d}")


class Group:
    """What a leader sees, and when."""

    def __init__(self, *standings: Standing, patience_s: float = PATIENCE_S) -> None:
        self.rounds = OpenRounds(patience_s)
        self.standings = list(standings)
        self.history = NONE
        self.now = 0.0
        self.opened: list[int] = []

    def after(self, seconds: float, **changes: Standing) -> ClosedRound | None:
        """The round that is closed so much later, partitions standing otherwise then (p0=..., p1=...)."""
        self.now += seconds
        for name, standing in changes.items():
            self.standings[int(name[1:])] = standing
        self.opened += self.rounds.observe(self.standings, self.history, self.now)
        return self.rounds.closed(self.now)

    def merged(self, number: int) -> None:
        """That round has been."""
        self.history = self.history.add(MergedPointer(number, 0, 1))


def reasons(closed: ClosedRound | None) -> dict[int, str]:
    """Partition -> why it is not in."""
    assert closed is not None
    return dict(closed.excluded)


class TestFullRounds:
    """Partitions that all come."""

    def test_all_have_contributed(self) -> None:
        """It is closed at once, with the contributions by partition."""
        group = Group(going(5), going(6), going(7))
        assert group.after(1) is None
        assert group.opened == []
        assert group.after(1, p1=at(3)) is None
        assert group.opened == [3]
        assert group.after(1, p0=at(3, offset=90)) is None
        assert group.after(1, p2=at(3)) == ClosedRound(3, 3, (entry(0, 90), entry(1), entry(2)), ())
        assert group.opened == [3]

    def test_one_partition(self) -> None:
        """Is the roster."""
        assert Group(at(0)).after(0) == ClosedRound(0, 1, (entry(0),), ())

    def test_a_round_is_merged_once(self) -> None:
        """Though its contributions are still to be seen, it is not opened again."""
        group = Group(at(3), at(3))
        assert group.after(1) is not None
        group.merged(3)
        assert group.after(1) is None
        assert group.opened == [3]
        assert not group.rounds.opened

    def test_a_new_leader(self) -> None:
        """One that knows of what was merged does not do it again; one that finds contributions goes on with them."""
        group = Group(at(3), at(3))
        group.merged(3)
        assert group.after(0) is None
        group = Group(at(4), at(4), at(3, BoundaryState.ADOPTED))
        group.merged(3)
        assert group.after(0) is None
        assert group.after(0, p2=at(4)) == ClosedRound(4, 3, (entry(0), entry(1), entry(2)), ())

    def test_a_note_without_its_snapshot(self) -> None:
        """Is no contribution: what is merged is what is named, and nobody waits for what is not."""
        torn = at(3)._replace(snapshot=SnapshotPointer(99, 1, 2, "0" * 32))
        group = Group(at(3), torn)
        assert group.after(0) == ClosedRound(3, 2, (entry(0),), (Exclusion(1, "passed"),))


class TestTheLate:
    """Partitions that do not come."""

    def test_dead_or_always_late(self) -> None:
        """Patience is from the opening, whatever moves; then it is left out as late."""
        group = Group(going(5), going(6))
        group.after(20)
        assert group.after(1, p0=at(3)) is None
        assert group.after(9.9, p1=going(80)) is None
        closed = group.after(0.1, p1=going(90))
        assert closed == ClosedRound(3, 2, (entry(0),), (Exclusion(1, "late"),))

    def test_patience_for_ever(self) -> None:
        """Nobody is late, and nobody is idle."""
        group = Group(at(3), going(6, end=6), patience_s=math.inf)
        assert not group.rounds.ends_matter
        for _ in range(10):
            assert group.after(1e9) is None
        assert group.after(1, p1=at(3)) == ClosedRound(3, 2, (entry(0), entry(1)), ())

    def test_an_idle_one_is_not_waited_for(self) -> None:
        """Neither its offset nor its log has moved for long before the round was opened."""
        group = Group(going(5), going(6, end=6))
        group.after(0)
        group.after(PATIENCE_S, p0=going(50))
        assert reasons(group.after(0, p0=at(3))) == {1: ExclusionReason.IDLE}

    @pytest.mark.parametrize("moved", [going(6, end=7), going(7, end=6)])
    def test_one_that_moves_is_waited_for(self, moved: Standing) -> None:
        """Its log has grown, or its offset: shortly before the opening, or after."""
        group = Group(going(5), going(6, end=6))
        group.after(0)
        group.after(PATIENCE_S - 1, p1=moved)
        assert group.after(1, p0=at(3)) is None
        assert group.after(PATIENCE_S - 1) is None
        assert reasons(group.after(1)) == {1: ExclusionReason.LATE}

    def test_an_idle_one_that_wakes_up(self) -> None:
        """After the opening, before the closing: it is waited for."""
        group = Group(going(5), going(6, end=6), going(7))
        group.after(0)
        group.after(PATIENCE_S, p0=going(50), p2=going(50))
        assert group.after(0, p0=at(3)) is None
        assert group.after(1, p1=going(6, end=8)) is None
        assert group.after(1, p2=at(3)) is None
        assert group.after(1, p1=at(3)) is not None

    def test_a_new_leader_knows_nobody_as_idle(self) -> None:
        """It has not watched for long enough."""
        group = Group(at(3), going(6, end=6))
        assert group.after(0) is None
        assert group.after(PATIENCE_S - 1) is None
        assert reasons(group.after(1)) == {1: ExclusionReason.LATE}

    def test_one_that_is_held_is_not_idle(self) -> None:
        """It stands still because it waits for an earlier round."""
        group = Group(at(2), going(9), at(2))
        group.after(0)
        group.after(PATIENCE_S - 2)
        group.merged(2)
        assert group.after(5, p0=at(3, offset=200)) is None
        assert group.after(1, p1=at(3)) is None
        assert group.after(1, p2=at(3)) is not None

    def test_a_new_partition(self) -> None:
        """Topics get partitions; one of which nothing is known yet is waited for, as long as for any."""
        group = Group(at(3), at(3))
        group.standings.append(Standing())
        assert group.after(0) is None
        closed = group.after(PATIENCE_S)
        assert closed == ClosedRound(3, 3, (entry(0), entry(1)), (Exclusion(2, "late"),))

    def test_a_closing_does_not_wait_for_the_next(self) -> None:
        """Each round has a patience of its own."""
        group = Group(at(3), going(1))
        group.after(0)
        assert group.after(PATIENCE_S) is not None
        group.merged(3)
        group.after(0, p1=going(2))
        assert group.after(1, p0=at(4, offset=200)) is None
        assert group.after(PATIENCE_S - 1) is None
        assert reasons(group.after(1)) == {1: ExclusionReason.LATE}


class TestRoundsApart:
    """Partitions whose clocks differ."""

    def test_a_week_ahead(self) -> None:
        """Such a one isolates itself; for the others it has passed all rounds, and is not waited for."""
        group = Group(at(170), going(5), going(6))
        group.after(0)
        assert reasons(group.after(PATIENCE_S)) == {1: ExclusionReason.LATE, 2: ExclusionReason.LATE}
        group.merged(170)
        group.after(0, p0=at(170, BoundaryState.ADOPTED), p1=going(50), p2=going(50))
        assert group.after(0, p1=at(3)) is None
        closed = group.after(0, p2=at(3))
        assert closed == ClosedRound(3, 3, (entry(1), entry(2)), (Exclusion(0, "passed"),))

    def test_few_that_are_ahead(self) -> None:
        """While most of the others are at work behind it, its round is not closed: theirs it would be, too, later."""
        group = Group(at(4), going(5), going(6), going(7))
        group.after(0)
        assert group.after(PATIENCE_S / 2, p1=going(25), p2=going(26)) is None
        assert group.after(PATIENCE_S, p1=going(45)) is None
        # It has gone on alone. The others come to their round, which is the one before, and to the same as it was at.
        assert group.after(60, p0=at(4, BoundaryState.SKIPPED, offset=110)) is None
        group.after(0, p1=at(3), p2=at(3))
        assert reasons(group.after(0, p3=at(3))) == {0: ExclusionReason.PASSED}
        group.merged(3)
        group.after(1, p1=at(4), p2=at(4))
        assert reasons(group.after(1, p3=at(4))) == {0: ExclusionReason.PASSED}

    def test_few_while_others_wait_for_an_earlier_round(self) -> None:
        """Those who wait at a round that is still to be merged are at work; once it has been, only if they go on."""
        group = Group(at(4), at(3), at(3), going(7))
        group.after(0)
        group.after(PATIENCE_S / 2, p3=going(8))
        closed = group.after(PATIENCE_S / 2)
        assert closed is not None
        assert closed.round == 3
        group.rounds.displaced(3, entry(1))
        group.rounds.displaced(3, entry(2))
        assert group.after(0) is None
        group.merged(3)
        closed = group.after(0)
        assert closed is not None
        assert closed.round == 4

    def test_few_of_which_the_others_are_dead(self) -> None:
        """Their logs grow, their offsets stay: nobody can wait for them."""
        group = Group(at(4), going(5), going(6), going(7))
        group.after(0)
        group.after(PATIENCE_S / 2, p1=going(5, end=600), p2=going(6, end=600), p3=going(7, end=600))
        assert reasons(group.after(PATIENCE_S / 2)) == dict.fromkeys((1, 2, 3), ExclusionReason.LATE)

    def test_it_waits_while_others_merge(self) -> None:
        """Two rounds are open; the first that can be closed is, the lower of two."""
        group = Group(at(170), at(3), going(6), patience_s=math.inf)
        assert group.after(0) is None
        assert group.opened == [3, 170]
        closed = group.after(1, p2=at(3))
        assert closed == ClosedRound(3, 3, (entry(1), entry(2)), (Exclusion(0, "passed"),))

    def test_a_jump(self) -> None:
        """Who had nothing in a round has passed it with its next boundary."""
        group = Group(at(3), at(5), patience_s=math.inf)
        assert group.after(0) == ClosedRound(3, 2, (entry(0),), (Exclusion(1, "passed"),))

    def test_a_clock_put_back(self) -> None:
        """It is at an earlier boundary again, after a later one: a round like any other."""
        group = Group(at(9, BoundaryState.ADOPTED), going(4))
        group.after(0)
        group.after(1, p0=at(5, offset=200))
        assert group.opened == [5]
        closed = group.after(PATIENCE_S)
        assert closed is not None
        assert closed.roster == (entry(0, 200),)
        group.merged(5)
        assert group.after(1, p1=at(5)) is None
        assert group.opened == [5]

    @pytest.mark.parametrize("state", [BoundaryState.SKIPPED, BoundaryState.ADOPTED])
    def test_who_has_gone_on(self, state: BoundaryState) -> None:
        """Alone, after too long: it is not waited for any more, and not in."""
        group = Group(at(3), at(3), going(6))
        assert group.after(0) is None
        assert group.after(1, p0=at(3, state, offset=130), p2=at(3)) == ClosedRound(
            3, 3, (entry(1), entry(2)), (Exclusion(0, "passed"),)
        )

    def test_all_have_gone_on(self) -> None:
        """Nothing is left to merge, and if the round comes again, patience begins anew."""
        group = Group(at(3), going(6))
        group.after(0)
        assert group.after(PATIENCE_S, p0=at(3, BoundaryState.SKIPPED, offset=130)) is None
        assert not group.rounds.opened
        assert group.after(1, p1=at(3)) is not None
        assert group.opened == [3, 3]


class TestDisplaced:
    """Contributions that can't be read any more."""

    def test_it_drops_out(self) -> None:
        """The round is closed anew without it."""
        group = Group(at(3), at(3), at(3))
        group.after(0)
        group.rounds.displaced(3, entry(1))
        assert group.after(0) == ClosedRound(3, 3, (entry(0), entry(2)), (Exclusion(1, "displaced"),))

    def test_none_is_left(self) -> None:
        """There is nothing to merge."""
        group = Group(at(3), going(6))
        group.after(0)
        group.rounds.displaced(3, entry(0))
        assert group.after(PATIENCE_S) is None

    def test_another_contribution_of_the_same(self) -> None:
        """Is one: what could not be read was another."""
        group = Group(at(3), at(3))
        group.after(0)
        group.rounds.displaced(3, entry(1))
        assert group.after(0, p1=at(3, offset=101)) == ClosedRound(3, 2, (entry(0), entry(1, 101)), ())
