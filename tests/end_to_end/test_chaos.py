"""Kill, freeze, fence, starve: workers and broker die for minutes, and readers of committed data can't tell."""

import itertools
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # exports are not marked
from end_to_end.chaos_feed import BAD_SHARE, Flood
from end_to_end.supervisor import SESSION_S, Fate, Supervisor
from end_to_end.worker_process import Life
from kafka_broker import Broker, create_topics

PARTITIONS = 4
NAMES = ["worker-0", "worker-1", "worker-2"]
SEED = 2014
STATES = {"restoring", "replaying", "live", "revoked", "lost"}
TOLD = (
    "started",
    "restored",
    "replaying",
    "live",
    "revoked",
    "lost",
    "transaction_aborted",
    "epoch_ended",
    "snapshot_written",
)


class Plan(NamedTuple):
    """How much of everything; `rate` in examples a second."""

    kills: int
    examples: int
    rate: float
    deadline_s: float


@pytest.fixture
def broker(jars: Path, tmp_path: Path) -> Iterator[Broker]:
    """A broker that this test may kill, with all topics."""
    broker = Broker(tmp_path / "kafka", jars)
    broker.start()
    try:
        forever, compacted = {"retention.ms": "-1"}, {"cleanup.policy": "compact"}
        topics = [
            NewTopic("examples", PARTITIONS, 1, config=forever),
            NewTopic("predictions", PARTITIONS, 1, config=forever),
            NewTopic("dead-letters", 2, 1, config=forever),  # fewer: two partitions share one
            NewTopic("models", PARTITIONS, 1, config=compacted),
        ]
        create_topics(broker.bootstrap, *topics)
        yield broker
    finally:
        broker.kill()


def write_config(path: Path, bootstrap: str) -> Path:
    """Everything happens often: commits, snapshots, epochs with growth."""
    path.write_text(
        f"""
        [kafka]
        "bootstrap.servers" = "{bootstrap}"
        "session.timeout.ms" = {SESSION_S * 1000:.0f}
        [worker]
        group = "chaos"
        commit_interval = "50ms"
        snapshot_interval = "1s"
        fetch_records = 500
        [learner]
        bits = 12
        [epochs]
        length = "20s"
        [limits]
        max_features = 20
        max_features_per_example = 64
        max_record_bytes = 2000
        [http]
        host = "127.0.0.1"
        port = 0
        """
    )
    return path


class Watcher:
    """Looks at the logs from outside."""

    def __init__(self, bootstrap: str) -> None:
        self._properties = {"bootstrap.servers": bootstrap, "group.id": "chaos", "enable.auto.commit": False}
        self._consumer = Consumer(self._properties)

    def end(self, topic: str, partition: int) -> int:
        """Where the log ends."""
        return int(self._consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)[1])

    def committed(self) -> list[int]:
        """The group's committed offset in each partition."""
        asked = [TopicPartition("examples", number) for number in range(PARTITIONS)]
        return [found.offset for found in self._consumer.committed(asked, timeout=30)]

    def messages(self, topic: str, partition: int, isolation: str) -> int:
        """How many a reader with this isolation level finds."""
        properties: dict[str, Any] = {**self._properties, "isolation.level": isolation, "enable.partition.eof": True}
        consumer = Consumer(properties)
        consumer.assign([TopicPartition(topic, partition, 0)])
        found, deadline = 0, time.monotonic() + 120
        try:
            while time.monotonic() < deadline:
                for message in consumer.consume(10_000, 0.5):
                    if message.error() is not None:
                        return found
                    found += 1
        finally:
            consumer.close()
        raise AssertionError(f"no end of {topic}-{partition} after 120 s")


def live(life: Life) -> list[int]:
    """The partitions whose models a worker has, and whose records it answers."""
    states = {event["partition"]: event["event"] for event in life.history() if event.get("event") in STATES}
    return [partition for partition, state in states.items() if state == "live"]


def finish(supervisor: Supervisor, watcher: Watcher, deadline_s: float) -> None:
    """New workers answer what is left, and stop in order."""
    ends = [watcher.end("examples", number) for number in range(PARTITIONS)]
    lives = {name: supervisor.start(name) for name in NAMES}
    deadline = time.monotonic() + deadline_s
    while True:
        shares = [live(life) for life in lives.values()]
        settled = all(shares) and sorted(itertools.chain(*shares)) == list(range(PARTITIONS))
        if settled and watcher.committed() == ends:
            break
        assert time.monotonic() < deadline, f"not within {deadline_s:g} s: {watcher.committed()} of {ends}, {shares}"
        for name, life in lives.items():
            if not life.running:
                supervisor.ended(life)
                lives[name] = supervisor.start(name)
        time.sleep(0.1)
    for life in lives.values():
        assert life.terminate() == 0, life.tail()


