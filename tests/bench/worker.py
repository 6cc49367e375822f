"""The worker through a real broker: examples a second and resident memory; and `verify` of what it has published.

    python tests/bench/worker.py [METHOD [PARTITIONS [THREADS]]]

The method is linear if none is named; one partition, whose examples one thread learns. Broker and worker share this
machine. The yardstick, in the same run: a loop of one thread that only consumes those records and produces 120 bytes
for each, in transactions. Needs Java 17 and Maven, or STREAM_APPLE_TEST_BOOTSTRAP.
"""

import itertools
import sys
import time
import uuid
from pathlib import Path
from typing import NamedTuple

import planted
import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from feeds.streams import broker, fill
from report import figure, header
from support.topics import FOREVER, LogEnds, create_worker_topics, unique_topics
from support.worker_config import write_config
from support.worker_process import WorkerProcess

from stream_apple.app.verify import verify
from stream_apple.config import load
from stream_apple.files import read_examples
from stream_apple.records.message.example import encode_example

EXAMPLES, REPEATS, ROUNDS = 100_000, 4, 3
TOTAL = EXAMPLES * REPEATS
COMMIT_INTERVAL_S = 0.5


class Case(NamedTuple):
    """What is run: a worker with `threads` that learn, on a topic of so many `partitions`."""

    method: str
    partitions: int
    threads: int

    def __str__(self) -> str:
        return f"{self.method}, {self.partitions} partitions, {self.threads} threads"


def bare_loop(bootstrap: str, examples: str, partitions: int, total: int = TOTAL, payload: bytes = bytes(120)) -> float:
    """Examples a second of consuming and producing alone."""
    target = unique_topics(bootstrap)("bare", partitions, FOREVER)
    group = uuid.uuid4().hex
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "check.crcs": True}
    )
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": group, "delivery.report.only.error": True})
    producer.init_transactions(30)
    consumer.assign([TopicPartition(examples, number, 0) for number in range(partitions)])
    done, began, started = 0, 0.0, 0.0
    ends: dict[int, int] = {}
    while done < total:
        messages = consumer.consume(5000, 0.1)
        if not messages:
            continue
        if not began:
            producer.begin_transaction()
            began = time.monotonic()
            started = started or began
        for message in messages:
            message.value()
            number = message.partition() or 0
            ends[number] = (message.offset() or 0) + 1
            while True:
                try:
                    producer.produce(target, payload, partition=number)
                    break
                except BufferError:
                    producer.poll(0.01)
        done += len(messages)
        if time.monotonic() - began > COMMIT_INTERVAL_S or done >= total:
            offsets = [TopicPartition(examples, number, end) for number, end in ends.items()]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
            producer.commit_transaction(30)
            began = 0.0
    seconds = time.monotonic() - started
    consumer.close()
    return total / seconds


def worker(bootstrap: str, examples: str, case: Case, directory: Path) -> tuple[float, list[float], float]:
    """Examples a second from the first to the last prediction; resident MB on the way; records a second of `verify`."""
    topics = {**create_worker_topics(unique_topics(bootstrap), case.partitions), "examples": examples}
    config = write_config(
        directory / "worker.toml",
        bootstrap,
        topics=topics,
        worker={
            "group": uuid.uuid4().hex,
            "commit_interval": f"{int(COMMIT_INTERVAL_S * 1000)}ms",
            "threads": case.threads,
        },
        learner={"method": case.method},
        epochs={"length": f"{TOTAL // 8}ms"},
    )
    ends = LogEnds(bootstrap)
    resident: list[float] = []
    first, first_count, count = 0.0, 0, 0
    with WorkerProcess(config, directory / "worker.log") as process:
        while count < TOTAL:
            assert process.running, process.tail()
            count = sum(ends.of(topics["predictions"], number) for number in range(case.partitions))
            if count and not first:
                first, first_count = time.monotonic(), count
            resident.append(psutil.Process(process.process.pid).memory_info().rss / 1e6)
            time.sleep(0.05)
        seconds = time.monotonic() - first
        process.terminate()
    return (TOTAL - first_count) / seconds, resident, verified(config)


def verified(config: Path) -> float:
    """Records a second that `verify` proves, from when it has begun to learn; all are."""
    began: list[float] = []

    def tell(done: int, _total: int) -> None:
        if done and not began:
            began.extend([time.monotonic(), done])

    reports = verify(load(config, {}), (), None, tell)
    seconds = time.monotonic() - began[0]
    assert not any(report.faults or report.unproved for report in reports)
    return (TOTAL - began[1]) / seconds


def run(bootstrap: str, case: Case, directory: Path) -> None:
    """Fill a topic, then interleave worker and yardstick."""
    path = planted.write(EXAMPLES, directory / "planted.vw")
    examples = unique_topics(bootstrap)("examples", case.partitions, FOREVER)
    messages = [encode_example(example) for example in read_examples(path)]
    repeated = itertools.chain.from_iterable(itertools.repeat(messages, REPEATS))
    fill(bootstrap, examples, repeated, partitions=case.partitions)
    rates, proofs, bare, quarters, ends = [], [], [], [], []
    for _ in range(ROUNDS):
        rate, resident, proof = worker(bootstrap, examples, case, directory)
        rates.append(rate)
        proofs.append(proof)
        quarters.append(resident[len(resident) // 4])
        ends.append(resident[-1])
        bare.append(bare_loop(bootstrap, examples, case.partitions))
        rest = f"verify {proof:9,.0f} records/s    bare loop {bare[-1]:9,.0f} records/s"
        print(f"  worker {rate:9,.0f} examples/s    {rest}", flush=True)
    shares = [ours / theirs for ours, theirs in zip(rates, bare, strict=True)]
    share = figure(f"{case}: worker over bare loop", shares, "ratio")
    quarter = figure(f"{case}: resident after a quarter", quarters, "MB")
    end = figure(f"{case}: resident at the end", ends, "MB")
    print(f"{TOTAL} planted examples, {case}, medians of {ROUNDS}:")
    print(
        f"  worker    {figure(f'{case}: worker', rates, 'examples/s'):9,.0f} examples/s, {share:.2f} of the bare loop"
    )
    print(f"  verify    {figure(f'{case}: verify', proofs, 'records/s'):9,.0f} records/s")
    print(f"  bare loop {figure(f'{case}: bare loop', bare, 'records/s'):9,.0f} records/s")
    print(f"  resident  {quarter:.0f} MB after a quarter, {end:.0f} MB at the end")


def main() -> None:
    """Bring a broker, or use the one named."""
    method = sys.argv[1] if len(sys.argv) > 1 else "linear"
    partitions, threads = (int(sys.argv[at]) if len(sys.argv) > at else 1 for at in (2, 3))
    print(header("confluent-kafka", "numba", "numpy"))
    with broker() as (bootstrap, directory):
        run(bootstrap, Case(method, partitions, threads), directory)


if __name__ == "__main__":
    main()
