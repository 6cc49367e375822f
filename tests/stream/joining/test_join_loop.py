"""The joiner's loop where logs have lost what it needs; all else it goes through is in `tests/simulation/joining`."""

import math

import msgpack
import pytest
from simulation.cluster import MemoryCluster
from simulation.joining.process import DEAD_LETTERS, JOIN_RULE, JoinerProcess
from simulation.log import Message
from simulation.member_process import End
from stream.joining.two_logs import RULE, SECOND, START
from structlog.typing import EventDict
from support.clock import Clock
from support.oracles.offline_join import content_of

from stream_apple.errors import GapError
from stream_apple.records.mapping import OWN_MESSAGE, InputMapping
from stream_apple.stream.joining.own_messages import heartbeat_key, heartbeat_value
from stream_apple.stream.model.dead_letters import dead_letter_origin

DUE = (RULE.wait + RULE.tolerance) / SECOND


class World:
    """One partition, a joiner of it, and the time of day."""

    def __init__(self) -> None:
        topics = (JOIN_RULE.impressions, JOIN_RULE.outcomes, JOIN_RULE.examples, DEAD_LETTERS)
        self.cluster = MemoryCluster(dict.fromkeys(topics, 1))
        self.clock = Clock(START / SECOND)
        self.joiner = JoinerProcess(self.cluster, "joiner-0", self.clock)

    def send(self, topic: str, name: str, label: float | None = None) -> None:
        """An impression, or an outcome with a label, that happens now."""
        content = {"id": name, "features": {}} if label is None else {"id": name, "label": label}
        message = Message(b"key", msgpack.packb(content), int(self.clock.now * SECOND))
        self.cluster.log(topic, 0).append(message)

    def pass_time(self, seconds: float) -> None:
        """Let the joiner work while time goes on."""
        for _ in range(40):
            self.clock.now += seconds / 40
            if self.joiner.ended is None:
                self.joiner.step()

    def examples(self) -> list[tuple[str, float]]:
        """Id and label of each example."""
        found = [content_of(record.payload) for record in self.cluster.log(JOIN_RULE.examples, 0).committed()]
        return [(each["id"], each["label"]) for each in found]

    def refused(self) -> list[tuple[str, int, str]]:
        """Topic, offset and reason of each dead letter."""
        origins = [dead_letter_origin(record) for record in self.cluster.log(DEAD_LETTERS, 0).committed()]
        return [(each.topic, each.offset, each.reason) for each in origins if each]

    def commit(self) -> None:
        """Have the joiner stop in order."""
        self.joiner.stop()
        self.cluster.transactions.settle()


@pytest.fixture
def world() -> World:
    """Nothing has happened."""
    return World()


def test_time_goes_on_without_outcomes(world: World) -> None:
    """Heartbeats alone make impressions due."""
    world.pass_time(10)
    world.send(JOIN_RULE.impressions, "a")
    world.pass_time(DUE - 2)
    world.commit()
    assert world.examples() == []
    world.joiner = JoinerProcess(world.cluster, "joiner-0", world.clock)
    world.pass_time(5)
    world.commit()
    assert world.examples() == [("a", -1)]


def test_outcomes_are_deleted_before_they_are_read(world: World, log_events: list[EventDict]) -> None:
    """While nobody joins; the impressions that may need them are late, and those behind them are not."""
    world.pass_time(10)
    world.commit()
    world.send(JOIN_RULE.impressions, "a")
    world.send(JOIN_RULE.outcomes, "a", 1)
    outcomes = world.cluster.log(JOIN_RULE.outcomes, 0)
    outcomes.delete_before(outcomes.end)
    world.clock.now += 10
    world.joiner = JoinerProcess(world.cluster, "joiner-0", world.clock)
    world.pass_time(20)
    world.send(JOIN_RULE.impressions, "b")
    world.send(JOIN_RULE.outcomes, "b", 2)
    world.pass_time(DUE + 20)
    world.commit()
    assert world.examples() == [("b", 2)]
    assert world.refused() == [(JOIN_RULE.impressions, 0, "late")]
    assert "outcomes_gone" in [event["event"] for event in log_events]


