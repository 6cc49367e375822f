"""What a worker and a broker do for a record, a commit and a rejoin, and how that grows with partitions.

    python tests/bench/scale.py record            # processor time and bytes of a record, a snapshot's bytes
    python tests/bench/scale.py commit            # a commit of 1 to 256 partitions
    python tests/bench/scale.py fleet [256 [4]]   # partitions, workers: start, kill, rebalance, exactly once
    python tests/bench/scale.py memory            # of a model beside its table
    python tests/bench/scale.py leader            # its look at what is noted of 1,000 and of 10,000 partitions
    python tests/bench/scale.py moves             # how many partitions have another owner after a worker has gone

What `docs/scale.md` is computed from. Broker and workers share this machine. Yardsticks, in the same run: a loop that
only consumes and produces, and commits, as many records, and Vowpal Wabbit with a file of them; for a commit, one of
the client alone with as many partitions.
Processor time is that of the processes, so that it says little of what else the machine does. Needs Java 17 and Maven,
or STREAM_APPLE_TEST_BOOTSTRAP, and then says nothing of the broker's own time and disk.
"""

import itertools
import statistics
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import planted
import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from feeds.streams import START_MS, broker, fill
from report import figure, header
from support.local_http import metric
from support.records import FakeRecord
from support.topics import FOREVER, create_worker_topics, read_to_end, unique_topics
from support.waiting import wait_until
from support.worker_config import write_config
from support.worker_process import WorkerProcess
from worker import bare_loop
from yardsticks import vowpal_wabbit

from stream_apple.adapters.kafka.log_reader import KafkaLogs
from stream_apple.app.model_factories import model_factory, settings_of
from stream_apple.app.verify import verify
from stream_apple.config import load
from stream_apple.files import read_examples
from stream_apple.records.message.example import encode_example
from stream_apple.stream.log.ports import Committed
from stream_apple.stream.merging.committed_standings import CommittedStandings
from stream_apple.stream.merging.merging_context import MergingContext
from stream_apple.stream.merging.open_rounds import OpenRounds
from stream_apple.stream.positions.lineage import Lineage, OffsetMetadata, Provenance, SnapshotPointer, Topics
from stream_apple.stream.positions.merge_note import MergeNote, MergeSettings
from stream_apple.stream.snapshots.merge_history import MergeHistory

EXAMPLES = 60_000
FIRST, RECORDS = 5_000, 250_000
ROUNDS = 3
COMMITS = (1, 16, 64, 256)
EXAMPLES_OF_A_PARTITION = 300
SESSION_S = 10.0
SNAPSHOTS = "10s"  # of the fleet, so that what moves is restored
DEADLINE_S = 600.0


class Site(NamedTuple):
    """A broker's address, a directory, and the planted examples as messages."""

    bootstrap: str
    directory: Path
    messages: list[bytes]

    def filled(self, partitions: int, count: int) -> str:
        """A new topic with so many examples, dealt to its partitions."""
        topic = unique_topics(self.bootstrap)("examples", partitions, FOREVER)
        fill(self.bootstrap, topic, itertools.islice(itertools.cycle(self.messages), count), partitions=partitions)
        return topic

    def configured(
        self, examples: str, partitions: int, bits: int, snapshot_interval: str = "5m", **learner: str
    ) -> tuple[Path, dict[str, str]]:
        """The configuration of workers on that topic, and the names of their topics."""
        topics = {**create_worker_topics(unique_topics(self.bootstrap), partitions), "examples": examples}
        path = write_config(
            self.directory / f"{uuid.uuid4().hex}.toml",
            self.bootstrap,
            kafka={"session.timeout.ms": int(SESSION_S * 1000)},
            topics=topics,
            worker={"group": uuid.uuid4().hex, "snapshot_interval": snapshot_interval},
            learner={"bits": bits, **learner},
            epochs={"length": f"{EXAMPLES // 6}ms"},
        )
        return path, topics

    def on_disk(self, topic: str) -> float:
        """Bytes of the topic's segments, 0 where the broker is not ours."""
        logs = self.directory.glob(f"kafka/logs/{topic}-*/*.log")
        return float(sum(log.stat().st_size for log in logs))


