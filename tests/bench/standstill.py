"""How long predictions stand still when workers die, restart, come and go: `python tests/bench/standstill.py`.

Examples of two partitions flow at a steady pace; a reader of committed data notes when predictions of each partition
become visible. The figure is the longest time without any, around an event. Five events, several rounds:

    killed     SIGKILL, and at once a new process with the same identity
    restarted  SIGTERM, and at its end a new process with the same identity
    added      a second worker joins
    removed    that worker gets SIGTERM and does not return
    left       the same, of a worker that leaves the group when it stops (worker.on_stop)

For `killed` and `restarted` the time is also taken apart by what the new process logs. Broker, feed, reader and
workers share this machine. Needs Java 17 and Maven, or STREAM_APPLE_TEST_BOOTSTRAP.
"""

import itertools
import sys
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import planted
from confluent_kafka import Consumer, Producer, TopicPartition
from feeds.streams import broker
from report import figure, header
from support.waiting import wait_until
from support.worker_config import write_config
from support.worker_process import WorkerProcess

from stream_apple.adapters.kafka.admin import Cluster
from stream_apple.adapters.kafka.topics import FOREVER, NeededTopics, ensure
from stream_apple.config import Config, load
from stream_apple.files import read_examples
from stream_apple.records.message.example import encode_example

PARTITIONS, ROUNDS, BITS = 2, 5, 18
RATE = 500  # examples a second and partition
SNAPSHOT_INTERVAL = "5s"  # what is replayed: half of that on average
DEADLINE_S = 120.0
SETTLED_S = 3.0  # of steady work before each event

STAGES = [
    ("started", "interpreter, imports, configuration"),
    ("restoring", "kernels from the cache, the end of fencing, joining the group"),
    ("restored", "reading the snapshots"),
    ("live", "replaying"),
    ("visible", "first commit"),
]


