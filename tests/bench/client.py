"""What Kafka's client costs for a record, and what the worker adds to it: `python tests/bench/client.py`.

The floor is what any loop in Python pays that consumes, reads and produces by confluent-kafka: nanoseconds of the
calling thread's processor time for a record, so without librdkafka's own threads. What the worker adds is measured on
examples of one feature, which take little time to parse, and without learning. The broker is librdkafka's in-process
cluster. Python's garbage collector is kept quiet as in the worker.
"""

import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat, starmap
from pathlib import Path
from typing import Any, cast

sys.path.append(str(Path(__file__).parents[1]))

import numpy as np
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from report import figure, header
from support.kafka.mock_cluster import MockCluster, make_mock_topics
from support.records import SETTINGS

from stream_apple.adapters.kafka.retry import RetryPolicy
from stream_apple.adapters.kafka.transactional_producer import TransactionalProducer
from stream_apple.app.service import spare_the_collector
from stream_apple.core.event_time import EpochClock
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.encode import PredictionEncoder
from stream_apple.records.message.example import Example, encode_example
from stream_apple.stream.log.columns import keys_of
from stream_apple.stream.loop.transaction import CommitSettings, LoopTopics, Transaction
from stream_apple.stream.model.reject_counter import RejectCounter
from stream_apple.stream.model.triage import Triage

CONSUME, FORGET = "consume: a Message object each", "forget: a Message object each"
ERROR, VALUE, OFFSET, TIMESTAMP, KEY = "error", "value", "offset", "timestamp: a tuple each", "key"
PRODUCE, REPORT = "produce: a call each", "poll: a delivery report each"
TRIAGE, ENCODE, SEND = "triage: columns, parse, order, epochs", "encode: a bytes object each", "send: keys, produce"
FLOOR = (CONSUME, ERROR, VALUE, OFFSET, TIMESTAMP, KEY, PRODUCE, REPORT, FORGET)
REPLACED = (VALUE, OFFSET, TIMESTAMP, KEY, PRODUCE)
OURS = (TRIAGE, ENCODE, SEND)

RECORDS, ROUNDS, QUEUED_S, DEADLINE_S = 5000, 31, 0.15, 30.0
START_MS = 1_700_000_000_000
PREDICTION = bytes(120)


def exhaust(calls: Iterable[object]) -> None:
    """Make all calls, and drop what they return."""
    deque(calls, maxlen=0)


class Times:
    """Nanoseconds a record of each kind of work, round by round."""

    def __init__(self) -> None:
        self._found: dict[str, list[float]] = {}

    def measure(self, name: str, work: Callable[[], Any]) -> Any:
        """What `work` returns; the time is that of this thread."""
        started = time.thread_time_ns()
        result = work()
        self._found.setdefault(name, []).append((time.thread_time_ns() - started) / RECORDS)
        return result

    def report(self, names: Sequence[str]) -> None:
        """Print medians and quartiles."""
        for name in names:
            low, _, high = statistics.quantiles(self._found[name], n=4)
            median = figure(name, self._found[name], "ns/record")
            print(f"  {name:40} {median:6.0f}  (quartiles {low:.0f} to {high:.0f})")

    def total(self, names: Sequence[str]) -> float:
        """Of medians."""
        return sum(statistics.median(self._found[name]) for name in names)


class Client:
    """A consumer of `RECORDS` examples in a topic's partition 0, and a transactional producer into another."""

    def __init__(self, bootstrap: str) -> None:
        make_mock_topics(bootstrap, "examples", "predictions")
        common: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
        self.producer = Producer({**common, "transactional.id": "bench", "linger.ms": 20, "compression.type": "lz4"})
        self.producer.init_transactions(DEADLINE_S)
        self.producer.begin_transaction()
        for number in range(RECORDS):
            example = encode_example(Example(1.0, 1.0, f"user-{number}", {"f": 1.0}))
            self.producer.produce("examples", example, b"key-%d" % number, 0, timestamp=START_MS + number)
        self.producer.commit_transaction(DEADLINE_S)
        self._consumer = Consumer(
            {**common, "group.id": "bench", "enable.auto.commit": False, "fetch.queue.backoff.ms": 1}
        )

    def consume(self, times: Times) -> list[Message]:
        """All the records, of which as many as possible are in the client's queue when the time starts."""
        self._consumer.assign([TopicPartition("examples", 0, 0)])
        time.sleep(QUEUED_S)
        return cast("list[Message]", times.measure(CONSUME, self._consume))

    def _consume(self) -> list[Message]:
        messages: list[Message] = []
        while len(messages) < RECORDS:
            messages += self._consumer.consume(RECORDS, DEADLINE_S)
        return messages

    def deliver(self, times: Times) -> None:
        """Let the broker take what was produced, and measure the reports of it."""
        time.sleep(QUEUED_S)
        times.measure(REPORT, self._poll)
        self.producer.commit_transaction(DEADLINE_S)

    def _poll(self) -> None:
        while len(self.producer):
            self.producer.poll(0)

    def close(self) -> None:
        """Give back what they hold."""
        self._consumer.close()
        self.producer.close()


