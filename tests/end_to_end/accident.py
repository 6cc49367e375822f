"""Workers on three brokers that meet with an accident, and what readers see of it.

An independent reader measures for how long answers pause, and metadata show for how long the cluster is not available.
Neither uses the product or its path to the brokers.
"""

import itertools
import json
import os
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple, Self

import msgpack
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from end_to_end.chaos_feed import Flood
from end_to_end.supervisor import live
from support.command import call_command
from support.independent_checker import Names, check_independently
from support.kafka.cluster import COORDINATION, SIZE, Cluster, coordinator_partition
from support.kafka.proxy import Harm
from support.topics import LogEnds, create_worker_topics, unique_topics
from support.waiting import DEADLINE_S, wait_until
from support.worker_config import write_config
from support.worker_process import WorkerProcess

from stream_apple.app.model_factories import settings_of
from stream_apple.config import load
from stream_apple.stream.model.warmup import warm_up

PARTITIONS = 4
# Their hashes differ by three, the number of partitions, so one broker can coordinate the transactions of both.
NAMES = ("worker-0", "worker-3")
ALLOWANCE_S = 30.0 if "PYTEST_XDIST_WORKER" in os.environ else 10.0
"""How much longer than the cluster's own fail-over answers may pause.

Beside other tests, workers that start wait for a core, too; a call that is not given up takes a minute longer.
"""
_RATE = 200
_SEED = 2014
_LOOK_S = 0.25
# A client that waits for a minute for a broker that is gone would measure its own timeouts.
_IMPATIENT: dict[str, str | int | float | bool] = {
    "socket.timeout.ms": 3_000,
    "reconnect.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 1_000,
    "log_level": 0,
}


class Pause(NamedTuple):
    """For how long a partition has had an example that could be read and was the next one to be answered."""

    seconds: float
    partition: int
    began_s: float

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s in partition {self.partition} from {self.began_s:.1f} s on"


