"""The life of a partition: which state may follow which, and what the states mean."""

from itertools import product

import pytest
from simulation.world import SETUP

from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.partitions.recovery import RecoveryPlan
from stream_apple.stream.partitions.state import ANSWERING, INCOMPLETE, RECOVERING, TRANSITIONS, State


def partition_in(state: State) -> Partition:
    """Wherever it has come from."""
    lineage = SETUP.provenance.lineage(0, 0)
    found = Partition(
        PartitionModel("t", 0, lineage, SETUP.settings, SETUP.settings.decoder()), RecoveryPlan(lineage, 0)
    )
    found.state = state
    return found


@pytest.mark.parametrize("state", State)
def test_a_step_is_one_of_the_table(state: State) -> None:
    """Any other raises, names both, and changes nothing."""
    for following in State:
        partition = partition_in(state)
        if following in TRANSITIONS[state]:
            partition.enter(following)
            assert partition.state is following
        else:
            with pytest.raises(AssertionError, match=f"from {state} to {following}"):
                partition.enter(following)
            assert partition.state is state


def test_every_state_can_be_reached_and_left() -> None:
    """From the first one; the last two are ends."""
    reached = {State.ASSIGNED}
    while further := {after for state in reached for after in TRANSITIONS[state]} - reached:
        reached |= further
    assert reached == set(State)
    assert {state for state in State if not TRANSITIONS[state]} == {State.REVOKED, State.LOST}


def test_every_state_is_of_one_kind() -> None:
    """There is no model yet, or it is silent, or it answers, or the partition is given up."""
    kinds = INCOMPLETE, RECOVERING - INCOMPLETE, ANSWERING, frozenset({State.REVOKED, State.LOST})
    assert sorted(state for kind in kinds for state in kind) == sorted(State)


def test_who_answers_never_recovers_again() -> None:
    """Only a new life recovers."""
    assert not [pair for pair in product(ANSWERING, RECOVERING | INCOMPLETE) if pair[1] in TRANSITIONS[pair[0]]]


def test_what_is_merged_is_shown_as_live() -> None:
    """Logs and metrics have the states that they had before models were merged."""
    assert {state.shown for state in State} == {
        *(State.ASSIGNED, State.RESTORING, State.REPLAYING, State.LIVE, State.REVOKED, State.LOST)
    }
