"""What a simulation is about: an input, what must come of it, and whether it did."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from simulation.cluster import MemoryCluster
from simulation.merging.oracle import Lane, in_lockstep
from simulation.process import GROUP, MERGES, TOPICS, Process, Setup
from support.records import DECODER, SETTINGS, TOPIC, FakeRecord, good, stream

from stream_apple.learners.apple.learner import as_apple
from stream_apple.stream.log.ports import Header
from stream_apple.stream.loop.loop import LoopSettings
from stream_apple.stream.loop.transaction import CommitSettings
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import SnapshotPointer
from stream_apple.stream.positions.merge_note import MergeSettings

SETUP = Setup(
    SETTINGS._replace(options=replace(SETTINGS.options, bits=8)),
    LoopSettings(fetch_records=4, commits=CommitSettings(6, 0.5), snapshot_interval_s=2.0),
    {"learner": {"bits": 8}},
)
"""Small, so that a run of a few dozen records has many epochs, commits and snapshots."""
MOST_TURNS = 5_000
"""More than any input needs."""


class Output(NamedTuple):
    """A prediction or a dead letter, without the offset it happens to have."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[Header, ...]


Outputs = Mapping[tuple[str, int], Sequence[Output]]
State = tuple[object, ...]


class Expected(NamedTuple):
    """What an uninterrupted run publishes, and the state and digest of each partition's model after it."""

    setup: Setup
    outputs: Outputs
    states: Mapping[int, State]
    digests: Mapping[int, str]


Input = tuple[tuple[FakeRecord, ...], ...]
"""The records of each partition."""


def setup_of(merging: MergeSettings | None) -> Setup:
    """That of workers which merge so, or not at all."""
    return SETUP._replace(merging=merging)


def make_input(seed: int, counts: Sequence[int], *, closed: bool = False) -> Input:
    """So many records in each partition.

    closed  the last two, with which two rounds end in each: nobody is left waiting for others
    """
    given = [stream(n - 2 * closed, seed=seed, partition=p, bad_share=0.2) for p, n in enumerate(counts)]
    for partition, records in enumerate(given if closed else ()):
        for hours in (8.0, 9.0):
            records.append(good(records[-1].at + 1, 1.0, hours, partition))
    return tuple(map(tuple, given))


def make_cluster(partitions: int, dead_letter_partitions: int | None = None) -> MemoryCluster:
    """Empty topics."""
    counts = dict.fromkeys(filter(None, TOPICS), partitions) | {MERGES: 1}
    counts[TOPICS.dead_letters] = dead_letter_partitions or partitions
    return MemoryCluster(counts)


def outputs_of(cluster: MemoryCluster) -> Outputs:
    """What readers see of predictions and dead letters, in order, when all markers have arrived."""
    cluster.transactions.settle()
    return {
        (topic, log.number): [
            Output(record.named, record.payload, record.time_ms, tuple(record.extra or ()))
            for record in log.committed()
        ]
        for topic in (TOPICS.predictions, TOPICS.dead_letters)
        for log in cluster.logs(topic)
    }


def state_of(model: PartitionModel) -> State:
    """Every bit that later outputs depend on, gathered without the help of the model's own digest."""
    return (
        model.next_offset,
        model.lineage,
        model.clock.state.tobytes(),
        model.rejects.run,
        model.rejects.recent.tobytes(),
        model.ended.epoch,
        model.ended.digest,
        as_apple(model.learner).slots().tobytes(),
        *(array.tobytes() for array in as_apple(model.learner).table),
        *(array.tobytes() for array in as_apple(model.learner).sums.values()),
    )


def pointer_of(cluster: MemoryCluster, partition: int, setup: Setup = SETUP) -> SnapshotPointer | None:
    """Where the newest committed snapshot of a partition is."""
    committed = cluster.group(GROUP, TOPIC).offsets.get(partition)
    return committed and setup.provenance.read_metadata(partition, committed).snapshot