class Reader:
    """Reads examples and predictions in a thread of its own, as a consumer of committed records does; a context.

    pauses  the longest one of each partition; `began_s` counts from `reset` on
    """

    def __init__(self, bootstrap: str, examples: str, predictions: str) -> None:
        self.pauses: dict[int, Pause] = {}
        self.answered = Counter[int]()
        self._examples = examples
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
                **_IMPATIENT,
            }
        )
        places = itertools.product((examples, predictions), range(PARTITIONS))
        self._consumer.assign([TopicPartition(topic, number, 0) for topic, number in places])
        self._arrived: dict[tuple[int, int], float] = {}
        self._last: dict[int, float] = {}
        self._began = time.monotonic()
        self._stopping = Event()
        self._thread = Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def reset(self) -> None:
        """Forget pauses so far, as those of workers that start."""
        self._began = time.monotonic()
        self.pauses = {}

    def _run(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(1_000, 0.05):
                if message.error() is None:
                    now, number = time.monotonic(), message.partition() or 0
                    if message.topic() == self._examples:
                        self._arrived[number, message.offset() or 0] = now
                    else:
                        self._note(number, msgpack.unpackb(message.value() or b"")["offset"], now)

    def _note(self, number: int, offset: int, now: float) -> None:
        since = max(self._arrived.pop((number, offset), now), self._last.get(number, now))
        self._last[number] = now
        self.answered[number] += 1
        if now - since > (self.pauses[number].seconds if number in self.pauses else 0):
            self.pauses[number] = Pause(now - since, number, since - self._began)


class Failover:
    """Measures in a thread of its own for how long some partition can't be written to; a context.

    longest_s  the longest such time
    """

    def __init__(self, cluster: Cluster, topics: Iterable[str]) -> None:
        self.longest_s = 0.0
        self._cluster = cluster
        self._topics = list(topics)
        self._stopping = Event()
        self._thread = Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        available_at = time.monotonic()
        while not self._stopping.wait(_LOOK_S):
            asked_at = time.monotonic()
            if self._cluster.available(self._topics):
                self.longest_s = max(self.longest_s, asked_at - available_at if asked_at - available_at > 1 else 0)
                available_at = time.monotonic()


class Accident:
    """Two workers at work on a cluster that is whole; a context, to be ended with `finish`.

    coordinator  the number of the broker that coordinates the group and all transactions of its workers
    before_s     for how long requests hung before a broker died, which is a pause of its own
    harm_s       for how long the test itself keeps workers from brokers, or from starting, that are well
    """

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self.harm_s = 0.0
        self.before_s = 0.0
        cluster.mend()
        topics = create_worker_topics(unique_topics(cluster.direct), PARTITIONS)
        group, self.coordinator = _coordinated_by_one(cluster)
        self._names = Names(topics["examples"], topics["predictions"], topics["dead_letters"], group)
        self._config = write_config(
            directory / "stream_apple.toml",
            cluster.bootstrap,
            topics=topics,
            worker={"group": group, "commit_interval": "100ms", "snapshot_interval": "1s", "fetch_records": 500},
            learner={"bits": 12},
            epochs={"length": "20s"},
            limits={"max_features": 20, "max_features_per_example": 64, "max_record_bytes": 2000},
        )
        settings = settings_of(load(self._config, {}))
        warm_up(settings, settings.decoder())
        self._directory = directory
        self._workers: dict[str, WorkerProcess] = {}
        self._exits = Counter[int]()
        self._flood = Flood(
            cluster.direct,
            topics["examples"],
            PARTITIONS,
            _RATE,
            _SEED,
            socket_timeout_ms=3_000,
            request_timeout_ms=3_000,
            reconnect_backoff_max_ms=500,
            topic_metadata_refresh_interval_ms=1_000,
        )
        self._reader = Reader(cluster.direct, topics["examples"], topics["predictions"])
        self._failover = Failover(cluster, [*topics.values(), *COORDINATION])

    def __enter__(self) -> Self:
        try:
            for name in NAMES:
                self._start(name)
            self._flood.__enter__()
            self._reader.__enter__()
            self._await(self._all_at_work, "each worker has its share")
            self.await_answers()
            self._reader.reset()
            self._failover.__enter__()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    @property
    def longest_pause_s(self) -> float:
        """The longest pause so far that has ended."""
        return max((pause.seconds for pause in self._reader.pauses.copy().values()), default=0.0)

    def catch(self, request_name: str) -> None:
        """Have a request of each worker on its way to the coordinator, where it will never arrive."""
        rule = self.cluster.proxies[self.coordinator].strike(request_name, Harm.SILENCE, len(NAMES))
        self._await(lambda: len(rule.struck) == len(NAMES), f"a request {request_name} of each worker")

    def kill(self, name: str) -> None:
        """SIGKILL a worker, and start it again."""
        self._look()
        self._workers[name].kill()
        self._exits[self._workers[name].process.returncode] += 1
        self._start(name)

    def wait(self, seconds: float) -> None:
        """Let time pass while all workers live."""
        end = time.monotonic() + seconds
        self._await(lambda: time.monotonic() >= end, f"{seconds} s", seconds + 1)

    def await_failover(self) -> None:
        """Wait until the brokers that are left do all the work."""
        self._await(lambda: self.cluster.available([*self._names[:3], *COORDINATION]), "the brokers' fail-over")  # type: ignore[list-item]

    def await_answers(self) -> None:
        """Wait until each partition has answers that are new."""
        before = self._reader.answered.copy()
        self._await(lambda: all(self._reader.answered[n] > before[n] for n in range(PARTITIONS)), "new answers")

    def outlive(self, number: int) -> None:
        """Wait until answers continue without this broker; start it, and wait until they continue with it."""
        self.await_failover()
        self.await_answers()
        self.cluster.start([number])
        self.await_in_sync()
        self.await_answers()

    def await_in_sync(self) -> None:
        """Wait until all replicas are in sync, so that the next broker may die."""
        self._await(self.cluster.in_sync, "all replicas in sync")

    def _all_at_work(self) -> bool:
        shares = [live(worker) for worker in self._workers.values()]
        return all(shares) and sum(map(len, shares)) == PARTITIONS

    def _await(self, done: Callable[[], bool], what: str, seconds: float = DEADLINE_S) -> None:
        def done_without_exit() -> bool:
            self._look()
            return done()

        wait_until(done_without_exit, lambda: f"{what}: {self._logs()}", seconds, pause_s=0.1)

    def _look(self) -> None:
        """No worker ends on its own."""
        for name, worker in self._workers.items():
            assert worker.running, f"{name} ended with {worker.process.returncode}:\n{self._logs()}"

    def _start(self, name: str) -> None:
        self._workers[name] = WorkerProcess(self._config, self._directory / f"{name}.log", name)

    def finish(self) -> None:
        """Let all be answered, and check exit codes, outputs, and pauses."""
        self.cluster.mend()
        self._flood.finish(0)
        consumer = Consumer({"bootstrap.servers": self.cluster.direct, "group.id": self._names.group})
        places = [TopicPartition(self._names.examples, number) for number in range(PARTITIONS)]
        ends = LogEnds(self.cluster.direct)

        def committed() -> list[int]:
            return [place.offset for place in consumer.committed(places, timeout=DEADLINE_S)]

        wanted = [ends.of(self._names.examples, number) for number in range(PARTITIONS)]
        self._await(lambda: committed() == wanted, f"offsets {wanted}, the latest {committed()}")
        consumer.close()
        for worker in self._workers.values():
            self._exits[worker.terminate()] += 1
        pause = max(self._reader.pauses.values())
        failover_s = max(self._failover.longest_s, self.harm_s) + self.before_s
        print(f"exit codes {dict(self._exits)}; fail-over {failover_s:.1f} s; the longest pause was {pause}")
        print(f"pauses: {'; '.join(map(str, self._reader.pauses.values()))}")
        assert set(self._exits) <= {0, -9}, self._logs()
        self._verify()
        count = check_independently(self.cluster.direct, self._names)
        assert count == sum(wanted)
        assert pause.seconds <= failover_s + ALLOWANCE_S, f"the logs are in {self._directory}"

    def _verify(self) -> None:
        done = call_command("verify", "--config", self._config, "--json")
        assert done.returncode == 0, f"verify ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        assert json.loads(done.stdout)["verified"]

    def _logs(self) -> str:
        return "\n".join(f"--- {name}\n{worker.tail(6000)}" for name, worker in self._workers.items())

    def _close(self) -> None:
        for worker in self._workers.values():
            worker.close()
        for thread in (self._failover, self._reader, self._flood):
            thread.__exit__()


def _coordinated_by_one(cluster: Cluster) -> tuple[str, int]:
    """A new group, and the broker that coordinates both it and the transactions of all its workers."""
    offsets, states = ([cluster.leader(topic, number) for number in range(SIZE)] for topic in COORDINATION)
    while True:
        group = f"group-{uuid.uuid4().hex[:8]}"
        of_workers = {states[coordinator_partition(f"{group}-{name}")] for name in NAMES}
        if of_workers == {offsets[coordinator_partition(group)]}:
            return group, of_workers.pop()


def make_coordinators(cluster: Cluster) -> None:
    """Make the topics of coordination, which a cluster makes when a client first needs one."""
    producer = Producer({"bootstrap.servers": cluster.direct, "transactional.id": "first", **_IMPATIENT})
    producer.init_transactions(DEADLINE_S)
    consumer = Consumer({"bootstrap.servers": cluster.direct, "group.id": "first", **_IMPATIENT})

    def is_coordinated() -> bool:
        with suppress(KafkaException):
            return bool(consumer.committed([TopicPartition("none", 0)], timeout=DEADLINE_S))
        return False

    wait_until(is_coordinated, "a coordinator of the group")
    consumer.close()
    wait_until(lambda: cluster.in_sync(*COORDINATION), "topics of coordination")
