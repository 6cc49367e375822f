"""What a worker logs of its way: epochs with their losses, and that it has caught up, once."""

import math

import pytest
from structlog.typing import EventDict
from support.clock import Clock
from support.records import new_model, stream

from stream_apple.runtime.monitoring.milestones import LONG_BEHIND_S, LOOKS, CaughtUp, log_epoch_end
from stream_apple.runtime.partition import Partition, State
from stream_apple.runtime.recovery import RecoveryPlan


class Watched:
    """A worker with one partition, looked at once a second."""

    def __init__(self, state: State = State.LIVE, number: int = 0) -> None:
        self.model = new_model(number)
        self.partition = Partition(self.model, RecoveryPlan(self.model.lineage, 0))
        self.partition.enter(state)
        self.owned = {number: self.partition}
        self.clock = Clock(0.0)
        self.lag: float | None = 0.0
        self._caught_up = CaughtUp(self.clock)

    def look(self, seconds: float = 1.0, times: int = 1) -> None:
        """Look, some seconds after the last time."""
        for _ in range(times):
            self.clock.now += seconds
            self._caught_up.look(self.owned, lambda _: self.lag)

    def learn(self, count: int) -> None:
        """Learn so many examples more."""
        records = stream(self.partition.next_offset + 2 * count, bad_share=0.0)
        left = [record for record in records if record.at >= self.partition.next_offset][:count]
        self.partition.next_offset = self.model.process(left).next_offset


def names(events: list[EventDict]) -> list[str]:
    """Of the events."""
    return [event["event"] for event in events]


def test_an_epoch_s_end_tells_its_losses(log_events: list[EventDict]) -> None:
    """The epoch's own, beside linear's; null instead of NaN, which JSON does not have."""
    watched = Watched()
    model = watched.model
    result = model.process(stream(1000, bad_share=0.0))
    for end in result.ends:
        log_epoch_end(watched.partition, end)
    assert names(log_events) == ["epoch_ended"] * len(result.ends)
    assert len(result.ends) > 3
    last = log_events[-1]
    assert last["loss"] == pytest.approx(model.learner.progress.report("last_epoch").loss, abs=1e-6)
    assert last["linear_loss"] == pytest.approx(model.learner.progress.report("last_epoch").linear_loss, abs=1e-6)
    assert last["loss"] != last["linear_loss"]
    nan = result.ends[0]._replace(losses=result.ends[0].losses._replace(loss=math.nan))
    log_epoch_end(watched.partition, nan)
    assert log_events[-1]["loss"] is None


def test_catching_up_is_told_once(log_events: list[EventDict]) -> None:
    """Not while records wait, nor before that is known; then one line with what has been learned, and no other."""
    watched = Watched()
    watched.lag = None
    watched.look()
    watched.lag = 500.0
    watched.look()
    watched.learn(100)
    watched.look()
    assert log_events == []
    watched.lag = 0.0
    for _ in range(5):
        watched.look()
    (event,) = log_events
    assert (event["event"], event["partitions"]) == ("caught_up", [0])
    assert event["examples"] == watched.model.learner.examples > 0
    assert event["loss"] == pytest.approx(watched.model.learner.progress.report("recent").loss, abs=1e-6)
    assert event["linear_loss"] > 0


def test_a_worker_under_load_has_caught_up(log_events: list[EventDict]) -> None:
    """A stream that never stops always has some records on their way: fewer than come in a second are no backlog."""
    watched = Watched()
    watched.lag = 200.0
    watched.look()
    watched.learn(100)
    watched.look()
    assert log_events == []
    watched.lag = 40.0
    for _ in range(LOOKS):
        watched.learn(100)
        watched.look()
    assert names(log_events) == ["caught_up"]


def test_gusts_make_few_lines(log_events: list[EventDict]) -> None:
    """A hundred times behind for a second, and level again, are told as often as what is learned doubles."""
    watched = Watched()
    for _ in range(100):
        watched.lag = 1000.0
        watched.look()
        watched.learn(10)
        watched.lag = 0.0
        watched.look(times=LOOKS)
    assert names(log_events) == ["caught_up"] * len(log_events)
    assert 3 < len(log_events) < 12


def test_a_long_time_behind_is_worth_a_line(log_events: list[EventDict]) -> None:
    """After a minute behind, however little was learned; not after less."""
    watched = Watched()
    watched.learn(100)
    watched.look(times=LOOKS)
    watched.look()
    assert len(log_events) == 1
    for seconds, expected in ((LONG_BEHIND_S - 10, 1), (LONG_BEHIND_S, 2)):
        watched.lag = 1000.0
        watched.look()
        watched.look(seconds)
        watched.lag = 0.0
        watched.look(times=LOOKS)
        assert len(log_events) == expected


def test_other_partitions_are_told_anew(log_events: list[EventDict]) -> None:
    """All of them must be live; a worker without any has caught up with nothing."""
    watched = Watched()
    watched.look(times=LOOKS)
    watched.owned = {}
    watched.look(times=LOOKS)
    assert len(log_events) == 1
    other = Watched(State.REPLAYING, 1).partition
    watched.owned = {0: watched.partition, 1: other}
    watched.look(times=LOOKS)
    assert len(log_events) == 1
    other.enter(State.LIVE)
    watched.look(times=LOOKS)
    assert log_events[-1]["partitions"] == [0, 1]
