"""The joiner's loop on the broker in memory, in random histories."""

import pytest
from simulation.history import check_disturbed, run_all
from simulation.joining.schedule import JoinSchedule
from simulation.member_process import End

SCHEDULES = 50
LONG_SCHEDULES = 5_000


class TestRandomHistories:
    """Many joiners, and all kinds of accidents at once."""

    def test_histories(self) -> None:
        """Crashes, restarts, zombies, rebalances, aborts, time-outs, late requests, retention, in any order.

        Processes end in every way, and all that a loop can be told is told.
        """
        histories = run_all(JoinSchedule, range(SCHEDULES))
        check_disturbed(histories)
        processes = [process for history in histories for process in history.processes]
        assert {process.ended for process in processes} == {None, *End}
        called = {name for process in processes for name in process.broker.calls}
        assert {"abort", "rejoin", "reader.fetch", "commit", "send", "close"} <= called

    @pytest.mark.long
    def test_many_more(self) -> None:
        """The same, for as long as one likes."""
        run_all(JoinSchedule, range(SCHEDULES, SCHEDULES + LONG_SCHEDULES))
