"""Whatever the real loop leaves behind in a cluster in memory, a verification finds it to be as it must be."""

from collections.abc import Iterator, Mapping, Sequence

import pytest
from simulation.cluster import MemoryCluster
from simulation.log import Message, PartitionLog
from simulation.process import GROUP, Process
from simulation.schedule import Schedule
from simulation.small import small
from simulation.world import SETUP, complete, make_cluster, make_input
from support.records import DECODER, TOPIC

from stream_apple.stream.log.ports import Committed, LogRange, Record
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.partitions.recovery import Exceptions
from stream_apple.stream.positions.lineage import Lineage
from stream_apple.stream.verification.partition_report import Report
from stream_apple.stream.verification.verifier import Verifier
from stream_apple.stream.walk.faults import Kind
from stream_apple.stream.walk.sources import Sources


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    with small():
        yield


class LogReader:
    """Reads what is committed, and knows where it stands."""

    def __init__(self, log: PartitionLog, offset: int) -> None:
        self._log = log
        self.position = offset

    @property
    def log_end(self) -> int:
        """With what is not decided yet."""
        return self._log.end

    def fetch(self, limit: int, timeout_s: float) -> Sequence[Record]:
        """What is there."""
        assert timeout_s > 0
        records, self.position = self._log.read(self.position, limit)
        return records

    def close(self) -> None:
        """Nothing is held."""


class ClusterLogs:
    """What a verification asks, answered by a cluster in memory."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    def partition_count(self, topic: str) -> int:
        """As made."""
        return len(self._cluster.logs(topic))

    def count_now(self) -> int:
        """As made."""
        return self.partition_count(TOPIC)

    def committed_now(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """What is decided."""
        offsets = self._cluster.group(GROUP, TOPIC).offsets
        return {number: offsets.get(number) for number in partitions}

    def decided(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """All is, when dead workers' transactions have timed out."""
        return self.committed_now(partitions)

    def log_range(self, topic: str, partition: int) -> LogRange:
        """To the very end."""
        log = self._cluster.log(topic, partition)
        return LogRange(log.low, log.end)

    def reader(self, topic: str, partition: int, offset: int) -> LogReader:
        """What is committed."""
        return LogReader(self._cluster.log(topic, partition), offset)


def new_model(partition: int, lineage: Lineage) -> PartitionModel:
    """As the workers of the simulation make them."""
    return PartitionModel(TOPIC, partition, lineage, SETUP.settings, DECODER)


def verify(cluster: MemoryCluster) -> list[Report]:
    """Reports on all partitions, when what dead workers left open has been decided."""
    cluster.time_out_transactions()
    verifier = Verifier(Sources(ClusterLogs(cluster), SETUP.provenance, new_model, 7), lambda *_: None)
    return verifier.verify_each(range(len(cluster.logs(TOPIC))))


@pytest.mark.parametrize("seed", range(12))
def test_random_histories(seed: int) -> None:
    """Workers that crash, sleep, are fenced and replaced, while logs are compacted and shortened: no fault is found."""
    schedule = Schedule(seed)
    schedule.run()
    for report in verify(schedule._cluster):
        assert report.faults == []
        assert report.snapshot is not None
        assert report.snapshot.at == report.covered.stop
        if report.covered.origin == "start":
            assert report.relearned == report.snapshot.digest
            answers = report.predictions.matched + report.dead_letters.matched
            assert answers == report.predictions.expected + report.dead_letters.expected == report.covered.records > 0


def test_an_accepted_gap() -> None:
    """A worker that has left out a gap is learned again from its snapshot behind it; what it published is confirmed."""
    ((*records,),) = make_input(3, (60,))
    cluster = make_cluster(1)
    cluster.load(TOPIC, records[:30])
    complete(cluster, Process(cluster, setup=SETUP))
    saved = records[29].at + 1
    cluster.load(TOPIC, records[30:])
    cluster.log(TOPIC, 0).delete_before(records[40].at)
    seldom = SETUP.loop._replace(snapshot_interval_s=3600.0)
    process = Process(
        cluster, setup=SETUP._replace(loop=seldom, exceptions=Exceptions(frozenset({(0, saved)}))), tick=0.01
    )
    while process.live != {0: cluster.log(TOPIC, 0).end}:
        process.step()
        assert process.ended is None, process.error
    for _ in range(100):
        process.step()
    process.kill()
    (report,) = verify(cluster)
    assert report.faults == []
    assert report.gaps == ((saved, records[40].at),)
    assert report.covered.origin == "snapshot"
    assert report.covered.stop == cluster.log(TOPIC, 0).end
    assert report.covered.records == report.predictions.matched + report.dead_letters.matched > 0


@pytest.mark.parametrize("of_the_start", [True, False])
def test_a_skipped_record(of_the_start: bool) -> None:  # noqa: FBT001
    """Learned again without it, from the start or from a snapshot before; its dead letter is expected, as it is."""
    ((*records,),) = make_input(3, (60,))
    cluster = make_cluster(1)
    cluster.load(TOPIC, records[:20])
    complete(cluster, Process(cluster, setup=SETUP))
    cluster.load(TOPIC, records[20:])
    skips = frozenset({(0, records[30].at), (0, records[45].at)})
    complete(cluster, Process(cluster, setup=SETUP._replace(exceptions=Exceptions(skips=skips))))
    if not of_the_start:
        cluster.log(TOPIC, 0).delete_before(records[-1].at + 1)
    (report,) = verify(cluster)
    assert report.faults == []
    assert report.snapshot is not None
    if of_the_start:
        assert report.relearned == report.snapshot.digest
        assert report.covered.records == 60 == report.predictions.matched + report.dead_letters.matched
    letters = cluster.log("dead-letters", 0)
    (number,) = [at for at, each in enumerate(letters.committed()) if b"skipped" in dict(each.extra or ()).values()][:1]
    forged = letters.committed()[number]
    letters.append(Message(forged.named, forged.payload, forged.time_ms, tuple(forged.extra or ())))
    assert [fault.kind for fault in verify(cluster)[0].faults] == [
        Kind.DUPLICATED if of_the_start else Kind.OUT_OF_ORDER
    ]
