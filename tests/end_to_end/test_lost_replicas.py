"""A worker whose topic of predictions has too few replicas in sync, on three brokers of which one dies."""

from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # exports are not marked
from support.kafka.cluster import SIZE, Cluster
from support.local_http import fetch
from support.topics import COMPACTED, FOREVER
from support.waiting import DEADLINE_S
from support.worker_config import write_config
from support.worker_process import WorkerProcess

from stream_apple.adapters.kafka.log_reader import committed_now
from stream_apple.config import load


@pytest.mark.long
def test_a_worker_waits_for_replicas_and_continues(jars: Path, tmp_path: Path) -> None:
    """It is not ready and names the topic; when the broker is back, it answers everything, and has never ended."""
    with Cluster(tmp_path, jars) as cluster:
        client = AdminClient({"bootstrap.servers": cluster.direct})
        topics = {
            "examples": FOREVER,
            "predictions": {**FOREVER, "min.insync.replicas": str(SIZE)},
            "dead_letters": FOREVER,
            "models": COMPACTED,
        }
        made = client.create_topics([NewTopic(name, 1, SIZE, config=config) for name, config in topics.items()])
        for future in made.values():
            future.result(DEADLINE_S)
        path = write_config(
            tmp_path / "stream_apple.toml",
            cluster.direct,
            topics={name: name for name in topics},
            worker={"commit_interval": "20ms"},
            learner={"bits": 12},
            limits={"max_features": 16},
        )
        config = load(path, {})
        producer = Producer({"bootstrap.servers": cluster.direct, "enable.idempotence": True})

        def feed(count: int) -> None:
            for _ in range(count):
                producer.produce("examples", b"1 | a b", partition=0)
            assert producer.flush(DEADLINE_S) == 0

        with WorkerProcess(path, tmp_path / "worker.log") as worker:

            def ready() -> tuple[int, list[str]]:
                answer = fetch(worker.http_port, "/readyz")
                return answer.status, answer.json()["waiting_for"]

            worker.wait_for_event("live", partition=0)
            feed(100)
            worker.wait_until(lambda: ready() == (200, []), "it was ready")
            cluster.brokers[SIZE - 1].kill()
            missing = "topic predictions (NOT_ENOUGH_REPLICAS)"
            worker.wait_until(lambda: ready()[0] == 503 and missing in ready()[1], "it was not ready", pause_s=0.2)
            feed(100)
            cluster.start([SIZE - 1])
            worker.wait_until(lambda: ready() == (200, []), "it was ready again", pause_s=0.2)

            def answered() -> bool:
                found = committed_now(config.kafka, config.worker.group, "examples", [0])[0]
                return found is not None and found.offset == 200

            worker.wait_until(answered, "everything was answered", pause_s=0.2)
            (fault,) = [
                each for each in worker.history() if each["event"] == "topic_fault" if each["topic"] == "predictions"
            ]
            assert fault["fault"] == "NOT_ENOUGH_REPLICAS"
            assert worker.terminate() == 0
