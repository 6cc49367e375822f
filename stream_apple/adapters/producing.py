"""Examples -> a topic: encoded, with key, partition, timestamp and pace, each delivered once and in order.

The producer is idempotent, so that a retry neither doubles nor reorders. The first delivery that fails ends
the run: what was delivered is then, in each partition, an unbroken beginning of what was to be sent.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from stream_apple.adapters.admin import Cluster, text
from stream_apple.adapters.partitioner import partition_of
from stream_apple.core.examples import Example, encode_example
from stream_apple.errors import BrokerError, ConfigurationError, InputFileError

# What the cluster's configuration may override. The queue's own bound is 1 GiB, too much for a command.
_DEFAULTS = {"linger.ms": 20, "compression.type": "lz4", "queue.buffering.max.kbytes": 64 << 10}
# Of several records in one batch, librdkafka reports only which were refused and which stood beside them.
_REFUSED = {
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.INVALID_RECORD,
    KafkaError._INVALID_DIFFERENT_RECORD,  # noqa: SLF001  the client's name for it
}
_ADVICE = (
    "; the topic takes timestamps from message.timestamp.before.max.ms before the broker's clock up to "
    "message.timestamp.after.max.ms after it: for a history, make it with `stream-apple topics --retention forever`"
)
_SLICE_SECONDS = 0.1  # of waiting: how soon a stop is noticed, and progress shown


class EvenlySpaced(NamedTuple):
    """Timestamps from `start_ms` on, `interval_ms` apart; exact, so that the same run has the same epochs."""

    start_ms: int
    interval_ms: Fraction

    def at(self, number: int) -> int:
        """Milliseconds since 1970 of example `number`, counted from 0, rounded down."""
        return self.start_ms + number * self.interval_ms.numerator // self.interval_ms.denominator


class Pace:
    """When the next example is due, at `rate` examples a second, or at once if `rate` is None.

    A source that stalls is not made up for by more than one second's worth.
    """

    def __init__(self, rate: Fraction | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._period = None if rate is None else float(1 / rate)
        self._clock = clock
        self._due: float | None = None

    def due(self) -> float | None:
        """The clock's reading at which the next example may go; one call for each example. None: now."""
        if self._period is None:
            return None
        now = self._clock()
        self._due = now if self._due is None else max(self._due + self._period, now - 1)
        return self._due

    def remaining(self, due: float) -> float:
        """Seconds until `due`."""
        return due - self._clock()


@dataclass
class Totals:
    """What was sent so far; `delivered` is acknowledged by the broker, `bytes` of the messages' values."""

    sent: int = 0
    delivered: int = 0
    bytes: int = 0
    without_features: int = 0


def never() -> bool:
    """For runs that nobody stops."""
    return False


def silent(totals: Totals) -> None:
    """For runs that nobody watches."""


