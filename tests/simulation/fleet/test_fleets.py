"""Fleets of workers on many partitions: the same bits as without any, no partition passed over, work in proportion."""

import pytest
from simulation.fleet.fleet import Fleet, Size, check, check_one_for_all
from simulation.merging.rules import check_merges

from stream_apple.stream.positions.merge_note import BoundaryState, MergeSettings

MERGING = MergeSettings(4, "votes", float("inf"), float("inf"))
SMALL, LARGE = Size(60, 6, 10), Size(1_000, 100, 10)
LONGEST = 1.0
"""Turns that a live partition with records waits for its own, for each partition of its worker."""

at_both_sizes = pytest.mark.parametrize("size", [SMALL, pytest.param(LARGE, marks=pytest.mark.long)], ids=str)


@at_both_sizes
def test_each_model_its_own(size: Size) -> None:
    """Kills, rebalances, zombies: every bit is that of the records alone, and no partition is passed over."""
    fleet = Fleet(size).run()
    assert set(fleet.moved) >= {"started", "missed", "added", "stopped"}
    assert fleet.longest.turns <= LONGEST * fleet.longest.owned
    check(fleet)
    check_one_for_all(fleet)


@at_both_sizes
def test_one_model_of_all(size: Size) -> None:
    """The same with rounds, each merged once, of all partitions: rounds end, whoever was killed in them."""
    fleet = Fleet(size, MERGING).run()
    check(fleet)
    merges = check_merges(fleet.cluster, fleet.setup)
    assert [len(each.roster) for each in merges.manifests.values()][-2:] == [size.partitions] * 2
    assert {each.reason for manifest in merges.manifests.values() for each in manifest.excluded} <= {"passed"}
    assert all(each.state is BoundaryState.ADOPTED and each.included for each in merges.adoptions)
    check_one_for_all(fleet)
