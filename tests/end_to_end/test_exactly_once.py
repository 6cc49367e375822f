"""The promise on a real broker: whatever happens to workers and broker, readers of committed data can't tell."""

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest
from adapters.connections import members_of
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # exports are not marked
from end_to_end.decided import restart_between_decisions
from end_to_end.worker_process import DEADLINE_S, PARTITIONS, Feeder, Life, all_answered, check_outputs, progress_of
from kafka_broker import Broker, create_topics

from stream_apple.config import Config, load
from stream_apple.errors import BrokerError

KILLS = 4

TopicFactory = Callable[..., str]
# The sample's event time is years ago: by default the broker would delete it at once.
FOREVER = {"retention.ms": "-1"}
COMPACTED = {"cleanup.policy": "compact"}


class Start(Protocol):
    """Starts a worker process."""

    def __call__(self, config_file: Path, name: str = "worker-0", on_stop: str = "stay") -> Life:
        """A life under the name, which is its identity in the group."""
        ...


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """None of the processes outlives the test."""
    started: list[Life] = []

    def begin(config_file: Path, name: str = "worker-0", on_stop: str = "stay") -> Life:
        started.append(Life(config_file, tmp_path / "worker.log", name, on_stop))
        return started[-1]

    yield begin
    for life in started:
        if life.process.poll() is None:
            life.kill()


def write_config(path: Path, bootstrap: str, examples: str, predictions: str, dead_letters: str, models: str) -> Config:
    """A worker's configuration that commits often, so that an accident has much to hit."""
    path.write_text(
        f"""
        [kafka]
        "bootstrap.servers" = "{bootstrap}"
        "session.timeout.ms" = 6000
        [topics]
        examples = "{examples}"
        predictions = "{predictions}"
        dead_letters = "{dead_letters}"
        models = "{models}"
        [worker]
        group = "group-of-{examples}"
        commit_interval = "40ms"
        snapshot_interval = "1s"
        fetch_records = 400
        [learner]
        bits = 12
        [limits]
        max_features = 16
        [http]
        host = "127.0.0.1"
        port = 0
        """
    )
    return load(path, {})


@pytest.fixture
def config_file(kafka: str, topic: TopicFactory, tmp_path: Path) -> Path:
    """A configuration on topics of its own."""
    path = tmp_path / "stream_apple.toml"
    examples = topic("examples", partitions=PARTITIONS, config=FOREVER)
    predictions = topic("predictions", partitions=PARTITIONS, config=FOREVER)
    models = topic("models", partitions=PARTITIONS, config=COMPACTED)
    write_config(path, kafka, examples, predictions, topic("dead-letters", config=FOREVER), models)
    return path


def test_killed_at_random_moments(kafka: str, config_file: Path, start: Start) -> None:
    """A worker is killed some times and started again; the outputs are those of a model never interrupted."""
    config = load(config_file, {})
    draw = random.Random(2014)
    progress = progress_of(kafka, config)
    with Feeder(kafka, config.topics.examples):
        for _ in range(KILLS):
            life = start(config_file)
            target = progress() + draw.randint(1, 400)
            life.wait_until(lambda target=target: progress() >= target, "it had published")  # type: ignore[misc]
            time.sleep(draw.uniform(0, 0.06))  # a commit and a half: which moment is hit is what is drawn
            life.kill()
    last = start(config_file)
    last.wait_until(all_answered(kafka, config), "everything was published")
    assert last.terminate() == 0
    check_outputs(kafka, config)


def test_workers_come_and_go(kafka: str, config_file: Path, start: Start) -> None:
    """A second worker joins, dies, returns, and is scaled away: partitions move, outputs don't show it."""
    config = load(config_file, {})
    progress = progress_of(kafka, config)

    def work_goes_on(life: Life) -> None:
        # In both partitions: the one whose owner has gone moves when the session of that owner has ended.
        before = [progress_of(kafka, config, number)() for number in range(PARTITIONS)]
        for number in range(PARTITIONS):
            count = progress_of(kafka, config, number)
            life.wait_until(lambda count=count, to=before[number] + 200: count() >= to, f"{number} went on")  # type: ignore[misc]

    with Feeder(kafka, config.topics.examples):
        first = start(config_file, "first")
        first.wait_until(lambda: progress() > 0, "it had published")
        second = start(config_file, "second")
        second.wait_until(lambda: "live" in second.events(), "the second had a partition")
        work_goes_on(first)
        second.kill()
        second = start(config_file, "second")
        second.wait_until(lambda: "live" in second.events(), "the second had a partition again")
        work_goes_on(first)
        assert second.terminate() == 0
        work_goes_on(first)
        third = start(config_file, "third", on_stop="leave")
        third.wait_until(lambda: "live" in third.events(), "the third had a partition")
        assert third.terminate() == 0
        assert members_of(kafka, config.worker.group) == ["first"]
        work_goes_on(first)
    first.wait_until(all_answered(kafka, config), "everything was published")
    assert first.terminate() == 0
    assert "revoked" in first.events()
    check_outputs(kafka, config)


def test_the_broker_dies_and_returns(jars: Path, tmp_path: Path, start: Start) -> None:
    """The worker outlives a broker that is killed, or is replaced by its supervisor; no output is doubled or lost."""
    broker = Broker(tmp_path / "kafka", jars)
    broker.start()
    try:
        topics = [
            NewTopic("examples", PARTITIONS, 1, config=FOREVER),
            NewTopic("predictions", PARTITIONS, 1, config=FOREVER),
            NewTopic("dead-letters", 1, 1, config=FOREVER),
            NewTopic("models", PARTITIONS, 1, config=COMPACTED),
        ]
        create_topics(broker.bootstrap, *topics)
        path = tmp_path / "stream_apple.toml"
        config = write_config(path, broker.bootstrap, "examples", "predictions", "dead-letters", "models")
        progress = progress_of(broker.bootstrap, config)
        lives = [start(path)]

        def supervise_until(done: Callable[[], bool], what: str) -> None:
            # Without its broker a worker waits, and at last leaves with the code that says so: start it again.
            deadline = time.monotonic() + DEADLINE_S
            while not done():
                assert time.monotonic() < deadline, f"not within {DEADLINE_S} s, in {len(lives)} lives: {what}"
                if lives[-1].process.poll() is not None:
                    assert lives[-1].process.returncode == BrokerError.exit_code
                    lives.append(start(path))
                time.sleep(0.02)

        with Feeder(broker.bootstrap, "examples"):
            for round_ in range(1, 3):
                target = progress() + 400 * round_
                supervise_until(lambda target=target: progress() >= target, "it had published")  # type: ignore[misc]
                restart_between_decisions(broker, lives, kill=True)
        supervise_until(all_answered(broker.bootstrap, config), "everything was published")
        supervise_until(lambda: "live" in lives[-1].events(), "it was at work")
        assert lives[-1].terminate() == 0
        check_outputs(broker.bootstrap, config)
    finally:
        broker.kill()