def read(times: Times, messages: list[Message]) -> list[bytes | None]:
    """The floor of reading, each field by itself; the keys."""
    times.measure(ERROR, lambda: [message.error() for message in messages])
    times.measure(VALUE, lambda: [message.value() for message in messages])
    times.measure(OFFSET, lambda: [message.offset() for message in messages])
    times.measure(TIMESTAMP, lambda: exhaust(map(Message.timestamp, messages)))
    keys: list[bytes | None] = times.measure(KEY, lambda: [message.key() for message in messages])
    return keys


def produce(client: Client, times: Times, keys: list[bytes | None]) -> None:
    """The floor of writing: no line of Python for a message."""
    timestamps = range(START_MS, START_MS + RECORDS)
    fields = zip(repeat("predictions"), repeat(PREDICTION), keys, repeat(0), repeat(None), repeat(None), timestamps)
    calls = starmap(client.producer.produce, fields)
    client.producer.begin_transaction()
    times.measure(PRODUCE, lambda: exhaust(calls))
    client.deliver(times)


class Ours:
    """The worker's parts around the learner, on the same client."""

    def __init__(self, client: Client) -> None:
        self._decoder = Decoder(SETTINGS.limits)
        self._encoder = PredictionEncoder("examples", 0, "0123456789abcdef")
        broker = TransactionalProducer(
            lambda _: client.producer, cast("Any", None), RetryPolicy(), "examples", lambda: None, 45.0
        )
        topics = LoopTopics("examples", ("predictions",), "letters")
        self._transaction = Transaction(cast("Any", broker), topics, CommitSettings(RECORDS, 1.0), cast("Any", None))
        self._transaction.open = True

    def work(self, client: Client, times: Times, messages: list[Message]) -> None:
        """Sort, encode and send, as the loop does."""
        clock, rejects = (
            EpochClock(SETTINGS.epoch_length_ms, SETTINGS.max_ahead_ms),
            RejectCounter(SETTINGS.reject_limits),
        )
        triage = Triage("examples-0", self._decoder, SETTINGS.limits, clock, rejects)
        triaged = times.measure(TRIAGE, lambda: triage.sort(cast("Any", messages), 0, 0))
        numbers, epoch = np.zeros(RECORDS), int(triaged.epochs[0])
        predictions = times.measure(
            ENCODE,
            lambda: self._encoder.encode(triaged.decoded, 0, RECORDS, numbers, numbers, triaged.offsets, epoch),
        )
        client.producer.begin_transaction()
        times.measure(
            SEND,
            lambda: self._transaction.send(
                "predictions", 0, keys_of(triaged.records), predictions, triaged.timestamps.tolist(), []
            ),
        )
        client.deliver(Times())


def main() -> None:
    """Print what was measured, on what."""
    print(header("confluent-kafka", "numpy", "numba"))
    print(f"{RECORDS} records a batch; nanoseconds a record, median of {ROUNDS} rounds")
    times = Times()
    with MockCluster() as cluster:
        client = Client(cluster.bootstrap)
        ours = Ours(client)
        ours.work(client, Times(), client.consume(Times()))
        spare_the_collector()
        for _ in range(ROUNDS):
            messages = client.consume(times)
            produce(client, times, read(times, messages))
            ours.work(client, times, messages)
            times.measure(FORGET, messages.clear)
        client.close()
    print("the client's floor")
    times.report(FLOOR)
    together = figure("the client's floor, together", [times.total(FLOOR)], "ns/record", ROUNDS)
    print(f"  {'together':40} {together:6.0f}")
    print("the worker")
    times.report(OURS)
    added = figure("the worker, on top of the floor", [times.total(OURS) - times.total(REPLACED)], "ns/record", ROUNDS)
    print(f"  {'on top of value to produce, of the floor':40} {added:6.0f}")


if __name__ == "__main__":
    main()
