"""The worker through a real broker: examples a second and resident memory: `python tests/bench/worker.py [METHOD]`.

Broker and worker share this machine. The yardstick, in the same run: a loop that only consumes those records and
produces 120 bytes for each, in transactions. Needs Java 17 and Maven, or STREAM_APPLE_TEST_BOOTSTRAP.
"""

import itertools
import statistics
import subprocess
import sys
import time
import uuid
from pathlib import Path

import planted
import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from report import header
from streams import broker, fill, topic

from stream_apple.core.examples import encode_example
from stream_apple.files import read_examples

EXAMPLES, REPEATS, ROUNDS = 100_000, 4, 3
TOTAL = EXAMPLES * REPEATS
COMMIT_INTERVAL_S = 0.5


def ends(consumer: Consumer, name: str) -> int:
    """The topic's high watermark."""
    return int(consumer.get_watermark_offsets(TopicPartition(name, 0), timeout=30)[1])


def bare_loop(bootstrap: str, examples: str) -> float:
    """Examples a second of consuming and producing alone."""
    target = topic(bootstrap, "bare")
    group = uuid.uuid4().hex
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "check.crcs": True}
    )
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": group, "delivery.report.only.error": True})
    producer.init_transactions(30)
    consumer.assign([TopicPartition(examples, 0, 0)])
    payload, done, began, started = bytes(120), 0, 0.0, 0.0
    while done < TOTAL:
        messages = consumer.consume(5000, 0.1)
        if not messages:
            continue
        if not began:
            producer.begin_transaction()
            began = time.monotonic()
            started = started or began
        for message in messages:
            message.value()
            while True:
                try:
                    producer.produce(target, payload, partition=0)
                    break
                except BufferError:
                    producer.poll(0.01)
        done += len(messages)
        if time.monotonic() - began > COMMIT_INTERVAL_S or done >= TOTAL:
            offsets = [TopicPartition(examples, 0, (messages[-1].offset() or 0) + 1)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
            producer.commit_transaction(30)
            began = 0.0
    seconds = time.monotonic() - started
    consumer.close()
    return TOTAL / seconds


def worker(bootstrap: str, examples: str, method: str, directory: Path) -> tuple[float, list[float]]:
    """Examples a second between the first and the last prediction; resident MB on the way."""
    predictions = topic(bootstrap, "predictions")
    config = directory / "worker.toml"
    config.write_text(
        f"""
        kafka."bootstrap.servers" = "{bootstrap}"
        topics.examples = "{examples}"
        topics.predictions = "{predictions}"
        topics.dead_letters = "{topic(bootstrap, "dead-letters")}"
        topics.models = "{topic(bootstrap, "models", {"cleanup.policy": "compact"})}"
        worker.group = "{uuid.uuid4().hex}"
        worker.commit_interval = "{int(COMMIT_INTERVAL_S * 1000)}ms"
        learner.method = "{method}"
        epochs.length = "{TOTAL // 8}ms"
        http.port = 0
        """
    )
    watcher = Consumer({"bootstrap.servers": bootstrap, "group.id": "watcher"})
    log = directory / "worker.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "stream_apple", "run", "--config", str(config)], stdout=output, stderr=output
        )
    resident: list[float] = []
    first, first_count, count = 0.0, 0, 0
    try:
        while count < TOTAL:
            assert process.poll() is None, log.read_text()[-4000:]
            count = ends(watcher, predictions)
            if count and not first:
                first, first_count = time.monotonic(), count
            resident.append(psutil.Process(process.pid).memory_info().rss / 1e6)
            time.sleep(0.05)
        seconds = time.monotonic() - first
    finally:
        process.terminate()
        process.wait(30)
        watcher.close()
    return (TOTAL - first_count) / seconds, resident


def run(bootstrap: str, method: str, directory: Path) -> None:
    """Fill a topic, then interleave worker and yardstick."""
    path = planted.write(EXAMPLES, directory / "planted.vw")
    examples = topic(bootstrap, "examples")
    messages = [encode_example(example) for example in read_examples(path)]
    fill(bootstrap, examples, itertools.chain.from_iterable(itertools.repeat(messages, REPEATS)))
    rates, bare, resident = [], [], []
    for _ in range(ROUNDS):
        rate, memory = worker(bootstrap, examples, method, directory)
        rates.append(rate)
        resident = memory
        bare.append(bare_loop(bootstrap, examples))
        print(f"  worker {rate:9,.0f} examples/s    bare loop {bare[-1]:9,.0f} records/s", flush=True)
    share = statistics.median(ours / theirs for ours, theirs in zip(rates, bare, strict=True))
    quarter = len(resident) // 4
    print(f"{TOTAL} planted examples, method {method}, medians of {ROUNDS}:")
    print(f"  worker    {statistics.median(rates):9,.0f} examples/s, {share:.2f} of the bare loop")
    print(f"  bare loop {statistics.median(bare):9,.0f} records/s")
    print(f"  resident  {resident[quarter]:.0f} MB after a quarter, {resident[-1]:.0f} MB at the end")


def main() -> None:
    """Bring a broker, or use the one named."""
    method = sys.argv[1] if len(sys.argv) > 1 else "linear"
    print(header("confluent-kafka", "numba", "numpy"))
    with broker() as (bootstrap, directory):
        run(bootstrap, method, directory)


if __name__ == "__main__":
    main()
