"""A broker, topics and their content for benchmarks through Kafka."""

import os
import sys
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # exports are not marked
from kafka_broker import Broker, create_topics, resolve_jars

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


def topic(bootstrap: str, stem: str, config: dict[str, str] | None = None) -> str:
    """A new topic of one partition that keeps everything."""
    name = f"{stem}-{uuid.uuid4().hex[:8]}"
    create_topics(bootstrap, NewTopic(name, 1, 1, config={"retention.ms": "-1", **(config or {})}))
    return name


def fill(bootstrap: str, name: str, messages: Iterable[bytes], start: int = 0) -> None:
    """Produce the messages, a millisecond of event time apart, the first at START_MS + `start`."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "compression.type": "lz4"})
    for number, message in enumerate(messages, start):
        while True:
            try:
                producer.produce(name, message, partition=0, timestamp=START_MS + number)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(60)
