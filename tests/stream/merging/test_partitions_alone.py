"""Partitions that others do not wait for, or that do not wait for others: nothing hangs, and all of it is recorded."""

import re
from collections.abc import Mapping, Sequence
from typing import cast

import pytest
from simulation.cluster import MemoryCluster
from simulation.member_process import End
from simulation.process import GROUP, Process, Setup
from simulation.world import outputs_of
from stream.merging.cluster_of_rounds import (
    MOST_TURNS,
    SETUP,
    TICK_S,
    adoptions,
    cluster_of,
    finish,
    merged_rounds,
    new_process,
    noted,
)
from stream.merging.lockstep import hourly
from support.clock import Clock
from support.records import HOUR, START, TOPIC, FakeRecord

from stream_apple.errors import ConfigurationError, GapError
from stream_apple.stream.merging.merge_log import MergedModel, MergeLog, NoMerge
from stream_apple.stream.merging.merging import MergedPartitions
from stream_apple.stream.model.rounds import Boundary
from stream_apple.stream.partitions.recovery import Exceptions
from stream_apple.stream.partitions.state import State
from stream_apple.stream.positions.merge_note import BoundaryState, MergedPointer, MergeNote, MergeSettings
from stream_apple.stream.snapshots.merge_history import MergeHistory

pytestmark = pytest.mark.usefixtures("small_sizes")

EPOCH = START // HOUR
HASTY = SETUP._replace(merging=MergeSettings(1, "votes", 2.0, 5.0))
"""The leader waits two seconds, and nobody more than five."""


def run_until_noted(process: Process, number: int, cluster: MemoryCluster, state: BoundaryState) -> None:
    """Until this has been committed of the partition's newest boundary."""
    for _ in range(MOST_TURNS):
        process.step()
        assert process.ended is None, process.error
        offsets = cluster.group(GROUP, TOPIC).offsets
        if number in offsets:
            merge = noted(cluster, number, process_setup(process)).merge
            if merge is not None and merge.boundary is not None and merge.boundary.state is state:
                return
    raise AssertionError(f"expected partition {number} to have {state}")


class FakeLog:
    """A log of merges that says of each round what it is told to, and of others that they are not merged."""

    busy, knows_all, history = False, True, MergeHistory()

    def __init__(self, answers: Mapping[int, NoMerge]) -> None:
        self._answers = answers

    def ask(self, number: int) -> NoMerge:
        """At once."""
        return self._answers.get(number, NoMerge.ABSENT)

    def follow(self, newest: MergedPointer | None) -> None:
        """Nothing else is known."""

    def read_on(self) -> None:
        """There is nothing to read."""

    def lend(self, merged: MergedModel) -> None:
        """What is merged here is not asked for."""

    def hand_over(self, merged: MergedModel) -> None:
        """What is merged here is not asked for."""

    def drop(self) -> None:
        """There is nothing to close."""


def process_setup(process: Process) -> Setup:
    """What it was made with."""
    return process._setup


def answered(cluster: MemoryCluster, given: Mapping[int, Sequence[FakeRecord]]) -> bool:
    """Whether every record has one answer."""
    outputs = outputs_of(cluster)
    return all(
        [output.key for output in outputs["predictions", number]] == [record.named for record in records]
        for number, records in given.items()
    )


