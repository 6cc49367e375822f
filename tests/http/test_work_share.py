"""How long a thread rests for what it has done, by a clock of the test's."""

import pytest
from support.clock import Clock

from stream_apple.http.work_share import WorkShare


class Worker:
    """A thread whose work and whose time are what the test says."""

    def __init__(self) -> None:
        self.clock = Clock(50.0)
        self.used = 0.0
        self.share = WorkShare(0.1, 2.0, lambda: self.used, self.clock)

    def work(self, seconds: float) -> float:
        """Work for so long; the rest that this takes."""
        self.used += seconds
        self.clock.now += seconds
        return self.share.rest_s()

    def rest(self, seconds: float) -> float:
        """Do nothing for so long; the rest that is left."""
        self.clock.now += seconds
        return self.share.rest_s()


def test_a_burst_takes_no_rest() -> None:
    """After a quiet time there is room for `burst_s` seconds of work, and for no more however long it was."""
    worker = Worker()
    assert worker.rest(1000.0) == 0.0
    assert worker.work(1.0) == 0.0
    assert worker.work(1.0) == 0.0
    assert worker.work(1.0) > 0.0


def test_what_was_used_is_rested_off() -> None:
    """A second beyond the burst, at a tenth of a core, is ten seconds; half a rest leaves the other half."""
    worker = Worker()
    left = worker.work(3.0)
    assert left == pytest.approx(10.0)
    assert worker.rest(left / 2) == pytest.approx(left / 2)
    assert worker.rest(left / 2) == pytest.approx(0.0)


def test_in_the_long_run_it_is_the_share() -> None:
    """Whoever works whenever it may, in pieces of any size, works for a tenth of the time."""
    worker = Worker()
    begun = worker.clock.now
    for piece in range(1, 400):
        worker.rest(worker.work(0.001 * piece))
    assert worker.used == pytest.approx(2.0 + 0.1 * (worker.clock.now - begun), rel=0.01)
