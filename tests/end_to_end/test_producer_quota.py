"""A broker limits the rate of producers so far that no transaction with a snapshot can be committed in time."""

import random
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Producer
from end_to_end.expected_outputs import Outputs
from support.kafka.broker import Broker
from support.topics import create_worker_topics, named_topics
from support.worker_config import write_config
from support.worker_process import WorkerProcess

from stream_apple.config import load
from stream_apple.records.message.example import Example, encode_example

CLIENT = "limited"
START_MS = 1_700_000_000_000


def _feed(bootstrap: str, count: int, seed: int) -> None:
    """Send examples of many names, so that the model has a megabyte."""
    draw, producer = random.Random(seed), Producer({"bootstrap.servers": bootstrap, "client.id": "feeder"})
    for number in range(count):
        features = {f"f{draw.randrange(20_000)}": round(draw.random(), 3) for _ in range(12)}
        value = encode_example(Example(draw.random(), 1.0, number, features))
        producer.produce("examples", value, b"key", 0, timestamp=START_MS + number)
    assert producer.flush(60) == 0


def _limit(broker: Broker, *change: str) -> None:
    java = broker._java(broker.directory)
    command = [*java, "kafka.admin.ConfigCommand", "--bootstrap-server", broker.bootstrap, "--alter", *change]
    subprocess.run([*command, "--entity-type", "clients", "--entity-name", CLIENT], check=True, capture_output=True)


@pytest.mark.long
def test_snapshots_above_a_quota_are_put_off(jars: Path, tmp_path: Path) -> None:
    """Records are answered while the snapshot is put off; without the quota it is written, and all is whole."""
    broker = Broker(tmp_path / "kafka", jars)
    broker.start()
    try:
        path = write_config(
            tmp_path / "stream_apple.toml",
            broker.bootstrap,
            kafka={"client.id": CLIENT, "transaction.timeout.ms": 10_000, "session.timeout.ms": 6_000},
            topics=create_worker_topics(named_topics(broker.bootstrap), 1),
            worker={"commit_interval": "100ms", "snapshot_interval": "4s"},
            learner={"bits": 16},
            limits={"max_features": 32},
        )
        outputs = Outputs(broker.bootstrap, load(path, {}), 1)
        _feed(broker.bootstrap, 20_000, 1)
        with WorkerProcess(path, tmp_path / "worker.log") as worker:
            worker.wait_for_event("snapshot_written")
            worker.wait_until(outputs.complete(), "everything was published", 0.3)
            _limit(broker, "--add-config", "producer_byte_rate=40000")

            def postponed() -> bool:
                _feed(broker.bootstrap, 1, 2)
                return "snapshot_postponed" in worker.events()

            worker.wait_until(postponed, "a snapshot was put off", 0.5)
            written = worker.events().count("snapshot_written")
            worker.wait_until(outputs.complete(), "everything was published", 0.3)
            _limit(broker, "--delete-config", "producer_byte_rate")
            worker.wait_until(lambda: worker.events().count("snapshot_written") > written, "a snapshot was written")
            assert worker.terminate() == 0
        outputs.check()
    finally:
        broker.kill()