class Feed(threading.Thread):
    """Produces examples of all partitions, timestamped now, until told to end."""

    def __init__(self, config: Config, messages: list[bytes]) -> None:
        super().__init__()
        self._producer = Producer({**config.kafka, "linger.ms": 0})
        self._topic = config.topics.examples
        self._messages = itertools.cycle(messages)
        self.ended = threading.Event()

    def run(self) -> None:
        """A handful every ten milliseconds."""
        due = time.monotonic()
        while not self.ended.wait(max(due - time.monotonic(), 0)):
            due += 0.01
            for _ in range(RATE // 100):
                for partition in range(PARTITIONS):
                    self._producer.produce(self._topic, next(self._messages), partition=partition)
            self._producer.poll(0)
        self._producer.flush(30)


class Reader(threading.Thread):
    """Notes when predictions become visible: `times` of arrivals (wall clock, seconds) for each partition."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self._consumer = Consumer({**config.kafka, "group.id": "reader", "isolation.level": "read_committed"})
        self._consumer.assign([TopicPartition(config.topics.predictions, number, 0) for number in range(PARTITIONS)])
        self.times: dict[int, list[float]] = {number: [] for number in range(PARTITIONS)}
        self.ended = threading.Event()

    def run(self) -> None:
        """Until told to end."""
        while not self.ended.is_set():
            messages = self._consumer.consume(10_000, 0.01)
            now = time.time()
            for number in {message.partition() for message in messages if message.error() is None}:
                self.times[number or 0].append(now)
        self._consumer.close()

    def longest_gap(self, partition: int, since: float) -> float:
        """Seconds without a prediction, of the gaps that end after `since`."""
        times = self.times[partition]
        return max(later - earlier for earlier, later in itertools.pairwise(times) if later > since)

    def first(self, since: float) -> float:
        """When every partition had a prediction after `since`."""
        return max(min(moment for moment in times if moment > since) for times in self.times.values())

    def flows(self, since: float) -> bool:
        """Whether predictions of every partition have been coming for a second, in a steady row, after `since`."""
        return all(
            len(recent) > 1 and recent[-1] - recent[0] > 1 and time.time() - recent[-1] < 1
            for recent in ([moment for moment in times if moment > since] for times in self.times.values())
        )


class Worker(WorkerProcess):
    """A process whose beginning is remembered, and whose log is read by the clock."""

    def __init__(self, config_file: Path, log: Path, name: str, on_stop: str) -> None:
        self.began = time.time()
        super().__init__(config_file, log, name, on_stop)

    def moments(self) -> dict[str, list[float]]:
        """Event -> when it was logged."""
        found: dict[str, list[float]] = defaultdict(list)
        for event in self.history():
            found[event["event"]].append(datetime.fromisoformat(event["timestamp"]).timestamp())
        return found

    def partitions(self) -> list[int]:
        """Whose records it has gone live with, in the order of the log."""
        return [event["partition"] for event in self.history() if event["event"] == "live"]


class Bench:
    """The parts of one run and the figures so far."""

    def __init__(self, config_file: Path, directory: Path, reader: Reader) -> None:
        self._config_file = config_file
        self._directory = directory
        self._reader = reader
        self._lives = itertools.count()
        self.gaps: dict[str, list[float]] = defaultdict(list)
        self.stages: dict[str, list[list[float]]] = defaultdict(list)

    def start(self, name: str = "worker-0", on_stop: str = "stay") -> Worker:
        """A process of that identity."""
        return Worker(self._config_file, self._directory / f"life-{next(self._lives)}.log", name, on_stop)

    def wait(self, done: Callable[[], bool], *workers: Worker) -> None:
        """Poll until `done`, then let things settle."""

        def done_while_running() -> bool:
            for worker in workers:
                assert worker.running, worker.tail()
            return done()

        wait_until(done_while_running, "what the event is to bring about", DEADLINE_S)
        time.sleep(SETTLED_S)

    def killed(self, worker: Worker) -> Worker:
        """The successor."""
        since = time.time()
        worker.kill()
        return self._succeed("killed", since)

    def restarted(self, worker: Worker) -> Worker:
        """The successor."""
        since = time.time()
        assert worker.terminate() == 0
        self.stages["leaving"].append([time.time() - since])
        return self._succeed("restarted", since)

    def _succeed(self, event: str, since: float) -> Worker:
        heir = self.start()
        self.wait(lambda: self._reader.flows(since) and len(heir.partitions()) == PARTITIONS, heir)
        for partition in range(PARTITIONS):
            self.gaps[event].append(self._reader.longest_gap(partition, since))
        events = heir.moments()
        moments = [heir.began]
        for name, _ in STAGES[:-1]:
            moments.append(max(events[name], default=moments[-1]))
        moments.append(self._reader.first(moments[-1]))
        self.stages[event].append([later - earlier for earlier, later in itertools.pairwise(moments)])
        return heir

    def added(self, first: Worker, on_stop: str) -> Worker:
        """The second worker."""
        since = time.time()
        second = self.start("worker-1", on_stop)
        self.wait(lambda: self._reader.flows(since) and len(second.partitions()) > 0, first, second)
        self._note("added", since, second.partitions()[-1])
        return second

    def removed(self, first: Worker, second: Worker, event: str) -> None:
        """The first worker has everything again."""
        since, moved = time.time(), second.partitions()[-1]
        before = len(first.partitions())
        assert second.terminate() == 0
        self.wait(lambda: len(first.partitions()) >= before + PARTITIONS and self._reader.flows(since), first)
        self._note(event, since, moved)

    def _note(self, event: str, since: float, moved: int) -> None:
        for partition in range(PARTITIONS):
            kind = "partition that moves" if partition == moved else "partition that stays"
            self.gaps[f"{event}, {kind}"].append(self._reader.longest_gap(partition, since))

    def steady(self) -> None:
        """What the interval of commits alone makes of it."""
        since = time.time()
        time.sleep(SETTLED_S)
        for partition in range(PARTITIONS):
            self.gaps["nothing happens"].append(self._reader.longest_gap(partition, since))

    def report(self) -> None:
        """Medians."""
        for event, gaps in self.gaps.items():
            median = figure(event, gaps, "s")
            print(f"  {event:31} median {median:6.2f} s, worst {max(gaps):6.2f} s of {len(gaps)}")
        for event in ("killed", "restarted"):
            print(f"{event}, the time of the new process:")
            for (_, what), seconds in zip(STAGES, zip(*self.stages[event], strict=True), strict=True):
                print(f"  {figure(f'{event}: {what}', seconds, 's'):6.2f} s  {what}")
        leaving = figure("restarted: leaving", [seconds for (seconds,) in self.stages["leaving"]], "s")
        print(f"restarted, the time that the old process takes to leave: {leaving:.2f} s")


def configure(bootstrap: str, directory: Path) -> tuple[Path, Config]:
    """A configuration file with topics and a group of its own, and the topics."""
    own = uuid.uuid4().hex[:8]
    topics = {name: f"{name}-{own}" for name in ("examples", "predictions", "dead_letters", "models")}
    path = write_config(
        directory / "worker.toml",
        bootstrap,
        topics=topics,
        worker={"snapshot_interval": SNAPSHOT_INTERVAL},
        learner={"bits": BITS},
        epochs={"length": "5s"},
    )
    config = load(path, {})
    ensure(Cluster(config.kafka), NeededTopics(config.topics), PARTITIONS, retention_ms=FOREVER)
    return path, config


def run(bootstrap: str, directory: Path, rounds: int) -> None:
    """All events, `rounds` times."""
    source = planted.write(20_000, directory / "planted.vw")
    messages = [encode_example(example) for example in read_examples(source)]
    config_file, config = configure(bootstrap, directory)
    feed, reader = Feed(config, messages), Reader(config)
    bench = Bench(config_file, directory, reader)
    feed.start()
    reader.start()
    workers = [bench.start()]
    try:
        bench.wait(lambda: reader.flows(0), workers[0])
        for number in range(rounds):
            bench.steady()
            workers[0] = bench.killed(workers[0])
            workers[0] = bench.restarted(workers[0])
            for on_stop, event in (("stay", "removed"), ("leave", "left")):
                workers.append(bench.added(workers[0], on_stop))
                bench.removed(workers[0], workers.pop(), event)
            print(f"  round {number + 1} of {rounds}", flush=True)
    finally:
        for worker in workers:
            worker.close()
        feed.ended.set()
        reader.ended.set()
        feed.join()
        reader.join()
    print(f"{PARTITIONS} partitions, {RATE} examples a second each, 2^{BITS} slots, commits every 500 ms,")
    print(f"snapshots every {SNAPSHOT_INTERVAL}; longest time without a visible prediction:")
    bench.report()


def main() -> None:
    """Bring a broker, or use the one named."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    print(header("confluent-kafka", "numba", "numpy"))
    with broker() as (bootstrap, directory):
        run(bootstrap, directory, rounds)


if __name__ == "__main__":
    main()
