"""A published prediction is explained, on a real broker: the sum is what was published, and nothing else is told."""

import json
from pathlib import Path
from typing import Any

import msgpack
import pytest
from confluent_kafka import Producer
from support.command import call_command, run_command
from support.records import HOUR, START
from support.topics import TopicFactory, create_worker_topics, read_all
from support.waiting import DEADLINE_S
from support.worker_config import write_config
from support.worker_process import WorkerProcess

from stream_apple.config import load

COUNT, BAD = 1_500, 700
LEARNERS: dict[str, dict[str, Any]] = {
    "squared": {"bits": 12},
    "logistic": {"bits": 12, "loss": "logistic", "mixture": False},
    "softmax": {"bits": 12, "loss": "softmax", "classes": 3},
}


def _label(loss: str, at: int, country: str) -> float:
    if loss == "squared":
        # Beyond all before, now and then: the label itself moves the bounds of its score.
        return 3.0 * (1 + (at % 97 == 0) * at) * (country == "de")
    return float(["de", "in", "jp"].index(country)) if loss == "softmax" else float(country == "de")


def _feed(kafka: str, topic: str, loss: str) -> None:
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    for at in range(COUNT):
        country = "deinjp"[2 * (at % 3) : 2 * (at % 3) + 2]
        features = {"price": (at * 37 % 100) / 50 - 1, "country": country, "new": at % 2 == 0}
        value = json.dumps({"id": at, "label": _label(loss, at, country), "features": features})
        producer.produce(
            topic, "nonsense" if at == BAD else value, partition=0, timestamp=START + at * 6 * HOUR // COUNT
        )
    assert producer.flush(DEADLINE_S) == 0


def _total(contributions: list[dict[str, Any]]) -> float:
    total = 0.0
    for each in contributions:
        total += each["amount"]
    return total


@pytest.mark.parametrize("loss", LEARNERS)
def test_the_sum_is_what_was_published(kafka: str, topic: TopicFactory, tmp_path: Path, loss: str) -> None:
    """At the beginning, around the ends of epochs and in the end; what was not predicted is told as what it is."""
    topics = create_worker_topics(topic)
    path = write_config(
        tmp_path / "stream_apple.toml",
        kafka,
        topics=topics,
        worker={"commit_interval": "50ms", "snapshot_interval": "1h"},
        learner=LEARNERS[loss],
        epochs={"length": "1h"},
    )
    _feed(kafka, topics["examples"], loss)
    with WorkerProcess(path, tmp_path / "worker.log") as worker:
        worker.wait_for_event("live")
        worker.wait_until(lambda: len(read_all(kafka, topics["predictions"])) == COUNT - 1, "all was answered", 0.3)
        assert worker.terminate() == 0
    published = {
        told["offset"]: told
        for told in (msgpack.unpackb(message.value() or b"") for message in read_all(kafka, topics["predictions"]))
    }

    def explained(offset: int) -> dict[str, Any]:
        found = call_command("explain", "--config", path, "--prediction", f"0@{offset}", "--json")
        assert found.returncode == 0, found.stderr
        facts: dict[str, Any] = json.loads(found.stdout)
        return facts

    # Ends of epochs are at multiples of 250.
    for offset in (0, 97, 250, 251, 1164, COUNT - 1):
        facts = explained(offset)
        assert facts["equal"] is True
        assert facts["published"] == facts["prediction"] == published[offset]
        for each in facts["explanations"]:
            assert _total(each["contributions"]) == each["score"]
        if loss == "softmax":
            best = max(facts["explanations"], key=lambda each: each["score"])
            assert best["label"] == published[offset]["prediction"]
        else:
            assert _total(facts["explanations"][0]["contributions"]) == published[offset]["prediction"]
    last = facts["explanations"][0]["contributions"]
    assert any("country=" in each["name"] for each in last)
    assert not any(each["name"].startswith("?") for each in last)

    as_users_run_it = run_command if loss == "squared" else call_command
    table = as_users_run_it("explain", "--config", path, "--prediction", f"0@{COUNT - 1}", "--top", "3")
    assert "equal to what was published, to the byte" in table.stdout, table.stderr
    assert "others)" in table.stdout

    def refused(place: str) -> tuple[int, str]:
        found = call_command("explain", "--config", path, "--prediction", place)
        return found.returncode, found.stderr

    for place, code, why in (
        (f"0@{BAD}", 78, "found a record that could not be used"),
        (f"0@{COUNT}", 78, "there is no such record yet"),
        ("7@1", 78, f"expected partitions of {topics['examples']} below 1, found 7"),
        ("0@", 2, "expected partition@offset of an example"),
    ):
        found, text = refused(place)
        assert found == code, text
        assert why in text
    assert load(path, {}).topics.dead_letters in refused(f"0@{BAD}")[1]
