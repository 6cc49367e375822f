"""Partitions that merge, in whole lives of workers on a cluster in memory, against models that wait in one process."""

import math
from collections.abc import Mapping, Sequence

import pytest
from runtime.merging.lockstep import Lockstep, hourly
from simulation.cluster import MemoryCluster
from simulation.process import GROUP, TOPICS, Process, Setup
from simulation.world import make_cluster, outputs_of
from support.records import TOPIC, FakeRecord

from stream_apple.runtime.merging.settings import MergeSettings
from stream_apple.runtime.transaction import LoopSettings

pytestmark = pytest.mark.usefixtures("small_sizes")

STRICT = MergeSettings(1, "votes", math.inf, math.inf)
SETUP = Setup(loop=LoopSettings(5, 9, 0.5, 3600.0), merging=STRICT)
MOST_TURNS = 4_000


def cluster_of(given: Mapping[int, Sequence[FakeRecord]]) -> MemoryCluster:
    """Topics with these examples."""
    cluster = make_cluster(len(given))
    for records in given.values():
        cluster.load(TOPIC, records)
    return cluster


def finish(cluster: MemoryCluster, *processes: Process) -> None:
    """Let processes take turns until all records are answered; then they stop, one after the other."""
    ends = {log.number: log.end for log in cluster.logs(TOPIC)}
    for _ in range(MOST_TURNS):
        live: dict[int, int] = {}
        for process in processes:
            process.step()
            assert process.ended is None, process.error
            live |= process.live
        offsets = cluster.group(GROUP, TOPICS.examples).offsets
        if live == ends and all(offsets.get(number) and offsets[number].offset == end for number, end in ends.items()):
            break
    else:
        raise AssertionError(f"expected {ends} to be committed, found {live}, {offsets}")
    for process in processes:
        process.stop()
        assert process.error is None


def check(cluster: MemoryCluster, given: Mapping[int, Sequence[FakeRecord]], *processes: Process) -> None:
    """Predictions and models are those of models that wait for each other."""
    wanted = Lockstep(SETUP, given).learn()
    assert wanted.merges == 3
    outputs = outputs_of(cluster)
    for number, answers in wanted.answers.items():
        assert [output.value for output in outputs[TOPICS.predictions, number]] == answers
    found = {number: model.digest() for process in processes for number, model in process.models.items()}
    assert found == {number: model.digest() for number, model in wanted.models.items()}


@pytest.mark.parametrize("partitions", [1, 2, 4])
def test_one_worker(partitions: int) -> None:
    """All partitions of one worker have at each round's end what all have learned."""
    given = {number: hourly(number, [7, 4 + number, 9, 6]) for number in range(partitions)}
    cluster = cluster_of(given)
    process = Process(cluster, setup=SETUP, tick=0.01)
    finish(cluster, process)
    check(cluster, given, process)
