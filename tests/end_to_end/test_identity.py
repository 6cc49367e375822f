"""A command beside a live worker, on a real broker: what is wrong ends the command, and the worker goes on."""

import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer
from support.kafka.connections import members_of
from support.local_http import fetch, metric
from support.planted_pair import planted
from support.topics import LogEnds, TopicFactory, create_worker_topics
from support.waiting import DEADLINE_S, wait_until
from support.worker_config import write_config
from support.worker_process import WorkerProcess

from stream_apple.config import Config, load

PARTITIONS = 2
HOST = re.sub(r"[^a-zA-Z0-9._-]", "-", socket.gethostname())


class Site:
    """Topics of two partitions, a group of their own, and workers that are gone with the test."""

    def __init__(self, kafka: str, topic: TopicFactory, directory: Path, started: ExitStack) -> None:
        self.kafka = kafka
        self.file = write_config(
            directory / "stream_apple.toml",
            kafka,
            topics=create_worker_topics(topic, PARTITIONS),
            learner={"bits": 10},
            epochs={"max_ahead": "365d"},
        )
        self._directory = directory
        self._started = started
        self._records = iter(planted(2_000))

    @property
    def config(self) -> Config:
        """As the file has it."""
        return load(self.file, {})

    def start(self, name: str = "one", *, elsewhere: bool = False, **settings: str) -> WorkerProcess:
        """A process; `settings` are variables without their prefix."""
        variables = {f"STREAM_APPLE_{name}": value for name, value in settings.items()}
        log = self._directory / "worker.log"
        worker = WorkerProcess(self.file, log, name, settings=variables, elsewhere=elsewhere)
        return self._started.enter_context(worker)

    def live(self, name: str = "one") -> WorkerProcess:
        """A worker that has answered, and has nothing to do."""
        worker = self.start(name)
        worker.wait_for_event("live")
        self.check_that_it_answers(worker)
        return worker

    def send_example(self, partition: int) -> None:
        """The next one."""
        producer = Producer({"bootstrap.servers": self.kafka, "enable.idempotence": True})
        record = next(self._records)
        producer.produce(self.config.topics.examples, record.payload, partition=partition, timestamp=record.time_ms)
        assert producer.flush(DEADLINE_S) == 0

    def check_that_it_answers(self, worker: WorkerProcess) -> None:
        """It is ready, and what comes now is answered by it, in every partition."""
        ends = LogEnds(self.kafka)
        for number in range(PARTITIONS):
            before = ends.of(self.config.topics.predictions, number)
            self.send_example(number)
            worker.wait_until(
                lambda number=number, before=before: ends.of(self.config.topics.predictions, number) > before,  # type: ignore[misc]
                f"an answer in partition {number}",
            )
        assert fetch(worker.http_port, "/readyz").status == 200


@pytest.fixture
def site(kafka: str, topic: TopicFactory, tmp_path: Path) -> Iterator[Site]:
    """Nothing runs yet."""
    with ExitStack() as started:
        yield Site(kafka, topic, tmp_path, started)


def test_what_is_mistyped_ends_the_command_alone(site: Site, topic: TopicFactory) -> None:
    """A topic that is not there or does not fit, settings of another model: from another machine, with the same id."""
    worker = site.live()
    narrow = topic("predictions", 1)
    wrong = {
        "TOPICS__EXAMPLES": ("nope", "topic nope: expected an existing topic, found: "),
        "TOPICS__PREDICTIONS": (narrow, f"topic {narrow}: partitions: expected 2, found 1"),
        "LEARNER__LOSS": ("logistic", "expected model "),
        "MERGE__MODE": ("average", "topic merges"),
        "WORKER__SKIP": ("0@0", "worker.skip: expected a record of "),
        "KAFKA__SESSION_TIMEOUT_MS": ("3600000", "kafka: kafka.session.timeout.ms: expected at most "),
    }
    commands = {
        name: site.start(elsewhere=True, **{name: value, "KAFKA__MAX_POLL_INTERVAL_MS": "3600000"})
        for name, (value, _) in wrong.items()
    }
    for name, (_, says) in wrong.items():
        code, said = commands[name].end()
        assert code == 78, (name, said)
        assert said.startswith(says), (name, said)
    site.check_that_it_answers(worker)
    assert worker.terminate() == 0


def test_the_same_worker_twice_on_a_machine(site: Site) -> None:
    """The second is told who is first, and what to set; when the first is killed, the next has its place at once."""
    worker = site.live()
    code, said = site.start().end()
    assert code == 78
    assert f"works as one of group {site.config.worker.group}, found pid {worker.process.pid}, which goes on" in said
    assert "set STREAM_APPLE_WORKER__ID=one-2" in said
    site.check_that_it_answers(worker)
    worker.kill()
    site.check_that_it_answers(site.live())


def test_plain_commands_share_the_partitions(site: Site) -> None:
    """Each has the machine's name and a number, kept over a restart, and a port of its own."""
    text = site.file.read_text().replace('"port" = 0\n', "")
    site.file.write_text(text)
    first, second = site.start(""), site.start("")
    workers = {"first": first, "second": second}

    def shared() -> bool:
        owned = [metric(each.http_port, "stream_apple_owned_partitions") for each in workers.values()]
        return all(worker.running for worker in workers.values()) and owned == [[1.0], [1.0]]

    wait_until(shared, lambda: [worker.tail() for worker in workers.values()], 240)
    group = site.config.worker.group
    assert members_of(site.kafka, group) == [f"{HOST}-0", f"{HOST}-1"]
    assert first.http_port != second.http_port
    assert {first.http_port, second.http_port} <= set(site.config.http.ports)
    assert first.history()[0]["worker"] in {f"{HOST}-0", f"{HOST}-1"}
    second.kill()
    workers["second"] = third = site.start("")
    wait_until(shared, lambda: [worker.tail() for worker in workers.values()], 240)
    assert third.history()[0]["worker"] == second.history()[0]["worker"]
    assert members_of(site.kafka, group) == [f"{HOST}-0", f"{HOST}-1"]


def test_a_worker_whose_transactional_id_is_taken(site: Site) -> None:
    """By a process that never joins the group: its next transaction says whose id it was, and what to set."""
    worker = site.live()
    transactional_id = f"{site.config.worker.group}-one"
    other = Producer({"bootstrap.servers": site.kafka, "transactional.id": transactional_id})
    other.init_transactions(DEADLINE_S)
    site.send_example(0)
    code, said = worker.end()
    assert code == 75
    assert said.startswith(
        f"worker.id one of group {site.config.worker.group} (transactional id {transactional_id}) belongs to another "
        f"process now"
    )
    assert "set worker.id (STREAM_APPLE_WORKER__ID)" in said


def test_on_another_machine_the_newer_one_wins(site: Site) -> None:
    """As a restart must; the older one is told by the group, and ends with its own code."""
    worker = site.live()
    newer = site.start(elsewhere=True)
    code, said = worker.end()
    assert code == 75
    assert said.startswith(f"worker.id one of group {site.config.worker.group} ")
    newer.wait_for_event("live")
    site.check_that_it_answers(newer)
