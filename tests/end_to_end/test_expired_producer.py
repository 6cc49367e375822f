"""A broker forgets producers that are silent for long: a worker that had nothing to do continues all the same."""

import time
from pathlib import Path

from end_to_end.expected_outputs import Outputs
from end_to_end.feeder import feeder
from support.kafka.broker import Broker
from support.topics import create_worker_topics, named_topics
from support.worker_config import write_config
from support.worker_process import WorkerProcess

from stream_apple.config import load

FORGETS = {
    "producer.id.expiration.ms": "1000",
    "producer.id.expiration.check.interval.ms": "200",
    "transactional.id.expiration.ms": "1500",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
}
"""Days and hours by default."""
PAUSE_S = 3.0  # the broker's own clock decides, and no client can see what it has forgotten


def test_a_producer_id_expires_while_there_is_no_input(jars: Path, tmp_path: Path) -> None:
    """The next records are answered exactly once, by the same process, though the broker knows its producer no more."""
    broker = Broker(tmp_path / "kafka", jars, FORGETS)
    broker.start()
    try:
        path = write_config(
            tmp_path / "stream_apple.toml",
            broker.bootstrap,
            topics=create_worker_topics(named_topics(broker.bootstrap), 1),
            worker={"commit_interval": "40ms", "snapshot_interval": "1s"},
            learner={"method": "linear", "mixture": False, "bits": 12},
            limits={"max_features": 16},
        )
        outputs = Outputs(broker.bootstrap, load(path, {}), 1)
        with WorkerProcess(path, tmp_path / "worker.log") as worker:
            for _ in range(3):
                with feeder(broker.bootstrap, "examples", 1):
                    target = outputs.written(0) + 100
                    worker.wait_until(lambda t=target: outputs.written(0) >= t, "it had published")  # type: ignore[misc]
                worker.wait_until(outputs.complete(), "everything was published", 0.3)
                time.sleep(PAUSE_S)
            assert any("INVALID_PRODUCER_ID_MAPPING" in name for name in worker.events())
            assert worker.terminate() == 0
        outputs.check()
    finally:
        broker.kill()
