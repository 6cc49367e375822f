"""Workers that merge are stopped anywhere: what they leave is proved, and a successor goes on as if nothing had been.

The places to look at are ends of rounds: the model stands there, and has gone on or not, before the offset moves.
"""

import math
import random
from collections.abc import Iterator

import pytest
from simulation.cluster import MemoryCluster
from simulation.process import Process, Setup
from simulation.small import small
from simulation.world import make_cluster, outputs_of, pointer_of
from stream.merging.cluster_of_rounds import SETUP, adoptions, cluster_of, finish, new_process, noted
from stream.merging.lockstep import Lockstep, hourly
from stream.verification.merged_logs import MergedLogs
from stream.verification.test_verifying_merges import kinds
from support.records import TOPIC, FakeRecord

from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.partitions.recovery import Exceptions
from stream_apple.stream.positions.merge_note import BoundaryState, MergeSettings
from stream_apple.stream.verification.partition_report import Report

LIVES = 12
MOST_STEPS = 40


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    with small():
        yield


def check(cluster: MemoryCluster, setup: Setup = SETUP) -> list[Report]:
    """The reports on all partitions: no fault, and nothing unproved but what retention has taken."""
    reports = MergedLogs(cluster, setup).verifier().verify_all()
    assert kinds(*reports) == set(), [fault.text for report in reports for fault in report.faults]
    assert [report.covered.unproved for report in reports] == [None] * len(reports)
    for report in reports:
        if report.snapshot is not None and report.covered.start < report.snapshot.at:
            assert report.relearned == report.snapshot.digest
    return reports


def until_passed(process: Process, number: int) -> None:
    """Let it go on until its model has passed a boundary, learned nothing since, and nothing of that is committed."""

    def stay(partition: Partition) -> None:
        """What is kept of it is not learned."""

    process.loop._learning.go_on = stay  # type: ignore[method-assign]
    for _ in range(1_000):
        process.step()
        assert process.ended is None, process.error
        owned = process.owned.get(number)
        rounds = None if owned is None else owned.model.rounds
        if rounds is not None and rounds.passed and rounds.uncommitted:
            return
    raise AssertionError("expected it to pass a boundary")


@pytest.mark.parametrize("seed", range(10))
def test_random_stops(seed: int) -> None:
    """Stopped in order, or killed, time and again: each life leaves what is proved; the end is as undisturbed."""
    draw = random.Random(seed)
    given = {number: hourly(number, [draw.randint(3, 9) for _ in range(4)]) for number in range(draw.randint(1, 3))}
    wanted = Lockstep(SETUP.provenance, SETUP.model_settings, given).learn()
    cluster = cluster_of(given)
    for _ in range(LIVES):
        process = new_process(cluster)
        for _ in range(draw.randint(1, MOST_STEPS)):
            process.step()
            assert process.ended is None, process.error
        if draw.random() < 0.7:
            process.stop()
        else:
            process.kill()
        check(cluster)
    finish(cluster, new_process(cluster))
    check(cluster)
    outputs = outputs_of(cluster)
    for number, answers in wanted.answers.items():
        assert [each.value for each in outputs["predictions", number]] == answers
    assert len(adoptions(cluster)) == wanted.merges * len(given)


@pytest.mark.parametrize("state", [BoundaryState.ADOPTED, BoundaryState.SKIPPED])
def test_the_offset_stands_at_a_boundary_that_has_been_passed(state: BoundaryState) -> None:
    """Stopped when it had gone on, and had answered nothing behind: the first record there is not in question yet."""
    alone = state is BoundaryState.SKIPPED
    setup = SETUP._replace(merging=MergeSettings(1, "votes", math.inf, 3.0)) if alone else SETUP
    given = {0: hourly(0, [6, 5]), 1: hourly(1, [6] if alone else [6, 5])}
    cluster = cluster_of(given)
    process = new_process(cluster, setup)
    until_passed(process, 0)
    process.stop()
    note = noted(cluster, 0, setup).merge
    assert note is not None
    assert note.boundary is not None
    assert note.boundary[1:] == (6, state)
    first = check(cluster, setup)[0]
    assert (first.covered.stop, first.covered.records, first.predictions.expected) == (6, 6, 6)
    pointer = pointer_of(cluster, 0, setup)
    assert pointer is not None
    assert pointer.at == 6


@pytest.mark.parametrize("what", ["skip", "gap"])
@pytest.mark.parametrize("lives", [1, 2])
def test_what_follows_a_boundary_is_left_out(what: str, lives: int) -> None:
    """The record that had ended a round is skipped, or gone, when the model has gone on: the round ends once.

    lives  of the worker that leaves it out: a second one finds a snapshot behind the boundary, and no example since
    """
    given = {number: hourly(number, [7, 9]) for number in range(2)}
    given[0][8] = given[0][8]._replace(payload=b"\xc1")
    cluster = make_cluster(2)
    _load(cluster, given, 0, 9)
    process = new_process(cluster)
    until_passed(process, 0)
    process.stop()
    if what == "gap":
        cluster.log(TOPIC, 0).delete_before(8)
    left_out = frozenset({(0, 7)})
    exceptions = Exceptions(gaps=left_out) if what == "gap" else Exceptions(skips=left_out)
    setup = SETUP._replace(exceptions=exceptions)
    for _ in range(lives - 1):
        process = new_process(cluster, setup)
        for _ in range(300):
            process.step()
            assert process.ended is None, process.error
        process.stop()
        metadata = noted(cluster, 0, setup)
        assert metadata.snapshot is not None
        assert metadata.snapshot.at == 9
        check(cluster, setup)
    _load(cluster, given, 9, 16)
    finish(cluster, new_process(cluster, setup))
    check(cluster, setup)
    assert [(each.partition, each.at) for each in adoptions(cluster) if each.partition == 0] == [(0, 7)]


def _load(cluster: MemoryCluster, given: dict[int, list[FakeRecord]], start: int, stop: int) -> None:
    for records in given.values():
        cluster.load(TOPIC, records[start:stop])
