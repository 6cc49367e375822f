"""A fixed history of two workers in which everything happens that happens to workers, so that every call can fail.

    worker-0 works alone     epochs end; predictions, dead letters, snapshots, commits
    worker-1 joins           a rebalance: partitions are revoked, and a model moves by way of its snapshot
    worker-0 is killed       its session ends; worker-1 restores what it left, and replays
    worker-0 is back         another rebalance
    both stop                the last commits, with snapshots of all models

A process that a fault has ended is started again with its identity, as a supervisor does.
"""

import random
from collections.abc import Callable
from itertools import islice

from simulation.faults import Fault, Kind
from simulation.member_process import End
from simulation.process import GROUP, Process
from simulation.world import (
    MOST_TURNS,
    SETUP,
    check_outputs,
    check_states,
    complete,
    expected_of,
    make_cluster,
    make_input,
)
from stream.learning.late_threads import LateThreads
from support.records import TOPIC

SEED = 5
COUNTS = (30, 26)
_TICK_S = 0.04
_SETUP = SETUP._replace(loop=SETUP.loop._replace(snapshot_interval_s=8.0))


class Script:
    """One performance, with a fault in one of the processes; they are numbered in the order in which they start.

    late     calls of learning threads end when they please, though always in the same way
    network  of the cluster; nothing disturbs the last process, which checks the models
    """

    def __init__(self, process: int = -1, fault: Fault | None = None, *, late: bool = False) -> None:
        self._late = late
        # Undisturbed, and where a process comes to a bad end.
        self._measured = fault is None or fault.kind is Kind.ABORTABLE
        self._faults = {process: [fault]} if fault is not None else {}
        self._cluster = make_cluster(len(COUNTS))
        self.network = self._cluster.network
        self._input = [iter(records) for records in make_input(SEED, COUNTS)]
        self._group = self._cluster.group(GROUP, TOPIC)
        self._running: dict[str, Process] = {}
        self.processes: list[Process] = []

    def run(self) -> "Script":
        """From the beginning to the end; AssertionError unless the result is that of an uninterrupted run."""
        self._arrive(18)
        self._start("worker-0")
        self._turns(7)
        self._start("worker-1")
        self._turns(11)
        self._running.pop("worker-0").kill()
        self._group.expire("worker-0")
        self._turns(4)
        self._arrive(6)
        self._turns(3)
        self._start("worker-0")
        self._turns(3)
        self._arrive(100)
        self._turns_until(self._all_is_learned)
        for instance in list(self._running):
            self._stop(instance)
        self.network.calm()
        last = Process(self._cluster, "last", setup=SETUP, measured=False)
        complete(self._cluster, last)
        self.network.settle()
        expected = expected_of(SEED, COUNTS)
        check_states(last, expected)
        check_outputs(self._cluster, expected)
        return self

    def _arrive(self, count: int) -> None:
        for records in self._input:
            self._cluster.load(TOPIC, list(islice(records, count)))

    def _start(self, instance: str) -> None:
        faults = self._faults.get(len(self.processes), [])
        threads = LateThreads(random.Random(len(self.processes)), 0.5) if self._late else None
        process = Process(
            self._cluster, instance, faults, _SETUP, tick=_TICK_S, measured=self._measured, threads=threads
        )
        self.processes.append(process)
        self._running[instance] = process

    def _turns(self, count: int) -> None:
        for _ in range(count):
            for instance, process in list(self._running.items()):
                process.step()
                self._revive(instance)

    def _turns_until(self, condition: Callable[[], bool]) -> None:
        for _ in range(MOST_TURNS):
            if condition():
                return
            self._turns(1)
        raise AssertionError(f"no end after {MOST_TURNS} turns: {[p.live for p in self._running.values()]}")

    def _all_is_learned(self) -> bool:
        """By all together, and each has its share: whoever has joined has also aborted what its predecessor left."""
        live: dict[int, int] = {}
        for process in self._running.values():
            live |= process.live
        shared = all(process.live for process in self._running.values())
        return shared and live == {log.number: log.end for log in self._cluster.logs(TOPIC)}

    def _stop(self, instance: str) -> None:
        """A worker that fails on its way out is started again, and asked again when it has caught up."""
        self._running[instance].stop()
        while self._running[instance].ended is not End.STOPPED:
            self._revive(instance)
            self._turns_until(self._all_is_learned)
            self._running[instance].stop()
        del self._running[instance]
        self._group.expire(instance)

    def _revive(self, instance: str) -> None:
        process = self._running[instance]
        if process.ended is not None:
            assert not process.unprovoked, f"{instance} left without a reason: {process.error!r}"
            self._start(instance)
