"""The promise on a real broker: whatever happens to workers and broker, readers of committed data can't tell."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest
from end_to_end.broker_restart import restart_between_decisions
from end_to_end.expected_outputs import Outputs
from end_to_end.feeder import feeder
from support.kafka.broker import Broker
from support.kafka.connections import members_of
from support.topics import TopicFactory, create_worker_topics, named_topics
from support.waiting import wait_until
from support.worker_config import write_config
from support.worker_process import DEADLINE_S, WorkerProcess

from stream_apple.config import Config, load
from stream_apple.errors import BrokerError, FencedError

KILLS = 2
PARTITIONS = 2
READING_S = 0.3  # between two times that all outputs are read


class Start(Protocol):
    """Starts a worker process."""

    def __call__(self, config_file: Path, name: str = "worker-0", on_stop: str = "stay") -> WorkerProcess:
        """A process under the name, which is its identity in the group."""
        ...


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """None of the processes outlives the test."""
    with ExitStack() as started:

        def begin(config_file: Path, name: str = "worker-0", on_stop: str = "stay") -> WorkerProcess:
            return started.enter_context(WorkerProcess(config_file, tmp_path / "worker.log", name, on_stop))

        yield begin


SYSTEMS: dict[str, dict[str, dict[str, Any]]] = {
    "apple": {"learner": {"bits": 12}},
    "tuples": {
        "learner": {"system": "tuples"},
        "learner.tuples": {"loss": "squared", "bits": 12, "selection_share": 0.5},
    },
    "hashed": {"learner": {"system": "hashed"}, "learner.hashed": {"loss": "squared", "bits": 12, "l1": 1e-6}},
}
"""The sections of each system that learns."""


def configure(directory: Path, bootstrap: str, create: TopicFactory, system: str = "apple") -> tuple[Path, Config]:
    """A worker on new topics that commits often, so that an accident has much to hit."""
    path = write_config(
        directory / "stream_apple.toml",
        bootstrap,
        kafka={"session.timeout.ms": 6000},
        topics=create_worker_topics(create, PARTITIONS),
        worker={"commit_interval": "40ms", "snapshot_interval": "1s", "fetch_records": 400},
        limits={"max_features": 16},
        **SYSTEMS[system],
    )
    return path, load(path, {})


@pytest.mark.parametrize("system", SYSTEMS)
def test_killed_at_random_moments(kafka: str, topic: TopicFactory, tmp_path: Path, start: Start, system: str) -> None:
    """A worker is killed some times and started again; the outputs are those of a model never interrupted."""
    path, config = configure(tmp_path, kafka, topic, system)
    draw = random.Random(2014)
    outputs = Outputs(kafka, config, PARTITIONS)
    with feeder(kafka, config.topics.examples, PARTITIONS):
        for _ in range(KILLS):
            worker = start(path)
            target = outputs.written_in_all() + draw.randint(1, 400)
            worker.wait_until(lambda target=target: outputs.written_in_all() >= target, "it had published")  # type: ignore[misc]
            time.sleep(draw.uniform(0, 0.06))  # a commit and a half: which moment is hit is what is drawn
            worker.kill()
    last = start(path)
    last.wait_until(outputs.complete(), "everything was published", READING_S)
    assert last.terminate() == 0
    outputs.check()


def test_workers_come_and_go(kafka: str, topic: TopicFactory, tmp_path: Path, start: Start) -> None:
    """A second worker joins, dies, returns, and is scaled away: partitions move, outputs don't show it."""
    path, config = configure(tmp_path, kafka, topic)
    outputs = Outputs(kafka, config, PARTITIONS)

    def work_goes_on(worker: WorkerProcess) -> None:
        # In both partitions: the one whose owner has gone moves when the session of that owner has ended.
        for number, before in enumerate([outputs.written(number) for number in range(PARTITIONS)]):

            def goes_on(number: int = number, target: int = before + 200) -> bool:
                return outputs.written(number) >= target

            worker.wait_until(goes_on, f"{number} went on")

    with feeder(kafka, config.topics.examples, PARTITIONS):
        first = start(path, "first")
        first.wait_until(lambda: outputs.written_in_all() > 0, "it had published")
        second = start(path, "second")
        second.wait_for_event("live")
        work_goes_on(first)
        second.kill()
        second = start(path, "second")
        second.wait_for_event("live")
        work_goes_on(first)
        assert second.terminate() == 0
        work_goes_on(first)
        third = start(path, "third", on_stop="leave")
        third.wait_for_event("live")
        assert third.terminate() == 0
        assert members_of(kafka, config.worker.group) == ["first"]
        work_goes_on(first)
    first.wait_until(outputs.complete(), "everything was published", READING_S)
    assert first.terminate() == 0
    assert "revoked" in first.events()
    outputs.check()


def test_the_broker_dies_and_returns(jars: Path, tmp_path: Path, start: Start) -> None:
    """The worker outlives a broker that is killed, or is replaced by its supervisor; no output is doubled or lost."""
    broker = Broker(tmp_path / "kafka", jars)
    broker.start()
    try:
        path, config = configure(tmp_path, broker.bootstrap, named_topics(broker.bootstrap))
        outputs = Outputs(broker.bootstrap, config, PARTITIONS)
        workers = [start(path)]

        def supervise_until(done: Callable[[], bool], what: str, pause_s: float = 0.02) -> None:
            # Without its broker a worker waits, and at last leaves with the code that says so: start it again. A broker
            # that comes back in the middle of a decision may take the worker for its own predecessor, and fence it.
            def done_under_supervision() -> bool:
                if not workers[-1].running:
                    assert workers[-1].process.returncode in {BrokerError.exit_code, FencedError.exit_code}
                    workers.append(start(path))
                return done()

            wait_until(
                done_under_supervision, lambda: f"{what}, with {len(workers)} processes so far", DEADLINE_S, pause_s
            )

        with feeder(broker.bootstrap, "examples", PARTITIONS):
            target = outputs.written_in_all() + 400
            supervise_until(lambda: outputs.written_in_all() >= target, "it had published")
            restart_between_decisions(broker, workers, kill=True)
        supervise_until(outputs.complete(), "everything was published", READING_S)
        supervise_until(lambda: "live" in workers[-1].events(), "it was at work")
        assert workers[-1].terminate() == 0
        outputs.check()
    finally:
        broker.kill()
