"""Random histories of a group of workers, each a function of its seed.

At every step one of these happens: a worker takes a turn, is started, killed, asked to stop, or made to fail at one
of its next calls; falls asleep and wakes up as a zombie; its session ends; a transaction times out; a second worker
with the same identity appears; records arrive; the cleaner runs; retention removes what no model needs.
Afterwards one clean worker finishes, and the result is compared with that of an uninterrupted run.
"""

import random
from collections.abc import Callable
from itertools import islice
from typing import Self

from simulation.faults import Fault, Kind, When
from simulation.process import GROUP, TOPICS, Process
from simulation.world import (
    Expected,
    Input,
    check_outputs,
    check_restart,
    check_states,
    complete,
    expected_of,
    make_cluster,
    make_input,
    pointer_of,
    setup_of,
)
from stream.learning.late_threads import LateThreads
from support.records import TOPIC

from stream_apple.stream.positions.merge_settings import MergeSettings

STEPS = 70
INPUTS = [(1, (30, 22)), (2, (24, 8, 20)), (3, (45,)), (4, (18, 18, 18)), (5, (40, 12))]
"""Seed of the records, and how many there are in each partition."""
IDENTITIES = ["worker-0", "worker-1", "worker-2"]

Note = Callable[[str], None]


class Schedule:
    """One history. `note` is told every step.

    processes  all that were ever started, in their order
    """

    def __init__(self, seed: int, note: Note = lambda _: None, merging: MergeSettings | None = None) -> None:
        self._draw = random.Random(seed)
        self._note = note
        self._of = self._draw.choice(INPUTS)
        self._setup = setup_of(merging)
        self._cluster = make_cluster(len(self._of[1]))
        self._input = [iter(records) for records in self._given]
        self._living: list[Process] = []
        self._asleep: list[Process] = []
        self._identities = IDENTITIES[: self._draw.randint(1, 3)]
        self._tick = self._draw.choice([0.01, 0.03, 0.1])
        late = random.Random(self._draw.random())
        self._cluster.transactions.lags = lambda: late.random() < 0.3
        self._measured = self._draw.random() < 0.2
        self.processes: list[Process] = []
        self._arrive()

    @property
    def _given(self) -> Input:
        return make_input(*self._of, closed=self._setup.merging is not None)

    def run(self) -> Self:
        """All of it; AssertionError if anything is not as in an uninterrupted run."""
        steps = {
            self._turn: 60,
            self._start: 6,
            self._kill: 2,
            self._stop: 2,
            self._fail: 6,
            self._sleep: 3,
            self._wake: 4,
            self._expire: 2,
            self._time_out: 1,
            self._settle: 4,
            self._arrive: 10,
            self._compact: 2,
            self._retain: 2,
        }
        for step in self._draw.choices(list(steps), list(steps.values()), k=STEPS):
            step()
            self._bury()
        self._finish()
        return self

    def _turn(self) -> None:
        awake = [process for process in self._living if process not in self._asleep]
        if not awake:
            self._start()
            return
        process = self._draw.choice(awake)
        # Often enough of the same worker that it gets somewhere.
        for _ in range(self._draw.choice([1, 1, 2, 4])):
            if process.ended is None:
                before = len(process.broker.calls)
                process.step()
                self._note(f"{self._name(process)} takes a turn: {' '.join(process.broker.calls[before:])}")

    def _start(self) -> None:
        identity = self._draw.choice(self._identities)
        if any(process.instance == identity for process in self._living) and self._draw.random() < 0.8:
            return
        eager = self._draw.choice([0.0, 0.5, 1.0])
        delivery, late = (random.Random(self._draw.random()) for _ in range(2))
        threads = LateThreads(late, self._draw.choice([0.1, 0.5, 1.0]))
        process = Process(
            self._cluster,
            identity,
            setup=self._setup,
            tick=self._tick,
            measured=self._measured,
            delivery=lambda waiting: sum(delivery.random() < eager for _ in range(waiting)),
            threads=threads,
        )
        self.processes.append(process)
        self._living.append(process)
        self._note(f"{self._name(process)} is started")

    def _kill(self) -> None:
        self._one("is killed", Process.kill)

    def _stop(self) -> None:
        self._one("is asked to stop", lambda process: None if process in self._asleep else process.stop())

    def _fail(self) -> None:
        kind = self._draw.choice([Kind.CRASH, Kind.ABORTABLE, Kind.ABORTABLE, Kind.BROKER])
        when = self._draw.choice(list(When))
        later = self._draw.randint(0, 15)

        def order(process: Process) -> None:
            process.broker.order(Fault(len(process.broker.calls) + later, kind, when))

        self._one(f"will meet a fault: {kind}, {when} the effect of the first fitting call after {later} more", order)

    def _sleep(self) -> None:
        self._one("falls asleep", self._asleep.append)

    def _wake(self) -> None:
        if self._asleep:
            self._note("all wake up")
            self._asleep.clear()

    def _expire(self) -> None:
        members = self._cluster.group(GROUP, TOPIC).members
        if members:
            instance = self._draw.choice(members)
            self._note(f"the session of {instance} ends")
            self._cluster.group(GROUP, TOPIC).expire(instance)

    def _time_out(self) -> None:
        self._note(f"open transactions time out: {self._cluster.transactions.open_ids()}")
        self._cluster.time_out_transactions()

    def _settle(self) -> None:
        self._note("late markers arrive")
        self._cluster.transactions.settle()

    def _arrive(self) -> None:
        for records in self._input:
            self._cluster.load(TOPIC, list(islice(records, self._draw.randint(0, 9))))
        self._note(f"records arrive: {[log.end for log in self._cluster.logs(TOPIC)]}")

    def _compact(self) -> None:
        self._note("the cleaner runs")
        self._cluster.compact(TOPICS.models)

    def _retain(self) -> None:
        for log in self._cluster.logs(TOPIC):
            pointer = pointer_of(self._cluster, log.number, self._setup)
            if pointer is not None:
                log.delete_before(pointer.at)
        self._note(f"retention: the logs begin at {[log.low for log in self._cluster.logs(TOPIC)]}")

    def _one(self, what: str, effect: Callable[[Process], object]) -> None:
        if self._living:
            process = self._draw.choice(self._living)
            self._note(f"{self._name(process)} {what}")
            effect(process)

    def _bury(self) -> None:
        for process in [process for process in self._living if process.ended is not None]:
            self._note(f"{self._name(process)} has {process.ended}: {process.error}")
            assert not process.unprovoked, f"{process.instance} left without a reason: {process.error!r}"
            self._living.remove(process)
            if process in self._asleep:
                self._asleep.remove(process)

    def _finish(self) -> None:
        for records in self._input:
            self._cluster.load(TOPIC, list(records))
        group = self._cluster.group(GROUP, TOPIC)
        for instance in group.members:
            group.expire(instance)
        self._cluster.time_out_transactions()
        last = Process(
            self._cluster, self._draw.choice(IDENTITIES), setup=self._setup, tick=self._tick, measured=self._measured
        )
        self._note(f"one clean worker finishes, {last.instance}")
        complete(self._cluster, last)
        # Zombies wake up when all is over, and change nothing.
        for process in self._living:
            for _ in range(3):
                if process.ended is None:
                    process.step()
        self._check(last)

    def _check(self, last: Process) -> None:
        """The clean worker's models, and all that is published, are those of an uninterrupted run."""
        expected: Expected = expected_of(*self._of, self._setup.merging)
        check_states(last, expected)
        check_outputs(self._cluster, expected)
        check_restart(self._cluster, expected)

    def _name(self, process: Process) -> str:
        return f"{process.instance} (process {self.processes.index(process)})"
