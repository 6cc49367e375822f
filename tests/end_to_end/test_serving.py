"""Replicas beside workers on a real broker, all of them killed: each answer can be made again, to the bit."""

import itertools
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest
from end_to_end.broker_restart import restart_between_decisions
from end_to_end.chaos_feed import Flood
from support.command import call_command, run_command
from support.kafka.broker import Broker
from support.local_http import fetch, metric
from support.topics import TopicFactory, create_worker_topics, unique_topics
from support.worker_config import write_config
from support.worker_process import WorkerProcess

from stream_apple.adapters.kafka.log_reader import KafkaLogs
from stream_apple.app.model_factories import settings_of
from stream_apple.app.model_sources import sources_of
from stream_apple.config import Config, load
from stream_apple.errors import BrokerError, ConfigurationError, FencedError, InputFileError
from stream_apple.http.serving.answering import prediction_facts
from stream_apple.monitoring.metric import PREFIX
from stream_apple.monitoring.serving_metrics import SERVING_METRICS
from stream_apple.stream.model.instances import InstanceReader, score
from stream_apple.stream.walk.moment import Moment
from stream_apple.stream.walk.rebuilding import rebuild

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
        while not self._stopping.wait(0.01):
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
        for number, committed in logs.committed_now(range(PARTITIONS)).items():
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
                (again,) = score(stored.model, reader.read([each.instance]))
                assert prediction_facts(again) == each.prediction, each
    return models


def configure(directory: Path, kafka: str, topic: TopicFactory, **sections: dict[str, Any]) -> tuple[Path, Config]:
    """Workers and replicas on new topics; snapshots each second."""
    topics = create_worker_topics(topic, PARTITIONS, merges="merge" in sections)
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


class Trial(NamedTuple):
    """What workers, replica and broker go through.

    kills      of a worker and of the replica in turn, at least
    snapshots  that the replica has to be held against between two of them
    seconds    for which this goes on, at least
    broker     that is restarted, too, now and then; None: it is everybody's
    """

    kills: int
    snapshots: int
    workers: int = 1
    seconds: float = 0.0
    broker: Broker | None = None


TAKEOVER_TURNS, RESTART_TURNS = 6, 14
"""Where the trial has a broker of its own: in so many turns, one worker is away until another has its partitions, and
the broker dies once.
"""


def _code_of(worker: WorkerProcess) -> int:
    """How a worker has ended that nobody has killed: without its broker, or fenced when that came back."""
    code = worker.process.returncode
    assert code in {BrokerError.exit_code, FencedError.exit_code}, worker.tail()
    return code


class Stage:
    """A group of workers and a replica, with all that happens to them. `done` counts it."""

    def __init__(self, path: Path, config: Config, directory: Path, trial: Trial) -> None:
        self.client = Client(config.worker.group, 5)
        self.done = Counter[str]()
        self._path = path
        self._log = directory / "serving.log"
        self._trial = trial
        self._draw = random.Random(trial.kills)
        self._processes: list[WorkerProcess] = []
        self._workers = [self._start(f"worker-{number}") for number in range(trial.workers)]
        self._replica = self._start("replica", "serve")

    def _start(self, name: str, command: str = "run") -> WorkerProcess:
        self._processes.append(WorkerProcess(self._path, self._log, name, command=command))
        return self._processes[-1]

    def close(self) -> None:
        """Leave no process behind."""
        for each in self._processes:
            each.close()

    def run(self) -> None:
        """Let it all happen; between two accidents the replica answers, and is the workers' model at snapshots."""
        end = time.monotonic() + self._trial.seconds
        for turn in itertools.count():
            self._check()
            if turn >= self._trial.kills and time.monotonic() >= end:
                return
            if self._trial.broker is not None and turn % RESTART_TURNS == RESTART_TURNS - 1:
                self._restart_broker(self._trial.broker)
            elif turn % 2:
                self._kill_replica()
            else:
                self._kill_worker(takeover=self._trial.broker is not None and turn % TAKEOVER_TURNS == 0)

    def _check(self) -> None:
        client, replica = self.client, self._replica
        client.port = replica.http_port
        self._until(lambda: is_ready(client.port), "it was ready")
        asked, checked = len(client.asked) + 20, checks(client.port, "equal") + self._trial.snapshots
        self._until(lambda: checks(client.port, "equal") >= checked, "it was checked")
        self._until(lambda: len(client.asked) >= asked, "it had answered")
        assert not checks(client.port, "different")
        assert "replica_dropped" not in replica.events(), replica.tail()

    def _until(self, done: Callable[[], bool], what: str) -> None:
        """Wait for the replica, while a worker that has lost its broker is started again, as Kubernetes does."""

        def looked() -> bool:
            for number, worker in enumerate(self._workers):
                if not worker.running:
                    self.done[f"exit {_code_of(worker)}"] += 1
                    self._workers[number] = self._start(worker.name)
            return done()

        self._replica.wait_until(looked, what)

    def _kill_replica(self) -> None:
        self.client.port = 0
        self._replica.kill()
        self._replica = self._start("replica", "serve")
        self.done["replica killed"] += 1

    def _kill_worker(self, *, takeover: bool) -> None:
        number = self._draw.randrange(len(self._workers))
        self._workers[number].kill()
        if takeover:
            (left,) = (worker for worker in self._workers if worker.running)
            left.wait_until(
                lambda: metric(left.http_port, "stream_apple_owned_partitions") == [PARTITIONS], "it had them all", 0.1
            )
            self.done["taken over"] += 1
        self._workers[number] = self._start(f"worker-{number}")
        self.done["worker killed"] += 1

    def _restart_broker(self, broker: Broker) -> None:
        """Who asks has answers while there is none: from the models that are there, as of where these stand."""
        asked, kill = len(self.client.asked), self.done["broker killed"] <= self.done["broker stopped"]
        restart_between_decisions(broker, self._workers, kill=kill)
        assert len(self.client.asked) > asked
        self.done["broker killed" if kill else "broker stopped"] += 1

    def finish(self) -> None:
        """All of them stop in order, and the replica has shown all that it measures."""
        shown = fetch(self.client.port, "/metrics").body.decode()
        assert [row.name for row in SERVING_METRICS if f"\n{PREFIX}{row.name}" not in shown] == []
        self.client.port = 0
        assert self._replica.terminate() == 0
        for worker in self._workers:
            worker.wait_for_event("started")
            assert worker.terminate() == 0


