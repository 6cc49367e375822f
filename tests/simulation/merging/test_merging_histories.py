"""Workers that merge, whatever befalls them: who waits for whom changes with time, what comes of a record does not."""

from collections.abc import Sequence
from itertools import chain

import pytest
from simulation.merging.histories import STRICT, HastySchedule, StrictSchedule
from simulation.schedule import INPUTS
from simulation.world import expected_of

from stream_apple.stream.positions.merge_settings import MergeSettings

HISTORIES = 60
LONG_HISTORIES = 20_000
_PART = 30


def run_all(kind: type[StrictSchedule | HastySchedule], seeds: Sequence[int]) -> None:
    """Let every history happen."""
    for seed in seeds:
        try:
            kind(seed).run()
        except BaseException as error:
            error.add_note(f"to see its steps: PYTHONPATH=tests python -m simulation.replay {seed} {kind.__name__}")
            raise


def parts(first: int, count: int) -> list[range]:
    """Seeds in portions, each a test."""
    return [range(start, start + _PART) for start in range(first, first + count, _PART)]


@pytest.mark.parametrize("merging", STRICT)
@pytest.mark.parametrize(("seed", "counts"), INPUTS)
def test_lockstep(seed: int, counts: tuple[int, ...], merging: MergeSettings) -> None:
    """One worker that nothing disturbs comes to what models in one process do, in every answer and bit."""
    assert expected_of(seed, counts, merging).digests


def test_histories_are_varied() -> None:
    """Where time decides, boundaries are passed in every way, and partitions left out for every reason of time."""
    schedules = [HastySchedule(seed).run() for seed in range(60)]
    assert set(chain.from_iterable(schedule.states for schedule in schedules)) >= {
        *("adopted", "late", "skipped"),
        *("idle", "passed"),
    }


@pytest.mark.parametrize("seeds", parts(0, HISTORIES), ids=str)
def test_all_are_waited_for(seeds: range) -> None:
    """Crashes, zombies, rebalances, aborts: the same as in lockstep, and every round was merged once."""
    run_all(StrictSchedule, seeds)


@pytest.mark.parametrize("seeds", parts(0, HISTORIES), ids=str)
def test_nobody_is_waited_for_long(seeds: range) -> None:
    """The same, relearned with what is recorded of merges, has the same bits; and all come to the end."""
    run_all(HastySchedule, seeds)


@pytest.mark.long
@pytest.mark.parametrize("seeds", parts(1_000_000, LONG_HISTORIES), ids=str)
def test_many_more(seeds: range) -> None:
    """Both, for as long as one likes."""
    run_all(StrictSchedule, seeds)
    run_all(HastySchedule, seeds)
