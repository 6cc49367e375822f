"""Whole lives of one worker on a cluster in memory; the input is short enough to fail at each call of a life."""

from collections.abc import Mapping, Sequence

import pytest
from simulation.cluster import MemoryCluster
from simulation.faults import CrashError, Fault, Kind
from simulation.process import GROUP, TOPICS, Process, Setup
from simulation.world import Output, make_cluster, outputs_of
from support.records import FakeRecord, stream

from stream_apple.records.message.prediction_formats import decode_prediction
from stream_apple.stream.log.ports import Committed, Record

WORKER = "worker-0"
MOST_FETCHES = 2_000
SETUP = Setup()
OTHERS = SETUP.provenance._replace(group="another")
NEVER = SETUP.loop._replace(commits=SETUP.loop.commits._replace(outputs=10_000))
"""No commit before the last."""


class Worker(Process):
    """One life of a worker; it is asked to stop when it has learned everything, unless it dies before.

    events  call number -> "revoke" or "lose", before the first fetch from then on
    """

    def __init__(
        self,
        cluster: MemoryCluster,
        faults: Sequence[Fault] = (),
        events: Mapping[int, str] | None = None,
        setup: Setup = SETUP,
        tick: float = 0.0,
    ) -> None:
        super().__init__(cluster, WORKER, faults, setup, tick=tick)
        self.cluster = cluster
        self.records: list[Record] = []
        self._events = dict(events or {})
        self._fetches = 0
        self._fetch = self.broker.fetch
        self.broker.fetch = self.fetch  # type: ignore[method-assign]

    def fetch(self, limit: int, timeout_s: float) -> Sequence[Record]:
        """What the broker has; the last one asks the loop to stop."""
        self._fetches += 1
        assert self._fetches < MOST_FETCHES, f"no end; models stand at {self.live}"
        due = next((call for call in self._events if call <= len(self.broker.calls)), None)
        group = self.cluster.group(GROUP, TOPICS.examples)
        if due is not None and self.live:
            if self._events.pop(due) == "revoke":
                group.shake()
            else:
                group.expire(WORKER)
        records = self._fetch(limit, timeout_s)
        self.records += records
        if not records and self.live == {log.number: log.end for log in self.cluster.logs(TOPICS.examples)}:
            self.loop.stop()
        return records


def input_log() -> dict[int, list[FakeRecord]]:
    """Two partitions, short enough to fail at each of their calls."""
    return {
        0: stream(32, seed=5, partition=0, bad_share=0.2),
        1: stream(20, seed=5, partition=1, bad_share=0.2),
    }


def cluster_with(log: Mapping[int, Sequence[FakeRecord]], dead_letter_partitions: int | None = None) -> MemoryCluster:
    """Topics, with these examples."""
    cluster = make_cluster(len(log), dead_letter_partitions)
    for records in log.values():
        cluster.load(TOPICS.examples, records)
    return cluster


def cluster_of_all() -> MemoryCluster:
    """With the input log."""
    return cluster_with(input_log())


def offsets_of(cluster: MemoryCluster) -> dict[int, Committed]:
    """What the group has committed; the dictionary itself."""
    return cluster.group(GROUP, TOPICS.examples).offsets


def visible(cluster: MemoryCluster) -> list[tuple[str, int, Output]]:
    """Topic, partition and content of all that readers see."""
    return [(topic, number, output) for (topic, number), some in outputs_of(cluster).items() for output in some]


def offset_of(topic: str, output: Output) -> int:
    """The offset of the example that an output answers for."""
    if topic == TOPICS.predictions:
        return int(str(decode_prediction(output.value or b"")["offset"]))
    return int(dict(output.headers)["__stream_apple.errors.offset"] or b"")


def calls_of_a_run() -> list[str]:
    """The calls of the port that an undisturbed run makes."""
    return Worker(cluster_of_all()).run().broker.calls


def killed_after(
    log: Mapping[int, Sequence[FakeRecord]], commits: int, setup: Setup = SETUP, tick: float = 0.0
) -> MemoryCluster:
    """What a worker leaves behind that died when it had committed so many times, and had learned more since."""
    calls = Worker(cluster_with(log), setup=setup, tick=tick).run().broker.calls
    places = [number for number, name in enumerate(calls) if name == "commit"]
    cluster = cluster_with(log)
    with pytest.raises(CrashError):
        Worker(cluster, [Fault(places[commits - 1] + 5, Kind.CRASH)], setup=setup, tick=tick).run()
    return cluster
