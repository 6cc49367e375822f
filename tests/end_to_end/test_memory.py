"""Memory is fixed by configuration: the second half of six million examples needs no more than the first.

A leak grows with the examples, buffers with the largest backlog there was: how full they once were depends on how the
machine was loaded, and differs by ten megabytes between runs. So the run is long: what the last quarter may have above
the second one is less than six bytes an example, not even a pointer.
"""

import itertools
import statistics
from pathlib import Path

import psutil
from confluent_kafka import Producer
from support.topics import LogEnds, TopicFactory, create_worker_topics
from support.worker_config import write_config
from support.worker_process import WorkerProcess

from stream_apple.core.codec.example import Example, encode_example

EXAMPLES = 6_000_000
DISTINCT = 20_000
GROWTH = 1.08  # of the median resident size, from the second quarter to the last


def fill(kafka: str, name: str) -> None:
    """Six million examples of six features out of some thousands, with a pair that matters."""
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


def test_resident_size_stays_flat_over_six_million_examples(kafka: str, topic: TopicFactory, tmp_path: Path) -> None:
    """The worker's resident size in the last quarter is that of the second one."""
    topics = create_worker_topics(topic)
    config = write_config(tmp_path / "worker.toml", kafka, topics=topics, epochs={"length": "200s"})
    fill(kafka, topics["examples"])
    quarters: list[list[int]] = [[], [], [], []]
    ends = LogEnds(kafka)
    with WorkerProcess(config, tmp_path / "worker.log") as worker:

        def all_predicted() -> bool:
            done = ends.of(topics["predictions"])
            quarters[min(done * 4 // EXAMPLES, 3)].append(psutil.Process(worker.process.pid).memory_info().rss)
            return done >= EXAMPLES

        worker.wait_until(all_predicted, f"{EXAMPLES} predictions", pause_s=0.05)
        assert worker.terminate() == 0
    medians = [statistics.median(quarter) / 1e6 for quarter in quarters]
    assert medians[3] <= medians[1] * GROWTH, f"resident MB by quarter: {medians}"
    print(f"resident MB by quarter: {medians}")
