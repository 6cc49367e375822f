"""Random histories of a group of workers.

Besides what happens to every group, records arrive, the cleaner runs, and retention removes what no model needs. The
result is compared with that of an uninterrupted run.
"""

import random
from collections.abc import Callable, Mapping
from itertools import islice

from simulation.history import History, Note, silent
from simulation.member_process import Delivery
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

from stream_apple.stream.positions.merge_note import MergeSettings

INPUTS = [(1, (30, 22)), (2, (24, 8, 20)), (3, (45,)), (4, (18, 18, 18)), (5, (40, 12))]
"""Seed of the records, and how many there are in each partition."""


class Schedule(History[Process]):
    """One history of workers."""

    STEPS = 70
    TURNS = (1, 1, 2, 4)
    IDENTITIES = ("worker-0", "worker-1", "worker-2")

    def __init__(self, seed: int, note: Note = silent, merging: MergeSettings | None = None) -> None:
        draw = random.Random(seed)
        self._of = draw.choice(INPUTS)
        self._setup = setup_of(merging)
        identities = self.IDENTITIES[: draw.randint(1, 3)]
        self._tick = draw.choice([0.01, 0.03, 0.1])
        super().__init__(draw, make_cluster(len(self._of[1])), GROUP, TOPIC, note)
        self._identities = identities
        self._input = [iter(records) for records in self._given]
        self._measured = self._draw.random() < 0.2
        self._arrive()

    @property
    def _given(self) -> Input:
        return make_input(*self._of, closed=self._setup.merging is not None)

    def _make(self, identity: str, delivery: Delivery, *, clean: bool) -> Process:
        threads = None
        if not clean:
            threads = LateThreads(random.Random(self._draw.random()), self._draw.choice([0.1, 0.5, 1.0]))
        return Process(
            self._cluster,
            identity,
            setup=self._setup,
            tick=self._tick,
            measured=self._measured,
            delivery=delivery,
            threads=threads,
        )

    def _more_steps(self) -> Mapping[Callable[[], None], int]:
        return {self._arrive: 10, self._compact: 2, self._retain: 2}

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

    def _complete(self, last: Process) -> None:
        for records in self._input:
            self._cluster.load(TOPIC, list(records))
        complete(self._cluster, last)

    def _check(self, last: Process) -> None:
        """Compare the clean worker's models, and all that is published, with those of an uninterrupted run."""
        expected: Expected = expected_of(*self._of, self._setup.merging)
        check_states(last, expected)
        check_outputs(self._cluster, expected)
        check_restart(self._cluster, expected)
