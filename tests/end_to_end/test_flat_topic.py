"""A topic that was not made for this product: flat JSON whose label, time and key have names of their own."""

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Producer
from support.command import call_command
from support.local_http import metric
from support.topics import TopicFactory, create_worker_topics, read_to_end
from support.waiting import DEADLINE_S
from support.worker_config import write_config
from support.worker_process import WorkerProcess

COUNT = 3_000
INPUT: dict[str, Any] = {
    "label": "delayed",
    "id": "flight",
    "timestamp": "scheduled",
    "features": "*",
    "ignore": ["gate"],
    "categories": ["hour"],
    "times": ["scheduled"],
}
SETTINGS = [
    *("--label", "delayed", "--id", "flight", "--timestamp", "scheduled", "--features", "*"),
    *("--ignore", "gate", "--categories", "hour", "--times", "scheduled"),
    *("--loss", "logistic", "--bits", "12", "--epoch-length", "1h", "--max-ahead", "30d", "--test-fraction", "0"),
    "--json",
]


def flights(count: int) -> list[dict[str, Any]]:
    """One every ten seconds; late in the evening, with one carrier, they are delayed."""
    rng = random.Random(7)
    found: list[dict[str, Any]] = []
    for number in range(count):
        hour, carrier = number // 360 % 24, rng.choice(["AA", "UA", "DL"])
        found.append(
            {
                "flight": f"{carrier}{number}",
                "delayed": rng.random() < (0.8 if carrier == "UA" and hour > 4 else 0.1),
                "scheduled": 1_700_000_000 + 10 * number,
                "carrier": carrier,
                "hour": hour,
                "airport.origin": rng.choice(["JFK", "EWR", None]),
                "distance": rng.choice([rng.randrange(100, 3000), None]),
                "gate": [[number]],
            }
        )
    return found


def test_the_settings_that_a_user_would_guess(kafka: str, topic: TopicFactory, tmp_path: Path) -> None:
    """Every record is answered once, a kill in between; the model is that of `evaluate` on the file; all of it true."""
    topics = create_worker_topics(topic)
    records = flights(COUNT)
    config = write_config(
        tmp_path / "worker.toml",
        kafka,
        topics=topics,
        input=INPUT,
        output={"format": "json"},
        learner={"loss": "logistic", "bits": 12},
        epochs={"length": "1h", "max_ahead": "30d"},
        worker={"group": f"flat-{topics['examples']}", "snapshot_interval": "1s"},
    )
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})

    def send(values: list[bytes]) -> None:
        for value in values:
            producer.produce(topics["examples"], value, partition=0)
        assert producer.flush(DEADLINE_S) == 0

    values = [json.dumps(record).encode() for record in records]
    bad = [b'{"delayed": "perhaps", "scheduled": 1700000000}', b'{"delayed": 1}', b"no JSON"]
    send(values[:2000])
    with WorkerProcess(config, tmp_path / "first.log") as worker:
        worker.wait_for_event("snapshot_written")
        worker.kill()
    with WorkerProcess(config, tmp_path / "second.log") as worker:
        worker.wait_for_event("live")
        send([*values[2000:], *bad])

        def answered() -> bool:
            return len(read_to_end(kafka, topics["predictions"], 1)[0]) >= COUNT

        worker.wait_until(answered, "every record is answered", pause_s=0.3)
        assert metric(worker.http_port, "stream_apple_features_left_out_total", partition="0") == [0.0]
        assert worker.terminate() == 0
    predictions = [json.loads(each.value() or b"") for each in read_to_end(kafka, topics["predictions"], 1)[0]]
    for each in predictions:
        assert math.isclose(each["probability"], 1 / (1 + math.exp(-each["prediction"])), rel_tol=1e-12)
    assert [each["id"] for each in predictions] == [record["flight"] for record in records]
    letters = read_to_end(kafka, topics["dead_letters"], 1)[0]
    assert [each.value() for each in letters] == bad
    told = [str(dict(each.headers() or [])["__stream_apple.errors.message"]) for each in letters]
    assert "input.label_map numbers words" in told[0]
    assert "found none" in told[1]

    file = tmp_path / "flights.jsonl"
    file.write_bytes(b"".join(value + b"\n" for value in values))
    evaluated = call_command("evaluate", file, *SETTINGS)
    assert evaluated.returncode == 0, evaluated.stderr
    facts = json.loads(evaluated.stdout)
    losses = np.array([each["loss"] for each in predictions], np.float64)
    assert float(np.cumsum(losses)[-1]) / COUNT == facts["progressive_loss"]
    assert facts["progressive_loss"] < 1.001 * facts["linear_progressive_loss"]

    verified = call_command("verify", "--config", config)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    inspected = call_command("inspect", "--config", config, "--json")
    assert "airport^origin=JFK" in inspected.stdout


