"""What a worker logs of its way: epochs with their losses, and that it has caught up, once."""

import math

import pytest
from structlog.typing import EventDict
from support.clock import Clock
from support.records import new_model, stream

from stream_apple.config.duration import FEW_EXAMPLES, MANY_EPOCHS
from stream_apple.monitoring.milestones import EACH, EVERY_S, LONG_BEHIND_S, LOOKS, CaughtUp, EpochLog
from stream_apple.stream.model.time_budget import Step
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.partitions.recovery import RecoveryPlan
from stream_apple.stream.partitions.state import State


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
        records = stream(self.partition.sent_offset + 2 * count, bad_share=0.0)
        left = [record for record in records if record.at >= self.partition.sent_offset][:count]
        self.partition.sent_offset = self.model.process(left).next_offset


def names(events: list[EventDict]) -> list[str]:
    """Of the events."""
    return [event["event"] for event in events]


def test_an_epoch_s_end_tells_its_losses(log_events: list[EventDict]) -> None:
    """The epoch's own, beside linear's; null instead of NaN, which JSON does not have."""
    watched = Watched()
    model = watched.model
    result = model.process(stream(1000, bad_share=0.0))
    epochs = EpochLog(watched.clock)
    epochs.passed(watched.partition, result)
    assert names(log_events) == ["epoch_ended"] * len(result.ends)
    assert len(result.ends) > 3
    last = log_events[-1]
    assert last["loss"] == pytest.approx(model.learner.progress.report("last_epoch").loss, abs=1e-6)
    assert last["linear_loss"] == pytest.approx(model.learner.progress.report("last_epoch").linear_loss, abs=1e-6)
    assert last["loss"] != last["linear_loss"]
    nan = result.ends[0]._replace(losses=result.ends[0].losses._replace(loss=math.nan))
    epochs.passed(watched.partition, result._replace(ends=[nan]))
    assert log_events[-1]["loss"] is None


class Replayed:
    """A partition that is learned, told to a log of its epochs; each batch is one epoch of this many examples."""

    def __init__(self, examples: int = 20, growing: float = 0.9) -> None:
        self.watched = Watched()
        self.log = EpochLog(self.watched.clock)
        result = self.watched.model.process(stream(400, bad_share=0.0))
        self.batch = result._replace(
            ends=result.ends[:1],
            learned=examples,
            unlabelled=0,
            replayed=0,
            seconds={Step.GROW: growing, Step.LEARN: 1.0 - growing},
        )

    def epochs(self, count: int, seconds_each: float = 0.01) -> None:
        """So many pass."""
        for _ in range(count):
            self.watched.clock.now += seconds_each
            self.log.passed(self.watched.partition, self.batch)


def test_a_year_of_epochs_is_not_a_line_each(log_events: list[EventDict]) -> None:
    """The first have theirs; then one now and then, with how many have ended since; none is forgotten."""
    year = Replayed(examples=5000)
    year.epochs(8760)
    assert set(names(log_events)) == {"epoch_ended"}
    assert EACH < len(log_events) < EACH + 8760 * 0.01 / EVERY_S + 1
    assert [event["epochs"] for event in log_events[:EACH]] == [1] * EACH
    assert {event["epochs"] for event in log_events[EACH + 1 :]} <= {1000, 1001}
    year.epochs(1, seconds_each=3600)
    assert sum(event["epochs"] for event in log_events) == 8761
    assert log_events[-1]["epochs"] > 1
    year.epochs(1, seconds_each=3600)
    assert log_events[-1]["epochs"] == 1, "at the pace of a stream, every end has its line again"


def warnings(events: list[EventDict]) -> list[EventDict]:
    """Those of epochs that are too short."""
    return [event for event in events if event["event"] == "epochs_too_short"]


def test_short_epochs_are_told_once(log_events: list[EventDict]) -> None:
    """With the setting, what it is, and a length in which there would be a thousand examples."""
    history = Replayed(examples=50)
    history.epochs(10 * MANY_EPOCHS)
    (event,) = warnings(log_events)
    assert event["log_level"] == "warning"
    del event["log_level"]
    assert event == {
        "event": "epochs_too_short",
        "partition": 0,
        "setting": "epochs.length",
        "length": "1h",
        "better": "1d",
        "epochs": MANY_EPOCHS,
        "examples": 50 * MANY_EPOCHS,
        "growing_share": 0.9,
    }


@pytest.mark.parametrize(
    ("examples", "growing", "seconds_each"),
    [(FEW_EXAMPLES, 0.9, 0.01), (50, 0.4, 0.01), (50, 0.9, 3600.0), (50, 0.9, 400.0)],
    ids=["enough examples", "little growing", "a live stream", "hardly faster than it came"],
)
def test_other_epochs_are_long_enough(
    examples: int, growing: float, seconds_each: float, log_events: list[EventDict]
) -> None:
    """Few examples an epoch cost nothing that anybody waits for, unless it is history that is learned."""
    stream_of = Replayed(examples, growing)
    stream_of.epochs(3 * MANY_EPOCHS, seconds_each)
    assert warnings(log_events) == []


def test_history_after_a_live_stream_is_told_of(log_events: list[EventDict]) -> None:
    """Each span of epochs is judged by itself."""
    partition = Replayed()
    partition.epochs(MANY_EPOCHS, 3600.0)
    partition.epochs(MANY_EPOCHS)
    assert len(warnings(log_events)) == 1


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
    """Forty times behind for a second, and level again, are told as often as what is learned doubles."""
    watched = Watched()
    for _ in range(40):
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
