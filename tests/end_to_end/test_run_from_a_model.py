"""A worker on a cluster, started from a model file by its option, and a verification of what it has published."""

import json
import sys
from pathlib import Path

from app.test_model_files import LEARNER, save
from confluent_kafka import Producer
from support.child_process import start_child
from support.command import call_command, run_command
from support.planted_pair import planted
from support.topics import TopicFactory, create_worker_topics, read_to_end
from support.waiting import DEADLINE_S, wait_until
from support.worker_config import write_config

from stream_apple.app.model_factories import onlooker_factory
from stream_apple.app.starting_model import starting_model
from stream_apple.config import Config, load
from stream_apple.stream.positions.lineage import Provenance

COUNT = 500
_SECONDS = 180.0  # the kernels may have to be compiled first


def expected(config: Config) -> list[bytes]:
    """What a model predicts that starts from the file and is never interrupted."""
    provenance = Provenance.of(config)
    model = onlooker_factory(config, starting_model(config, provenance))(0, provenance.lineage(0, 0)).begin()
    return model.process(planted(COUNT)).predictions


def test_what_is_published_is_the_model_s_that_started_from_the_file(
    kafka: str, topic: TopicFactory, tmp_path: Path
) -> None:
    """From the first record on; `check` and `verify` find no fault with the file, nor any model's without it."""
    save(tmp_path / "a.model", 0)
    path = write_config(
        tmp_path / "stream_apple.toml",
        kafka,
        topics=create_worker_topics(topic),
        learner=LEARNER,
        epochs={"max_ahead": "365d"},
    )
    log, option = tmp_path / "log", ["--from-model", str(tmp_path / "a.model")]
    config = load(path, {"STREAM_APPLE_WORKER__FROM_MODEL": option[1]})
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    for record in planted(COUNT):
        producer.produce(config.topics.examples, record.payload, partition=0, timestamp=record.time_ms)
    assert producer.flush(DEADLINE_S) == 0
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "stream_apple",
        "run",
        "--config",
        path,
        "--log-format",
        "json",
        *option,
    ]
    worker = start_child(command, log)
    try:
        wait_until(lambda: '"caught_up"' in log.read_text() or worker.poll() is not None, log.read_text, _SECONDS)
        worker.terminate()
        assert worker.wait(DEADLINE_S) == 0, log.read_text()
    finally:
        worker.kill()
        worker.wait()
    (published,) = read_to_end(kafka, config.topics.predictions).values()
    assert [message.value() for message in published] == expected(config)
    verified = call_command("verify", "--config", path, "--json", *option)
    assert verified.returncode == 0, verified.stderr
    assert json.loads(verified.stdout)["partitions"][0]["origin"] == "start"
    assert f"new models start from the one in {option[1]}" in run_command("check", "--config", path, *option).stdout
    without = call_command("verify", "--config", path)
    assert without.returncode == 78
    assert "worker.from_model" in without.stderr
