"""Lag: behind an end that moves, in offsets and seconds, also when nothing is told any more."""

import math

from stream_apple.stream.following.lag import Lag


class _Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_seconds_since_all_there_was_had_been_learned() -> None:
    """Of the newest moment whose end has been reached; and they grow while nothing is told."""
    time = _Time()
    lag = Lag(time)
    assert lag.seconds == math.inf
    lag.tell(100)
    lag.reach(40)
    assert (lag.records, lag.waited_s) == (60, 0.0)
    time.now = 2.0
    lag.tell(150)
    lag.reach(100)
    assert (lag.records, lag.seconds, lag.waited_s) == (50, 2.0, 0.0)
    time.now = 3.0
    assert lag.waited_s == 1.0
    lag.reach(150)
    assert (lag.records, lag.seconds, lag.waited_s) == (0, 1.0, 0.0)
    lag.tell(150)
    assert lag.seconds == 0.0
    time.now = 60.0  # nobody knows what there is by now; but nothing is known that has not been learned
    assert (lag.seconds, lag.waited_s) == (57.0, 0.0)


def test_a_log_that_is_made_anew() -> None:
    """What was told of the old one is forgotten."""
    time = _Time()
    lag = Lag(time)
    lag.tell(1_000)
    lag.reach(10)
    lag.tell(20)
    time.now = 1.0
    lag.reach(20)
    assert (lag.records, lag.waited_s) == (0, 0.0)


def test_memory_is_bounded() -> None:
    """A day without progress is told in few samples, the first of which stays."""
    time = _Time()
    lag = Lag(time)
    lag.reach(0)
    for second in range(100_000):
        time.now = float(second)
        lag.tell(second + 1)
    assert len(lag._ends) <= 1_000
    assert lag.waited_s == 99_999.0


def test_an_end_may_be_reached_while_it_is_asked_for() -> None:
    """By the thread that learns, while another answers: here at the very moment at which that looks at the clock."""
    reached = [0, 0, 1]  # by each look at the clock

    def now() -> float:
        lag.reach(reached.pop(0))
        return 5.0

    lag = Lag(now)
    lag.tell(1)
    assert lag.waited_s == 0.0
    assert lag.waited_s == 0.0
    assert lag.waited_s == 0.0