def complete(cluster: MemoryCluster, process: Process) -> None:
    """Let one process, which nothing disturbs, do all there is to do, and stop."""
    ends = {log.number: log.end for log in cluster.logs(TOPIC)}
    for _ in range(MOST_TURNS):
        process.step()
        assert process.ended is None, f"{process.instance} has {process.ended}: {process.error}"
        if process.live == ends:
            break
    else:
        raise AssertionError(f"expected models to reach {ends} within {MOST_TURNS} turns, found {process.live}")
    process.stop()
    assert process.error is None


@cache
def expected_of(seed: int, counts: tuple[int, ...], merging: MergeSettings | None = None) -> Expected:
    """Of the input of that seed, from a run that nothing disturbs; it is checked to answer for every record."""
    given, setup = make_input(seed, counts, closed=merging is not None), setup_of(merging)
    cluster = make_cluster(len(given))
    for records in given:
        cluster.load(TOPIC, records)
    process = Process(cluster, setup=setup)
    complete(cluster, process)
    outputs = outputs_of(cluster)
    for partition, records in enumerate(given):
        answers = [*outputs[TOPICS.predictions, partition], *outputs[TOPICS.dead_letters, partition]]
        assert sorted(output.key or b"" for output in answers) == sorted(record.named or b"" for record in records)
    states = {}
    for partition, model in models_alone(given, setup).items():
        if isinstance(model, Lane):
            assert [output.value for output in outputs[TOPICS.predictions, partition]] == model.answers
        states[partition] = state_of(model)
        assert state_of(process.models[partition]) == states[partition]
    return Expected(setup, outputs, states, {number: model.digest() for number, model in process.models.items()})


def models_alone(given: Input, setup: Setup) -> Mapping[int, PartitionModel]:
    """What the partitions' models come to without a worker: the result depends on no batch, commit or snapshot."""
    if setup.merging is not None:
        return in_lockstep(given, setup)
    models = {}
    for partition, records in enumerate(given):
        lineage = setup.provenance.lineage(partition, 0)
        models[partition] = PartitionModel(TOPIC, partition, lineage, setup.settings, DECODER)
        models[partition].process(records)
    return models


def check_outputs(cluster: MemoryCluster, expected: Expected) -> None:
    """What has been published and saved is what an uninterrupted run leaves behind."""
    outputs = outputs_of(cluster)
    for place, wanted in expected.outputs.items():
        assert outputs[place] == wanted, f"{place}: {_difference(outputs[place], wanted)}"
    for partition in expected.states:
        end = cluster.log(TOPIC, partition).end
        pointer = pointer_of(cluster, partition, expected.setup)
        assert pointer is not None
        assert (pointer.at, pointer.digest) == (end, expected.digests[partition])
        assert cluster.group(GROUP, TOPIC).offsets[partition].offset == end


def check_states(process: Process, expected: Expected) -> None:
    """A process that has completed its work has learned what an uninterrupted run has."""
    for partition, state in expected.states.items():
        assert state_of(process.models[partition]) == state, f"the state of partition {partition}"


def check_restart(cluster: MemoryCluster, expected: Expected) -> None:
    """A worker that begins after all is done finds the models whole, and has nothing left to replay or to say."""
    before = outputs_of(cluster)
    process = Process(cluster, "last", setup=expected.setup)
    for instance in cluster.group(GROUP, TOPIC).members:
        cluster.group(GROUP, TOPIC).expire(instance)
    complete(cluster, process)
    assert outputs_of(cluster) == before
    check_states(process, expected)
    for partition in expected.states:
        assert not process.sample("examples_total", partition=str(partition), outcome="replayed")


def _difference(found: Sequence[Output], wanted: Sequence[Output]) -> str:
    for index, (one, other) in enumerate(zip(found, wanted, strict=False)):
        if one != other:
            return f"output {index} of {len(wanted)}: expected {other}, found {one}"
    return f"expected {len(wanted)} outputs, found {len(found)}"