def broker_seconds() -> float:
    """Processor time of the broker that is our child; 0 if there is none."""
    children = psutil.Process().children()
    return sum(sum(child.cpu_times()[:2]) for child in children if child.name() == "java")


def seconds_of(worker: WorkerProcess) -> float:
    """Processor time of a worker so far."""
    return float(sum(psutil.Process(worker.process.pid).cpu_times()[:2]))


class Progress:
    """Up to where workers have committed, asked again and again: no transaction of theirs has a part in `examples`."""

    def __init__(self, path: Path) -> None:
        self._logs = KafkaLogs(load(path, {}))

    def records(self, partitions: int) -> int:
        """Answered in all of the partitions."""
        return sum(0 if each is None else each.offset for each in self._logs.committed_now(range(partitions)).values())


def measured_record(site: Site, method: str, bits: int) -> dict[str, float]:
    """One worker and one partition, live before records come: microseconds of processor a record, and bytes."""
    examples = site.filled(1, FIRST)
    path, topics = site.configured(examples, 1, bits, method=method)
    progress = Progress(path)
    with WorkerProcess(path, site.directory / "worker.log") as worker:
        worker.wait_until(lambda: progress.records(1) == FIRST, "it is at work", pause_s=0.1)
        own, its = seconds_of(worker), broker_seconds()
        fill(site.bootstrap, examples, itertools.islice(itertools.cycle(site.messages), RECORDS), FIRST)
        worker.wait_until(lambda: progress.records(1) == FIRST + RECORDS, "all is learned", pause_s=0.1)
        found = {
            "worker": 1e6 * (seconds_of(worker) - own) / RECORDS,
            "broker": 1e6 * (broker_seconds() - its) / RECORDS,
        }
        assert worker.terminate() == 0, worker.tail()
        saved = [event for event in worker.history() if event["event"] == "snapshot_written"][-1]
    (predictions,) = read_to_end(site.bootstrap, topics["predictions"]).values()
    assert len(predictions) == FIRST + RECORDS
    own = time.process_time()
    bare_loop(site.bootstrap, examples, 1, FIRST + RECORDS)
    return {
        **found,
        "bare loop": 1e6 * (time.process_time() - own) / (FIRST + RECORDS),
        "prediction": statistics.mean(len(each.value() or b"") for each in predictions[:1000]),
        "example on disk": site.on_disk(examples) / (FIRST + RECORDS),
        "prediction on disk": site.on_disk(topics["predictions"]) / (FIRST + RECORDS),
        "snapshot": float(saved["bytes"]),
    }


def record(site: Site) -> None:
    """What a record takes, by method, beside the bare loop."""
    sizes = [len(message) for message in site.messages]
    print(f"{RECORDS:,} planted examples of {figure('an example', sizes, 'B'):.0f} bytes, medians of {ROUNDS}:")
    for method, bits in (("linear", 18), ("apple", 18)):
        runs = [measured_record(site, method, bits) for _ in range(ROUNDS)]
        for name in runs[0]:
            unit = "us a record" if name in {"worker", "broker", "bare loop"} else "B"
            value = figure(f"{method}: {name}", [run[name] for run in runs], unit)
            print(f"  {method:7} {name:24} {value:12,.1f} {unit}", flush=True)
        ratio = figure(f"{method}: over the bare loop", [run["worker"] / run["bare loop"] for run in runs], "ratio")
        print(f"  {method:7} {'worker over bare loop':24} {ratio:12.2f}", flush=True)


def vowpal_wabbit_seconds(path: Path, arguments: list[str]) -> float:
    """Microseconds of processor an example, of both threads of Vowpal Wabbit, from the planted file."""
    own = time.process_time()
    vowpal_wabbit(path, 18, arguments)
    return 1e6 * (time.process_time() - own) / EXAMPLES


def beside(path: Path) -> None:
    """What Vowpal Wabbit takes, which only learns: no Kafka, no answers, nothing that outlives it."""
    for name, arguments in (("linear", []), ("--stage_poly", ["--stage_poly"])):
        found = [vowpal_wabbit_seconds(path, arguments) for _ in range(ROUNDS)]
        value = figure(f"Vowpal Wabbit {name}", found, "us a record")
        print(f"  Vowpal Wabbit {name:18} {value:12,.1f} us a record", flush=True)


