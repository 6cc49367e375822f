"""Who has adopted a merged model is restored from it, for as long as it has to be."""

from collections.abc import Callable

import pytest
from simulation.cluster import MemoryCluster
from simulation.process import GROUP, MERGES, TOPICS, Process
from stream.merging.cluster_of_rounds import MOST_TURNS, SETUP, cluster_of, finish, merged_rounds, new_process, noted
from stream.merging.lockstep import Lockstep, hourly
from stream.verification.merged_logs import MergedLogs
from support.records import DECODER, TOPIC

from stream_apple.errors import GapError, SnapshotError
from stream_apple.stream.loop.loop import LoopSettings
from stream_apple.stream.loop.transaction import CommitSettings
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.partitions.state import State
from stream_apple.stream.positions.lineage import NO_MERGED_MODEL, Lineage
from stream_apple.stream.snapshots.store import SnapshotStore, check_stored

pytestmark = pytest.mark.usefixtures("small_sizes")

GIVEN = {number: hourly(number, [5, 5]) for number in range(2)}


def until(condition: Callable[[], bool], process: Process) -> None:
    """Turns until that is so."""
    for _ in range(MOST_TURNS):
        if condition():
            return
        process.step()
        assert process.ended is None, process.error
    raise AssertionError("expected an end")


def refer(cluster: MemoryCluster) -> list[bool]:
    """Of each partition, whether its newest snapshot has the table of a merged model."""
    if len(cluster.group(GROUP, TOPIC).offsets) < len(GIVEN):
        return []
    snapshots = [noted(cluster, number).snapshot for number in GIVEN]
    return [each is not None and each.refers for each in snapshots]


def adopted() -> MemoryCluster:
    """What a worker leaves that was killed when both partitions had adopted."""
    cluster = cluster_of(GIVEN)
    process = new_process(cluster)
    until(lambda: refer(cluster) == [True, True], process)
    process.kill()
    return cluster


def test_it_is_restored() -> None:
    """To the bit, from the two topics alone; nothing is merged again."""
    cluster = adopted()
    assert all(len(log.committed()) == 1 for log in cluster.logs(TOPICS.models))
    last = new_process(cluster)
    finish(cluster, last)
    assert State.RESTORING in last.states
    wanted = Lockstep(SETUP.provenance, SETUP.model_settings, GIVEN).learn()
    for number, model in last.models.items():
        assert model.digest() == wanted.models[number].digest()
    assert len(merged_rounds(cluster)) == 1


def test_the_merged_model_is_gone() -> None:
    """The worker ends, and says what it needs."""
    cluster = adopted()
    log = cluster.log(MERGES, 0)
    log.delete_before(log.end)
    process = new_process(cluster)
    for _ in range(MOST_TURNS):
        if process.ended is not None:
            break
        process.step()
    assert isinstance(process.error, SnapshotError)
    assert "the merged model of round" in str(process.error)
    assert "expected it, whose table the model has" in str(process.error)
    assert NO_MERGED_MODEL in str(process.error)


def test_a_stop_leaves_whole_ones() -> None:
    """Then nothing of the topic of merges is needed any more."""
    cluster = adopted()
    finish(cluster, new_process(cluster))
    assert refer(cluster) == [False, False]


def test_a_whole_one_follows() -> None:
    """At the usual time, of a partition without further records, too."""
    cluster = cluster_of(GIVEN)
    setup = SETUP._replace(loop=LoopSettings(5, CommitSettings(9, 0.5), 20.0))
    process = new_process(cluster, setup)
    until(lambda: refer(cluster) == [True, True], process)
    until(lambda: refer(cluster) == [False, False], process)
    process.kill()
    log = cluster.log(MERGES, 0)
    log.delete_before(log.end)
    finish(cluster, new_process(cluster, setup))


def test_who_looks_from_outside() -> None:
    """They find the model, and are told what is missing."""
    logs = MergedLogs(adopted(), SETUP)
    committed = logs.offsets[0]
    assert committed is not None
    pointer = SETUP.provenance.read_metadata(0, committed).snapshot
    assert pointer is not None

    def new(number: int, lineage: Lineage) -> PartitionModel:
        return PartitionModel(TOPIC, number, lineage, SETUP.model_settings, DECODER)

    store = SnapshotStore(logs, SETUP.provenance, new)
    found = store.newest(0, committed).model
    assert found is not None
    assert found.digest() == pointer.digest
    check_stored(logs, SETUP.provenance, 0, pointer)
    anew = MergedLogs(adopted(), SETUP)
    anew.logs[MERGES, 0], anew.ends[MERGES, 0] = [], 0
    with pytest.raises(SnapshotError, match=r"whose table the model has, found 0 to -1 in the log") as caught:
        check_stored(anew, SETUP.provenance, 0, pointer)
    assert NO_MERGED_MODEL in str(caught.value)
    logs.remove_before((MERGES, 0), logs.log_range(MERGES, 0).high)
    stored = store.newest(0, committed)
    assert stored.model is None
    assert isinstance(stored.fault, GapError)
    with pytest.raises(GapError, match=r"the merged model of round .*, whose table the model has, found .* it is gone"):
        check_stored(logs, SETUP.provenance, 0, pointer)
