"""Replicas that follow workers in the simulated cluster, while these crash, and merge, and are replaced."""

import itertools
from collections import Counter
from collections.abc import Callable

from simulation.cluster import MemoryCluster
from simulation.log import PartitionLog
from simulation.process import Setup
from stream.verification.test_verifying_runs import ClusterLogs, LogReader
from support.records import DECODER, TOPIC

from stream_apple.stream.following.replica import DigestCheck, Replica, Source
from stream_apple.stream.following.replicas import Replicas
from stream_apple.stream.log.ports import Record
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import Lineage
from stream_apple.stream.walk.moment import Moment
from stream_apple.stream.walk.sources import Sources


class FollowedReader(LogReader):
    """Has little at once; of examples it has nothing at first, as a client that connects."""

    def __init__(self, log: PartitionLog, offset: int) -> None:
        super().__init__(log, offset)
        self._connected = log.topic != TOPIC

    def fetch(self, limit: int, timeout_s: float) -> list[Record]:
        """A few of them at a time, without waiting."""
        if not self._connected:
            self._connected = True
            return []
        return list(super().fetch(min(limit, 7), max(timeout_s, 0.01)))


class FollowedCluster(ClusterLogs):
    """What replicas ask, answered by a cluster in memory."""

    def reader(self, topic: str, partition: int, offset: int) -> FollowedReader:
        """What is committed."""
        return FollowedReader(self._cluster.log(topic, partition), offset)


class Recorder:
    """Counts what replicas do, and what they were at some moments."""

    def __init__(self) -> None:
        self.outcomes: Counter[DigestCheck] = Counter()
        self.restores: Counter[int] = Counter()
        self.seen: dict[Moment, tuple[str, str]] = {}

    def following(self, replica: Replica) -> None:
        """Not counted."""

    def checked(self, partition: int, outcome: DigestCheck) -> None:  # noqa: ARG002
        """Counted."""
        self.outcomes[outcome] += 1

    def restored(self, partition: int) -> None:
        """Counted."""
        self.restores[partition] += 1


def sources_of(cluster: MemoryCluster, setup: Setup, spoil: Callable[[PartitionModel], None] | None = None) -> Sources:
    """Where models of the simulation are made of. `spoil`: what is wrong with new ones."""

    def new_model(partition: int, lineage: Lineage) -> PartitionModel:
        model = PartitionModel(TOPIC, partition, lineage, setup.model_settings, DECODER)
        if spoil is not None:
            spoil(model)
        return model

    return Sources(FollowedCluster(cluster), setup.provenance, new_model, 7)


def follow(cluster: MemoryCluster, setup: Setup, recorder: Recorder, source: Source = "log") -> Replicas:
    """Replicas of all partitions, whose thread is not started; each look at their clock takes a second."""
    seconds = itertools.count()
    numbers = range(len(cluster.logs(TOPIC)))
    sources = sources_of(cluster, setup)
    return Replicas(sources, numbers, source, 10.0, recorder, lambda: float(next(seconds)))


def note(replicas: Replicas, recorder: Recorder) -> None:
    """Remember the digest and the lineage of each model, at the moment at which it stands."""
    for replica in replicas.by_partition.values():
        if replica.model is None:
            continue
        moment, told = Moment.of(replica.model), (replica.model.digest(), replica.model.lineage.model)
        assert recorder.seen.setdefault(moment, told) == told, f"two models at {moment}"


def settle(replicas: Replicas, recorder: Recorder) -> None:
    """Let them learn all that there is."""
    for _ in range(3):
        for _ in range(300):
            replicas.step()
            note(replicas, recorder)
