"""Workers that merge, whatever befalls them: who waits for whom changes with time, what comes of a record does not."""

from itertools import chain

import pytest
from simulation.history import parts, run_all
from simulation.merging.histories import STRICT, HastySchedule, StrictSchedule
from simulation.schedule import INPUTS
from simulation.world import expected_of

from stream_apple.stream.positions.merge_note import MergeSettings

HISTORIES = 12
LONG_HISTORIES = 20_000
_PART = 30


@pytest.mark.parametrize("merging", STRICT)
@pytest.mark.parametrize(("seed", "counts"), INPUTS)
def test_lockstep(seed: int, counts: tuple[int, ...], merging: MergeSettings) -> None:
    """One worker that nothing disturbs comes to what models in one process do, in every answer and bit."""
    assert expected_of(seed, counts, merging).digests


def test_all_are_waited_for() -> None:
    """Crashes, zombies, rebalances, aborts: the same as in lockstep, and every round was merged once."""
    run_all(StrictSchedule, range(HISTORIES))


def test_nobody_is_waited_for_long() -> None:
    """The same, relearned with what is recorded of merges, has the same bits; and all come to the end.

    Boundaries are passed in every way, and partitions left out for every reason of time.
    """
    histories = run_all(HastySchedule, range(HISTORIES))
    states = set(chain.from_iterable(history.states for history in histories))
    assert states >= {"adopted", "late", "skipped", "idle", "passed"}


def test_a_merge_that_is_sent_as_partitions_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is noted in the transaction that holds it; else a later leader would merge the round again."""
    monkeypatch.setattr(HastySchedule, "RESENT", [0.0])
    run_all(HastySchedule, [3249])


@pytest.mark.long
@pytest.mark.parametrize("seeds", parts(1_000_000, LONG_HISTORIES, _PART), ids=str)
def test_many_more(seeds: range) -> None:
    """Both, for as long as one likes."""
    run_all(StrictSchedule, seeds)
    run_all(HastySchedule, seeds)
