"""Memory is fixed by configuration: two million examples need no more than the first half million."""

import itertools
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from end_to_end.worker_process import Life

from stream_apple.core.examples import Example, encode_example

EXAMPLES = 2_000_000
DISTINCT = 20_000
GROWTH = 1.05  # of the median resident size, from the second quarter to the last

TopicFactory = Callable[..., str]


def fill(kafka: str, name: str) -> None:
    """Two million examples of six features out of some thousands, with a pair that matters."""
    messages = [
        encode_example(
            Example(
                label=1.0 if (i * 7 % 3 == 0) == (i * 5 % 2 == 0) else -1.0,
                weight=1.0,
                id=None,
                features={f"a{i * 7 % 3}": 1.0, f"b{i * 5 % 2}": 1.0}
                | {f"c{i * k % 4999}": 1.0 for k in (3, 11, 101, 1009)},
            )
        )
        for i in range(DISTINCT)
    ]
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 50, "queue.buffering.max.messages": 500_000})
    for number, message in enumerate(itertools.islice(itertools.cycle(messages), EXAMPLES)):
        while True:
            try:
                producer.produce(name, message, partition=0, timestamp=1_700_000_000_000 + number)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0


def test_resident_size_stays_flat_over_two_million_examples(kafka: str, topic: TopicFactory, tmp_path: Path) -> None:
    """The worker's resident size in the last quarter is that of the second one."""
    forever = {"retention.ms": "-1"}
    examples, predictions, dead_letters = (topic(stem, 1, forever) for stem in ("examples", "predictions", "dead"))
    models = topic("models", 1, {"cleanup.policy": "compact"})
    config = tmp_path / "worker.toml"
    config.write_text(
        f"""
        kafka."bootstrap.servers" = "{kafka}"
        topics.examples = "{examples}"
        topics.predictions = "{predictions}"
        topics.dead_letters = "{dead_letters}"
        topics.models = "{models}"
        worker.group = "group-of-{examples}"
        epochs.length = "200s"
        http.host = "127.0.0.1"
        http.port = 0
        """
    )
    fill(kafka, examples)
    watcher = Consumer({"bootstrap.servers": kafka, "group.id": "watcher"})
    life = Life(config, tmp_path / "worker.log")
    quarters: list[list[int]] = [[], [], [], []]
    deadline = time.monotonic() + 300
    try:
        done = 0
        while done < EXAMPLES:
            assert life.process.poll() is None, "the worker died"
            assert time.monotonic() < deadline, f"{done} of {EXAMPLES} predictions in 300 s"
            done = watcher.get_watermark_offsets(TopicPartition(predictions, 0), timeout=30)[1]
            quarters[min(done * 4 // EXAMPLES, 3)].append(psutil.Process(life.process.pid).memory_info().rss)
            time.sleep(0.05)
        assert life.terminate() == 0
    finally:
        watcher.close()
        if life.process.poll() is None:
            life.kill()
    medians = [statistics.median(quarter) / 1e6 for quarter in quarters]
    assert medians[3] <= medians[1] * GROWTH, f"resident MB by quarter: {medians}"
    print(f"resident MB by quarter: {medians}")