def ask_through_kills(path: Path, config: Config, directory: Path, kafka: str, trial: Trial) -> Stage:
    """Go through the trial, while examples and requests come."""
    stage = Stage(path, config, directory, trial)
    try:
        with Flood(kafka, config.topics.examples, PARTITIONS, 600, 9) as flood, stage.client:
            stage.run()
            flood.finish(flood.sent)
            stage.finish()
    finally:
        stage.close()
    return stage


def test_answers_are_made_again_after_kills(kafka: str, topic: TopicFactory, tmp_path: Path) -> None:
    """A worker and a replica are killed; what was answered is what `score --as-of` says, and states are equal."""
    path, config = configure(tmp_path, kafka, topic)
    client = ask_through_kills(path, config, tmp_path, kafka, Trial(kills=2, snapshots=2)).client
    assert client.refused <= {503}
    sample = random.Random(1).sample(client.asked, min(len(client.asked), 60))
    assert len(sample) == 60
    assert made_again(config, sample) > 1  # how many is a matter of the machine's speed

    last = sample[-1]
    (tmp_path / "asked.jsonl").write_bytes(last.instance + b"\n")
    done = run_command("score", "--config", path, "--as-of", str(last.moment), tmp_path / "asked.jsonl")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == last.prediction | {"as_of": last.as_of}

    elsewhere = json.loads(last.instance) | {"partition": last.moment.partition + 1}
    elsewhere.pop("key", None)
    (tmp_path / "asked.jsonl").write_text(json.dumps(elsewhere) + "\n")
    done = call_command("score", "--config", path, "--as-of", str(last.moment), tmp_path / "asked.jsonl")
    assert (done.returncode, "as --as-of has it, found partition" in done.stderr) == (InputFileError.exit_code, True)

    other = tmp_path / "other.toml"
    other.write_text(path.read_text().replace('"bits" = 12', '"bits" = 13'))
    refused = run_command("serve", "--config", other)
    assert (refused.returncode, "restore the [learner]" in refused.stderr) == (ConfigurationError.exit_code, True)


def test_merged_models_are_served(kafka: str, topic: TopicFactory, tmp_path: Path) -> None:
    """Two workers that merge, one of which is killed: replicas adopt what these adopted, and answers are made again."""
    path, config = configure(tmp_path, kafka, topic, merge={"mode": "average", "patience": "500ms", "max_hold": "5s"})
    client = ask_through_kills(path, config, tmp_path, kafka, Trial(kills=1, snapshots=2, workers=2)).client
    assert client.refused <= {503}
    sample = random.Random(1).sample(client.asked, 40)
    assert made_again(config, sample) > 1  # how many is a matter of the machine's speed


@pytest.fixture
def broker(jars: Path, tmp_path: Path) -> Iterator[Broker]:
    """One that this test may kill."""
    broker = Broker(tmp_path / "kafka", jars)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", ["off", "average"])
def test_ten_minutes_of_kills(broker: Broker, tmp_path: Path, mode: str) -> None:
    """Workers, replica and broker die for ten minutes; a thousand of the answers are made again, to the bit."""
    merge = {"merge": {"mode": mode, "patience": "500ms", "max_hold": "5s"}} if mode != "off" else {}
    path, config = configure(tmp_path, broker.bootstrap, unique_topics(broker.bootstrap), **merge)
    trial = Trial(kills=60, snapshots=3, workers=2, seconds=600.0, broker=broker)
    stage = ask_through_kills(path, config, tmp_path, broker.bootstrap, trial)
    assert stage.client.refused <= {503}
    assert stage.done.keys() >= {"worker killed", "replica killed", "taken over", "broker killed", "broker stopped"}
    models = made_again(config, random.Random(2).sample(stage.client.asked, 1_000))
    print(f"{len(stage.client.asked):,} answers, {dict(stage.done)}; 1,000 of them made again by {models} models")