class TopicWriter:
    """Writes examples to one topic, over its first `partitions` partitions (None: over all of them).

    properties  librdkafka's.

    ConfigurationError if the topic or so many partitions do not exist, BrokerError if nothing answers.
    """

    def __init__(
        self, properties: Mapping[str, str | int | float | bool], topic: str, partitions: int | None = None
    ) -> None:
        self.topic = topic
        self.partitions = _partitions(Cluster(properties), topic, partitions)
        self.totals = Totals()
        self._failure: KafkaError | None = None
        settings: dict[str, Any] = {
            **_DEFAULTS,
            **properties,
            "enable.idempotence": True,
            "allow.auto.create.topics": False,  # librdkafka's producer would create a mistyped topic
            "log_level": 0,
            "error_cb": self._complaint,
        }
        try:
            self._producer = Producer(settings)
        except KafkaException as error:
            raise ConfigurationError(f"kafka: the client refuses the configuration: {text(error)}") from error

    def write(
        self,
        examples: Iterable[Example],
        timestamps: EvenlySpaced,
        pace: Pace,
        stop: Callable[[], bool] = never,
        report: Callable[[Totals], None] = silent,
    ) -> Totals:
        """Send `examples` in order until they end or `stop()`; return when all that was sent is acknowledged.

        An example's own timestamp goes before `timestamps`. `report` is called about ten times a second.

        BrokerError says how many were delivered; so does InputFileError from `examples`.
        """
        reported = time.monotonic()
        try:
            for example in examples:
                self._wait(pace, stop)
                if stop() or self._failure is not None:
                    break
                self._send(example, timestamps)
                if time.monotonic() - reported >= _SLICE_SECONDS:
                    reported = time.monotonic()
                    report(self.totals)
        except InputFileError as error:
            self._drain(report)
            raise InputFileError(f"{error}; {self.totals.delivered} examples before it were delivered") from None
        self._drain(report)
        return self.totals

    def _wait(self, pace: Pace, stop: Callable[[], bool]) -> None:
        due = pace.due()
        if due is not None:
            while (left := pace.remaining(due)) > 0 and not stop() and self._failure is None:
                self._producer.poll(min(left, _SLICE_SECONDS))

    def _send(self, example: Example, timestamps: EvenlySpaced) -> None:
        number = self.totals.sent
        key = _key(example, number)
        value = encode_example(example)
        timestamp = timestamps.at(number) if example.timestamp_ms is None else example.timestamp_ms
        partition = partition_of(key, self.partitions)
        while self._failure is None:
            try:
                self._producer.produce(
                    self.topic, value, key, partition, on_delivery=self._delivered, timestamp=timestamp
                )
            except BufferError:
                self._producer.poll(_SLICE_SECONDS)
            except KafkaException as error:
                self._drain(silent)
                raise BrokerError(
                    f"{self.topic}: example {number + 1} ({len(value)} bytes) was refused: {text(error)}; "
                    f"{self.totals.delivered} examples before it were delivered"
                ) from error
            else:
                self.totals.sent += 1
                self.totals.bytes += len(value)
                self.totals.without_features += not _has_features(example)
                self._producer.poll(0)
                return

    def _drain(self, report: Callable[[Totals], None]) -> None:
        if self._failure is not None:
            # What waits behind a failed message must not be sent after it.
            self._producer.purge(in_flight=False, blocking=True)
        while self._producer.flush(_SLICE_SECONDS):
            report(self.totals)
        report(self.totals)
        if self._failure is not None:
            raise BrokerError(
                f"{self.topic}: expected every example to be delivered, found {self._failure.str()} "
                f"({self._failure.name()}) after {self.totals.delivered} delivered of {self.totals.sent} sent"
                + (_ADVICE if self._failure.code() in _REFUSED else "")
            )

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.totals.delivered += 1
        elif self._failure is None:
            self._failure = error

    def _complaint(self, error: KafkaError) -> None:
        # Everything short of fatal is retried by librdkafka until the message's own timeout reports it.
        if error.fatal() and self._failure is None:
            self._failure = error


def _partitions(cluster: Cluster, topic: str, wanted: int | None) -> int:
    if topic not in cluster.topics:
        raise ConfigurationError(
            f"topic {topic}: expected it on {cluster.bootstrap}, found no such topic; `stream-apple topics` creates it"
        )
    found = cluster.topics[topic]
    if wanted is not None and wanted > found:
        raise ConfigurationError(f"topic {topic}: expected at least {wanted} partitions, found {found}")
    return found if wanted is None else wanted


def _key(example: Example, number: int) -> bytes:
    """The id as bytes, or the running number as decimal text."""
    name = number if example.id is None else example.id
    return name if isinstance(name, bytes) else str(name).encode()


def _has_features(example: Example) -> bool:
    # The stream drops zeros, so features that are all zero are none; mostly the first value decides.
    return any(any(value.values()) if isinstance(value, dict) else value for value in example.features.values())
