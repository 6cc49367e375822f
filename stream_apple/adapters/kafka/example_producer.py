"""Sends examples to a topic: encoded, with key, partition and timestamp, at a limited rate, each once and in order.

The producer is idempotent, so that a retry neither doubles nor reorders. The first delivery that fails ends the run: in
each partition, all examples up to some point have been delivered then, and none after it.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from stream_apple.adapters.kafka.admin import Cluster
from stream_apple.adapters.kafka.errors import as_kafka_exception, error_text, refused_configuration
from stream_apple.adapters.kafka.partitioner import partition_of
from stream_apple.adapters.kafka.topics import AFTER, BEFORE, FOREVER, UNLIMITED
from stream_apple.core.timestamps import END_MS
from stream_apple.errors import BrokerError, ConfigurationError, InputFileError, StreamAppleError
from stream_apple.records.message.example import Example, encode_example, key_of
from stream_apple.records.times import time_text

# The configuration may override these. librdkafka's own bound of the queue is 1 GiB, which is too much for a command.
_DEFAULTS = {"linger.ms": 20, "compression.type": "lz4", "queue.buffering.max.kbytes": 64 << 10}
# If a broker refuses a record, librdkafka reports that, and of the others that they were in the same batch; not why.
_REFUSED = {
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.INVALID_RECORD,
    KafkaError._INVALID_DIFFERENT_RECORD,  # noqa: SLF001  the client's name for it
}
_ADVICE = (
    "; the topic takes timestamps from message.timestamp.before.max.ms before the broker's clock up to "
    "message.timestamp.after.max.ms after it: for a history, make it take them by "
    "`stream-apple topics --retention forever --alter`"
)
_LIMIT = "; the limit is the topic's max.message.bytes"
_NOW = 0  # makes the client take the time at which it is asked to send
_SLICE_S = 0.1  # seconds of a wait after which a stop is noticed, and progress shown


class RateLimiter:
    """Says when the next example is due, at `rate` examples a second; without delay if `rate` is None.

    After a source has stalled, at most one second's worth of examples is caught up.
    """

    def __init__(self, rate: Fraction | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._period = None if rate is None else float(1 / rate)
        self._clock = clock
        self._due: float | None = None

    def next(self) -> None:
        """Turn to the next example."""
        if self._period is not None:
            now = self._clock()
            self._due = now if self._due is None else max(self._due + self._period, now - 1)

    @property
    def wait_s(self) -> float:
        """Return the seconds that are left until this example is due; 0 or less if it is."""
        return 0.0 if self._due is None else self._due - self._clock()


@dataclass
class DeliveryTotals:
    """Counts what was sent so far.

    delivered  messages that the broker has acknowledged
    bytes      of the messages' values
    """

    sent: int = 0
    delivered: int = 0
    bytes: int = 0


ReportDelivery = Callable[[DeliveryTotals], None]


class AcceptedTimes(NamedTuple):
    """Holds the bounds of the timestamps that a topic takes and keeps, and the topic's settings that give them.

    first_ms, last_ms  milliseconds since 1970, both accepted
    """

    first_ms: int
    first_by: str
    last_ms: int
    last_by: str


def accepted_times(cluster: Cluster, name: str, now_ms: int) -> AcceptedTimes | None:
    """Return which timestamps topic `name` takes at `now_ms`; None if it replaces all, or hides its settings."""
    if not cluster.has_controller:
        return None
    try:
        found = cluster.asked_settings("topic", [name])[name]()
    except BrokerError:
        return None  # a producer need not have that permission; the brokers will refuse records one by one
    if found.get("message.timestamp.type") == "LogAppendTime":
        return None
    backwards = {BEFORE: int(found.get(BEFORE, UNLIMITED))}
    kept = int(found.get("retention.ms", FOREVER))
    if "delete" in found.get("cleanup.policy", "") and kept != FOREVER:
        backwards["retention.ms"] = kept  # older records are taken, but deleted within minutes
    first_by = min(backwards, key=lambda setting: backwards[setting])
    ahead = int(found.get(AFTER, UNLIMITED))
    return AcceptedTimes(now_ms - backwards[first_by], first_by, now_ms + ahead, AFTER)


class TopicWriter:
    """Writes examples to one topic, in its first `partitions` partitions (None: in all of them).

    properties  librdkafka's
    encode      returns the value of an example's record

    ConfigurationError if the topic or so many partitions do not exist, BrokerError if no broker answers.
    """

    def __init__(
        self,
        properties: Mapping[str, str | int | float | bool],
        topic: str,
        partitions: int | None = None,
        encode: Callable[[Example], bytes] = encode_example,
    ) -> None:
        self.topic = topic
        self._encode = encode
        self._cluster = Cluster(properties)
        self.partitions = _partitions(self._cluster, topic, partitions)
        self.totals = DeliveryTotals()
        self._failure: KafkaError | None = None
        settings: dict[str, Any] = {
            **_DEFAULTS,
            **properties,
            "enable.idempotence": True,
            "allow.auto.create.topics": False,  # librdkafka's producer would create a mistyped topic
            "log_level": 0,
        }
        with refused_configuration():
            self._producer = Producer(settings)

    def check_times(self, first_ms: int, last_ms: int) -> None:
        """Raise ConfigurationError if the topic would refuse or delete examples of these times, ms since 1970."""
        accepted = accepted_times(self._cluster, self.topic, time.time_ns() // 1_000_000)
        if accepted is not None and not accepted.first_ms <= first_ms <= last_ms <= accepted.last_ms:
            last = time_text(accepted.last_ms) if accepted.last_ms < END_MS else "any time"
            raise ConfigurationError(
                f"topic {self.topic}: expected times from {time_text(accepted.first_ms)} ({accepted.first_by}) "
                f"to {last} ({accepted.last_by}), found {time_text(first_ms)} to "
                f"{time_text(last_ms)}: choose --start-time or --interval so that they fit, or for a history make the "
                f"topic take them by `stream-apple topics --retention forever --alter`; nothing was sent"
            )

    def write(
        self,
        examples: Iterable[Example],
        limiter: RateLimiter,
        stop: Callable[[], bool] = lambda: False,
        report: ReportDelivery = lambda _: None,
    ) -> DeliveryTotals:
        """Send `examples` in order until they end or `stop()` is true; return when all that was sent is acknowledged.

        An example without a timestamp gets the time at which it is sent. `report` is called about ten times a second.

        BrokerError if one is not delivered; InputFileError if one is too large, or if `examples` raises it. Both say
        how many were delivered.
        """
        reported = time.monotonic()
        try:
            for example in examples:
                self._wait(limiter, stop)
                if stop() or self._failure is not None:
                    break
                self._send(example)
                if time.monotonic() - reported >= _SLICE_S:
                    reported = time.monotonic()
                    report(self.totals)
        except (InputFileError, BrokerError) as error:
            self._drain(report)
            raise type(error)(f"{error}; {self.totals.delivered} examples before it were delivered") from None
        self._drain(report)
        return self.totals

    def _wait(self, limiter: RateLimiter, stop: Callable[[], bool]) -> None:
        limiter.next()
        while (left := limiter.wait_s) > 0 and not stop() and self._failure is None:
            self._serve(min(left, _SLICE_S))

    def _send(self, example: Example) -> None:
        number = self.totals.sent
        key = key_of(example, number)
        value = self._encode(example)
        timestamp = _NOW if example.timestamp_ms is None else example.timestamp_ms
        partition = partition_of(key, self.partitions)
        while self._failure is None:
            try:
                self._producer.produce(
                    self.topic, value, key, partition, on_delivery=self._delivered, timestamp=timestamp
                )
            except BufferError as error:
                if not len(self._producer):  # the queue is empty, and still has no room for this example
                    raise self._refused(
                        number, value, "queue.buffering.max.kbytes is smaller", InputFileError
                    ) from error
                self._serve(_SLICE_S)
            except KafkaException as error:
                kind = InputFileError if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE else BrokerError
                raise self._refused(number, value, error_text(error.args[0]), kind) from error
            else:
                self.totals.sent += 1
                self.totals.bytes += len(value)
                self._serve(0)
                return

    def _refused(self, number: int, value: bytes, why: str, kind: type[StreamAppleError]) -> StreamAppleError:
        return kind(f"{self.topic}: example {number + 1} ({len(value)} bytes) was refused: {why}")

    def _drain(self, report: ReportDelivery) -> None:
        if self._failure is not None:
            # Messages that wait behind a failed one must not be sent any more.
            self._producer.purge(in_flight=False, blocking=True)
        while self._flush(_SLICE_S):
            report(self.totals)
        report(self.totals)
        if self._failure is not None:
            too_large = self._failure.code() == KafkaError.MSG_SIZE_TOO_LARGE
            raise (InputFileError if too_large else BrokerError)(
                f"{self.topic}: expected every example to be delivered, found {error_text(self._failure)} "
                f"after {self.totals.delivered} delivered of {self.totals.sent} sent"
                + (_ADVICE if self._failure.code() in _REFUSED else _LIMIT if too_large else "")
            )

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.totals.delivered += 1
        elif self._failure is None:
            self._failure = error

    def _serve(self, timeout_s: float) -> None:
        """Have librdkafka report deliveries, for `timeout_s` seconds."""
        with self._fatal_error_as_failure():
            self._producer.poll(timeout_s)

    def _flush(self, timeout_s: float) -> int:
        """Wait for deliveries for so long; return how many messages are still not delivered."""
        with self._fatal_error_as_failure():
            return self._producer.flush(timeout_s)
        return len(self._producer)

    @contextmanager
    def _fatal_error_as_failure(self) -> Iterator[None]:
        # librdkafka retries after any other error, until the message's own timeout, which the delivery report tells.
        try:
            with as_kafka_exception():
                yield
        except KafkaException as error:
            self._failure = error.args[0]


def _partitions(cluster: Cluster, topic: str, wanted: int | None) -> int:
    found = cluster.partition_count(topic)
    if wanted is not None and wanted > found:
        raise ConfigurationError(f"topic {topic}: expected at least {wanted} partitions, found {found}")
    return found if wanted is None else wanted
