"""`stream-apple inspect` on a real broker: worker, topic and file show one model, and damage is refused."""

import json
import os
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from support.command import call_command, run_command
from support.local_http import fetch
from support.planted_pair import PAIR, planted
from support.ports import free_ports
from support.topics import TopicFactory, create_worker_topics
from support.waiting import DEADLINE_S
from support.worker_config import write_config
from support.worker_process import WorkerProcess

from stream_apple.config import load
from stream_apple.stream.positions.lineage import OffsetMetadata, Provenance, SnapshotPointer

COUNT = 3_000
# What depends on when and how one looks, not on the model.
INCIDENTAL = {"seconds", "named"}


def facts(*arguments: str) -> list[dict[str, Any]]:
    """The models that it shows, without what is incidental."""
    done = call_command("inspect", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    models = json.loads(done.stdout)["models"]
    return [{name: value for name, value in model.items() if name not in INCIDENTAL} for model in models]


def is_named(url: str) -> bool:
    """Whether a worker's model has a name for every feature that it shows."""
    done = call_command("inspect", "--json", "--url", url)
    assert done.returncode == 0, done.stderr
    (model,) = json.loads(done.stdout)["models"]
    shown = [each["name"] for kind in ("top", "products") for each in model[kind]]
    shown += [row[0] for table in model["tables"] for row in table["rows"]]
    assert len(shown) == 60
    return not any("?" in name for name in shown) and model["named"] == 1.0


def test_all_sources_show_the_same_model(kafka: str, topic: TopicFactory, tmp_path: Path) -> None:
    """A running worker, its snapshot in Kafka and a saved file agree in every number and name; the pair is first."""
    (port,) = free_ports(1)
    topics = create_worker_topics(topic)
    config = write_config(
        tmp_path / "stream_apple.toml",
        kafka,
        topics=topics,
        worker={"commit_interval": "50ms", "snapshot_interval": "1s"},
        learner={"bits": 12},
        http={"port": port},
    )
    url = f"http://127.0.0.1:{port}"
    refused = run_command("inspect", "--config", str(config))
    assert refused.returncode == 78
    assert "expected a snapshot of group" in refused.stderr
    assert call_command("inspect", "--url", url).returncode == 69, "nobody answers there yet"

    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    for record in planted(COUNT):
        producer.produce(topics["examples"], record.payload, partition=0, timestamp=record.time_ms)
    assert producer.flush(DEADLINE_S) == 0
    with WorkerProcess(config, tmp_path / "worker.log") as worker:
        worker.wait_for_event("live")

        def view_of_the_end() -> dict[str, Any]:
            (model,) = facts("--url", url)
            saved = model["snapshot"] is not None and model["snapshot"]["at"] == COUNT
            return model if saved and model["at"] == COUNT else {}

        found = worker.wait_until(view_of_the_end, "the page showed the snapshot of the last record", pause_s=0.5)
        file = tmp_path / "model"
        (stored,) = facts("--config", str(config), "--partition", "0", "--save", str(file))
        (saved,) = facts("--file", str(file))
        assert stored == saved
        # The worker looks for names when it is asked, and those who were quicker are told what there is.
        nameless = {"top": 0, "products": 0, "tables": 0}
        assert found | nameless == stored | nameless
        for kind in ("top", "products"):
            assert len(found[kind]) == len(stored[kind]) == 20
            for here, there in zip(found[kind], stored[kind], strict=True):
                assert {n: v for n, v in here.items() if isinstance(v, int | float)} == {
                    n: v for n, v in there.items() if isinstance(v, int | float)
                }
        assert stored["top"][0]["name"] == PAIR
        assert not [each for each in stored["top"] if "?" in each["name"]]
        assert facts("--url", url + "/", "--partition", "0", "--top", "1")[0]["top"] == stored["top"][:1]
        absent = call_command("inspect", "--url", url, "--partition", "5")
        assert absent.returncode == 78
        assert "expected a partition of this worker (0 at the moment), found 5" in absent.stderr
        # All has been learned within a moment, and next to nothing was seen by name.
        worker.wait_until(lambda: is_named(url), "all was named")
        assert worker.terminate() == 0
    with WorkerProcess(config, tmp_path / "successor.log") as worker:
        worker.wait_for_event("live")
        # No example has come since the start.
        worker.wait_until(lambda: is_named(url), "all was named again")
        assert worker.terminate() == 0

    other = {"STREAM_APPLE_LEARNER__BITS": "13", "STREAM_APPLE_EPOCHS__LENGTH": "1d"}
    told = call_command("inspect", "--config", str(config), environment=other)
    assert told.returncode == 78
    assert "was made with other settings than these: learner.bits is 12 in the model and 13 here, " in told.stderr
    assert "epochs.length is 1h in the model and 1d here. Nothing is wrong with the model" in told.stderr
    merged = call_command("inspect", "--config", config, environment={"STREAM_APPLE_MERGE__MODE": "average"})
    assert "other settings than these: merge.mode is 'off' in the model and 'average' here, learner." in merged.stderr
    assert "learner.drift is 'restart' in the model and 'ignore' here" in merged.stderr
    assert "learner.mergeable is False in the model and True here. Nothing is wrong with the model" in merged.stderr

    shown = call_command("inspect", "--file", str(file), "--top", "3")
    assert shown.returncode == 0
    assert not shown.stderr
    for text in (PAIR, f"model {stored['lineage']['model']}", stored["digest"], "Parents, by what their children add"):
        assert text in shown.stdout

    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    damaged = call_command("inspect", "--file", str(file))
    assert damaged.returncode == 73
    assert "the file is damaged" in damaged.stderr


def test_what_no_snapshot_tells(kafka: str, topic: TopicFactory, tmp_path: Path) -> None:
    """Of a model of other settings, whose worker was killed before its first snapshot, it says what would tell them."""
    path = write_config(tmp_path / "stream_apple.toml", kafka, topics=create_worker_topics(topic, 2))
    config = load(path, {})

    def told(partition: int, snapshot: SnapshotPointer | None) -> str:
        note = OffsetMetadata(Provenance.of(config).lineage(partition, 0), snapshot)
        member = Consumer({**config.kafka, "group.id": config.worker.group})
        place = TopicPartition(config.topics.examples, partition, 7, note.to_text())
        member.commit(offsets=[place], asynchronous=False)
        member.close()
        done = call_command("inspect", "--config", str(path), environment={"STREAM_APPLE_LEARNER__BITS": "13"})
        assert done.returncode == 78
        return done.stderr

    other = f"in group {config.worker.group} was made with other settings than these; only"
    assert f"{config.topics.examples}-0 {other} a snapshot tells which, and there is none yet: start a" in told(0, None)
    found = told(1, SnapshotPointer(7, 0, 3, "0" * 32))
    assert f"{config.topics.examples}-1 {other} its snapshot tells which, and can't be read in" in found


def test_sources_are_named_one_at_a_time(tmp_path: Path) -> None:
    """Two sources, or options that don't go together, are a usage error; no source means Kafka, by the environment."""
    file = tmp_path / "x"
    file.write_bytes(b"no model")
    nowhere = {**os.environ, "STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS": "localhost:1"}
    done = run_command("inspect", environment=nowhere)
    assert done.returncode == 69
    assert "localhost:1" in done.stderr
    assert call_command("inspect", "--config", str(file), "--file", str(file)).returncode == 2
    assert call_command("inspect", "--save", str(file)).returncode == 2
    assert call_command("inspect", "--url", "http://localhost:1", "--file", str(file)).returncode == 2
    assert call_command("inspect", "--url", "http://localhost:1", "--save", str(file)).returncode == 2
    assert call_command("inspect", "--file", str(file), "--partition", "1").returncode == 2
    assert call_command("inspect", "--url", "localhost:9400").returncode == 78
    done = call_command("inspect", "--file", str(file))
    assert done.returncode == 73
    assert "expected a file that `inspect --save` has written" in done.stderr


def test_before_the_first_snapshot_the_worker_is_asked(kafka: str, topic: TopicFactory, tmp_path: Path) -> None:
    """Without options but the configuration: the worker that runs with it on this machine, and no other's.

    And its history is there again after a restart.
    """
    (port,) = free_ports(1)
    sections: dict[str, dict[str, Any]] = {
        "topics": create_worker_topics(topic),
        "worker": {"commit_interval": "50ms", "snapshot_interval": "1d"},
        "learner": {"bits": 12},
        "http": {"port": port},
    }
    config = write_config(tmp_path / "stream_apple.toml", kafka, **sections)
    refused = call_command("inspect", "--config", str(config))
    assert refused.returncode == 78
    assert "expected a snapshot of group" in refused.stderr
    assert f"and no worker answers at http://127.0.0.1:{port}: " in refused.stderr
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    for record in planted(COUNT):
        producer.produce(sections["topics"]["examples"], record.payload, partition=0, timestamp=record.time_ms)
    assert producer.flush(DEADLINE_S) == 0
    with WorkerProcess(config, tmp_path / "worker.log") as worker:
        worker.wait_for_event("caught_up")
        done = call_command("inspect", "--config", str(config), "--json")
        assert done.returncode == 0, done.stderr
        assert "there is no snapshot yet" in done.stderr
        (model,) = json.loads(done.stdout)["models"]
        assert (model["at"], model["snapshot"]) == (COUNT, None)
        assert (
            call_command("inspect", "--config", config, "--partition", "0", "--save", tmp_path / "x").returncode == 78
        )
        sections["worker"] = {"group": "another"}
        other = call_command("inspect", "--config", write_config(tmp_path / "other.toml", kafka, **sections))
        assert other.returncode == 78
        assert "is of group group-of-" in other.stderr
        seen = fetch(port, "/status").json()["history"]["0"]
        assert worker.terminate() == 0
    with WorkerProcess(config, tmp_path / "worker.log") as worker:
        worker.wait_for_event("live")
        found = worker.wait_until(lambda: fetch(port, "/status").json()["history"].get("0"), "a history")
        assert found[0] == seen[0], "the page's curves begin where they began before the restart"
