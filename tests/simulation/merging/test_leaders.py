"""Who merges changes: at any moment the owner of partition 0 falls asleep, or another has it."""

from collections.abc import Callable

import pytest
from simulation.cluster import MemoryCluster
from simulation.merging.histories import STRICT
from simulation.merging.rules import check_merges
from simulation.process import GROUP, Process
from simulation.world import (
    MOST_TURNS,
    check_outputs,
    check_states,
    complete,
    expected_of,
    make_cluster,
    make_input,
    setup_of,
)
from support.records import TOPIC

OF = (5, (30, 14, 12))
MERGING = STRICT[0]
TURNS = 90
"""More than a life of undisturbed workers has."""
STEP = 7
"""One place of so many is tried: begins, sends, flushes and commits recur at other distances."""


def loaded() -> MemoryCluster:
    """All records are there."""
    cluster = make_cluster(len(OF[1]))
    for records in make_input(*OF, closed=True):
        cluster.load(TOPIC, records)
    return cluster


def worker(cluster: MemoryCluster, name: str) -> Process:
    """One that merges."""
    return Process(cluster, name, setup=setup_of(MERGING), tick=0.01, measured=False)


def take_turns(processes: list[Process], count: int) -> None:
    """So many each."""
    for _ in range(count):
        for process in processes:
            process.step()
            assert process.ended is None, process.error


def check(cluster: MemoryCluster, last: Process) -> None:
    """All is as in an undisturbed run, and each round was merged once."""
    expected = expected_of(*OF, MERGING)
    check_states(last, expected)
    check_outputs(cluster, expected)
    assert check_merges(cluster, setup_of(MERGING)).manifests


def until(condition: Callable[[], bool], processes: list[Process]) -> None:
    """Turns until that is so."""
    for _ in range(MOST_TURNS):
        if condition():
            return
        take_turns(processes, 1)
    raise AssertionError("expected an end")


@pytest.mark.parametrize("turns", range(0, TURNS, 6))
def test_a_leader_sleeps_beyond_its_session(turns: int) -> None:
    """Its successor merges what it had begun, or knows that it was done; when it wakes up, it changes nothing."""
    cluster = loaded()
    group = cluster.group(GROUP, TOPIC)
    first, second = worker(cluster, "worker-0"), worker(cluster, "worker-1")
    take_turns([first, second], turns)
    group.expire("worker-0")
    before = len(check_merges(cluster, setup_of(MERGING)).manifests) if turns else 0
    until(lambda: sorted(second.live) == [0, 1, 2], [second])
    take_turns([second], 25)
    # It goes on where it stood, for as long as it takes it to learn that it is nobody any more.
    for _ in range(3):
        if first.ended is None:
            first.step()
    first.kill()
    group.expire("worker-0")
    complete(cluster, second)
    check(cluster, second)
    assert len(check_merges(cluster, setup_of(MERGING)).manifests) >= before


def test_a_leader_is_overtaken_in_a_transaction() -> None:
    """It stands still for longer than its session, with a merged model or whatever else in its open transaction.

    Its successor has all partitions and merges meanwhile; nothing that the old one does then is to be seen.
    """

    def in_two_lives(call: int) -> Process:
        cluster = loaded()
        group = cluster.group(GROUP, TOPIC)
        first, second = worker(cluster, "worker-0"), worker(cluster, "worker-1")

        def overtaken() -> None:
            group.expire("worker-0")
            take_turns([second], 40)

        first.broker.interludes[call] = overtaken
        for _ in range(TURNS):
            if first.ended is None:
                first.step()
            take_turns([second], 1)
        first.kill()
        group.expire("worker-0")
        cluster.transactions.init(first.memory.who.transactional_id)  # as its next life does
        complete(cluster, second)
        check(cluster, second)
        return first

    calls = in_two_lives(-1).broker.calls
    places = [number for number, name in enumerate(calls) if name in {"begin", "send", "flush", "commit"}]
    assert len(places) > 40
    for number in places[::STEP]:
        in_two_lives(number)


@pytest.mark.parametrize("turns", range(0, TURNS, 6))
def test_partition_0_moves(turns: int) -> None:
    """A worker comes whose share it becomes; then that one goes, and it moves back."""
    cluster = loaded()
    group = cluster.group(GROUP, TOPIC)
    old, new = worker(cluster, "worker-1"), worker(cluster, "worker-0")
    until(lambda: 0 in old.live, [old])
    take_turns([old], turns)
    until(lambda: 0 in new.live, [old, new])
    take_turns([old, new], turns // 2)
    new.stop()
    group.expire("worker-0")
    complete(cluster, old)
    check(cluster, old)
