"""A broker, topics and their content for benchmarks through Kafka."""

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))

from confluent_kafka import Producer
from support.kafka.broker import Broker, resolve_jars

START_MS = 1_700_000_000_000


@contextmanager
def broker() -> Iterator[tuple[str, Path]]:
    """Bootstrap address of the broker that STREAM_APPLE_TEST_BOOTSTRAP names, or of one of our own; a directory."""
    own = os.environ.pop("STREAM_APPLE_TEST_BOOTSTRAP", None)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        if own:
            yield own, directory
            return
        ours = Broker(directory / "kafka", resolve_jars())
        ours.start()
        try:
            yield ours.bootstrap, directory
        finally:
            ours.kill()


def fill(bootstrap: str, name: str, messages: Iterable[bytes], start: int = 0, partitions: int = 1) -> None:
    """Produce the messages to the partitions in turn, a millisecond apart, the first at START_MS + `start`."""
    send(bootstrap, name, ((START_MS + number, message) for number, message in enumerate(messages, start)), partitions)


def send(bootstrap: str, name: str, timed: Iterable[tuple[int, bytes]], partitions: int = 1) -> None:
    """Produce messages, each with its time in milliseconds since 1970, to the partitions in turn."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "compression.type": "lz4"})
    for number, (time_ms, message) in enumerate(timed):
        while True:
            try:
                producer.produce(name, message, partition=number % partitions, timestamp=time_ms)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(60)