def bare_commits(site: Site, examples: str, partitions: int) -> float:
    """The yardstick: seconds of a transaction of the client alone, a message and an offset for each partition."""
    name = uuid.uuid4().hex
    target = unique_topics(site.bootstrap)("bare", partitions, FOREVER)
    consumer = Consumer({"bootstrap.servers": site.bootstrap, "group.id": name, "enable.auto.commit": False})
    producer = Producer({"bootstrap.servers": site.bootstrap, "transactional.id": name, "linger.ms": 20})
    producer.init_transactions(60)
    consumer.assign([TopicPartition(examples, number, 0) for number in range(partitions)])
    seconds = []
    for _ in range(12):
        time.sleep(0.2)  # as a worker's: the end of the one before is not waited for
        producer.begin_transaction()
        for number in range(partitions):
            producer.produce(target, bytes(120), partition=number)
        began = time.perf_counter()
        offsets = [TopicPartition(examples, number, 1, metadata="x" * 200) for number in range(partitions)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 60)
        producer.commit_transaction(60)
        seconds.append(time.perf_counter() - began)
    consumer.close()
    return statistics.median(seconds[2:])


def commit(site: Site) -> None:
    """What a commit takes, by the partitions in it; and what Prometheus is told of them."""
    print("one worker, linear, 2^12 slots, commits every 500 ms:")
    for partitions in COMMITS:
        count = max(partitions * EXAMPLES_OF_A_PARTITION, EXAMPLES)
        examples = site.filled(partitions, count)
        path, _ = site.configured(examples, partitions, 12, method="linear")
        progress = Progress(path)
        with WorkerProcess(path, site.directory / "worker.log") as worker:

            def done(progress: Progress = progress, partitions: int = partitions, count: int = count) -> bool:
                return progress.records(partitions) == count

            worker.wait_until(done, "all is learned", pause_s=0.5)
            time.sleep(3.0)
            port = worker.http_port
            total, number = (sum(metric(port, f"stream_apple_commit_seconds_{what}")) for what in ("sum", "count"))
            pages = [scraped(port) for _ in range(3)]
            live = [moment(event) for event in worker.history() if event["event"] in {"started", "live"}]
            assert worker.terminate() == 0, worker.tail()
        case = f"{partitions} partitions"
        ours = figure(f"{case}: a commit", [total / number], "s")
        bare = figure(f"{case}: a bare commit", [bare_commits(site, examples, partitions)], "s")
        size = figure(f"{case}: metrics", [page[0] / 1e3 for page in pages], "kB")
        scrape = figure(f"{case}: a scrape", [page[1] for page in pages], "s")
        begun = figure(f"{case}: from start to live", [max(live) - min(live)], "s")
        print(
            f"  {partitions:4} partitions: commit {1e3 * ours:6.1f} ms (bare {1e3 * bare:6.1f} ms), "
            f"page {size:7.0f} kB in {scrape:.2f} s, live {begun:.1f} s after the start",
            flush=True,
        )


def scraped(port: int) -> tuple[int, float]:
    """Bytes of the metrics' page, and seconds until it was there; not one that was rendered before."""
    time.sleep(2.0)
    began = time.perf_counter()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        return len(answer.read()), time.perf_counter() - began


def moment(event: dict[str, Any]) -> float:
    """When it was logged."""
    return datetime.fromisoformat(event["timestamp"]).timestamp()


