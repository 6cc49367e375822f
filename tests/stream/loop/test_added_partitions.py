"""Partitions that are added while all members are away: who comes back claims them."""

from collections.abc import Callable
from itertools import chain

import pytest
from simulation.cluster import MemoryCluster
from simulation.joining.process import DEAD_LETTERS, JOIN_RULE, JoinerProcess
from simulation.member_process import MemberProcess
from simulation.process import TOPICS, Process
from support.clock import Clock
from support.records import stream

from stream_apple.errors import ConfigurationError
from stream_apple.stream.loop.added_partitions import LOOK_AFTER_S
from stream_apple.stream.loop.transaction import MORE_LOOKS

_STEPS = 30
_JOINED = (JOIN_RULE.impressions, JOIN_RULE.outcomes, JOIN_RULE.examples, DEAD_LETTERS)

Start = Callable[[MemoryCluster, str, Clock[float]], MemberProcess]


def worker(cluster: MemoryCluster, instance: str, clock: Clock[float]) -> Process:
    """One that learns."""
    return Process(cluster, instance, measured=False, clock=clock)


def joiner(cluster: MemoryCluster, instance: str, clock: Clock[float]) -> JoinerProcess:
    """One that joins."""
    return JoinerProcess(cluster, instance, clock)


def owned(process: MemberProcess) -> list[int]:
    """The partitions that it has."""
    assert process.ended is None, process.error
    if isinstance(process, JoinerProcess):
        return sorted(process.loop.owned)
    assert isinstance(process, Process)
    return sorted(process.owned.by_number)


def live_on(members: list[MemberProcess], clock: Clock[float], seconds: float) -> None:
    """Let all work in turn while time passes."""
    for _ in range(_STEPS):
        clock.now += seconds / _STEPS
        for member in members:
            member.step()


@pytest.fixture
def clock() -> Clock[float]:
    """That of all members."""
    return Clock(1_700_000_000.0)


@pytest.mark.parametrize(("topics", "start"), [(TOPICS[:4], worker), (_JOINED, joiner)], ids=["worker", "joiner"])
@pytest.mark.parametrize("names", [["a"], ["a", "b"]], ids=["alone", "two"])
def test_who_comes_back_claims_them(
    topics: tuple[str, ...], start: Start, names: list[str], clock: Clock[float]
) -> None:
    """The group gives each what it had; a minute later one of them finds that nobody has the others."""
    cluster = MemoryCluster(dict.fromkeys(topics, 2))
    for number in range(2):
        cluster.load(topics[0], stream(5, seed=1, partition=number))
    members = [start(cluster, name, clock) for name in names]
    live_on(members, clock, 10)
    for member in members:
        member.stop()
    cluster.add_partitions(4)
    members = [start(cluster, name, clock) for name in names]
    live_on(members, clock, 10)
    assert sorted(chain(*map(owned, members))) == [0, 1]
    live_on(members, clock, LOOK_AFTER_S)
    assert sorted(chain(*map(owned, members))) == [0, 1, 2, 3]


def test_nobody_is_disturbed_where_each_partition_has_an_owner(clock: Clock[float]) -> None:
    """An offset shows that a partition has one."""
    cluster = MemoryCluster(dict.fromkeys(TOPICS[:4], 2))
    for number in range(2):
        cluster.load(TOPICS.examples, stream(5, seed=1, partition=number))
    members: list[MemberProcess] = [worker(cluster, name, clock) for name in ("a", "b")]
    live_on(members, clock, 2 * LOOK_AFTER_S)
    for member in members:
        member.stop()
    restarted = [worker(cluster, name, clock) for name in ("a", "b")]
    live_on([*restarted], clock, 2 * LOOK_AFTER_S)
    assert ["rejoin" in member.broker.calls for member in restarted] == [False, False]


@pytest.mark.parametrize(("topics", "start"), [(TOPICS[:4], worker), (_JOINED, joiner)], ids=["worker", "joiner"])
def test_topics_get_partitions_one_after_the_other(topics: tuple[str, ...], start: Start, clock: Clock[float]) -> None:
    """A member that is assigned partitions meanwhile looks again, and goes on when the topics are equal."""
    cluster = MemoryCluster(dict.fromkeys(topics, 2))
    member = start(cluster, "a", clock)
    for _ in range(2):
        live_on([member], clock, 1)
        cluster.add_partitions(len(cluster.logs(topics[0])) + 1, topics[1:])
        cluster.group(member.memory.who.group, topics[0]).shake()
        before = member.broker.calls.count("rejoin")
        while member.broker.calls.count("rejoin") <= before + MORE_LOOKS // 2:
            member.step()
        cluster.add_partitions(len(cluster.logs(topics[1])))
    live_on([member], clock, 1)
    assert owned(member) == [0, 1, 2, 3]


@pytest.mark.parametrize(("topics", "start"), [(TOPICS[:4], worker), (_JOINED, joiner)], ids=["worker", "joiner"])
def test_topics_stay_unequal(topics: tuple[str, ...], start: Start, clock: Clock[float]) -> None:
    """The member that was assigned partitions ends as at its start."""
    cluster = MemoryCluster(dict.fromkeys(topics, 2))
    member = start(cluster, "a", clock)
    live_on([member], clock, 1)
    cluster.add_partitions(3, topics[1:])
    cluster.group(member.memory.who.group, topics[0]).shake()
    while member.ended is None:
        member.step()
    assert isinstance(member.error, ConfigurationError)
    assert "to have 2 partitions" in str(member.error)