def test_outcomes_are_deleted_while_they_are_waited_for(world: World) -> None:
    """The joiner starts over at what is left, and goes on."""
    world.pass_time(10)
    outcomes = world.cluster.log(JOIN_RULE.outcomes, 0)
    for number in range(30):
        world.send(JOIN_RULE.outcomes, f"o{number}", 1)
    outcomes.delete_before(outcomes.end)
    world.send(JOIN_RULE.impressions, "a")
    world.pass_time(20)
    world.send(JOIN_RULE.impressions, "b")
    world.send(JOIN_RULE.outcomes, "b", 2)
    world.pass_time(DUE + 20)
    world.commit()
    assert world.joiner.error is None
    assert world.examples()[-1:] == [("b", 2)]


def test_impressions_are_deleted_before_they_are_joined(world: World) -> None:
    """The joiner ends, and names the gap."""
    world.pass_time(10)
    world.commit()
    world.send(JOIN_RULE.impressions, "a")
    impressions = world.cluster.log(JOIN_RULE.impressions, 0)
    impressions.delete_before(impressions.end)
    world.joiner = JoinerProcess(world.cluster, "joiner-0", world.clock)
    world.pass_time(5)
    assert world.joiner.ended is End.LEFT
    assert isinstance(world.joiner.error, GapError)
    assert 'worker.accept_gap = ["0@0"]' in str(world.joiner.error)


def test_limits_that_are_not_the_joiners_are_not_named(world: World) -> None:
    """It passes on what any worker might take: a dead letter that named `limits.max_label` would mislead."""
    world.send(JOIN_RULE.impressions, "a")
    world.send(JOIN_RULE.outcomes, "a", math.inf)
    world.pass_time(DUE + 5)
    world.commit()
    assert world.refused() == [(JOIN_RULE.outcomes, 0, "bad_label")]
    (letter,) = world.cluster.log(DEAD_LETTERS, 0).committed()
    assert "expected a label that is finite, found a number: inf" in str(letter.headers())


def test_impressions_that_were_made_anew(world: World) -> None:
    """Heartbeats of before cover offsets that mean other impressions now."""
    key = heartbeat_key("before", JOIN_RULE.impressions, JOIN_RULE.examples)
    for number in range(90):
        beat = Message(key, heartbeat_value(1_000 + number), int((world.clock.now + number) * SECOND))
        world.cluster.log(JOIN_RULE.outcomes, 0).append(beat)
    world.clock.now += 90
    world.send(JOIN_RULE.impressions, "a")
    world.send(JOIN_RULE.outcomes, "a", 1)
    world.pass_time(DUE + 5)
    world.commit()
    assert (world.examples(), world.refused()) == ([("a", 1)], [])


@pytest.mark.parametrize("shape", [None, OWN_MESSAGE])
def test_an_outcomes_topic_of_several_joins(world: World, shape: InputMapping | None) -> None:
    """Heartbeats of those who join other impressions cover those, whose offsets say nothing of ours."""
    world.joiner = JoinerProcess(world.cluster, "joiner-0", world.clock, rule=JOIN_RULE._replace(outcome_shape=shape))
    key = heartbeat_key("others", "other-impressions", JOIN_RULE.examples)
    for name in ("a", "b", "c"):
        world.pass_time(DUE / 2)
        beat = Message(key, heartbeat_value(1_000_000), int(world.clock.now * SECOND))
        world.cluster.log(JOIN_RULE.outcomes, 0).append(beat)
        world.pass_time(DUE / 2)
        world.send(JOIN_RULE.impressions, name)
        world.pass_time(RULE.wait / SECOND / 2)
        world.send(JOIN_RULE.outcomes, name, 1)
    world.pass_time(DUE + 5)
    world.commit()
    assert world.examples() == [("a", 1), ("b", 1), ("c", 1)]
    assert world.refused() == []
