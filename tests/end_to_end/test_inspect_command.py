"""`stream-apple inspect` on a real broker: worker, topic and file show one model, and damage is refused."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from end_to_end.worker_process import DEADLINE_S, Life
from kafka_broker import free_ports
from runtime.planted_pair import PAIR, planted

TopicFactory = Callable[..., str]
COUNT = 3_000
# What depends on when and how one looks, not on the model.
INCIDENTAL = {"seconds", "named"}


def inspect(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the command to its end."""
    command = [sys.executable, "-m", "stream_apple", "inspect", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def facts(*arguments: str) -> list[dict[str, Any]]:
    """The models that it shows, without what is incidental."""
    done = inspect("--json", *arguments)
    assert done.returncode == 0, done.stderr
    models = json.loads(done.stdout)["models"]
    return [{name: value for name, value in model.items() if name not in INCIDENTAL} for model in models]


def test_all_sources_show_the_same_model(kafka: str, topic: TopicFactory, tmp_path: Path) -> None:
    """A running worker, its snapshot in Kafka and a saved file agree in every number and name; the pair is first."""
    (port,) = free_ports(1)
    forever = {"retention.ms": "-1"}
    config = tmp_path / "stream_apple.toml"
    examples = topic("examples", 1, forever)
    config.write_text(
        f"""
        [kafka]
        "bootstrap.servers" = "{kafka}"
        [topics]
        examples = "{examples}"
        predictions = "{topic("predictions", 1, forever)}"
        dead_letters = "{topic("dead-letters", 1, forever)}"
        models = "{topic("models", 1, {"cleanup.policy": "compact"})}"
        [worker]
        group = "group-of-{examples}"
        commit_interval = "50ms"
        snapshot_interval = "1s"
        [learner]
        bits = 12
        [http]
        host = "127.0.0.1"
        port = {port}
        """
    )
    url = f"http://127.0.0.1:{port}"
    refused = inspect("--config", str(config))
    assert refused.returncode == 78
    assert "expected a snapshot of group" in refused.stderr
    assert inspect("--url", url).returncode == 69, "nobody answers there yet"

    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    for record in planted(COUNT):
        producer.produce(examples, record.payload, partition=0, timestamp=record.time_ms)
    assert producer.flush(60) == 0
    life = Life(config, tmp_path / "worker.log")
    try:
        life.wait_until(lambda: "live" in life.events(), "it is live")
        deadline = time.monotonic() + DEADLINE_S
        while True:  # the snapshot of the last record is taken, and the page's view is of it
            (found,) = facts("--url", url)
            if found["at"] == COUNT and found["snapshot"] is not None and found["snapshot"]["at"] == COUNT:
                break
            assert time.monotonic() < deadline, life.tail()
            time.sleep(0.5)
        file = tmp_path / "model"
        (stored,) = facts("--config", str(config), "--partition", "0", "--save", str(file))
        (saved,) = facts("--file", str(file))
        assert stored == saved
        # The worker names what it has sampled, which may be less than all.
        assert {**found, "top": 0, "products": 0, "parents": 0} == {**stored, "top": 0, "products": 0, "parents": 0}
        for kind in ("top", "products", "parents"):
            assert len(found[kind]) == len(stored[kind]) == 20
            for here, there in zip(found[kind], stored[kind], strict=True):
                assert {n: v for n, v in here.items() if isinstance(v, int | float)} == {
                    n: v for n, v in there.items() if isinstance(v, int | float)
                }
        assert stored["top"][0]["name"] == PAIR
        assert not [each for each in stored["top"] if "?" in each["name"]]
        assert (
            facts("--url", url + "/", "--partition", "0", "--top", "1")[0]["top"][0]["key"] == stored["top"][0]["key"]
        )
        absent = inspect("--url", url, "--partition", "5")
        assert absent.returncode == 78
        assert "expected a partition of this worker (0 at the moment), found 5" in absent.stderr
        assert life.terminate() == 0
    finally:
        if life.running:
            life.kill()

    shown = inspect("--file", str(file), "--top", "3")
    assert shown.returncode == 0
    assert not shown.stderr
    for text in (PAIR, f"model {stored['lineage']['model']}", stored["digest"], "Parents, by what their children add"):
        assert text in shown.stdout

    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    damaged = inspect("--file", str(file))
    assert damaged.returncode == 73
    assert "the file is damaged" in damaged.stderr


def test_sources_are_named_one_at_a_time(tmp_path: Path) -> None:
    """Without a source, with two, or with options that don't go together, it is a usage error that says so."""
    file = tmp_path / "x"
    file.write_bytes(b"no model")
    assert inspect().returncode == 2
    assert inspect("--url", "http://localhost:1", "--file", str(file)).returncode == 2
    assert inspect("--url", "http://localhost:1", "--save", str(file)).returncode == 2
    assert inspect("--file", str(file), "--partition", "1").returncode == 2
    assert inspect("--url", "localhost:9400").returncode == 78
    done = inspect("--file", str(file))
    assert done.returncode == 73
    assert "expected a file that `inspect --save` has written" in done.stderr
