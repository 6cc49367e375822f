"""A real worker whose topics get too few replicas, a foreign transaction that hangs, and an end."""

from pathlib import Path

from adapters.kafka.test_topic_faults import open_transaction
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # exports are not marked
from end_to_end.expected_outputs import Outputs
from support.local_http import fetch
from support.records import stream
from support.topics import TopicFactory, create_topics, create_worker_topics
from support.waiting import DEADLINE_S, wait_until
from support.worker_config import write_config
from support.worker_process import WorkerProcess

from stream_apple.adapters.kafka.admin import Cluster
from stream_apple.adapters.kafka.log_reader import committed_now
from stream_apple.config import load
from stream_apple.errors import ConfigurationError

RECORDS = stream(300, seed=11)


def test_a_worker_notices_and_continues_or_ends(kafka: str, topic: TopicFactory, tmp_path: Path) -> None:
    """It is not ready while replicas are missing, answers other partitions, and ends with 78 without a topic."""
    path = write_config(
        tmp_path / "stream_apple.toml",
        kafka,
        kafka={"session.timeout.ms": 6000},
        topics=create_worker_topics(topic, 2),
        worker={"commit_interval": "20ms"},
        learner={"bits": 12},
        limits={"max_features": 16},
    )
    config = load(path, {})
    cluster, outputs = Cluster(config.kafka), Outputs(kafka, config, 2)
    examples, predictions = config.topics.examples, config.topics.predictions

    def feed(start: int, stop: int, partition: int) -> None:
        producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
        for record in RECORDS[start:stop]:
            headers = list(record.extra or [])
            producer.produce(
                examples, record.payload, record.named, partition, timestamp=record.time_ms or 1, headers=headers
            )
        assert producer.flush(DEADLINE_S) == 0

    def answered(partition: int) -> int:
        found = committed_now(config.kafka, config.worker.group, examples, [partition])[partition]
        return 0 if found is None else found.offset

    with WorkerProcess(path, tmp_path / "worker.log") as worker:
        for number in range(2):
            feed(0, 100, number)
            worker.wait_for_event("live", partition=number)

        def ready() -> tuple[int, list[str]]:
            answer = fetch(worker.http_port, "/readyz")
            return answer.status, answer.json()["waiting_for"]

        worker.wait_until(lambda: ready() == (200, []), "it was ready")
        cluster.set_settings(predictions, {"min.insync.replicas": "2"})
        unready = (503, [f"topic {predictions} (NOT_ENOUGH_REPLICAS)"])
        worker.wait_until(lambda: ready() == unready, "it was not ready")
        worker.wait_for_event("topic_fault", topic=predictions, fault="NOT_ENOUGH_REPLICAS")
        cluster.set_settings(predictions, {"min.insync.replicas": "1"})
        worker.wait_until(lambda: ready() == (200, []), "it was ready again")
        worker.wait_for_event("topic_mended", topic=predictions, fault="NOT_ENOUGH_REPLICAS")

        worker.wait_until(outputs.complete(), "everything was answered", pause_s=0.1)
        with open_transaction(kafka, f"foreign-{examples}", (examples, 0)):
            before = outputs.written(0)
            feed(100, 200, 0)
            feed(100, 200, 1)
            worker.wait_until(lambda: answered(1) == 200, "partition 1 was answered", pause_s=0.2)
            assert (answered(0), outputs.written(0)) == (100, before)
        worker.wait_until(outputs.complete(), "partition 0 was answered, too", pause_s=0.1)
        outputs.check()

        cluster.client.delete_topics([examples])[examples].result(DEADLINE_S)
        wait_until(lambda: not worker.running, lambda: f"an end:\n{worker.tail()}")
        assert worker.process.returncode == ConfigurationError.exit_code
        last = worker.history()[-1]
        assert last["event"] == "failed"
        assert examples in last["error"]
    create_topics(kafka, NewTopic(examples, 2, 1))  # the fixture deletes it
