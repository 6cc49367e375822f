"""Partitions that merge, in whole lives of workers on a cluster in memory, against models that wait in one process."""

from collections.abc import Mapping, Sequence
from functools import cache

import pytest
from simulation.cluster import MemoryCluster
from simulation.faults import Fault, Kind, Pick, When, at_any_call, struck
from simulation.member_process import End
from simulation.process import GROUP, TOPICS, Process
from simulation.world import outputs_of, pointer_of
from stream.merging.cluster_of_rounds import MOST_TURNS, SETUP, TICK_S, cluster_of, finish, merged_rounds
from stream.merging.lockstep import Lockstep, hourly
from support.records import TOPIC, FakeRecord

from stream_apple.stream.loop.loop import LoopSettings
from stream_apple.stream.loop.transaction import CommitSettings

pytestmark = pytest.mark.usefixtures("small_sizes")


def small_input() -> dict[int, list[FakeRecord]]:
    """Two partitions, two boundaries: short enough to fail at each call of a life."""
    return {number: hourly(number, [4, 5 + number, 3]) for number in range(2)}


@cache
def small_lockstep() -> Lockstep:
    """What comes of the small input."""
    return Lockstep(SETUP.provenance, SETUP.model_settings, small_input()).learn()


@cache
def small_calls() -> tuple[str, ...]:
    """The calls of a life with the small input that nothing disturbs."""
    return tuple(cut(cluster_of(small_input()), Fault(10**9, Kind.CRASH)).broker.calls)


def check(cluster: MemoryCluster, given: Mapping[int, Sequence[FakeRecord]], *processes: Process) -> None:
    """Predictions and models are those of models that wait for each other; each merge is there once."""
    check_learned(cluster, Lockstep(SETUP.provenance, SETUP.model_settings, given).learn(), *processes)


def check_learned(cluster: MemoryCluster, wanted: Lockstep, *processes: Process) -> None:
    """Predictions and models are these; each merge is there once."""
    assert wanted.merges >= 2
    outputs = outputs_of(cluster)
    for number, answers in wanted.answers.items():
        assert [output.value for output in outputs[TOPICS.predictions, number]] == answers
    for number, model in wanted.models.items():
        pointer = pointer_of(cluster, number, SETUP)
        assert pointer is not None
        assert pointer.digest == model.digest()
    for process in processes:
        for number in process.models:
            assert process.models[number].digest() == wanted.models[number].digest()
    rounds = merged_rounds(cluster)
    assert len(rounds) == len(set(rounds)) == wanted.merges


def cut(cluster: MemoryCluster, fault: Fault) -> Process:
    """A life that ends with its fault, or with all its work; what it leaves."""
    process = Process(cluster, faults=[fault], setup=SETUP, tick=TICK_S)
    ends = {log.number: log.end for log in cluster.logs(TOPIC)}
    for _ in range(MOST_TURNS):
        process.step()
        if process.ended is not None:
            return process
        if process.live == ends:
            process.stop()
            return process
    raise AssertionError(f"expected an end, found {process.live}")


def until_answered(cluster: MemoryCluster, process: Process, count: int) -> None:
    """Let the process go on until there are so many predictions; it is left as it is then."""
    for _ in range(MOST_TURNS):
        process.step()
        assert process.ended is None, process.error
        if sum(len(log.committed()) for log in cluster.logs(TOPICS.predictions)) == count:
            return
    raise AssertionError(f"expected {count} predictions")