class TestOthers:
    """What the others do when one does not come."""

    def test_an_idle_partition(self) -> None:
        """Nobody waits long for one without records; when it comes, it has what all have."""
        given = {0: hourly(0, [5, 5, 5]), 1: hourly(1, [5, 5, 5]), 2: []}
        cluster = cluster_of(given)
        finish(cluster, new_process(cluster, HASTY))
        assert answered(cluster, given)
        found = adoptions(cluster)
        assert {(each.partition, each.round - EPOCH, each.state, each.included) for each in found} == {
            (partition, number, BoundaryState.ADOPTED, True) for partition in (0, 1) for number in (0, 1)
        }
        assert [number - EPOCH for number in merged_rounds(cluster)] == [0, 1]

    def test_a_partition_that_is_a_week_ahead(self) -> None:
        """It is alone there, merges with nobody but itself, and holds nobody up."""
        later = [record._replace(time_ms=record.time_ms + 168 * HOUR) for record in hourly(1, [5, 5])]
        given = {0: hourly(0, [5, 5, 5]), 1: later}
        cluster = cluster_of(given)
        finish(cluster, new_process(cluster, HASTY))
        assert answered(cluster, given)
        assert {each.state for each in adoptions(cluster)} == {BoundaryState.ADOPTED}

    def test_a_round_that_nobody_merges_holds_up_no_other(self) -> None:
        """A partition whose clock is ahead goes on with its round, though one beside it waits for an earlier."""
        later = [record._replace(time_ms=record.time_ms + 168 * HOUR) for record in hourly(1, [5, 5])]
        cluster = cluster_of({0: hourly(0, [5, 5]), 1: later})
        process = new_process(cluster)
        partitions = process.loop._merging
        assert isinstance(partitions, MergedPartitions)
        partitions._log = cast("MergeLog", FakeLog({EPOCH + 168: NoMerge.GONE}))
        run_until_noted(process, 0, cluster, BoundaryState.CONTRIBUTED)
        run_until_noted(process, 1, cluster, BoundaryState.SKIPPED)
        assert process.models[0].held == Boundary(EPOCH, 5)
        assert [(each.partition, each.round - EPOCH) for each in adoptions(cluster)] == [(1, 168)]

    def test_without_a_leader(self) -> None:
        """Who owns partition 0 is gone: the others go on alone after so long, say so, and come back to it."""
        given = {0: hourly(0, [5, 5, 5]), 1: hourly(1, [5, 5, 5])}
        cluster = cluster_of(given)
        leads, follows = (new_process(cluster, HASTY, f"worker-{name}") for name in "ab")
        while not (leads.live and follows.live):
            leads.step()
            follows.step()
        assert set(follows.live) == {1}
        run_until_noted(follows, 1, cluster, BoundaryState.SKIPPED)
        record = adoptions(cluster)[0]
        assert record[:6] == (1, 5, EPOCH, BoundaryState.SKIPPED, False, None)
        finish(cluster, leads, follows)
        assert answered(cluster, given)
        assert adoptions(cluster)[0] == record

    def test_who_comes_too_late(self) -> None:
        """It has what the others have made, and its own counts for one more."""
        given = {0: hourly(0, [5, 5, 5]), 1: hourly(1, [5])}
        cluster = cluster_of(given)
        process = new_process(cluster, HASTY)
        for _ in range(600):
            process.step()
            assert process.ended is None, process.error
        late = hourly(1, [5, 5, 5])[5:]
        given[1] += late
        cluster.load(TOPIC, late)
        finish(cluster, process)
        assert answered(cluster, given)
        of_late = [each for each in adoptions(cluster) if each.partition == 1]
        assert [(each.round - EPOCH, each.state, each.included) for each in of_late] == [
            (0, BoundaryState.ADOPTED, False),
            (1, BoundaryState.ADOPTED, False),
        ]
        assert len(merged_rounds(cluster)) == 2


