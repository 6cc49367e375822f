"""The broker port on librdkafka: a static member of a classic consumer group, and a transactional producer.

Every call of the port may meet an error of Kafka: `retry` repeats what can be repeated, `errors` turns the rest into
AbortableError or an error to leave with. The consumer belongs to the thread that calls the port.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import cast

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from stream_apple.adapters.kafka.client_properties import Identity, Properties, open_clients, reader_properties
from stream_apple.adapters.kafka.connectivity import OUTAGE_S, PROBE_TIMEOUT_S, Connectivity
from stream_apple.adapters.kafka.errors import RefusedTimeoutError, as_kafka_exception, fetch_error, translated
from stream_apple.adapters.kafka.herald import prepare_to_fence
from stream_apple.adapters.kafka.log_reader import GroupView, PartitionReader, ReaderPool, committed_offsets, log_range
from stream_apple.adapters.kafka.rebalance import RebalanceListener
from stream_apple.adapters.kafka.retry import ATTEMPT_TIMEOUT_S, RetryPolicy
from stream_apple.adapters.kafka.transactional_producer import TransactionalProducer
from stream_apple.errors import ConfigurationError
from stream_apple.stream.log.ports import AbortableError, Assignment, Committed, LogRange, Record

_DRAINED_AT_ONCE = 1000  # records that nobody waits for any more
_LEAVE_S = 3.0
_SLOW_S = 5.0  # a call that takes longer finds no broker, or one that might as well not be there

_log = structlog.get_logger()


class KafkaBroker:
    """One worker's connection; see `ports.Broker` for the contract of each method.

    input_topic       that the group shares out: examples, or a joiner's impressions
    outage_s          how long `fetch` waits for an answer of any broker
    reader_ahead_kib  of records that a reader may have fetched ahead, instead of what is good for snapshots
    idle_readers      clients that are kept for further readers, where there are many

    `begin`, `send`, `send_all` and `flush` are the producer's own methods.
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
        self._retry = RetryPolicy()
        self._view = GroupView(
            reader_properties(properties, identity.group, reader_ahead_kib), input_topic, self._retry
        )
        self._readers = ReaderPool(self._view.properties, idle_readers)
        self._connectivity = Connectivity(properties, self._probe, outage_s)
        self._listener = RebalanceListener(input_topic)
        self._consumer, producer = open_clients(properties, identity, self._on_error, self._connectivity.learn)
        prepare = partial(prepare_to_fence, properties, identity, self._consumer, input_topic)
        self._producer = TransactionalProducer(producer, self._retry, input_topic, prepare)
        self.begin = self._producer.begin
        self.send = self._producer.send
        self.send_all = self._producer.send_all
        self.flush = self._producer.flush
        self._leaving = False

    def shorten_deadline(self) -> None:
        """From now on wait no longer for Kafka than a supervisor waits for this worker. For signal handlers."""
        self._retry.shorten_deadline()

    def leave(self) -> None:
        """Let `close` hand the partitions to others, not keep them for a successor. For signal handlers."""
        self._leaving = True

    @property
    def reachable(self) -> bool:
        """Whether a broker has answered lately, as far as is known; for other threads too."""
        return self._connectivity.reachable and self._retry.waiting_s < _SLOW_S

    def partition_count(self, topic: str) -> int:
        """How many partitions the topic has; ConfigurationError if it does not exist, or may not be used."""
        # Asked by the consumer: a producer's question would create the topic on a careless cluster.
        answer = self._retry.retry_until_deadline(
            f"topic {topic}",
            lambda: self._consumer.list_topics(topic, timeout=ATTEMPT_TIMEOUT_S),
            on_first_failure=self._connectivity.diagnose,
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

    def start_fencing(self, permitted: Callable[[], object] = lambda: None) -> None:
        """Begin to fence predecessors, in the background: `join` then has less to wait for. Call it once, early.

        Nobody is fenced before `permitted` returns. What it raises, `join` does.
        """
        self._producer.start_fencing(permitted)

    @property
    def open_s(self) -> float:
        """For how long the transaction has been open; 0 if none is."""
        return self._producer.open_s

    def join(self, assignment: Assignment) -> None:
        """Fence predecessors first: what they left open must be decided before offsets are read."""
        try:
            self._producer.fence()
        except RefusedTimeoutError as error:
            raise self._connectivity.explained(error) from error
        with translated("joining the group"):
            self._listener.join(self._consumer, assignment)

    def rejoin(self) -> None:
        """Give up every partition; a static member has them back within a fraction of a second."""
        with translated("joining the group again"):
            self._listener.rejoin(self._consumer)

    def fetch(self, limit: int, timeout_s: float) -> Sequence[Record]:
        """Records, and whatever librdkafka has to report meanwhile."""
        # librdkafka drops from this list what was fetched before a rebalance that happens during the call.
        with translated("fetching"):
            messages = self._listener.consume(self._consumer, limit, timeout_s)
        self._producer.serve()
        self._producer.confirm(self._consumer, ask=self.reachable)
        self._listener.raise_pending()
        self._connectivity.check()
        if any(map(Message.error, messages)):
            for message in messages:
                self._raise_or_log(message)
            messages = [message for message in messages if message.error() is None]
        return cast("list[Record]", messages)

    def _raise_or_log(self, message: Message) -> None:
        problem = fetch_error(message)
        if isinstance(problem, RefusedTimeoutError):
            raise self._connectivity.explained(problem) from problem
        if problem is not None:
            raise problem
        error = message.error()
        if error is not None:
            _log.warning("fetch_error", partition=message.partition(), error=error.str(), code=error.name())

    def pause(self, partition: int, offset: int) -> None:
        """What has been fetched of it is dropped by the pause."""
        if partition not in self._listener.starts:
            return
        try:
            with as_kafka_exception():
                self._listener.pause(self._consumer, partition, offset)
        except KafkaException as error:
            raise AbortableError(f"holding {self._input_topic}-{partition}@{offset}: {error.args[0].str()}") from error

    def resume(self, partition: int) -> None:
        """What arrives from now on begins at the offset that the partition was assigned, or paused, with."""
        start = self._listener.paused.pop(partition, None)
        if start is not None:
            place = TopicPartition(self._input_topic, partition, start)
            # librdkafka notices a resumed partition only when it wakes for another reason, up to a second later. A seek
            # wakes it; where that is refused, as without a leader, there is nothing to hasten.
            with suppress(KafkaException):
                self._consumer.seek(place)
            with translated(f"resuming {self._input_topic}-{partition}"):
                self._consumer.resume([place])

    def committed(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """Committed offsets; waits for transactions that are still deciding them."""
        return committed_offsets(self._consumer, self._retry, self._input_topic, partitions, reads=True)

    def peek(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """Of a client of its own: this one waits for transactions."""
        return self._view.committed(partitions)

    def log_range(self, topic: str, partition: int) -> LogRange:
        """Return the lowest and the highest offset, as the broker answers."""
        return log_range(self._consumer, self._retry, topic, partition)

    def reader(self, topic: str, partition: int, offset: int) -> PartitionReader:
        """With a client of its own: it connects while this one goes on."""
        return self._readers.reader(topic, partition, offset)

    def backlog(self, partition: int) -> int:
        """As of the latest fetch; the position steps over the markers of transactions, which are no records."""
        asked = TopicPartition(self._input_topic, partition)
        with translated(f"the position in {self._input_topic}-{partition}"):
            (found,) = self._consumer.position([asked])
            _, high = self._consumer.get_watermark_offsets(asked, cached=True)
        # There is no position before the first record; where nothing has come, nothing may be waiting either.
        position = found.offset if found.offset >= 0 else self._listener.starts.get(partition, -1)
        position = self._listener.paused.get(partition, position)
        return max(high - position, 0) if position >= 0 and high >= 0 else -1

    def commit(self, offsets: Mapping[int, Committed]) -> None:
        """Commit the messages and the offsets in one transaction."""
        self._producer.commit(offsets, self._consumer)
        self._connectivity.confirm()

    def abort(self) -> None:
        """Abort the transaction; the group's offsets stay as they were."""
        self._producer.abort()

    def close(self) -> None:
        """The transaction first: others wait for the offsets that it has in doubt.

        The group goes on counting this worker as its member until the session ends, unless `leave` was called: a
        successor of the same identity has the partitions at once, and nobody else is disturbed.
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
        # An assignment that is answered while the consumer closes can block the process for ever, signals and liveness
        # with it (librdkafka 4884). None can be on its way to who has partitions: they would be revoked first. And
        # after `unsubscribe` none is made any more, and `consume` answers one that waits.
        with suppress(KafkaException):
            self._consumer.unsubscribe()
        while self._consumer.consume(_DRAINED_AT_ONCE, 0.0):
            pass

    def _wait_until_left(self) -> None:
        # The group is told once the partitions have been let go, which takes a moment; the id is dropped with that. A
        # consumer that closes before would not tell it, being a static member.
        deadline = time.monotonic() + _LEAVE_S
        while self._consumer.memberid():
            if time.monotonic() >= deadline:
                _log.warning("close_error", doing="leaving the group", error=f"no success within {_LEAVE_S:g} s")
                break
            self._consumer.consume(_DRAINED_AT_ONCE, 0.01)

    def _on_error(self, error: KafkaError) -> None:
        # A fatal error does not come this way: confluent-kafka raises it from the call that was to report it.
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001  librdkafka's own codes begin so
            self._connectivity.suspect(error.str())

    def _probe(self) -> bool:
        try:
            with as_kafka_exception():
                self._consumer.list_topics(self._input_topic, timeout=PROBE_TIMEOUT_S)
        except KafkaException:
            return False
        return True