def test_labels_that_come_late(kafka: str, topic: TopicFactory, tmp_path: Path) -> None:
    """What was published when asked is what `evaluate --label-delay-examples` says, to the bit, over a kill."""
    topics, delay = create_worker_topics(topic), 150
    records = flights(COUNT)
    config = write_config(
        tmp_path / "worker.toml",
        kafka,
        topics=topics,
        input=INPUT,
        output={"format": "json"},
        learner={"loss": "logistic", "bits": 12},
        epochs={"length": "365d", "max_ahead": "30d"},
        worker={"group": f"late-{topics['examples']}", "snapshot_interval": "1s"},
    )
    values: list[bytes] = []
    for number, record in enumerate(records):
        if number >= delay:
            values.append(json.dumps(records[number - delay]).encode())
        values.append(json.dumps({name: value for name, value in record.items() if name != "delayed"}).encode())
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})

    def send(part: list[bytes]) -> None:
        for value in part:
            producer.produce(topics["examples"], value, partition=0)
        assert producer.flush(DEADLINE_S) == 0

    send(values[:3000])
    with WorkerProcess(config, tmp_path / "first.log") as worker:
        worker.wait_for_event("snapshot_written")
        worker.kill()
    with WorkerProcess(config, tmp_path / "second.log") as worker:
        worker.wait_for_event("live")
        send(values[3000:])

        def answered() -> bool:
            return len(read_to_end(kafka, topics["predictions"], 1)[0]) >= len(values)

        worker.wait_until(answered, "every record is answered", pause_s=0.3)
        port = worker.http_port

        def judged() -> bool:
            found = metric(port, "stream_apple_asked_examples", partition="0", outcome="judged")
            return found == [float(COUNT - delay)]

        worker.wait_until(judged, "every label has found its score", pause_s=0.3)
        asked = metric(port, "stream_apple_asked_loss", partition="0", predictor="published", span="start")
        assert worker.terminate() == 0
    predictions = [json.loads(each.value() or b"") for each in read_to_end(kafka, topics["predictions"], 1)[0]]
    scores = [each["prediction"] for each in predictions if each["label"] is None]
    file = tmp_path / "flights.jsonl"
    file.write_bytes(b"".join(json.dumps(record).encode() + b"\n" for record in records))
    told = tmp_path / "scores"
    chosen = ["--loss", "logistic", "--bits", "12", "--epochs", "1", "--test-fraction", "0", "--no-shuffle"]
    chosen += ["--label-delay-examples", str(delay), "--predictions", str(told)]
    evaluated = call_command("evaluate", file, *SETTINGS[: SETTINGS.index("--loss")], *chosen)
    assert evaluated.returncode == 0, evaluated.stderr
    assert scores == [float(line) for line in told.read_text().split()]
    signs = np.where([record["delayed"] for record in records[:-delay]], 1.0, -1.0)
    losses = np.log1p(np.exp(-signs * scores[:-delay]))
    assert math.isclose(asked[0], float(losses.mean()), rel_tol=1e-6)
    verified = call_command("verify", "--config", config)
    assert verified.returncode == 0, verified.stdout + verified.stderr
