"""The main path on real parts and real data: a file to a topic, the worker, predictions, and `evaluate` beside it."""

import itertools
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from end_to_end.worker_process import Life, committed_messages
from kafka_broker import free_ports
from prometheus_client.parser import text_string_to_metric_families

from stream_apple.core.decode import Decoder, Limits
from stream_apple.core.encode import decode_prediction
from stream_apple.core.learner import Learner, Options, Scores

TopicFactory = Callable[..., str]

EXAMPLES = 48_842  # of a9a
EPOCHS = 6
EPOCH = -(-EXAMPLES // EPOCHS)  # examples, and seconds: they are sent one second of event time apart
START_MS = 1_700_000_000 // EPOCH * EPOCH * 1000  # an epoch's boundary
FOREVER = {"retention.ms": "-1"}


def stream_apple(*arguments: str | Path) -> str:
    """Run a command to its end; what it printed."""
    command = [sys.executable, "-m", "stream_apple", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout


class Deployment:
    """Topics, configuration and worker processes of one test."""

    def __init__(self, kafka: str, topic: TopicFactory, directory: Path, partitions: int) -> None:
        self.kafka, self.partitions, self._directory = kafka, partitions, directory
        self.examples = topic("examples", partitions, FOREVER)
        self.predictions = topic("predictions", partitions, FOREVER)
        self.dead_letters = topic("dead-letters", partitions, FOREVER)
        self.models = topic("models", partitions, {"cleanup.policy": "compact"})
        self.lives: list[Life] = []

    def produce(self, file: Path) -> None:
        """Send the file, an epoch's boundary first, one second of event time an example."""
        stream_apple(
            "produce", file, "--bootstrap-servers", self.kafka, "--topic", self.examples,
            "--start-time", str(START_MS), "--interval", "1s", "--quiet",
        )  # fmt: skip

    def start(self, name: str) -> int:
        """Start a worker process; the port of its metrics."""
        (port,) = free_ports(1)
        config = self._directory / f"{name}.toml"
        config.write_text(
            f"""
            [kafka]
            "bootstrap.servers" = "{self.kafka}"
            [topics]
            examples = "{self.examples}"
            predictions = "{self.predictions}"
            dead_letters = "{self.dead_letters}"
            models = "{self.models}"
            [worker]
            group = "group-of-{self.examples}"
            [epochs]
            length = "{EPOCH}s"
            max_ahead = "30d"
            [http]
            host = "127.0.0.1"
            port = {port}
            """
        )
        self.lives.append(Life(config, self._directory / f"{name}.log", name))
        return port

    def wait_for_predictions(self, count: int) -> dict[int, list[dict[str, object]]]:
        """All predictions by partition, once there are `count` that readers of committed data can see."""
        deadline = time.monotonic() + 240
        while True:
            found = committed_messages(self.kafka, self.predictions, self.partitions)
            if sum(map(len, found.values())) >= count:
                return {
                    number: [decode_prediction(message.value() or b"") for message in messages]
                    for number, messages in found.items()
                }
            assert time.monotonic() < deadline, f"{sum(map(len, found.values()))} predictions of {count} in 240 s"
            assert all(life.process.poll() is None for life in self.lives), "a worker died"
            time.sleep(0.5)

    def stop(self) -> None:
        """End all workers."""
        for life in self.lives:
            if life.process.poll() is None:
                assert life.terminate() == 0


@pytest.fixture
def deploy(kafka: str, topic: TopicFactory, tmp_path: Path) -> Iterator[Callable[[int], Deployment]]:
    """Make a deployment with so many partitions; none of its processes outlives the test."""
    made: list[Deployment] = []

    def make(partitions: int) -> Deployment:
        made.append(Deployment(kafka, topic, tmp_path, partitions))
        return made[-1]

    yield make
    for deployment in made:
        for life in deployment.lives:
            if life.process.poll() is None:
                life.kill()


def metric(port: int, name: str, **labels: str) -> float:
    """One sample of a worker's metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
        text = response.read().decode()
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples if s.name == name]
    (value,) = [s.value for s in samples if labels.items() <= s.labels.items()]
    return float(value)


def test_one_partition_equals_evaluate_to_the_last_bit(
    deploy: Callable[[int], Deployment], shared: Path, tmp_path: Path
) -> None:
    """48,842 real examples: exactly one prediction each, and each the one that `evaluate` makes of the file."""
    data = shared / "data" / "a9a.svm.gz"
    deployment = deploy(1)
    deployment.produce(data)
    port = deployment.start("worker-0")
    (predictions,) = deployment.wait_for_predictions(EXAMPLES).values()
    reported = metric(port, "stream_apple_progressive_loss", partition="0", span="start")
    deployment.stop()

    listing = tmp_path / "predictions.txt"
    options = ("--no-shuffle", "--test-fraction", "0", "--epochs", str(EPOCHS), "--predictions", listing, "--json")
    result = json.loads(stream_apple("evaluate", data, *options))
    assert [p["offset"] for p in predictions] == list(range(EXAMPLES))
    assert [p["prediction"] for p in predictions] == [float(line) for line in listing.read_text().splitlines()]
    losses = np.array([p["loss"] for p in predictions], np.float64)
    assert float(np.cumsum(losses)[-1]) / EXAMPLES == result["progressive_loss"] == reported
    assert len({p["epoch"] for p in predictions}) == EPOCHS
    assert result["parents"] > 0


def test_four_partitions_and_two_workers_equal_four_learners(deploy: Callable[[int], Deployment], shared: Path) -> None:
    """Each partition is its own stream: its predictions are those of a learner fed with its records alone."""
    deployment = deploy(4)
    deployment.produce(shared / "data" / "a9a.svm.gz")
    for name in ("worker-0", "worker-1"):
        deployment.start(name)
    by_partition = deployment.wait_for_predictions(EXAMPLES)
    deployment.stop()

    records = committed_messages(deployment.kafka, deployment.examples, 4)
    decoder = Decoder(Limits(4096, 1 << 20, 1e6, -1e9, 1e9, binary=False))
    for number, predictions in by_partition.items():
        assert [p["offset"] for p in predictions] == list(range(len(records[number])))
        assert all(p["partition"] == number for p in predictions)
        batch = decoder.decode([record.value() for record in records[number]]).batch
        epochs = np.array([record.timestamp()[1] // (EPOCH * 1000) for record in records[number]])
        ends = [0, *(np.flatnonzero(np.diff(epochs)) + 1).tolist(), len(epochs)]
        learner, scores = Learner(Options()), Scores.empty(len(epochs))
        for start, stop in itertools.pairwise(ends):
            learner.learn(batch, start, stop, scores)
            learner.end_epoch()
        assert [p["prediction"] for p in predictions] == scores.predictions.tolist()
        assert [p["loss"] for p in predictions] == scores.losses.tolist()
