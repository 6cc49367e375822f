"""The broker port on librdkafka: a static member of a classic consumer group, and a transactional producer.

Every call of the port may fail with an error of Kafka: `retry` repeats what can be repeated, `errors` turns the rest
into AbortableError, or into an error that ends the worker. Only the thread that calls the port uses the consumer.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import cast

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from stream_apple.adapters.kafka.client_properties import (
    Identity,
    Properties,
    open_clients,
    producer_properties,
    reader_properties,
)
from stream_apple.adapters.kafka.connectivity import OUTAGE_S, PROBE_TIMEOUT_S, Connectivity
from stream_apple.adapters.kafka.errors import RefusedTimeoutError, as_kafka_exception, records_among, translated
from stream_apple.adapters.kafka.herald import prepare_to_fence
from stream_apple.adapters.kafka.log_reader import GroupView, ReaderPool, committed_offsets, log_range
from stream_apple.adapters.kafka.rebalance import RebalanceListener
from stream_apple.adapters.kafka.retry import ATTEMPT_TIMEOUT_S, SLOW_S, RetryPolicy
from stream_apple.adapters.kafka.transactional_producer import TransactionalProducer
from stream_apple.errors import ConfigurationError, GapError
from stream_apple.stream.log.ports import AbortableError, Assignment, Committed, LogRange, ReaderSource, Record

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 5.0  # before the group is joined again, doubled until a commit succeeds
_DRAINED_AT_ONCE = 1000  # records that are fetched and thrown away at a time
_LEAVE_S = 3.0

_log = structlog.get_logger()


class KafkaBroker:
    """One worker's connection; see `ports.Broker` for the contract of each method.

    input_topic       whose partitions the group shares: examples, or a joiner's impressions
    outage_s          seconds for which no broker may answer before `fetch` raises BrokerError
    reader_ahead_kib  KiB of records that a reader may fetch ahead; None: as much as is best for snapshots
    idle_readers      how many clients of closed readers are kept for further readers

    The producer's own methods are `begin`, `send`, `send_all`, `flush`, `abort` and `start_fencing`; `shorten_deadline`
    is that of the policy of retries, and `undecided` is the view of the group. `committed_now` asks by a
    client of its own, as each `reader` does.
    """

    def __init__(
        self,
        properties: Properties,
        identity: Identity,
        input_topic: str,
        *,
        outage_s: float = OUTAGE_S,
        reader_ahead_kib: int | None = None,
        idle_readers: int = 0,
    ) -> None:
        self._input_topic = input_topic
        self._retry = RetryPolicy(failure=AbortableError, slow=_log_slow, address=str(properties["bootstrap.servers"]))
        self._view = GroupView(
            reader_properties(properties, identity.group, reader_ahead_kib), input_topic, self._retry
        )
        self.undecided: ReaderSource = self._view
        self._readers = ReaderPool(self._view.properties, idle_readers)
        self._connectivity = Connectivity(properties, self._probe, outage_s)
        self._listener = RebalanceListener(input_topic)
        self._consumer, open_producer = open_clients(properties, identity, self._on_error, self._connectivity.learn)
        prepare = partial(prepare_to_fence, properties, identity, self._consumer, input_topic)
        timeout_s = float(producer_properties(properties, identity)["transaction.timeout.ms"]) / 1000
        self._producer = TransactionalProducer(
            open_producer, self._consumer, self._retry, input_topic, prepare, timeout_s
        )
        self.begin = self._producer.begin
        self.send = self._producer.send
        self.send_all = self._producer.send_all
        self.flush = self._producer.flush
        self.abort = self._producer.abort
        self.start_fencing = self._producer.start_fencing
        self.shorten_deadline = self._retry.shorten_deadline
        self.committed_now = self._view.committed_now
        self.reader = self._readers.reader
        self._leaving = False
        self._pause_s = _FIRST_PAUSE_S

    def leave(self) -> None:
        """Have `close` give the partitions to others, not keep them for a successor. Signal handlers call this."""
        self._leaving = True

    @property
    def reachable(self) -> bool:
        """Whether a broker has answered lately, as far as is known; any thread may ask."""
        return self._connectivity.reachable and self._retry.waiting_s < SLOW_S

    def partition_count(self, topic: str) -> int:
        """Return how many partitions the topic has; ConfigurationError if it does not exist, or may not be used."""
        # The consumer asks: a producer's question would create the topic where `auto.create.topics.enable` is set.
        answer = self._retry.retry_until_deadline(
            f"topic {topic}",
            lambda: self._consumer.list_topics(topic, timeout=ATTEMPT_TIMEOUT_S),
            on_failure=self._connectivity.diagnose,
        )
        found = answer.topics[topic]
        if found.error is not None and found.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise ConfigurationError(f"topic {topic}: expected permission to use it, found: {found.error.str()}")
        if found.error is not None:
            raise ConfigurationError(
                f"topic {topic}: expected an existing topic, found: {found.error.str()}; "
                f"`stream-apple topics` creates it"
            )
        return len(found.partitions)

    @property
    def open_s(self) -> float:
        """Return for how many seconds a transaction has been open; 0 if none is."""
        return self._producer.open_s

    def join(self, assignment: Assignment) -> None:
        """Fence predecessors, whose transactions must be decided before offsets are read; then join the group."""
        try:
            self._producer.fence()
        except RefusedTimeoutError as error:
            raise self._connectivity.explained(error) from error
        with translated("joining the group"):
            self._listener.join(self._consumer, assignment)

    def rejoin(self) -> None:
        """Give up every partition and join again; a static member has them back within a fraction of a second."""
        self._retry.pause(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        with translated("joining the group again"):
            self._listener.rejoin(self._consumer)

    def fetch(self, limit: int, timeout_s: float) -> Sequence[Record]:
        """Return records, and process what librdkafka reports meanwhile: rebalances, deliveries and errors."""
        # librdkafka leaves out records that were fetched before a rebalance that happens during the call.
        with translated("fetching"):
            messages = self._listener.consume(self._consumer, limit, timeout_s)
        self._producer.serve()
        self._listener.raise_pending()
        self._connectivity.check()
        try:
            return cast("list[Record]", records_among(messages, _log_error))
        except GapError as error:
            raise AbortableError(str(error)) from error  # what is committed says which records are missing
        except RefusedTimeoutError as error:
            raise self._connectivity.explained(error) from error

    def pause(self, partition: int, offset: int) -> None:
        """Deliver nothing of the partition before `resume`; records that were fetched already are dropped."""
        if partition not in self._listener.starts:
            return
        try:
            with as_kafka_exception():
                self._listener.pause(self._consumer, partition, offset)
        except KafkaException as error:
            raise AbortableError(f"holding {self._input_topic}-{partition}@{offset}: {error.args[0].str()}") from error

    def resume(self, partition: int) -> None:
        """Deliver the partition again, from the offset that it was assigned or paused with."""
        start = self._listener.paused.pop(partition, None)
        if start is not None:
            place = TopicPartition(self._input_topic, partition, start)
            # librdkafka notices a resumed partition only when it wakes for another reason, up to a second later. A seek
            # wakes it; if that is refused, for example for want of a leader, no record could be fetched sooner anyway.
            with suppress(KafkaException):
                self._consumer.seek(place)
            with translated(f"resuming {self._input_topic}-{partition}"):
                self._consumer.resume([place])

    def decided(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """Return the committed offsets; wait for transactions that are still deciding them.

        No earlier producer of this worker can change them afterwards, as its epoch has ended then.
        """
        # The group has just assigned the partitions to this worker, so no successor is fenced.
        self._producer.fence()
        return committed_offsets(self._consumer, self._retry, self._input_topic, partitions, reads=True)

    def log_range(self, topic: str, partition: int) -> LogRange:
        """Return the lowest and the highest offset, as the broker answers."""
        return log_range(self._consumer, self._retry, topic, partition)

    def backlog(self, partition: int) -> int:
        """Return how many offsets of the partition are not fetched yet, as of the latest fetch; -1: not known.

        Markers of transactions that the position has passed are not among them.
        """
        asked = TopicPartition(self._input_topic, partition)
        with translated(f"the position in {self._input_topic}-{partition}"):
            (found,) = self._consumer.position([asked])
            _, high = self._consumer.get_watermark_offsets(asked, cached=True)
        # There is no position before the first record: then it is the offset that the partition was assigned with.
        position = found.offset if found.offset >= 0 else self._listener.starts.get(partition, -1)
        position = self._listener.paused.get(partition, position)
        return max(high - position, 0) if position >= 0 and high >= 0 else -1

    def commit(self, offsets: Mapping[int, Committed]) -> None:
        """Commit the messages and the offsets in one transaction."""
        self._producer.commit(offsets)
        self._pause_s = _FIRST_PAUSE_S
        self._connectivity.confirm()

    def close(self) -> None:
        """Abort an open transaction first, as others wait for the offsets in it; then close all clients.

        Unless `leave` was called, the group counts this worker as its member until the session ends: a successor with
        the same identity has the partitions at once, and no other member notices.
        """
        self._listener.detach()
        self._producer.close()
        self._view.close()
        self._readers.close()
        try:
            with as_kafka_exception():
                if self._leaving or not self._listener.assigned:
                    self._unsubscribe()
                if self._leaving:
                    self._wait_until_left()
                self._consumer.close()
        except KafkaException as error:
            _log.warning("close_error", doing="closing the consumer", error=error.args[0].str())

    def _unsubscribe(self) -> None:
        # An assignment that arrives while the consumer closes can block the process for ever, with its signal handlers
        # and its probes (librdkafka 4884). A member with partitions is safe, as these would be revoked first. After
        # `unsubscribe` no further assignment is made, and `consume` serves one that has come already.
        with suppress(KafkaException):
            self._consumer.unsubscribe()
        while self._consumer.consume(_DRAINED_AT_ONCE, 0.0):
            pass

    def _wait_until_left(self) -> None:
        # librdkafka tells the group once the partitions have been given up, a moment later, and drops its member id
        # then. A static member that is closed before does not tell the group.
        deadline = time.monotonic() + _LEAVE_S
        while self._consumer.memberid():
            if time.monotonic() >= deadline:
                _log.warning("close_error", doing="leaving the group", error=f"no success within {_LEAVE_S:g} s")
                break
            self._consumer.consume(_DRAINED_AT_ONCE, 0.01)

    def _on_error(self, error: KafkaError) -> None:
        # Fatal errors are not reported here: confluent-kafka raises them from the call during which they occur.
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001  librdkafka's own codes begin so
            self._connectivity.suspect(error.str())

    def _probe(self) -> bool:
        try:
            with as_kafka_exception():
                self._consumer.list_topics(self._input_topic, timeout=PROBE_TIMEOUT_S)
        except KafkaException:
            return False
        return True


def _log_slow(doing: str) -> None:
    _log.warning("answer_awaited", doing=doing, seconds=SLOW_S)


def _log_error(message: Message, error: KafkaError) -> None:
    _log.warning("fetch_error", partition=message.partition(), error=error.str(), code=error.name())