class TestTogether:
    """Whoever owns what, all partitions have at each round's end what all have learned."""

    @pytest.mark.parametrize("partitions", [1, 2, 4])
    def test_one_worker(self, partitions: int) -> None:
        """The bits are those of models that wait for each other in one process."""
        given = {number: hourly(number, [7, 4 + number, 9, 6]) for number in range(partitions)}
        cluster = cluster_of(given)
        process = Process(cluster, setup=SETUP, tick=TICK_S)
        finish(cluster, process)
        check(cluster, given, process)

    @pytest.mark.parametrize("workers", [2, 3])
    def test_several_workers(self, workers: int) -> None:
        """The same, and one of them leads."""
        given = {number: hourly(number, [7, 4 + number, 9, 6]) for number in range(4)}
        cluster = cluster_of(given)
        processes = [Process(cluster, f"worker-{name}", setup=SETUP, tick=TICK_S) for name in range(workers)]
        finish(cluster, *processes)
        check(cluster, given, *processes)

    def test_one_worker_uses_the_log_as_several_do(self) -> None:
        """Each partition writes its contribution, and what it has adopted; all are read from their topics."""
        given = {number: hourly(number, [7, 4 + number, 9, 6]) for number in range(4)}
        cluster = cluster_of(given)
        setup = SETUP._replace(loop=LoopSettings(1_000, CommitSettings(1_000, 0.3), 3600.0))
        process = Process(cluster, setup=setup, tick=TICK_S)
        until_answered(cluster, process, sum(map(len, given.values())))
        saved = [
            len({entry.transaction for entry in log.entries() if entry.record is not None})
            for log in cluster.logs(TOPICS.models)
        ]
        assert saved == [2 * 3] * len(given)  # of four rounds, the last has not ended
        assert "reader.fetch" in process.broker.calls
        process.stop()

    def test_batches_do_not_matter(self) -> None:
        """Nor do commits."""
        for fetched, committed in ((1, 1), (3, 1_000), (100, 2), (1_000, 1_000)):
            given = small_input()
            cluster = cluster_of(given)
            setup = SETUP._replace(loop=LoopSettings(fetched, CommitSettings(committed, 0.3), 1.0))
            process = Process(cluster, setup=setup, tick=TICK_S)
            finish(cluster, process)
            check(cluster, given, process)


class TestAccidents:
    """After any accident, answers, models and merges are those of a life without one."""

    @at_any_call
    @pytest.mark.parametrize("when", [When.BEFORE, When.AFTER, When.WITHIN])
    def test_killed_at_any_call(self, when: When, pick: Pick) -> None:
        """Its successor restores what was contributed, or adopted, and goes on as it would have.

        After the effect of a call that is not the last is before the next: what is dead makes no call in between.
        """
        calls = struck(small_calls(), Kind.CRASH, when)
        assert len(calls) >= (4 if when is When.WITHIN else 100)
        for call in calls[-1:] if when is When.AFTER else pick(small_calls(), calls):
            cluster = cluster_of(small_input())
            assert cut(cluster, Fault(call, Kind.CRASH, when)).ended is End.CRASHED
            last = Process(cluster, setup=SETUP, tick=TICK_S)
            finish(cluster, last)
            check_learned(cluster, small_lockstep(), last)

    @at_any_call
    @pytest.mark.parametrize("when", [When.BEFORE, When.AFTER])
    def test_a_transaction_fails_at_any_call(self, when: When, pick: Pick) -> None:
        """The same worker does it again."""
        for call in pick(small_calls(), struck(small_calls(), Kind.ABORTABLE, when)):
            cluster = cluster_of(small_input())
            finish(cluster, Process(cluster, faults=[Fault(call, Kind.ABORTABLE, when)], setup=SETUP, tick=TICK_S))
            last = Process(cluster, setup=SETUP, tick=TICK_S)
            finish(cluster, last)  # what failed on the way out is left to a successor
            check_learned(cluster, small_lockstep(), last)

    @pytest.mark.parametrize("step", [2, pytest.param(1, marks=pytest.mark.long)])
    @pytest.mark.parametrize("event", ["revoke", "lose"])
    def test_a_rebalance_at_any_turn(self, event: str, step: int) -> None:
        """Held or not, a partition that goes and comes back leaves no trace."""
        for turn in range(0, 60, step):
            cluster = cluster_of(small_input())
            process = Process(cluster, setup=SETUP, tick=TICK_S)
            group = cluster.group(GROUP, TOPIC)
            for _ in range(turn):
                process.step()
            if event == "revoke":
                group.shake()
            else:
                group.expire(process.instance)
            finish(cluster, process)
            check_learned(cluster, small_lockstep(), process)
