"""Replicas beside workers on a real broker, all of them killed: each answer can be made again, to the bit."""

import json
import random
import threading
from contextlib import closing
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest
from end_to_end.chaos_feed import Flood
from support.command import run_command
from support.local_http import fetch, metric
from support.topics import FOREVER, TopicFactory, create_worker_topics
from support.worker_config import write_config
from support.worker_process import WorkerProcess

from stream_apple.adapters.kafka.log_reader import KafkaLogs
from stream_apple.adapters.serving.answering import prediction_facts
from stream_apple.app.models import settings_of
from stream_apple.app.replica import sources_of
from stream_apple.config import Config, load
from stream_apple.errors import ConfigurationError
from stream_apple.monitoring.definitions import PREFIX
from stream_apple.monitoring.serving_metrics import SERVING_METRICS
from stream_apple.stream.following.as_of import Moment
from stream_apple.stream.following.rebuilding import rebuild
from stream_apple.stream.model.instances import InstanceReader, score

PARTITIONS = 2


class Asked(NamedTuple):
    """An instance, and what was said of it."""

    instance: bytes
    prediction: dict[str, Any]
    as_of: dict[str, Any]

    @property
    def moment(self) -> Moment:
        """The model that has answered."""
        return Moment(self.as_of["partition"], self.as_of["offset"], self.as_of.get("boundary", ""))


class Client:
    """Asks a replica again and again, wherever it is at the moment; a context."""

    def __init__(self, group: str, seed: int) -> None:
        self.port = 0
        self.asked: list[Asked] = []
        self.refused: set[int] = set()
        self._path = f"/v1/models/{group}:predict"
        self._draw = random.Random(seed)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(0.002):
            if self.port:
                self._ask()

    def _ask(self) -> None:
        numbers = self._draw.sample(range(10_000), self._draw.randint(1, 4))
        instances = [instance(number) for number in numbers]
        try:
            reply = fetch(self.port, self._path, "POST", json.dumps({"instances": instances}).encode(), seconds=5)
        except (OSError, HTTPException):
            return  # killed, perhaps in the middle of an answer, or not there yet
        if reply.status != 200:
            self.refused.add(reply.status)
            return
        told = reply.json()
        for given, prediction, as_of in zip(instances, told["predictions"], told["as_of"], strict=True):
            self.asked.append(Asked(json.dumps(given).encode(), prediction, as_of))


def instance(number: int) -> dict[str, Any]:
    """An instance as the feed has them, with a key."""
    draw = random.Random(number)
    features = {f"{letter}{draw.randrange(12)}": round(draw.uniform(0.2, 1.0), 2) for letter in "abcdefgh"}
    return {"features": features, "key": f"key-{number}"}


def made_again(config: Config, asked: list[Asked]) -> int:
    """Score each once more by a model that is learned again up to its offset; how many different models that took."""
    reader, models = InstanceReader(settings_of(config)), 0
    with closing(KafkaLogs(config)) as logs, closing(sources_of(config, logs)) as sources:
        for number, committed in logs.committed(range(PARTITIONS)).items():
            assert committed is not None
            of_partition = sorted(
                (each for each in asked if each.moment.partition == number), key=lambda each: each.moment.order
            )
            stored = sources.newest(number, committed)._replace(model=None)
            for each in of_partition:
                if stored.model is None or Moment.of(stored.model) != each.moment:
                    # On from the model before, so that a thousand of them take one walk through the log.
                    stored = stored._replace(model=rebuild(sources, stored, committed, each.moment))
                    models += 1
                assert stored.model is not None
                assert (stored.model.lineage.model, Moment.of(stored.model)) == (each.as_of["model"], each.moment)
                key = json.loads(each.instance)["key"].encode()
                (again,) = score(stored.model, reader.read([each.instance], [key]))
                assert prediction_facts(again) == each.prediction, each
    return models


def configure(directory: Path, kafka: str, topic: TopicFactory, **sections: dict[str, Any]) -> tuple[Path, Config]:
    """Workers and replicas on new topics; snapshots each second."""
    topics = create_worker_topics(topic, PARTITIONS)
    if "merge" in sections:
        topics |= {"merges": topic("merges", 1, FOREVER)}
    path = write_config(
        directory / "stream_apple.toml",
        kafka,
        kafka={"session.timeout.ms": 6000},
        topics=topics,
        worker={"commit_interval": "100ms", "snapshot_interval": "1s"},
        epochs={"length": "10s"},
        learner={"bits": 12},
        serve={"host": "127.0.0.1", "port": 0},
        **sections,
    )
    return path, load(path, {})