class TestHeld:
    """A partition that waits, and what may happen to it."""

    def test_a_worker_stops_without_waiting(self) -> None:
        """Its successor finds the partition where it was, waits on, and learns nothing twice."""
        given = {0: hourly(0, [5, 5]), 1: hourly(1, [5])}
        cluster = cluster_of(given)
        process = new_process(cluster)
        run_until_noted(process, 0, cluster, BoundaryState.CONTRIBUTED)
        process.stop()
        assert process.error is None
        last = new_process(cluster)
        for _ in range(50):
            last.step()
        assert last.live == {0: 5, 1: 5}
        assert last.models[0].held is not None
        assert not [record for record in adoptions(cluster) if record.partition == 0]
        more = hourly(1, [5, 5])[5:]
        cluster.load(TOPIC, more)
        finish(cluster, last)
        given[1] += more
        assert answered(cluster, given)
        assert [(each.partition, each.included) for each in adoptions(cluster)] == [(0, True), (1, True)]

    def test_a_model_that_comes_back_waits_on(self) -> None:
        """No other is made, nothing is restored, and nothing is fetched of it."""
        given = {0: hourly(0, [5, 5]), 1: hourly(1, [5])}
        cluster = cluster_of(given)
        process = new_process(cluster)
        run_until_noted(process, 0, cluster, BoundaryState.CONTRIBUTED)
        made, model = process.made, process.models[0]
        cluster.group(GROUP, TOPIC).shake()
        for _ in range(50):
            process.step()
        assert process.made == made
        assert process.models[0] is model
        assert process.live == {0: 5, 1: 5}
        assert State.RESTORING not in process.states
        cluster.load(TOPIC, hourly(1, [5, 5])[5:])
        finish(cluster, process)
        assert {each.included for each in adoptions(cluster)} == {True}

    def test_it_is_ready_and_not_stuck(self) -> None:
        """To the probes it is as live as any other."""
        cluster = cluster_of({0: hourly(0, [5, 5]), 1: hourly(1, [5])})
        process = new_process(cluster)
        process.health.compiled()
        run_until_noted(process, 0, cluster, BoundaryState.CONTRIBUTED)
        process.step()
        assert process.health.ready().good
        assert process.health.live().good

    def test_what_waits_behind_it_is_its_lag(self) -> None:
        """Records that are kept here, and not left in the log, wait as well."""
        cluster = cluster_of({0: hourly(0, [5, 4, 3]), 1: hourly(1, [5])})
        process = Process(cluster, setup=SETUP, clock=Clock(0.0, TICK_S))
        run_until_noted(process, 0, cluster, BoundaryState.CONTRIBUTED)
        for _ in range(50):
            process.step()
        assert process.live == {0: 5, 1: 5}
        assert process.sample("lag_records", partition="0") == 7
        assert process.sample("lag_records", partition="1") == 0
        assert process.sample("lag_seconds", partition="0") != 0

    def test_a_gap_behind_it(self) -> None:
        """Where records behind a boundary are gone, and that is accepted, the partition goes on alone, once."""
        given = {0: hourly(0, [5, 5, 5]), 1: hourly(1, [5])}
        cluster = cluster_of(given)
        process = new_process(cluster)
        run_until_noted(process, 0, cluster, BoundaryState.CONTRIBUTED)
        process.kill()
        cluster.log(TOPIC, 0).delete_before(8)
        with pytest.raises(AssertionError, match="0@5"):
            finish(cluster, new_process(cluster))
        setup = SETUP._replace(exceptions=Exceptions(gaps=frozenset({(0, 5)})))
        last = new_process(cluster, setup)
        run_until_noted(last, 0, cluster, BoundaryState.SKIPPED)
        note = noted(cluster, 0)
        assert note.merge is not None
        assert note.merge.boundary is not None
        assert note.snapshot is not None
        assert note.merge.boundary.at == note.snapshot.at >= 8
        (record,) = adoptions(cluster)
        assert (record.partition, record.at, record.state) == (0, 5, BoundaryState.SKIPPED)

    def test_a_skipped_record_behind_it(self) -> None:
        """It is left out when its turn comes, and the partition has merged before."""
        given = {number: hourly(number, [5, 5]) for number in (0, 1)}
        cluster = cluster_of(given)
        process = new_process(cluster, SETUP._replace(exceptions=Exceptions(skips=frozenset({(0, 5)}))))
        finish(cluster, process)
        outputs = outputs_of(cluster)
        assert len(outputs["predictions", 0]) == 9
        assert len(outputs["dead-letters", 0]) == 1
        assert len(outputs["predictions", 1]) == 10

    def test_answers_behind_it_with_an_older_offset(self) -> None:
        """With what they were made is lost with the offset: the worker says so, and answers nothing again."""
        given = {number: hourly(number, [5, 5]) for number in (0, 1)}
        cluster = cluster_of(given)
        process = new_process(cluster)
        run_until_noted(process, 0, cluster, BoundaryState.CONTRIBUTED)
        before = cluster.group(GROUP, TOPIC).offsets[0]
        log = cluster.log("models", 0)
        kept = list(log.committed())
        finish(cluster, process)
        cluster.group(GROUP, TOPIC).offsets[0] = before
        assert list(log.committed())[: len(kept)] == kept  # the contribution can still be restored
        last = new_process(cluster)
        for _ in range(200):
            last.step()
            if last.ended is not None:
                break
        assert last.ended is End.LEFT
        assert isinstance(last.error, GapError)
        assert "examples-0@5: expected no answer behind the end of round" in str(last.error)


class TestSettings:
    """Whose models they are."""

    @pytest.mark.parametrize(
        ("first", "second", "fault"),
        [
            (SETUP, Setup(), "expected a note of a model that is not merged"),
            (Setup(loop=SETUP.loop), SETUP, "expected a note of a model that is merged every 1 epochs by votes"),
            (
                SETUP,
                SETUP._replace(merging=MergeSettings(1, "union", 2.0, 5.0)),
                "merged every 1 epochs by union at .*, found one that is merged every 1 epochs by votes",
            ),
            (
                SETUP,
                SETUP._replace(merging=MergeSettings(2, "votes", 2.0, 5.0)),
                "merged every 2 epochs by votes at .*, found one that is merged every 1 epochs by votes",
            ),
        ],
    )
    def test_a_group_keeps_them(self, first: Setup, second: Setup, fault: str) -> None:
        """A worker that merges otherwise, or not, refuses what others have left."""
        cluster = cluster_of({0: hourly(0, [5])})
        finish(cluster, new_process(cluster, first))
        process = new_process(cluster, second)
        while process.ended is None:
            process.step()
        assert isinstance(process.error, ConfigurationError)
        assert re.search(fault, str(process.error))

    def test_how_long_is_waited_may_change(self) -> None:
        """It decides who is in a merge, and that is recorded."""
        cluster = cluster_of({0: hourly(0, [5])})
        finish(cluster, new_process(cluster))
        finish(cluster, new_process(cluster, HASTY))
        assert noted(cluster, 0).merge == MergeNote((1, "votes"))

    def test_the_topic_of_merges(self) -> None:
        """It has one partition, or the worker does not begin."""
        cluster = cluster_of({0: hourly(0, [5])})
        process = new_process(cluster)
        process.broker.partition_count = lambda topic: 2 if topic == "merges" else 1  # type: ignore[method-assign]
        process.step()
        assert isinstance(process.error, ConfigurationError)
        assert "expected topic merges to have one partition, which orders all merges, found 2" in str(process.error)
