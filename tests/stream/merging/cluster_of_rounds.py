"""Workers that merge, on a cluster in memory: how they are let run, and what they leave behind."""

import math
from collections.abc import Mapping, Sequence

from simulation.cluster import MemoryCluster
from simulation.process import GROUP, MERGES, Process, Setup
from simulation.world import make_cluster
from support.records import TOPIC, FakeRecord

from stream_apple.stream.loop.loop import LoopSettings
from stream_apple.stream.loop.transaction import CommitSettings
from stream_apple.stream.merging.adoptions import AdoptionRecord, decode_adoption
from stream_apple.stream.positions.lineage import OffsetMetadata
from stream_apple.stream.positions.merge_note import MergeSettings

STRICT = MergeSettings(1, "votes", math.inf, math.inf)
SETUP = Setup(loop=LoopSettings(5, CommitSettings(9, 0.5), 3600.0), merging=STRICT)
MOST_TURNS = 4_000
TICK_S = 0.01


def cluster_of(given: Mapping[int, Sequence[FakeRecord]]) -> MemoryCluster:
    """Topics with these examples."""
    cluster = make_cluster(len(given))
    for records in given.values():
        cluster.load(TOPIC, records)
    return cluster


def new_process(cluster: MemoryCluster, setup: Setup = SETUP, instance: str = "worker-0") -> Process:
    """A worker whose time goes on with each look at it."""
    return Process(cluster, instance, setup=setup, tick=TICK_S)


def finish(cluster: MemoryCluster, *processes: Process) -> None:
    """Let processes take turns until all records are answered; then they stop, one after the other."""
    ends = {log.number: log.end for log in cluster.logs(TOPIC)}
    offsets = cluster.group(GROUP, TOPIC).offsets

    def done(number: int, end: int) -> bool:
        return live.get(number) == end and (not end or (number in offsets and offsets[number].offset == end))

    for _ in range(MOST_TURNS):
        live: dict[int, int] = {}
        for process in processes:
            process.step()
            assert process.ended is None, process.error
            live |= process.live
        if all(done(number, end) for number, end in ends.items()):
            break
    else:
        raise AssertionError(f"expected {ends} to be committed, found {live}, {offsets}")
    for process in processes:
        process.stop()
        assert process.error is None


def noted(cluster: MemoryCluster, number: int, setup: Setup = SETUP) -> OffsetMetadata:
    """What stands beside a partition's committed offset."""
    committed = cluster.group(GROUP, TOPIC).offsets[number]
    return setup.provenance.read_metadata(number, committed)


def adoptions(cluster: MemoryCluster) -> list[AdoptionRecord]:
    """All that are recorded, in their order."""
    cluster.transactions.settle()
    records = cluster.log(MERGES, 0).committed()
    return [decode_adoption(GROUP, each.payload) for each in records if b"adopted" in (each.named or b"")]


def merged_rounds(cluster: MemoryCluster) -> list[int]:
    """Of the merged models, in their order."""
    keys = [record.named or b"" for record in cluster.log(MERGES, 0).committed()]
    return [int(key.split(b"/")[1]) for key in keys if b"adopted" not in key and key.endswith(b"/0")]