def checks(port: int, outcome: str) -> float:
    """How many snapshots the replica has been held against, with this outcome."""
    return sum(metric(port, "stream_apple_serve_digest_checks_total", outcome=outcome))


def is_ready(port: int) -> bool:
    """Whether the replica says so."""
    return fetch(port, "/v2/health/ready").status == 200


def ask_through_kills(
    path: Path, config: Config, directory: Path, kafka: str, kills: int, snapshots: int, workers: int = 1
) -> Client:
    """Kill a worker and the replica in turn, while examples and requests come; all that has been asked."""
    client, log = Client(config.worker.group, 5), directory / "serving.log"
    running: list[WorkerProcess] = []

    def start(name: str, command: str = "run") -> WorkerProcess:
        running.append(WorkerProcess(path, log, name, command=command))
        return running[-1]

    draw = random.Random(kills)
    try:
        with Flood(kafka, config.topics.examples, PARTITIONS, 1_500, 9) as flood, client:
            group = [start(f"worker-{number}") for number in range(workers)]
            replica = start("replica", "serve")
            for turn in range(kills + 1):
                client.port = replica.http_port
                replica.wait_until(lambda: is_ready(client.port), "it was ready")
                asked, checked = len(client.asked) + 20, checks(client.port, "equal") + snapshots
                replica.wait_until(lambda: checks(client.port, "equal") >= checked, "it was checked")  # noqa: B023
                replica.wait_until(lambda: len(client.asked) >= asked, "it had answered")  # noqa: B023
                assert not checks(client.port, "different")
                assert "replica_dropped" not in replica.events(), replica.tail()
                if turn == kills:
                    shown = fetch(client.port, "/metrics").body.decode()
                    assert [row.name for row in SERVING_METRICS if f"\n{PREFIX}{row.name}" not in shown] == []
                    break
                if turn % 2 == 0:
                    number = draw.randrange(workers)
                    group[number].kill()
                    group[number] = start(f"worker-{number}")
                else:
                    client.port = 0
                    replica.kill()
                    replica = start("replica", "serve")
            flood.finish(flood.sent)
            assert replica.terminate() == 0
            client.port = 0
            for worker in group:
                worker.wait_for_event("started")
                assert worker.terminate() == 0
    finally:
        for each in running:
            each.close()
    return client


def test_answers_are_made_again_after_kills(kafka: str, topic: TopicFactory, tmp_path: Path) -> None:
    """A worker and a replica are killed; what was answered is what `score --as-of` says, and states are equal."""
    path, config = configure(tmp_path, kafka, topic)
    client = ask_through_kills(path, config, tmp_path, kafka, kills=2, snapshots=2)
    assert client.refused <= {503}
    sample = random.Random(1).sample(client.asked, min(len(client.asked), 60))
    assert len(sample) == 60
    assert made_again(config, sample) > 1  # how many is a matter of the machine's speed

    last = sample[-1]
    (tmp_path / "asked.jsonl").write_bytes(last.instance + b"\n")
    done = run_command("score", "--config", path, "--as-of", str(last.moment), tmp_path / "asked.jsonl")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == last.prediction | {"as_of": last.as_of}

    other = tmp_path / "other.toml"
    other.write_text(path.read_text().replace('"bits" = 12', '"bits" = 13'))
    refused = run_command("serve", "--config", other)
    assert (refused.returncode, "restore the [learner]" in refused.stderr) == (ConfigurationError.exit_code, True)


def test_merged_models_are_served(kafka: str, topic: TopicFactory, tmp_path: Path) -> None:
    """Two workers that merge, one of which is killed: replicas adopt what these adopted, and answers are made again."""
    path, config = configure(tmp_path, kafka, topic, merge={"mode": "average", "patience": "500ms", "max_hold": "5s"})
    client = ask_through_kills(path, config, tmp_path, kafka, kills=1, snapshots=2, workers=2)
    assert client.refused <= {503}
    sample = random.Random(1).sample(client.asked, 40)
    assert made_again(config, sample) > 1  # how many is a matter of the machine's speed


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", ["off", "average"])
def test_ten_minutes_of_kills(kafka: str, topic: TopicFactory, tmp_path: Path, mode: str) -> None:
    """Two workers and a replica, killed sixty times in all; a thousand of the answers are made again, to the bit."""
    merge = {"merge": {"mode": mode, "patience": "500ms", "max_hold": "5s"}} if mode != "off" else {}
    path, config = configure(tmp_path, kafka, topic, **merge)
    client = ask_through_kills(path, config, tmp_path, kafka, kills=60, snapshots=3, workers=2)
    assert client.refused <= {503}
    models = made_again(config, random.Random(2).sample(client.asked, 1_000))
    print(f"{len(client.asked):,} answers; 1,000 of them made again by {models} models")
