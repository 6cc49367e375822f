"""The broker port on librdkafka: a static member of a classic consumer group, and a transactional producer.

Every call of the port may meet an error of Kafka. `_insist` repeats what can be repeated until one deadline;
`verdict` turns the rest into AbortableError or an error to leave with. Callbacks of librdkafka run inside
`consume`, on our thread; what they raise is kept and raised again when `consume` has returned.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from stream_apple.adapters.clients import Identity, Properties, open_clients
from stream_apple.errors import BrokerError, ConfigurationError, GapError, StreamAppleError
from stream_apple.runtime.ports import AbortableError, Assignment, Committed, Header, LogRange, Record

DEADLINE_S = 60.0
"""For one call of the port, retries included. Longer than a transaction may stay open (see `clients.py`)."""
_SLICE_S = 2.0  # of the deadline: between slices, signals are seen
_CLOSE_S = 5.0
_HURRY_S = 10.0  # of the 30 s that Kubernetes gives by default

_TRANSIENT = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001  librdkafka's own codes begin with an underscore
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._WAIT_COORD,  # noqa: SLF001
    }
)
_FOR_THE_OPERATOR = frozenset(
    {
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.OFFSET_METADATA_TOO_LARGE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    }
)

_T = TypeVar("_T")
_log = structlog.get_logger()


def _is_fatal(error: KafkaError) -> bool:
    """Whether the client is of no more use. An error that comes as a message has the code and not the flag."""
    return bool(error.fatal()) or error.code() == KafkaError._FATAL  # noqa: SLF001


def verdict(error: KafkaError, what: str) -> StreamAppleError | AbortableError:
    """What an error that waiting did not cure means for the loop."""
    text = f"{what}: {error.str()} ({error.name()})"
    if _is_fatal(error):
        return BrokerError(text)
    if error.code() in _FOR_THE_OPERATOR:
        return ConfigurationError(text)
    # _STATE: an error that has come in the background has closed the transaction to this call.
    if error.txn_requires_abort() or error.code() == KafkaError._STATE:  # noqa: SLF001
        return AbortableError(text)
    return BrokerError(text)


class KafkaBroker:
    """One worker's connection; see `ports.Broker` for the contract of each method."""

    def __init__(self, properties: Properties, identity: Identity, examples: str) -> None:
        self._examples = examples
        self._consumer, self._producer = open_clients(properties, identity, self._on_error)
        self._produce = self._producer.produce
        self._assignment: Assignment | None = None
        self._open = False
        self._raised: BaseException | None = None
        self._fatal: str | None = None
        self._unreachable = False
        self._leave_by = float("inf")

    def hurry(self) -> None:
        """From now on wait no longer for Kafka than a supervisor waits for us. For signal handlers."""
        self._leave_by = time.monotonic() + _HURRY_S

    def partition_count(self, topic: str) -> int:
        """How many partitions the topic has; ConfigurationError if it does not exist."""
        # Asked by the consumer: a producer's question would create the topic on a careless cluster.
        answer = self._insist(f"topic {topic}", lambda: self._consumer.list_topics(topic, timeout=_SLICE_S))
        found = answer.topics[topic]
        if found.error is not None:
            raise ConfigurationError(
                f"topic {topic}: expected an existing topic, found: {found.error.str()}; "
                f"`stream-apple topics` creates it"
            )
        return len(found.partitions)

    def join(self, assignment: Assignment) -> None:
        """Fence predecessors first: what they left open must be decided before offsets are read."""
        self._assignment = assignment
        self._insist("init_transactions", lambda: self._producer.init_transactions(_SLICE_S))
        self._subscribe()

    def rejoin(self) -> None:
        """Give up every partition; a static member has them back within a fraction of a second."""
        self._consumer.unsubscribe()
        self._subscribe()

    def _subscribe(self) -> None:
        self._consumer.subscribe(
            [self._examples], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def fetch(self, limit: int, timeout_s: float) -> Sequence[Record]:
        """Records, and everything that librdkafka has to tell meanwhile."""
        # librdkafka drops from this list what was fetched before a rebalance that happens during the call.
        messages = self._consumer.consume(limit, timeout_s)
        try:
            self._producer.poll(0)
        except KafkaException as error:
            raise verdict(error.args[0], "the producer") from error
        if self._raised is not None:
            raised, self._raised = self._raised, None
            raise raised
        if self._fatal is not None:
            raise BrokerError(self._fatal)
        if messages:
            self._reached()
        records = [message for message in messages if message.error() is None]
        if len(records) < len(messages):
            for message in messages:
                self._judge(message)
        return cast("list[Record]", records)

    def _judge(self, message: Message) -> None:
        error = message.error()
        if error is None:
            return
        place = f"{message.topic()}-{message.partition()}"
        if error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
            raise GapError(
                f"{place}@{message.offset()}: expected the next record to be in the log, found that it is gone: "
                f"retention has overtaken this worker ({error.str()})"
            )
        if _is_fatal(error) or error.code() in _FOR_THE_OPERATOR:
            raise verdict(error, f"fetching {place}")
        _log.warning("fetch_error", partition=message.partition(), error=error.str(), code=error.name())

    def committed(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """Committed offsets; waits for transactions that are still deciding them."""
        asked = [TopicPartition(self._examples, partition) for partition in partitions]
        found = self._insist("committed", lambda: self._consumer.committed(asked, timeout=_SLICE_S))
        for answer in found:
            if answer.error is not None:
                raise verdict(answer.error, f"committed offset of {answer.topic}-{answer.partition}")
        return {
            answer.partition: Committed(answer.offset, answer.metadata or "") if answer.offset >= 0 else None
            for answer in found
        }

    def log_range(self, partition: int) -> LogRange:
        """The broker's answer."""
        asked = TopicPartition(self._examples, partition)
        low, high = self._insist("watermarks", lambda: self._consumer.get_watermark_offsets(asked, timeout=_SLICE_S))
        return LogRange(low, high)

    def backlog(self, partition: int) -> int:
        """As of the latest fetch; the position steps over the markers of transactions, which are no records."""
        asked = TopicPartition(self._examples, partition)
        (found,) = self._consumer.position([asked])
        _, high = self._consumer.get_watermark_offsets(asked, cached=True)
        return max(high - found.offset, 0) if found.offset >= 0 and high >= 0 else -1

    def begin(self) -> None:
        """Local: the broker hears of it with the first message."""
        self._insist("begin_transaction", self._producer.begin_transaction)
        self._open = True

    def send(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: list[Header] | None = None,
    ) -> None:
        """Queue a message; waits while the queue is full."""
        message = (topic, value, key, partition, None, None, timestamp_ms, headers)
        try:
            try:
                self._produce(*message)
            except BufferError:
                self._send_later(message)
        except KafkaException as error:
            size = len(value or b"")
            raise verdict(error.args[0], f"sending {size} bytes to {topic}-{partition}") from error

    def _send_later(self, message: tuple[Any, ...]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            self._producer.poll(0.01)
            try:
                self._produce(*message)
            except BufferError:
                continue
            return
        topic, partition = message[0], message[3]
        raise BrokerError(f"{topic}-{partition}: expected room in the queue within {DEADLINE_S:g} s, found none")

    def commit(self, offsets: Mapping[int, Committed]) -> None:
        """Offsets under the group's present generation, so that a zombie's are refused; then commit."""
        positions = [
            TopicPartition(self._examples, partition, committed.offset, committed.metadata)
            for partition, committed in offsets.items()
        ]
        member = self._consumer.consumer_group_metadata()
        self._insist(
            "send_offsets_to_transaction",
            lambda: self._producer.send_offsets_to_transaction(positions, member, _SLICE_S),
        )
        self._insist("commit_transaction", lambda: self._producer.commit_transaction(_SLICE_S))
        self._open = False
        self._reached()

    def abort(self) -> None:
        """What was queued is sent first, if the broker answers; all of it is marked aborted in the log."""
        if self._open:
            # To end a transaction that the broker has not heard of yet is a fatal error (INVALID_TXN_STATE).
            self._producer.flush(_SLICE_S)
            self._insist("abort_transaction", lambda: self._producer.abort_transaction(_SLICE_S))
            self._open = False

    def close(self) -> None:
        """Abort first: others wait for the offsets that an open transaction has in doubt."""
        self._assignment = None
        if self._open:
            self._attempt("abort_transaction", lambda: self._producer.abort_transaction(_CLOSE_S))
        self._attempt("closing the consumer", self._consumer.close)
        self._attempt("closing the producer", self._producer.close)

    def _attempt(self, what: str, call: Callable[[], object]) -> None:
        """On the way out an error must not hide the one that we leave with; our successor cleans up anyway."""
        try:
            call()
        except KafkaException as error:
            _log.warning("close_error", doing=what, error=error.args[0].str())

    def _insist(self, what: str, call: Callable[[], _T]) -> _T:
        """The result of `call`, repeated on transient errors until the deadline."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                return call()
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                transient = error.retriable() or error.code() in _TRANSIENT
                if _is_fatal(error) or error.txn_requires_abort() or not transient:
                    raise verdict(error, what) from failure
                if time.monotonic() >= self._leave_by:
                    raise BrokerError(f"{what}: asked to stop while waiting for Kafka: {error.str()}") from failure
                if time.monotonic() >= deadline:
                    raise BrokerError(f"{what}: no success within {DEADLINE_S:g} s: {error.str()}") from failure

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._assignment is None:
            consumer.unassign()
            return
        try:
            positions = self._assignment.assigned([partition.partition for partition in partitions])
        except BaseException as error:  # noqa: BLE001  raised again by fetch
            self._raised = error
            consumer.unassign()
            return
        consumer.assign([TopicPartition(self._examples, number, at) for number, at in positions.items()])

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._give_up(consumer, partitions, None if self._assignment is None else self._assignment.revoked)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._give_up(consumer, partitions, None if self._assignment is None else self._assignment.lost)

    def _give_up(
        self,
        consumer: Consumer,
        partitions: list[TopicPartition],
        tell: Callable[[Sequence[int]], None] | None,
    ) -> None:
        try:
            if tell is not None:
                tell([partition.partition for partition in partitions])
        except BaseException as error:  # noqa: BLE001  raised again by fetch
            self._raised = error
        finally:
            consumer.unassign()

    def _on_error(self, error: KafkaError) -> None:
        if _is_fatal(error):
            self._fatal = f"{error.str()} ({error.name()})"
        elif error.code() == KafkaError._ALL_BROKERS_DOWN and not self._unreachable:  # noqa: SLF001
            self._unreachable = True
            _log.warning("brokers_unreachable", error=error.str())

    def _reached(self) -> None:
        if self._unreachable:
            self._unreachable = False
            _log.info("brokers_reachable")
