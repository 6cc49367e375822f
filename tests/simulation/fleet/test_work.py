"""What an event costs a worker grows with the partitions that it owns, and no faster: counted, not timed."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from simulation.cluster import MemoryCluster
from simulation.process import GROUP, Process, Setup
from simulation.world import SETUP, make_cluster
from support.clock import Clock
from support.operations import operations
from support.records import TOPIC, good

from stream_apple.stream.loop.loop import LoopSettings
from stream_apple.stream.loop.transaction import CommitSettings
from stream_apple.stream.positions.merge_note import MergeSettings

FEW, MANY = 12, 48
MOST = 1.3
"""So many times the work of each partition of a few may be that of each of many."""
TURN_S = 0.02
TURNS = 2_000


@dataclass
class Alone:
    """A worker that owns all partitions, and the time that it lives in."""

    cluster: MemoryCluster
    process: Process
    clock: Clock[float]

    @classmethod
    def of(cls, partitions: int, merging: MergeSettings | None = None, *, measured: bool = True) -> "Alone":
        """One that owns nothing yet; with metrics, whose gauges cost something each second, if it is measured."""
        cluster, clock = make_cluster(partitions), Clock(0.0)
        loop = LoopSettings(fetch_records=1_000, commits=CommitSettings(10_000, 0.5), snapshot_interval_s=60.0)
        setup = Setup(SETUP.settings, loop, SETUP.model, merging=merging)
        return cls(cluster, Process(cluster, setup=setup, measured=measured, clock=clock), clock)

    @property
    def partitions(self) -> range:
        """All there are."""
        return range(len(self.cluster.logs(TOPIC)))

    def arrive(self, hours: float) -> None:
        """One record in each partition."""
        for number in self.partitions:
            self.cluster.load(TOPIC, [good(self.cluster.log(TOPIC, number).end, hours=hours, partition=number)])

    def turn_until(self, done: Callable[[], bool]) -> None:
        """Iterate, TURN_S each; AssertionError if there is no end of it."""
        for _ in range(TURNS):
            self.clock.now += TURN_S
            self.process.step()
            assert self.process.ended is None, self.process.error
            if done():
                return
        raise AssertionError(f"no end within {TURNS} turns")

    def live(self) -> bool:
        """Whether it goes on with all partitions."""
        return len(self.process.live) == len(self.partitions)

    def committed(self) -> bool:
        """Whether all records are learned, and it is committed."""
        offsets = self.cluster.group(GROUP, TOPIC).offsets
        return self.live() and all(
            number in offsets and offsets[number].offset == self.cluster.log(TOPIC, number).end
            for number in self.partitions
        )


Event = Callable[[Alone], Callable[[], object]]
"""Prepares a worker, and returns what is counted."""


def _assigned(worker: Alone) -> Callable[[], object]:
    return lambda: worker.turn_until(worker.live)


def _answered(worker: Alone) -> Callable[[], object]:
    worker.turn_until(worker.live)
    worker.arrive(0.0)
    return lambda: worker.turn_until(worker.committed)


def _idle(worker: Alone) -> Callable[[], object]:
    _answered(worker)()
    turns = iter(range(100))  # two seconds, in which gauges are shown twice
    return lambda: worker.turn_until(lambda: next(turns, None) is None)


def _given_back(worker: Alone) -> Callable[[], object]:
    _answered(worker)()
    group = worker.cluster.group(GROUP, TOPIC)

    def shaken() -> None:
        group.shake()
        worker.turn_until(lambda: not worker.process.owned.by_number)
        worker.turn_until(worker.live)

    return shaken


def _taken_away(worker: Alone) -> Callable[[], object]:
    _answered(worker)()

    def lost() -> None:
        worker.cluster.group(GROUP, TOPIC).expire("worker-0")
        worker.turn_until(lambda: not worker.process.owned.by_number)
        worker.turn_until(worker.live)

    return lost


def _epoch_ends(worker: Alone) -> Callable[[], object]:
    _answered(worker)()
    worker.arrive(1.0)
    return lambda: worker.turn_until(worker.committed)


@pytest.mark.parametrize("event", [_assigned, _answered, _idle, _given_back, _epoch_ends])
def test_work_grows_with_the_partitions(event: Event) -> None:
    """Four times as many partitions, four times the work, that of metrics included."""
    few, many = (operations(event(Alone.of(count))) / count for count in (FEW, MANY))
    assert many <= MOST * few


def test_recovering_grows_with_the_partitions() -> None:
    """All are taken away, and found again one after the other: each in some turns, in which the others cost little."""
    few, many = (operations(_taken_away(Alone.of(count, measured=False))) / count for count in (FEW, MANY))
    assert many <= MOST * few


def test_a_turn_of_a_round_grows_with_the_partitions() -> None:
    """From the boundary to the adopted models, one snapshot after the other, with the leader looking at all."""
    costs = []
    for count in (FEW, MANY):
        worker = Alone.of(count, MergeSettings(1, "votes", float("inf"), float("inf")), measured=False)
        round_, before = _epoch_ends(worker), len(worker.process.broker.calls)
        work = operations(round_)
        turns = worker.process.broker.calls[before:].count("fetch")
        costs.append(work / turns / count)
    assert costs[1] <= MOST * costs[0]
