"""What workers that merge leave in their topics, in lists, so that it can be damaged and verified."""

from collections.abc import Callable
from functools import cache
from typing import Any

from simulation.cluster import MemoryCluster
from simulation.process import GROUP, MERGES, TOPICS, Process, Setup
from simulation.small import small
from stream.merging.cluster_of_rounds import SETUP, cluster_of, finish, new_process
from stream.merging.lockstep import hourly
from stream.verification.published_logs import MemoryLogs
from support.records import DECODER, TOPIC, FakeRecord

from stream_apple.stream.log.ports import LogRange
from stream_apple.stream.merging.adoptions import AdoptionRecord, decode_adoption, encode_adoption
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import Lineage
from stream_apple.stream.positions.merge_note import MergeSettings
from stream_apple.stream.verification.partition_report import Report
from stream_apple.stream.verification.verifier import Verifier
from stream_apple.stream.walk.sources import Sources

PLACE = (MERGES, 0)
HASTY = SETUP._replace(merging=MergeSettings(1, "votes", 2.0, 5.0))


class MergedLogs(MemoryLogs):
    """Logs of a cluster that is at rest."""

    def __init__(self, cluster: MemoryCluster, setup: Setup) -> None:
        super().__init__()
        cluster.time_out_transactions()
        cluster.transactions.settle()
        self.setup = setup
        self.ends: dict[tuple[str, int], int] = {}
        for topic in (*filter(None, TOPICS), MERGES):
            for log in cluster.logs(topic):
                self.logs[topic, log.number] = list(log.committed())
                self.ends[topic, log.number] = log.end
                self.low[topic, log.number] = log.low
        self.counts = {topic: len(cluster.logs(topic)) for topic in (*filter(None, TOPICS), MERGES)}
        self.offsets = dict(cluster.group(GROUP, TOPIC).offsets)

    def partition_count(self, topic: str) -> int:
        """As made."""
        return self.counts[topic]

    def log_range(self, topic: str, partition: int) -> LogRange:
        """As it was, or further on if something was added."""
        records = self.logs[topic, partition]
        end = max(self.ends[topic, partition], records[-1].at + 1 if records else 0)
        return LogRange(self.low[topic, partition], end)

    def adoptions(self) -> list[tuple[int, AdoptionRecord]]:
        """All adoption records, with their numbers in the log."""
        return [
            (number, decode_adoption(GROUP, record.payload))
            for number, record in enumerate(self.logs[PLACE])
            if b"adopted" in (record.named or b"")
        ]

    def parts(self, number: int) -> list[int]:
        """Numbers in the log of the messages of a round's merged model."""
        start = f"{GROUP}/{number}/".encode()
        return [at for at, record in enumerate(self.logs[PLACE]) if (record.named or b"").startswith(start)]

    def rounds(self) -> list[int]:
        """Of the merged models, in their order."""
        keys = [(record.named or b"").split(b"/") for record in self.logs[PLACE]]
        return [int(key[1]) for key in keys if key[1] != b"adopted" and key[2] == b"0"]

    def change_adoption(self, number: int, **fields: Any) -> None:
        """Record something else in this message."""
        record = decode_adoption(GROUP, self.logs[PLACE][number].payload)
        payload = encode_adoption(GROUP, record._replace(**fields))
        self.logs[PLACE][number] = self.logs[PLACE][number]._replace(payload=payload)

    def add(self, payload: bytes | None, key: bytes | None) -> None:
        """Write a message to the merges topic."""
        self.logs[PLACE].append(FakeRecord(0, self.log_range(*PLACE).high, payload, 0, key))

    def new_model(self, partition: int, lineage: Lineage) -> PartitionModel:
        """A model that has learned nothing."""
        return PartitionModel(TOPIC, partition, lineage, self.setup.model_settings, DECODER)

    def verifier(self) -> Verifier:
        """A verification of these logs."""
        return Verifier(Sources(self, self.setup.provenance, self.new_model, 7), lambda *_: None)

    def verify(self, partition: int) -> Report:
        """The report on one partition, by itself."""
        with small():
            return self.verifier().verify_each([partition])[0]

    def verify_all(self) -> list[Report]:
        """The reports on all, learned at once."""
        with small():
            return self.verifier().verify_all()


@cache
def _strict() -> MemoryCluster:
    """Three partitions, which pass three boundaries together."""
    with small():
        cluster = cluster_of({number: hourly(number, [7, 4 + number, 9, 6]) for number in range(3)})
        finish(cluster, new_process(cluster))
    return cluster


def strict() -> MergedLogs:
    """What they leave; a copy."""
    return MergedLogs(_strict(), SETUP)


def left_by(given: dict[int, list[FakeRecord]], setup: Setup = HASTY) -> MergedLogs:
    """What one worker leaves."""
    with small():
        cluster = cluster_of(given)
        finish(cluster, new_process(cluster, setup))
        return MergedLogs(cluster, setup)


def left_when(given: dict[int, list[FakeRecord]], done: Callable[[Process], bool], setup: Setup = SETUP) -> MergedLogs:
    """What one worker leaves that is killed when this holds."""
    with small():
        cluster = cluster_of(given)
        process = new_process(cluster, setup)
        for _ in range(4_000):
            process.step()
            assert process.ended is None, process.error
            if done(process):
                process.kill()
                return MergedLogs(cluster, setup)
    raise AssertionError("expected that to happen")
