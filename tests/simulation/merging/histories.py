"""Random histories of workers that merge: with patience for ever, and with as much as the schedule happens to allow."""

import random

from simulation.history import Note, silent
from simulation.merging.oracle import Lane, as_recorded
from simulation.merging.rules import check_merges
from simulation.process import MERGES, TOPICS, Process
from simulation.schedule import Schedule
from simulation.world import (
    Expected,
    Input,
    check_outputs,
    check_restart,
    check_states,
    expected_of,
    outputs_of,
    state_of,
)
from support.records import HOUR

from stream_apple.learners.apple.merging.mergeable import mergeable_of
from stream_apple.stream.merging.adoptions import AdoptionRecord
from stream_apple.stream.positions.merge_note import BoundaryState, MergeSettings

FOREVER = float("inf")
STRICT = [MergeSettings(1, "votes", FOREVER, FOREVER), MergeSettings(2, "union", FOREVER, FOREVER)]
HASTY = [
    MergeSettings(1, "votes", 2.0, 6.0),
    MergeSettings(1, "union", 0.0, 3.0),
    MergeSettings(2, "votes", 5.0, 1.0),
    MergeSettings(1, "votes", 0.3, FOREVER),
]


class StrictSchedule(Schedule):
    """All partitions are waited for: the result is that of an undisturbed run, and of models in lockstep."""

    def __init__(self, seed: int, note: Note = silent) -> None:
        super().__init__(seed, note, random.Random(seed).choice(STRICT))

    def _check(self, last: Process) -> None:
        super()._check(last)
        merges = check_merges(self._cluster, self._setup)
        assert all(each.state is BoundaryState.ADOPTED and each.included for each in merges.adoptions)
        # A model is restored from its own snapshot: nothing of what was merged is needed any more.
        log = self._cluster.log(MERGES, 0)
        log.delete_before(log.end)
        check_restart(self._cluster, expected_of(*self._of, self._setup.merging))


class HastySchedule(Schedule):
    """Who is in a merge is a matter of time; what comes of it is that of the record, and every record is answered once.

    The clock of the last partition may be a week ahead; not if it then waits without end for more than it to get there.

    states  of all adoption records, and reasons of all exclusions
    """

    def __init__(self, seed: int, note: Note = silent) -> None:
        settings = random.Random(seed).choice(HASTY)
        self._ahead_ms = 7 * 24 * HOUR if seed % 3 == 0 and settings.max_hold_s < FOREVER else 0
        super().__init__(seed, note, settings)
        self.states: set[str] = set()

    @property
    def _given(self) -> Input:
        *others, last = super()._given
        moved = [each._replace(time_ms=each.time_ms + self._ahead_ms * (each.time_ms > 0)) for each in last]
        return (*others, tuple(moved))

    def _check(self, last: Process) -> None:
        manifests, adoptions = check_merges(self._cluster, self._setup)
        for each in adoptions:
            self.states.add("late" if each.state is BoundaryState.ADOPTED and not each.included else each.state)
        self.states |= {each.reason for manifest in manifests.values() for each in manifest.excluded}

        def check(record: AdoptionRecord, lane: Lane) -> None:
            assert lane.digest() == record.model, f"{record}: found {lane.digest()}"
            if record.included:
                assert mergeable_of(lane.learner).digest() == record.digest

        given = self._given
        lanes = as_recorded(given, self._setup, manifests, adoptions, check)
        outputs = outputs_of(self._cluster)
        for partition, lane in lanes.items():
            assert [output.value for output in outputs[TOPICS.predictions, partition]] == lane.answers
            answers = [*outputs[TOPICS.predictions, partition], *outputs[TOPICS.dead_letters, partition]]
            keys = sorted(record.named or b"" for record in given[partition])
            assert sorted(output.key or b"" for output in answers) == keys
        states = {partition: state_of(lane) for partition, lane in lanes.items()}
        digests = {partition: lane.digest() for partition, lane in lanes.items()}
        expected = Expected(self._setup, outputs, states, digests)
        check_states(last, expected)
        check_outputs(self._cluster, expected)
        check_restart(self._cluster, expected)