class Fleet:
    """Worker processes on one topic, each a context of `stack`."""

    def __init__(self, stack: ExitStack, path: Path, directory: Path) -> None:
        self._stack = stack
        self._path = path
        self._log = directory / "worker.log"
        self.workers: dict[str, WorkerProcess] = {}

    def start(self, name: str) -> None:
        """A process of that name."""
        self.workers[name] = self._stack.enter_context(WorkerProcess(self._path, self._log, name))

    def owners(self) -> dict[int, str]:
        """Partition -> who answers for it, by the logs."""
        found = {}
        for name, worker in self.workers.items():
            assert worker.running, worker.tail()
            owned: set[int] = set()
            for event in worker.history():
                if event["event"] == "live":
                    owned.add(event["partition"])
                elif event["event"] in {"revoked", "lost"}:
                    owned.discard(event["partition"])
            found.update(dict.fromkeys(owned, name))
        return found

    def restores(self) -> list[float]:
        """Seconds of each restore of those that run."""
        return [e["seconds"] for w in self.workers.values() for e in w.history() if e["event"] == "restored"]

    def waited(self, partitions: int, what: str) -> float:
        """Seconds until all partitions are live."""
        began = time.monotonic()
        wait_until(lambda: len(self.owners()) == partitions, lambda: what, DEADLINE_S, 0.1)
        return time.monotonic() - began


def fleet(site: Site, partitions: int, workers: int) -> None:
    """Start, learn, kill and be back, kill for good, verify."""
    count = partitions * EXAMPLES_OF_A_PARTITION
    examples = site.filled(partitions, 2 * count)
    path, _ = site.configured(examples, partitions, 16, SNAPSHOTS)
    progress, names = Progress(path), [f"worker-{number}" for number in range(workers)]
    case = f"{partitions} partitions, {workers} workers"
    with ExitStack() as stack:
        ours = Fleet(stack, path, site.directory)
        for name in names:
            ours.start(name)
        told(case, "started: all live after", ours.waited(partitions, "a start"), "s")

        def learned(share: float) -> Callable[[], bool]:
            def enough() -> bool:
                ours.owners()
                return progress.records(partitions) >= share * 2 * count

            return enough

        wait_until(learned(0.3), "a third of the records", DEADLINE_S, 0.2)
        ours.workers.pop(names[-1]).kill()
        ours.start(names[-1])
        told(case, "killed, and back at once: all live after", ours.waited(partitions, "a restart"), "s")
        wait_until(learned(0.6), "two thirds of the records", DEADLINE_S, 0.2)
        before = ours.owners()
        ours.workers.pop(names[0]).kill()
        seconds = ours.waited(partitions, "a rebalance")
        told(case, f"killed for good: all live after, of which {SESSION_S:g} s of session", seconds, "s")
        after = ours.owners()
        told(case, "partitions with another owner", sum(before[each] != after[each] for each in before), "partitions")
        restores = ours.restores()
        told(case, "restores from a snapshot", len(restores), "partitions")
        if restores:
            told(case, "a restore", statistics.median(restores), "s")
        wait_until(learned(1.0), "all records", DEADLINE_S, 0.2)
        commits = [
            sum(metric(w.http_port, f"stream_apple_commit_seconds_{what}"))
            for what in ("sum", "count")
            for w in ours.workers.values()
        ]
        half = len(commits) // 2
        told(case, "a commit", 1e3 * sum(commits[:half]) / sum(commits[half:]), "ms")
        resident = [psutil.Process(w.process.pid).memory_info().rss / 1e6 for w in ours.workers.values()]
        told(case, "resident, the largest", max(resident), "MB")
        for worker in ours.workers.values():
            assert worker.terminate() == 0, worker.tail()
    began = time.monotonic()
    reports = verify(load(path, {}), (), None, lambda _done, _total: None)
    assert not any(report.faults or report.unproved for report in reports)
    told(case, f"exactly once: `verify` of {2 * count:,} records found no fault, in", time.monotonic() - began, "s")


def told(case: str, what: str, value: float, unit: str) -> None:
    """Keep and print one figure of one run."""
    print(f"  {case}: {what} {figure(f'{case}: {what}', [value], unit):,.2f} {unit}", flush=True)


def ranges(partitions: int, members: list[int]) -> Iterator[int]:
    """The owner of each partition, by Kafka's range assignor."""
    for index, member in enumerate(members):
        share, extra = divmod(partitions, len(members))
        yield from itertools.repeat(member, share + (index < extra))


