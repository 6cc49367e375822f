"""Real worker processes, an endless input for them, and what a reader must find in the end."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from runtime.records import stream

from stream_apple.adapters.worker import model_settings
from stream_apple.config import Config
from stream_apple.core.decode import Decoder
from stream_apple.core.encode import decode_prediction
from stream_apple.runtime.deadletters import dead_letter_headers
from stream_apple.runtime.lineage import lineage_of
from stream_apple.runtime.step import PartitionModel

PARTITIONS = 2
MOST_RECORDS = 100_000  # of each partition; so many come only on a very slow machine
DEADLINE_S = 240.0  # a broker that dies in a commit costs up to transaction.timeout.ms (45 s), and it dies twice

Line = tuple[bytes | None, bytes | None, int, list[tuple[str, bytes]] | None]
"""Key, value, timestamp and headers of an output message."""


class Feeder:
    """Produces records of all partitions at a steady pace, so that a worker is never without work; a context."""

    def __init__(self, kafka: str, topic_name: str) -> None:
        self._producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "linger.ms": 0})
        self._topic = topic_name
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._feed)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0

    def _feed(self) -> None:
        streams = [stream(MOST_RECORDS, seed=11, partition=number) for number in range(PARTITIONS)]
        for number, turn in enumerate(zip(*streams, strict=True)):
            for record in turn:
                self._producer.produce(
                    self._topic,
                    record.payload,
                    record.named,
                    record.number,
                    timestamp=record.time_ms or 1,
                    headers=list(record.extra or []),
                )
            if number % 10 == 0 and self._stop.wait(0.01):
                return
            self._producer.poll(0)


def committed_messages(kafka: str, topic_name: str, partitions: int) -> dict[int, list[Message]]:
    """Everything that a reader of committed data finds in the topic at this moment."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic_name, number, 0) for number in range(partitions)])
        found: dict[int, list[Message]] = {number: [] for number in range(partitions)}
        open_ends = set(found)
        deadline = time.monotonic() + 30
        while open_ends:
            assert time.monotonic() < deadline, f"no end of {topic_name} after 30 s"
            for message in consumer.consume(10_000, 0.2):
                if message.error() is None:
                    found[message.partition() or 0].append(message)
                else:
                    open_ends.discard(message.partition() or 0)
        return found
    finally:
        consumer.close()


def line(message: Message) -> Line:
    """The parts of a message that the worker decides."""
    headers = message.headers()
    return message.key(), message.value(), message.timestamp()[1], list(headers) if headers else None  # type: ignore[arg-type]


def expected_lines(config: Config, inputs: dict[int, list[Message]]) -> tuple[dict[int, list[Line]], list[Line]]:
    """Predictions of each partition, and all dead letters, of a model that is never interrupted."""
    settings = model_settings(config)
    decoder = Decoder(settings.limits)
    name = config.topics.examples
    predictions: dict[int, list[Line]] = {}
    letters: list[Line] = []
    for number, records in inputs.items():
        lineage = lineage_of(config.model_settings(), name, number, 0)
        outcome = PartitionModel(name, number, lineage, settings, decoder).process(records)  # type: ignore[arg-type]
        predictions[number] = [
            (records[i].key(), p, records[i].timestamp()[1], None)
            for i, p in zip(outcome.indices, outcome.predictions, strict=True)
        ]
        for reject in outcome.rejects:
            record = records[reject.record]
            headers = dead_letter_headers(record, reject, name, lineage.model)  # type: ignore[arg-type]
            letters.append((record.key(), record.value(), record.timestamp()[1], headers))  # type: ignore[arg-type]
    return predictions, letters


