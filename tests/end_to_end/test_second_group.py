"""A second group on the first one's topics, on a real broker: it ends, and the first one goes on."""

import subprocess
import sys
from pathlib import Path

from confluent_kafka import Producer
from end_to_end.expected_outputs import Outputs
from support.records import stream
from support.topics import TopicFactory, create_worker_topics
from support.waiting import DEADLINE_S, wait_until
from support.worker_config import write_config
from support.worker_process import WorkerProcess

from stream_apple.config import load
from stream_apple.errors import ConfigurationError

COUNT = 200
END_S = 60.0


def test_a_second_group_answers_nothing(kafka: str, topic: TopicFactory, tmp_path: Path) -> None:
    """`check` and `run` name the topic, the group whose it is and the way out; each example has one answer."""
    topics = create_worker_topics(topic)

    def configured(group: str, bits: int) -> Path:
        return write_config(
            tmp_path / f"{group}.toml",
            kafka,
            topics=topics,
            worker={"group": f"{group}-{topics['examples']}", "commit_interval": "20ms"},
            learner={"bits": bits},
            limits={"max_features": 16},
        )

    first, second = configured("first", 12), configured("second", 11)
    config = load(first, {})
    outputs, records = Outputs(kafka, config, 1), stream(2 * COUNT, seed=3)

    def feed(start: int, stop: int) -> None:
        producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
        for record in records[start:stop]:
            headers = list(record.extra or [])
            producer.produce(
                topics["examples"], record.payload, record.named, 0, timestamp=record.time_ms or 1, headers=headers
            )
        assert producer.flush(DEADLINE_S) == 0

    feed(0, COUNT)
    with WorkerProcess(first, tmp_path / "first.log") as worker:
        worker.wait_for_event("live")
        worker.wait_until(outputs.complete(), "everything was published", pause_s=0.1)
        with WorkerProcess(second, tmp_path / "second.log", "worker-1") as other:
            wait_until(lambda: not other.running, lambda: f"an end:\n{other.tail()}", END_S)
            assert other.process.returncode == ConfigurationError.exit_code
            last = other.history()[-1]["error"]
            assert last.startswith("topics.predictions: expected a topic that group second-")
            assert f" of group {config.worker.group}, while group second-" in last
            assert "live" not in other.events()
        checked = subprocess.run(
            [sys.executable, "-m", "stream_apple", "check", "--config", str(second)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert checked.returncode == ConfigurationError.exit_code
        assert last in checked.stdout
        feed(COUNT, 2 * COUNT)
        worker.wait_until(outputs.complete(), "everything was published", pause_s=0.1)
        assert worker.terminate() == 0
    outputs.check()