def moves() -> None:
    """Of all workers that may go for good: how many partitions have another owner then, least, mean and most."""
    for partitions, workers in ((256, 4), (1_000, 100), (4_000, 400)):
        members = list(range(workers))
        before = list(ranges(partitions, members))
        counts = []
        for gone in members:
            after = ranges(partitions, [member for member in members if member != gone])
            counts.append(sum(old != new for old, new in zip(before, after, strict=True)))
        mean, own = statistics.mean(counts), partitions / workers
        figure(f"{partitions} partitions, {workers} workers: moved", counts, "partitions")
        print(
            f"  {partitions} partitions, {workers} workers, one goes: {mean:.0f} move "
            f"({min(counts)} to {max(counts)}), {own:.0f} were its own"
        )


def memory() -> None:
    """Resident bytes of a model that has learned 600 planted examples, in a process with thirty of them."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        messages = [encode_example(each) for each in read_examples(planted.write(600, directory / "planted.vw"))]
        records = [FakeRecord(0, at, message, START_MS + at * 1000) for at, message in enumerate(messages)]
        for bits in (12, 18):
            config = load(write_config(directory / "worker.toml", None, learner={"bits": bits}), {})
            settings = settings_of(config)
            make = model_factory("examples", settings, settings.decoder())
            lineage = Lineage(0, "0" * 16)
            models = [make(0, lineage).begin()]
            models[0].process(records)
            before = psutil.Process().memory_info().rss
            for number in range(30):
                models.append(make(number, lineage).begin())
                models[-1].process(records)
            size = (psutil.Process().memory_info().rss - before) / 30e6
            table = (1 << bits) * 49.3 / 1e6
            figure(f"2^{bits} slots: a model", [size], "MB")
            print(f"  2^{bits} slots: {size:.1f} MB a partition, of which {table:.1f} MB are a full table's")


class Noted:
    """Tells a leader what is committed of so many partitions, which have answered one record more each time."""

    def __init__(self, provenance: Provenance, partitions: int) -> None:
        assert provenance.merging is not None
        self._texts = [
            OffsetMetadata(
                provenance.lineage(number, 0), SnapshotPointer(900, 10, 20, "f" * 32), MergeNote.of(provenance.merging)
            ).to_text()
            for number in range(partitions)
        ]
        self._offset = 1_000

    def partition_count(self, _topic: str) -> int:
        """As many."""
        return len(self._texts)

    def committed_now(self, _partitions: Any) -> dict[int, Committed]:
        """All."""
        self._offset += 1
        return {number: Committed(self._offset, text) for number, text in enumerate(self._texts)}


def leader() -> None:
    """One look in ten a second, of a leader whose partitions have all gone on since the last."""
    provenance = Provenance("group", Topics("e", "p", "d", "m", "r"), {}, MergeSettings(1, "votes", 30.0, 60.0))
    for partitions in (1_000, 10_000):
        noted: Any = Noted(provenance, partitions)
        nothing: Any = None
        context = MergingContext(noted, provenance, nothing, nothing, nothing)
        standings = CommittedStandings(context)
        rounds, seconds = OpenRounds(30.0), []
        for _ in range(12):
            began = time.perf_counter()
            rounds.observe(standings.look(), MergeHistory(), time.monotonic())
            rounds.closed(time.monotonic())
            seconds.append(time.perf_counter() - began)
        look = figure(f"{partitions} partitions: a look", [1e3 * each for each in seconds[2:]], "ms")
        print(f"  {partitions:6,} partitions: {look:.1f} ms a look")


def main() -> None:
    """Bring a broker, or use the one named."""
    what, *sizes = sys.argv[1:] or ["record"]
    print(header("confluent-kafka", "numba", "numpy"))
    local = {"moves": moves, "memory": memory, "leader": leader}
    if what in local:
        local[what]()
        return
    with broker() as (bootstrap, directory):
        path = planted.write(EXAMPLES, directory / "planted.vw")
        site = Site(bootstrap, directory, [encode_example(example) for example in read_examples(path)])
        if what == "fleet":
            partitions, workers = (int(sizes[at]) if len(sizes) > at else usual for at, usual in enumerate((256, 4)))
            fleet(site, partitions, workers)
        else:
            {"record": record, "commit": commit}[what](site)
            if what == "record":
                beside(path)


if __name__ == "__main__":
    main()
