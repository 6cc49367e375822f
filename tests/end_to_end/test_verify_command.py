"""`stream-apple verify` on a real broker: beside a live worker, after retention, and when something is wrong."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from support.command import call_command, run_command
from support.records import FakeRecord, stream
from support.topics import TopicFactory, create_worker_topics, read_to_end
from support.waiting import DEADLINE_S, wait_until
from support.worker_config import write_config
from support.worker_process import WorkerProcess

from stream_apple.config import Config, load

COUNT = 3_000
PARTITIONS = 2


class Deployment:
    """Topics with input, and the workers on them."""

    def __init__(self, kafka: str, topic: TopicFactory, directory: Path) -> None:
        self.kafka = kafka
        self.path = directory / "stream_apple.toml"
        self._directory = directory
        self._workers: list[WorkerProcess] = []
        write_config(
            self.path,
            kafka,
            topics=create_worker_topics(topic, PARTITIONS),
            worker={"commit_interval": "50ms", "snapshot_interval": "1h"},
            learner={"bits": 12},
            limits={"max_features": 16},
        )
        self.config: Config = load(self.path, {})

    def feed(self, start: int = 0, stop: int = COUNT) -> None:
        """Send these records of each partition's stream."""
        producer = Producer({"bootstrap.servers": self.kafka, "enable.idempotence": True})
        for number in range(PARTITIONS):
            for record in stream(COUNT, seed=3, partition=number)[start:stop]:
                self._send(producer, record)
        assert producer.flush(DEADLINE_S) == 0

    def _send(self, producer: Producer, record: FakeRecord) -> None:
        headers = list(record.extra or [])
        time_ms = record.time_ms or 1  # clients read 0 as now
        producer.produce(
            self.config.topics.examples, record.payload, record.named, record.number, timestamp=time_ms, headers=headers
        )

    def work(self) -> WorkerProcess:
        """A worker."""
        self._workers.append(WorkerProcess(self.path, self._directory / "worker.log"))
        return self._workers[-1]

    def committed(self) -> list[int]:
        """The group's committed offsets."""
        consumer = Consumer({"bootstrap.servers": self.kafka, "group.id": self.config.worker.group})
        asked = [TopicPartition(self.config.topics.examples, number) for number in range(PARTITIONS)]

        def committed() -> list[TopicPartition]:
            try:
                return consumer.committed(asked, timeout=DEADLINE_S)
            except KafkaException:  # on a new broker the coordinator moves once
                return []

        try:
            return [found.offset for found in wait_until(committed, "the coordinator of the group")]
        finally:
            consumer.close()

    def answered(self, worker: WorkerProcess, count: int = COUNT) -> None:
        """Wait until the worker has answered so many records of each partition."""
        worker.wait_until(lambda: self.committed() == [count] * PARTITIONS, f"{count} answers", pause_s=0.2)

    def verify(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """What the command says."""
        return call_command("verify", "--config", self.path, *arguments)

    def report(self, *arguments: str, unproved: int = 0) -> list[dict[str, Any]]:
        """What it finds in each partition; there is no fault, and so many answers can't be proved."""
        done = self.verify("--json", *arguments)
        assert done.returncode == (76 if unproved else 0), done.stderr
        report = json.loads(done.stdout)
        assert (report["verified"], report["unproved"]) == (not unproved, unproved)
        partitions: list[dict[str, Any]] = report["partitions"]
        return partitions

    def close(self) -> None:
        """Leave no process behind."""
        for worker in self._workers:
            worker.close()


@pytest.fixture
def deployment(kafka: str, topic: TopicFactory, tmp_path: Path) -> Iterator[Deployment]:
    """Topics of its own, with nothing in them."""
    made = Deployment(kafka, topic, tmp_path)
    yield made
    made.close()


def test_beside_a_live_worker_and_after_it(deployment: Deployment) -> None:
    """Outputs are confirmed while a worker goes on, and its last snapshot when it has stopped; a copy is found."""
    deployment.feed(0, 1_000)
    worker = deployment.work()
    deployment.answered(worker, 1_000)
    deployment.feed(1_000, COUNT)
    for found in deployment.report():
        assert found["origin"] == "start"
        assert 1_000 <= found["stop"] == found["records"]
    deployment.answered(worker)
    assert worker.terminate() == 0
    for found in deployment.report():
        assert found["stop"] == found["records"] == COUNT == found["snapshot"]["at"]
        assert found["relearned"] == found["snapshot"]["digest"]
        assert found["predictions"]["matched"] + found["dead_letters"]["matched"] == COUNT
        assert found["dead_letters"]["matched"] > 0

    table = run_command("verify", "--config", deployment.path)
    assert table.returncode == 0
    assert not table.stderr
    assert table.stdout.count(f" at {COUNT}, relearned") == PARTITIONS
    assert f"verified: {COUNT * PARTITIONS:,} records, " in table.stdout
    assert table.stdout.endswith(" dead letters: no faults\n")

    topics, kafka = deployment.config.topics, deployment.kafka
    message = read_to_end(kafka, topics.predictions, PARTITIONS)[1][500]
    copier = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    copier.produce(topics.predictions, message.value(), message.key(), 1, timestamp=message.timestamp()[1])
    assert copier.flush(DEADLINE_S) == 0
    done = deployment.verify()
    assert done.returncode == 74
    assert done.stderr == (
        "stream-apple: expected what a model publishes that is never interrupted, "
        f"found 1 faults in {topics.examples}, partition 1\n"
    )
    assert f"partition 1: duplicated: {topics.predictions}-1@" in done.stdout
    whole = json.loads(deployment.verify("--json").stdout)
    assert not whole["verified"]
    assert [fault["kind"] for found in whole["partitions"] for fault in found["faults"]] == ["duplicated"]
    assert deployment.report("--partition", "0")[0]["fault_count"] == 0

    # What readers would find in partition 0 besides: another model's answer, one of another partition, and none.
    other = msgpack.packb({**msgpack.unpackb(message.value() or b""), "partition": 0, "model": "f" * 16})
    for value in (other, message.value(), None):
        copier.produce(topics.predictions, value, message.key(), 0, timestamp=message.timestamp()[1])
    copier.produce(topics.dead_letters, b"v", b"k", 0)
    ahead = msgpack.packb({**msgpack.unpackb(message.value() or b""), "offset": 10 * COUNT})
    copier.produce(topics.predictions, ahead, message.key(), 1)
    assert copier.flush(DEADLINE_S) == 0
    whole = json.loads(deployment.verify("--json").stdout)
    kinds = [sorted(fault["kind"] for fault in each["faults"]) for each in whole["partitions"]]
    assert kinds == [["misplaced", "of another model", "unreadable", "unreadable"], ["duplicated", "extra"]]
    done = deployment.verify()
    assert done.returncode == 74
    assert f"partition 0: unreadable: {topics.dead_letters}-0@" in done.stdout


def test_after_retention(deployment: Deployment) -> None:
    """Without the first records it starts from the snapshot and says what is unproved: without those behind, all."""
    deployment.feed(0, 2_000)
    first = deployment.work()
    deployment.answered(first, 2_000)
    assert first.terminate() == 0  # with a snapshot of record 2,000
    deployment.feed(2_000, COUNT)
    second = deployment.work()
    deployment.answered(second)
    second.kill()
    assert [found["snapshot"]["at"] for found in deployment.report()] == [2_000] * PARTITIONS
    admin = AdminClient({"bootstrap.servers": deployment.kafka})

    def delete(offsets: list[int]) -> None:
        places = [TopicPartition(deployment.config.topics.examples, p, offset) for p, offset in enumerate(offsets)]
        for future in admin.delete_records(places).values():
            future.result(DEADLINE_S)

    delete([1_500] * PARTITIONS)
    for found in deployment.report(unproved=2_000 * PARTITIONS):
        assert (found["origin"], found["start"], found["stop"]) == ("snapshot", 2_000, COUNT)
        assert found["predictions"]["matched"] + found["dead_letters"]["matched"] == COUNT - 2_000
    assert "some of these records are gone: only what came after its snapshot is proved" in deployment.verify().stdout
    assert deployment.verify("--allow-unproved").returncode == 0
    delete([2_001, 1_500])
    lost, kept = deployment.report(unproved=COUNT + 2_000)
    assert (lost["records"], kept["records"]) == (0, COUNT - 2_000)
    done = deployment.verify("--partition", "0", "--allow-unproved")
    assert done.returncode == 76
    assert "from offset 2000 on" in done.stdout


def test_nothing_to_verify(deployment: Deployment) -> None:
    """Before a worker has committed anything, and for a partition that there is not, it ends with 78."""
    deployment.feed(0, 10)
    done = deployment.verify()
    assert done.returncode == 78
    assert f"offsets of {deployment.config.topics.examples} that group" in done.stderr
    done = deployment.verify("--partition", "7")
    assert done.returncode == 78
    assert "below 2, found 7" in done.stderr
