"""What `repair` makes of a partition whose note is lost, from what is left in memory of a worker's logs."""

import pytest
from simulation.cluster import MemoryCluster
from simulation.log import Message
from simulation.process import TOPICS
from stream.one_worker import (
    OTHERS,
    SETUP,
    Worker,
    cluster_of_all,
    cluster_with,
    input_log,
    killed_after,
    offsets_of,
)
from support.records import good

from stream_apple.app.repair import Repair, plan_partition
from stream_apple.errors import ConfigurationError
from stream_apple.stream.log.ports import Committed
from stream_apple.stream.partitions.recovery import Exceptions
from stream_apple.stream.positions.lineage import Provenance

FOREIGN = Committed(3, "")


def planned(
    cluster: MemoryCluster, committed: Committed | None = FOREIGN, provenance: Provenance = SETUP.provenance
) -> Repair:
    """What is to be done for partition 0."""
    return plan_partition(Worker(cluster).broker, provenance, 0, committed)


def empty(cluster: MemoryCluster, topic: str) -> None:
    """Delete what partition 0 of the topic has."""
    log = cluster.log(topic, 0)
    log.delete_before(log.end)


@pytest.mark.parametrize("committed", [FOREIGN, Committed(30, '{"v":1}'), None])
def test_the_offset_and_its_note_come_back(committed: Committed | None) -> None:
    """Whatever was committed instead, or if nothing was; also where no snapshot was taken yet."""
    for cluster in (Worker(cluster_of_all()).run().cluster, killed_after(input_log(), 2)):
        lost = offsets_of(cluster)[0]
        found = planned(cluster, committed)
        assert (found.found, found.committed, found.missing) == (committed, lost, False)
        assert planned(cluster, lost) == Repair(0, lost)


def test_the_model_has_skipped_a_record() -> None:
    """The snapshot names what the model has left out, without which it would be another model."""
    setup = SETUP._replace(exceptions=Exceptions(skips=frozenset({(0, 7)})))
    cluster = Worker(cluster_of_all(), setup=setup).run().cluster
    lost = offsets_of(cluster)[0]
    assert '"skips":[7]' in lost.metadata
    assert planned(cluster).committed == lost


def test_nothing_was_answered() -> None:
    """A foreign consumer commits at partitions without a record, too; without a commit there is nothing to do."""
    cluster = cluster_with({0: []})
    found = planned(cluster, Committed(0, "")).committed
    assert found is not None
    offsets_of(cluster)[0] = found
    cluster.load(TOPICS.examples, [good(0), good(1)])
    Worker(cluster).run()
    assert offsets_of(cluster)[0].offset == 2
    assert planned(cluster_with({0: []}), None) == Repair(0, None)


def test_no_answers_are_left() -> None:
    """Whether records after the snapshot have answers is unknown; or where the model began."""
    cluster = Worker(cluster_of_all()).run().cluster
    empty(cluster, TOPICS.predictions)
    assert "nothing proves which records have answers" in planned(cluster).text
    empty(cluster, TOPICS.models)
    assert "no snapshot, " in planned(cluster).text


def test_the_start_of_the_log_is_gone() -> None:
    """Without a snapshot the model can't be learned again."""
    cluster = killed_after(input_log(), 2)
    assert "snapshot" not in offsets_of(cluster)[0].metadata
    cluster.log(TOPICS.examples, 0).delete_before(2)
    assert planned(cluster).committed is None
    assert "of another model" in planned(cluster).text


def test_another_model_has_answered_since() -> None:
    """One of other settings, as a snapshot says, or a prediction: an older offset would answer records again."""
    cluster = Worker(cluster_of_all()).run().cluster
    other = SETUP.provenance._replace(settings={"learner": {"bits": 11}})
    assert "its newest snapshot is of a model with other settings" in planned(cluster, provenance=other).text
    empty(cluster, TOPICS.models)
    assert "a later prediction, of record" in planned(cluster, provenance=other).text
    lost = offsets_of(cluster)[0]
    with pytest.raises(ConfigurationError, match="of this configuration"):
        planned(cluster, lost, other)


def test_the_end_of_the_log_is_lost() -> None:
    """Answers to records that are gone belong to another log."""
    cluster, shorter = Worker(cluster_of_all()).run().cluster, cluster_with({0: input_log()[0][:5], 1: []})
    for topic in (TOPICS.predictions, TOPICS.models):
        for record in cluster.log(topic, 0).committed():
            shorter.log(topic, 0).append(Message(record.named, record.payload, record.time_ms))
    assert planned(shorter).text.endswith("the end of examples-0 at 6: records are lost")


def test_other_groups_are_passed_over() -> None:
    """Their snapshots have other keys."""
    cluster = killed_after(input_log(), 2)
    lost = offsets_of(cluster)[0]
    cluster.log(TOPICS.models, 0).append(Message(OTHERS.snapshot_key(0, 0), b"x", 1))
    assert planned(cluster).committed == lost