class Life:
    """One process of the worker, from start to whatever ends it; `name` is its identity in the group."""

    def __init__(self, config_file: Path, log: Path, name: str = "worker-0", on_stop: str = "stay") -> None:
        self.name = name
        self.asleep = False
        self._log = log.with_name(f"{log.stem}-{time.monotonic_ns()}.log")
        self._heard: list[dict[str, Any]] = []
        self._read = 0
        with self._log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "stream_apple", "run", "--config", config_file, "--log-format", "json"],
                stdout=output,
                stderr=output,
                cwd=Path(__file__).parents[2],
                env={**os.environ, "STREAM_APPLE_WORKER__ID": name, "STREAM_APPLE_WORKER__ON_STOP": on_stop},
            )

    def wait_until(self, done: Callable[[], bool], what: str) -> None:
        """Poll until `done`; its log is the message if that takes too long, or the worker dies."""
        deadline = time.monotonic() + DEADLINE_S
        while not done():
            assert self.process.poll() is None, self._story(f"the worker died before {what}")
            assert time.monotonic() < deadline, self._story(f"not within {DEADLINE_S} s: {what}")
            time.sleep(0.02)

    def _story(self, what: str) -> str:
        return f"{what}:\n{self.tail()}"

    def tail(self, size: int = 4000) -> str:
        """The end of its log."""
        return self._log.read_text()[-size:]

    def history(self) -> list[dict[str, Any]]:
        """What this life has logged so far: each event with its facts."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                if line.startswith(b"{"):
                    self._heard.append(json.loads(line))
        return self._heard

    def events(self) -> list[str]:
        """Names of what this life has logged so far."""
        return [event.get("event", "") for event in self.history()]

    @property
    def running(self) -> bool:
        """Whether it has not ended yet; a sleeping process runs too."""
        return self.process.poll() is None

    def sleep(self) -> None:
        """Stop the process where it stands, as a frozen machine does."""
        os.kill(self.process.pid, signal.SIGSTOP)
        self.asleep = True

    def wake(self) -> None:
        """Let a sleeping process go on as if nothing had happened."""
        os.kill(self.process.pid, signal.SIGCONT)
        self.asleep = False

    def kill(self) -> None:
        """As the kernel does when memory is short."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(10)

    def terminate(self) -> int:
        """As Kubernetes does; returns the exit code."""
        self.process.terminate()
        return self.process.wait(30)


def progress_of(kafka: str, config: Config, only: int | None = None) -> Callable[[], int]:
    """How many messages, markers included, the predictions topic (or one of its partitions) holds."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "watcher"})
    numbers = range(PARTITIONS) if only is None else [only]

    known = dict.fromkeys(numbers, 0)

    def count() -> int:
        for number in numbers:
            # A partition without a leader, as while a broker starts, has not grown since it was last asked.
            with suppress(KafkaException):
                part = TopicPartition(config.topics.predictions, number)
                known[number] = consumer.get_watermark_offsets(part, timeout=5)[1]
        return sum(known.values())

    return count


def check_outputs(kafka: str, config: Config) -> None:
    """To the byte: one prediction for each good record, in order, one dead letter for each bad one, no more."""
    inputs = committed_messages(kafka, config.topics.examples, PARTITIONS)
    predictions, letters = expected_lines(config, inputs)
    total = sum(map(len, predictions.values()))
    assert total + len(letters) == sum(map(len, inputs.values())) > 0

    found = committed_messages(kafka, config.topics.predictions, PARTITIONS)
    for number in range(PARTITIONS):
        _check_lines(f"predictions of {number}", [line(message) for message in found[number]], predictions[number])
    found_letters = [line(message) for message in committed_messages(kafka, config.topics.dead_letters, 1)[0]]
    _check_lines("dead letters", sorted(found_letters, key=repr), sorted(letters, key=repr))
    answered = [
        (message["partition"], message["offset"])
        for messages in found.values()
        for message in (decode_prediction(m.value() or b"") for m in messages)
    ]
    assert len(set(answered)) == len(answered) == total


def _check_lines(what: str, found: list[Line], expected: list[Line]) -> None:
    """Equal; the message names the first line that differs, since thousands say nothing."""
    pairs = zip_longest(found, expected)
    first = next((number for number, (one, other) in enumerate(pairs) if one != other), None)
    assert first is None, (
        f"{what}: {len(found)} for {len(expected)}, {len(found) - len({repr(one) for one in found})} of them repeated; "
        f"the first that differs is line {first}: {found[first : first + 2]}, expected {expected[first : first + 2]}"
    )


def all_answered(kafka: str, config: Config) -> Callable[[], bool]:
    """Whether as many outputs as inputs can be read; the inputs are counted once, now."""
    total = sum(map(len, committed_messages(kafka, config.topics.examples, PARTITIONS).values()))

    def done() -> bool:
        predictions = committed_messages(kafka, config.topics.predictions, PARTITIONS)
        letters = committed_messages(kafka, config.topics.dead_letters, 1)
        return sum(map(len, predictions.values())) + len(letters[0]) >= total

    return done
