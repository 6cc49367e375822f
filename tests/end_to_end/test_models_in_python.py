"""A model that learned in Kafka scores a frame in Python with the bits that the worker has published."""

import json
import random
from pathlib import Path

import msgpack
import pandas as pd
import pytest
from confluent_kafka import Producer
from support.planted_pair import PAIR
from support.records import HOUR, START
from support.topics import TopicFactory, create_worker_topics, read_all
from support.waiting import DEADLINE_S
from support.worker_config import write_config
from support.worker_process import WorkerProcess

from stream_apple import LearnedModel, load_model
from stream_apple.config import load
from stream_apple.errors import ConfigurationError

LEARNED, ASKED = 1_500, 100


def _rows(draw: random.Random, count: int) -> list[dict[str, object]]:
    return [
        {
            "price": draw.choice([-1.0, 1.0]),
            "country": draw.choice(["de", "in", "jp"]),
            "new": draw.random() > 0.5,
            "noise": round(draw.uniform(-1, 1), 3),
        }
        for _ in range(count)
    ]


@pytest.mark.parametrize("form", ["message", "record"])
def test_a_frame_is_scored_as_the_worker_did(kafka: str, topic: TopicFactory, tmp_path: Path, form: str) -> None:
    """By the newest snapshot, at an offset before it and at one behind it, and by a file; messages and flat records."""
    topics = create_worker_topics(topic)
    reading = {"input": {"features": "*", "label": "y"}} if form == "record" else {}
    path = write_config(
        tmp_path / "stream_apple.toml",
        kafka,
        topics=topics,
        worker={"commit_interval": "50ms", "snapshot_interval": "1h"},
        learner={"bits": 12},
        **reading,
    )
    draw = random.Random(3)
    rows = _rows(draw, LEARNED + ASKED)
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    for at, row in enumerate(rows):
        label = 3.0 * float(str(row["price"])) * (row["country"] == "de") if at < LEARNED else None
        value = json.dumps({"y": label, **row} if form == "record" else {"label": label, "features": row})
        time_ms = START + min(at, LEARNED) * 6 * HOUR // LEARNED
        producer.produce(topics["examples"], value, partition=0, timestamp=time_ms)
    assert producer.flush(DEADLINE_S) == 0
    with WorkerProcess(path, tmp_path / "worker.log") as worker:
        worker.wait_for_event("live")
        worker.wait_until(lambda: len(read_all(kafka, topics["predictions"])) == len(rows), "all was answered")
        assert worker.terminate() == 0
    published = [
        msgpack.unpackb(message.value() or b"")["prediction"] for message in read_all(kafka, topics["predictions"])
    ]

    model = load_model(path, partition=0)
    assert model.as_of == (topics["examples"], 0, len(rows), model.digest)
    asked = pd.DataFrame(rows[LEARNED:])
    assert model.predict(asked).tolist() == published[LEARNED:]
    assert model.predict(rows[LEARNED:]).tolist() == published[LEARNED:]
    assert any(each.name.startswith(PAIR) for each in model.monomials(10))  # of the centred price
    assert model.explain(rows[-1])[0].name

    earlier = load_model(load(path, {}), partition=0, offset=LEARNED // 2 + 7)
    assert earlier.as_of.offset == LEARNED // 2 + 7
    assert isinstance(earlier, LearnedModel)
    again = load_model(path, partition=0, offset=len(rows))
    assert again.digest == model.digest
    with pytest.raises(ConfigurationError, match="offset: expected one from 0"):
        load_model(path, partition=0, offset=len(rows) + 1)
    with pytest.raises(ConfigurationError, match="expected the number of a partition"):
        load_model(path)

    model.save(tmp_path / "m.model")
    saved = load_model(tmp_path / "m.model")
    assert (saved.as_of, saved.digest) == (model.as_of, model.digest)
    assert saved.predict(asked).tolist() == published[LEARNED:]
    earlier.save(tmp_path / "earlier.model")
    assert load_model(tmp_path / "earlier.model").digest == earlier.digest
