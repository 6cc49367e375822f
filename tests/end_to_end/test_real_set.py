"""The main path on real parts and real data: a file to a topic, the worker, predictions, and `evaluate` beside it."""

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Message
from support.command import call_command
from support.local_http import metric
from support.required import SharedFile
from support.topics import TopicFactory, create_worker_topics, read_to_end
from support.waiting import wait_until
from support.worker_config import write_config
from support.worker_process import WorkerProcess

from stream_apple.core.batch import Limits
from stream_apple.learners.apple.learner import Learner
from stream_apple.learners.apple.options import Options
from stream_apple.learners.scores import Scores
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.prediction_formats import decode_prediction

EXAMPLES = 48_842  # of a9a
EPOCHS = 6
EPOCH = -(-EXAMPLES // EPOCHS)  # examples, and seconds: they are sent one second of event time apart
START_MS = 1_700_000_000 // EPOCH * EPOCH * 1000  # an epoch's boundary


def stream_apple(*arguments: str | Path) -> str:
    """Run a command to its end; what it printed."""
    done = call_command(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Deployment:
    """Topics, configuration and worker processes of one test."""

    def __init__(self, kafka: str, topic: TopicFactory, directory: Path, partitions: int) -> None:
        self.kafka, self.partitions, self._directory = kafka, partitions, directory
        self.topics = create_worker_topics(topic, partitions, partitions)
        self._config = write_config(
            directory / "stream_apple.toml",
            kafka,
            topics=self.topics,
            epochs={"length": f"{EPOCH}s", "max_ahead": "30d"},
        )
        self._workers: list[WorkerProcess] = []

    def produce(self, file: Path, limit: int = EXAMPLES) -> None:
        """Send the file's first examples, an epoch's boundary first, one second of event time an example."""
        stream_apple(
            "produce", file, "--bootstrap-servers", self.kafka, "--topic", self.topics["examples"],
            "--start-time", str(START_MS), "--interval", "1s", "--quiet",
            "--limit", str(limit),
        )  # fmt: skip

    def start(self, name: str) -> WorkerProcess:
        """Start a worker process."""
        self._workers.append(WorkerProcess(self._config, self._directory / f"{name}.log", name))
        return self._workers[-1]

    def wait_for_predictions(self, count: int) -> dict[int, list[dict[str, object]]]:
        """All predictions by partition, once there are `count` that readers of committed data can see."""

        def complete() -> dict[int, list[Message]]:
            assert all(worker.running for worker in self._workers), "a worker died"
            found = read_to_end(self.kafka, self.topics["predictions"], self.partitions)
            return found if sum(map(len, found.values())) >= count else {}

        found = wait_until(complete, f"{count} predictions", 240, pause_s=0.5)
        return {
            number: [decode_prediction(message.value() or b"") for message in messages]
            for number, messages in found.items()
        }

    def stop(self) -> None:
        """End all workers, as Kubernetes does."""
        for worker in self._workers:
            assert worker.terminate() == 0

    def close(self) -> None:
        """Leave no process behind."""
        for worker in self._workers:
            worker.close()


@pytest.fixture
def deploy(kafka: str, topic: TopicFactory, tmp_path: Path) -> Iterator[Callable[[int], Deployment]]:
    """Make a deployment with so many partitions; none of its processes outlives the test."""
    with ExitStack() as stack:

        def make(partitions: int) -> Deployment:
            return stack.enter_context(closing(Deployment(kafka, topic, tmp_path, partitions)))

        yield make


def test_one_partition_equals_evaluate_to_the_last_bit(
    deploy: Callable[[int], Deployment], shared: SharedFile, tmp_path: Path
) -> None:
    """48,842 real examples: exactly one prediction each, and each the one that `evaluate` makes of the file."""
    data = shared("data/a9a.svm.gz")
    deployment = deploy(1)
    deployment.produce(data)
    worker = deployment.start("worker-0")
    (predictions,) = deployment.wait_for_predictions(EXAMPLES).values()
    wait_until(  # gauges are written once a second
        lambda: metric(worker.http_port, "stream_apple_learned_examples", partition="0") == [EXAMPLES],
        f"gauges after {EXAMPLES} examples",
        30,
    )
    (reported,) = metric(worker.http_port, "stream_apple_progressive_loss", partition="0", span="start")
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

    by_time = ("--epoch-length", f"{EPOCH}s", "--interval", "1s", "--start-time", str(START_MS))
    result = json.loads(
        stream_apple("evaluate", data, *by_time, "--test-fraction", "0", "--predictions", listing, "--json")
    )
    assert [p["prediction"] for p in predictions] == [float(line) for line in listing.read_text().splitlines()]
    assert (result["epochs"], result["far_ahead"]) == (EPOCHS, 0)


def test_four_partitions_and_two_workers_equal_four_learners(
    deploy: Callable[[int], Deployment], shared: SharedFile
) -> None:
    """Each partition is its own stream: its predictions are those of a learner fed with its records alone."""
    deployment = deploy(4)
    deployment.produce(shared("data/a9a.svm.gz"), 2 * EPOCH + 100)
    for name in ("worker-0", "worker-1"):
        deployment.start(name)
    by_partition = deployment.wait_for_predictions(2 * EPOCH + 100)
    deployment.stop()

    records = read_to_end(deployment.kafka, deployment.topics["examples"], 4)
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
        # A set on which products alone are worse than linear: what is published is not.
        assert learner.progress.report("whole").loss < learner.progress.report("whole").linear_loss
