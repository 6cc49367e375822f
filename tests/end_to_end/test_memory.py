"""Memory is fixed by configuration: the second half of many examples needs no more than the first.

A leak grows with the examples, buffers with the largest backlog there was: how full they once were depends on how the
machine was loaded, and differs by ten megabytes between runs. So what the last quarter may have above the second one is
less than the smallest object of Python's an example, and in the long run less than six bytes, not even a pointer.

And what `check` counts with is enough for records as large as the limits allow, all of which is in a key that nobody
knows: numbers beyond all floats, or between two of them.
"""

import itertools
import statistics
import time
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer
from support.topics import LogEnds, TopicFactory, create_worker_topics, read_all
from support.waiting import DEADLINE_S
from support.worker_config import write_config
from support.worker_process import WorkerProcess

from stream_apple.app.model_factories import settings_of
from stream_apple.config import load
from stream_apple.config.memory import Queues, queue_bytes, worker_bytes
from stream_apple.config.schema import LimitSettings
from stream_apple.learners.apple.options import Options
from stream_apple.records.message.example import Example, encode_example
from stream_apple.records.message.prediction_formats import decode_prediction
from stream_apple.stream.model.warmup import warm_up

DISTINCT = 20_000
LARGE = 120
PARTITIONS = 2
THREADS = 2
NUMBERS = (b"1e309", b"9007199254740993.0", b"9007199254740992.999999999999999999")
OBEYED_S = 20.0


def fill(kafka: str, name: str, count: int) -> None:
    """So many examples of four features out of some thousands, with a pair that matters."""
    messages = [
        encode_example(
            Example(
                label=1.0 if (i * 7 % 3 == 0) == (i * 5 % 2 == 0) else -1.0,
                weight=1.0,
                id=None,
                features={f"a{i * 7 % 3}": 1.0, f"b{i * 5 % 2}": 1.0} | {f"c{i * k % 4999}": 1.0 for k in (3, 1009)},
            )
        )
        for i in range(DISTINCT)
    ]
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 50, "queue.buffering.max.messages": 500_000})
    for number, message in enumerate(itertools.islice(itertools.cycle(messages), count)):
        while True:
            try:
                producer.produce(name, message, partition=0, timestamp=1_700_000_000_000 + number)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(DEADLINE_S) == 0


@pytest.mark.parametrize(
    ("examples", "bytes_each"),
    [pytest.param(1_500_000, 24, id="some"), pytest.param(6_000_000, 6, id="many", marks=pytest.mark.long)],
)
def test_resident_size_stays_flat(
    kafka: str, topic: TopicFactory, tmp_path: Path, examples: int, bytes_each: int
) -> None:
    """The median of the worker's resident size in the last quarter is that of the second one."""
    topics = create_worker_topics(topic)
    config = write_config(tmp_path / "worker.toml", kafka, topics=topics, epochs={"length": "200s"})
    fill(kafka, topics["examples"], examples)
    quarters: list[list[int]] = [[], [], [], []]
    ends = LogEnds(kafka)
    with WorkerProcess(config, tmp_path / "worker.log") as worker:

        def all_predicted() -> bool:
            done = ends.of(topics["predictions"])
            quarters[min(done * 4 // examples, 3)].append(psutil.Process(worker.process.pid).memory_info().rss)
            return done >= examples

        worker.wait_until(all_predicted, f"{examples} predictions", pause_s=0.05)
        assert worker.terminate() == 0
    medians = [statistics.median(quarter) for quarter in quarters]
    print(f"resident MB by quarter: {[median / 1e6 for median in medians]}")
    # From the middle of the second quarter to that of the last one half of the examples are learned.
    assert medians[3] - medians[1] <= bytes_each * examples / 2


def large(number: int) -> bytes:
    """An example of nearly a million bytes."""
    token = NUMBERS[number % len(NUMBERS)]
    head, tail = b'{"x":[', b'],"label":%d,"features":{"a":1}}' % (number % 2)
    return head + b",".join([token] * ((999_000 - len(head) - len(tail)) // (len(token) + 1))) + tail


def send(kafka: str, name: str, count: int) -> None:
    """So many, by turns to each partition."""
    producer = Producer(
        {"bootstrap.servers": kafka, "linger.ms": 5, "compression.type": "none", "enable.idempotence": True}
    )
    for number in range(count):
        producer.produce(name, large(number), partition=number % PARTITIONS, timestamp=1_700_000_000_000 + number)
        producer.poll(0)
    assert producer.flush(120) == 0


def answers(kafka: str, topics: Mapping[str, str]) -> list[tuple[int, int]]:
    """Partition and offset of each example that has a prediction, in order."""
    found = read_all(kafka, topics["predictions"], PARTITIONS)
    told = [decode_prediction(message.value() or b"") for message in found]
    return sorted((int(str(each["partition"])), int(str(each["offset"]))) for each in told)


def highest_resident_size(process: int) -> int:
    """Bytes that a process has had at once (Linux)."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) << 10


def test_large_records_are_learned_within_the_memory(kafka: str, topic: TopicFactory, tmp_path: Path) -> None:
    """Each is answered, and the resident size stays below what `check` says; then SIGTERM is obeyed among them."""
    topics = create_worker_topics(topic, PARTITIONS)
    config = write_config(
        tmp_path / "worker.toml", kafka, topics=topics, worker={"threads": THREADS}, learner={"bits": 12}
    )
    options = Options(bits=12)
    most = worker_bytes(options, PARTITIONS, queue_bytes(options, LimitSettings(), THREADS, Queues(brokers=1)))
    settings = settings_of(load(config, {}))
    warm_up(settings, settings.decoder())  # a worker that had to compile would take more
    send(kafka, topics["examples"], LARGE)
    ends = LogEnds(kafka)
    peak = 0
    with WorkerProcess(config, tmp_path / "worker.log") as worker:

        def answered(wanted: int) -> bool:
            """Whether so many are, the markers of transactions being counted too."""
            nonlocal peak
            peak = highest_resident_size(worker.process.pid)
            return sum(ends.of(topics["predictions"], number) for number in range(PARTITIONS)) >= wanted

        worker.wait_until(lambda: answered(LARGE), f"{LARGE} predictions", pause_s=0.02)
        assert worker.terminate() == 0
    send(kafka, topics["examples"], LARGE)
    with WorkerProcess(config, tmp_path / "successor.log") as worker:
        worker.wait_for_event("live")
        asked = time.monotonic()
        assert worker.terminate() == 0
        assert time.monotonic() - asked < OBEYED_S
    with WorkerProcess(config, tmp_path / "last.log") as worker:
        worker.wait_for_event("live")
        worker.wait_until(lambda: len(answers(kafka, topics)) == 2 * LARGE, "all predictions", pause_s=1.0)
        assert worker.terminate() == 0
    assert answers(kafka, topics) == [(number, at) for number in range(PARTITIONS) for at in range(LARGE)]
    assert peak < most, f"resident MB at most {peak / 1e6:.0f}, counted with {most / 1e6:.0f}"
    print(f"resident MB at most {peak / 1e6:.0f}, counted with {most / 1e6:.0f}")