def verify(config: Path) -> dict[str, Any]:
    """The report of `stream-apple verify`, which finds no fault."""
    command = [sys.executable, "-m", "stream_apple", "verify", "--config", str(config), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"verify ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def owners(lives: list[Life]) -> list[set[str]]:
    """Who had each partition live."""
    found: list[set[str]] = [set() for _ in range(PARTITIONS)]
    for life in lives:
        for event in life.history():
            if event.get("event") == "live":
                found[event["partition"]].add(life.name)
    return found


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(Plan(50, 500_000, 3_500, 420), id="50 kills"),
        pytest.param(
            Plan(500, 5_000_000, 3_500, 3_000), id="500 kills", marks=[pytest.mark.long, pytest.mark.timeout(3_600)]
        ),
    ],
)
def test_whatever_dies_readers_can_not_tell(broker: Broker, tmp_path: Path, plan: Plan) -> None:
    """One prediction for each good record, one dead letter for each bad one, and the state of a clean run."""
    config = write_config(tmp_path / "stream_apple.toml", broker.bootstrap)
    supervisor = Supervisor(broker, config, tmp_path, NAMES, plan.kills, SEED)
    began = time.monotonic()
    try:
        with Flood(broker.bootstrap, "examples", PARTITIONS, plan.rate, SEED) as flood:
            supervisor.run(plan.deadline_s)
            chaos_s = time.monotonic() - began
            flood.finish(plan.examples)
        watcher = Watcher(broker.bootstrap)
        finish(supervisor, watcher, 240)
        finished_s = time.monotonic() - began
        report = verify(config)
        verified_s = time.monotonic() - began
    except BaseException:
        print(f"seed {SEED}; {dict(supervisor.done)}")
        for life in supervisor.lives[-12:]:
            print(f"--- {life.name}, exit code {life.process.poll()}\n{life.tail(1500)}")
        raise
    finally:
        supervisor.close()

    events = Counter(event.get("event") for life in supervisor.lives for event in life.history())
    aborted = sum(
        watcher.messages(topic, number, "read_uncommitted") - watcher.messages(topic, number, "read_committed")
        for topic, number in (("predictions", 0), ("dead-letters", 0))
    )
    print(
        f"seed {SEED}; {chaos_s:.0f} s of chaos, all answered after {finished_s:.0f} s, verified at {verified_s:.0f} s"
    )
    told = {name: events[name] for name in TOLD}
    print(f"{dict(supervisor.done)}; {told}; {aborted} aborted messages in two partitions")

    # All is as it must be ...
    partitions = report["partitions"]
    assert report["verified"]
    assert [found["partition"] for found in partitions] == list(range(PARTITIONS))
    for found in partitions:
        predictions, letters = found["predictions"], found["dead_letters"]
        assert found["origin"] == "start"
        assert found["stop"] == watcher.end("examples", found["partition"])
        assert predictions["matched"] == predictions["expected"]
        assert letters["matched"] == letters["expected"]
        assert predictions["expected"] + letters["expected"] == found["records"] == found["stop"]
        assert letters["expected"] == pytest.approx(BAD_SHARE * found["records"], rel=0.2)
        assert predictions["foreign"] == 0
        assert found["snapshot"]["at"] == found["stop"]
        assert found["relearned"] == found["snapshot"]["digest"]
    # ... after much that could have gone wrong.
    assert sum(found["records"] for found in partitions) >= plan.examples
    assert supervisor.done[Fate.KILLED] >= plan.kills
    assert supervisor.done[f"exit {-9}"] >= plan.kills
    assert min(supervisor.done[fate] for fate in Fate) >= 1
    assert supervisor.done["broker killed"] >= 2
    assert supervisor.done["broker stopped"] >= 1
    assert supervisor.done["exit 69"] >= 1
    assert all(len(names) >= 2 for names in owners(supervisor.lives))
    assert events["restored"] >= 10
    assert events["replaying"] >= 10
    assert events["epoch_ended"] >= 100
    assert events["snapshot_written"] >= 30
    assert events["lost"] + events["transaction_aborted"] >= 1
    assert aborted > 0
