"""The transactional producer: messages and offsets that become visible together, or never.

A producer that is fenced learns of it only from its next request to the cluster. So while it has no transaction, it
asks every few seconds whether its transactional id is still its own.

An executor makes calls that may block: signal handlers run while they are waited for, and after
`RetryPolicy.shorten_deadline` the wait ends even if the call does not.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future  # noqa: TC003  an import like the others
from contextlib import suppress
from itertools import repeat, starmap
from operator import length_hint
from typing import Any

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from stream_apple.adapters.kafka.errors import (
    UNKNOWN,
    as_kafka_exception,
    call_error,
    delivery_error,
    is_fenced,
    is_transient,
    translated,
)
from stream_apple.adapters.kafka.executor import AbandonableExecutor, AbandonedError
from stream_apple.adapters.kafka.herald import wait_for_connection
from stream_apple.adapters.kafka.retry import ATTEMPT_TIMEOUT_S, RetryPolicy
from stream_apple.errors import StreamAppleError
from stream_apple.stream.log.ports import AbortableError, Committed, Header

CONFIRM_S = 5.0
"""Seconds between two confirmations of the transactional id while there is no transaction. They cost the cluster about
a tenth of the work of a busy worker."""

# Signal handlers run between slices. From 0.2 s on, confluent-kafka would call librdkafka several times, which could
# call back again after a fatal error (see `errors.as_kafka_exception`).
_FLUSH_SLICE_S = 0.1
_ROOM_POLL_S = 0.01
_CLOSE_S = 3.0

_log = structlog.get_logger()


class TransactionalProducer:
    """Has one transaction at a time; see `ports.Broker` for the contracts of the methods. Call `fence` first.

    consumer  the member of the group whose offsets are committed
    topic     of these offsets; it exists
    prepare   called before fencing in the background, to make that short; it may block
    """

    def __init__(
        self, producer: Producer, consumer: Consumer, retry: RetryPolicy, topic: str, prepare: Callable[[], object]
    ) -> None:
        self._producer = producer
        self._consumer = consumer
        self._produce = producer.produce
        self._retry = retry
        self._topic = topic
        self._prepare = prepare
        self._executor = AbandonableExecutor("producer", producer)
        self._fencing: Future[None] | None = None
        self._confirming: Future[None] | None = None
        self._confirmed_at = 0.0
        self._topic_unknown = False
        self._open_since: float | None = None
        self._written: deque[tuple[Callable[[int], None], int]] = deque()
        self._undelivered: StreamAppleError | AbortableError | None = None

    @property
    def open_s(self) -> float:
        """Return for how many seconds a transaction, also that of a confirmation, has been open; 0 if none is."""
        since = self._open_since if self._confirming is None else self._confirmed_at
        return 0.0 if since is None else time.monotonic() - since

    def start_fencing(self, permitted: Callable[[], object] = lambda: None) -> None:
        """Begin what `fence` does, and return at once, so that it takes less time then. Call it once, early.

        No one is fenced before `permitted` returns. If `permitted` raises, `fence` raises that.
        """

        def fence() -> None:
            permitted()
            self._prepare()
            self._fence_once()

        self._fencing = self._executor.submit(fence)

    def fence(self) -> None:
        """Make every predecessor with this transactional id unable to commit, and abort what it left open.

        After `start_fencing`, it waits for that, and raises what `permitted` raised.
        """
        if not self._has_fenced():
            self._retry.retry_until_deadline("init_transactions", self._fence_once, self._executor)
        self._confirmed_at = time.monotonic()

    def _has_fenced(self) -> bool:
        fencing, self._fencing = self._fencing, None
        if fencing is not None:
            # Errors are ignored here: the call is made again, and its errors are translated then.
            with (
                self._retry.waiting("init_transactions", math.inf) as is_expired,
                suppress(KafkaException, AbandonedError),
                as_kafka_exception(),
            ):
                self._executor.wait(fencing, is_expired)
                return True
        return False

    def _fence_once(self) -> None:
        wait_for_connection(self._producer, self._topic)
        self._producer.init_transactions(ATTEMPT_TIMEOUT_S)

    def serve(self) -> None:
        """Have librdkafka report deliveries, and call the messages' `on_written`; raise the error of one that failed.

        Whoever waits for its `on_written` would wait for ever.
        """
        with translated("the producer"):
            self._producer.poll(0)
        self._report_deliveries()

    def confirm(self, *, ask: bool = True) -> None:
        """Ask the cluster, in the background and every CONFIRM_S without a transaction, whether the id is still ours.

        A later call raises FencedError if it is not, and ConfigurationError if the topic does not exist any more.

        ask  whether the cluster may be asked now
        """
        if self._confirming is not None:
            if self._confirming.done():
                self._await_confirmation()
            return
        due = self._open_since is None and time.monotonic() >= self._confirmed_at + CONFIRM_S
        if ask and due and not self._executor.blocked:
            self._confirmed_at = time.monotonic()
            with translated("consumer_group_metadata"):
                if not self._consumer.memberid():
                    # It waits for the group, as for the partitions of a worker that has just stopped: it has nothing to
                    # lose, and the group would refuse it as another's, which librdkafka logs as an error.
                    return
                member = self._consumer.consumer_group_metadata()
            self._confirming = self._executor.submit(lambda: self._ask_whose_id_it_is(member))

    def _ask_whose_id_it_is(self, member: object) -> None:
        # librdkafka does not tell the cluster of an empty transaction, so this one has an offset, and is aborted. An
        # error about an old generation of the group is ignored, as it says nothing about the transactional id. That the
        # topic is unknown is believed the second time: a broker that has just come back may not know of it yet.
        offsets = [TopicPartition(self._topic, 0, 0)]

        def passes(error: KafkaError) -> bool:
            return is_transient(error) and not self._executor.closing

        patient = RetryPolicy(float("inf"))  # `connectivity` decides for how long there may be no broker
        self._producer.begin_transaction()
        try:
            patient.retry_while(
                passes, lambda: self._producer.send_offsets_to_transaction(offsets, member, ATTEMPT_TIMEOUT_S)
            )
        except KafkaException as failure:
            error = failure.args[0]
            before, self._topic_unknown = self._topic_unknown, error.code() in UNKNOWN
            if is_fenced(error) or (before and self._topic_unknown):
                raise
        else:
            self._topic_unknown = False
        patient.retry_while(passes, lambda: self._producer.abort_transaction(ATTEMPT_TIMEOUT_S))

    def _await_confirmation(self) -> None:
        if self._confirming is None:
            return
        what = "confirming the transactional id"
        try:
            with self._retry.waiting(what) as is_expired, translated(what):
                self._executor.wait(self._confirming, is_expired)
        except AbandonedError:
            raise self._retry.given_up(what, "the call is still blocked") from None
        self._confirming = None
        self._confirmed_at = time.monotonic()

    def begin(self) -> None:
        """Begin a transaction in the client; the broker learns of it with the first message."""
        self._await_confirmation()
        self._retry.retry_until_deadline("begin_transaction", self._producer.begin_transaction)
        self._open_since = time.monotonic()

    def send(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: list[Header] | None = None,
        on_written: Callable[[int], None] | None = None,
    ) -> None:
        """Queue a message, after a wait if the queue is full."""
        report = None if on_written is None else self._delivery_report(on_written, f"{topic}-{partition}")
        message = (topic, value, key, partition, report, None, timestamp_ms, headers)
        # This runs for each record, so it enters no context; `produce` serves no callbacks, so it needs none.
        try:
            try:
                self._produce(*message)
            except BufferError:
                self._send_when_there_is_room(message)
        except KafkaException as failure:
            raise self._refusal(failure.args[0], value, f"{topic}-{partition}") from failure

    def send_all(
        self,
        topic: str,
        partition: int,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps_ms: Sequence[int],
    ) -> None:
        """Queue messages, after a wait if the queue is full."""
        # `produce_batch` takes no timestamps. Here no line of Python is executed for a message, which saves a third of
        # the time of `send`. If a message is refused, the iterator's length hint tells which one.
        if not len(keys) == len(values) == len(timestamps_ms):
            raise ValueError(f"expected as many of each, found {len(keys)}, {len(values)}, {len(timestamps_ms)}")
        left = iter(values)
        messages = zip(
            repeat(topic), left, keys, repeat(partition), repeat(None), repeat(None), timestamps_ms, strict=False
        )
        while True:
            try:
                deque(starmap(self._produce, messages), maxlen=0)
            except BufferError:
                number = len(values) - length_hint(left) - 1
                self.send(topic, partition, keys[number], values[number], timestamps_ms[number])
            except KafkaException as failure:
                refused = values[len(values) - length_hint(left) - 1]
                raise self._refusal(failure.args[0], refused, f"{topic}-{partition}") from failure
            else:
                return

    def _refusal(self, error: KafkaError, value: bytes | None, place: str) -> StreamAppleError | AbortableError:
        """Return the port's error for a message that the client does not take.

        If an earlier message has failed, the client says only that the transaction is over, or that it has had a fatal
        error, as when another process has fenced it. It tells the cause when it is given offsets, which it does not
        send then: some causes an operator must mend, and to repeat the transaction would be in vain. In any case this
        one is aborted.
        """
        if error.code() in (KafkaError._STATE, KafkaError._FATAL):  # noqa: SLF001  librdkafka's own codes begin so
            try:
                with as_kafka_exception():
                    member = self._consumer.consumer_group_metadata()
                    offsets = [TopicPartition(self._topic, 0, 0)]
                    self._producer.send_offsets_to_transaction(offsets, member, ATTEMPT_TIMEOUT_S)
            except KafkaException as failure:
                error = failure.args[0]
        return call_error(error, f"sending {len(value or b'')} bytes to {place}")

    def _send_when_there_is_room(self, message: tuple[Any, ...]) -> None:
        what = f"sending to {message[0]}-{message[3]}"
        with self._retry.waiting(what) as is_expired:
            while not is_expired():
                with as_kafka_exception():
                    self._producer.poll(_ROOM_POLL_S)
                with suppress(BufferError):
                    self._produce(*message)
                    return
            raise self._retry.given_up(what, "the queue has no room")

    def _delivery_report(
        self, on_written: Callable[[int], None], place: str
    ) -> Callable[[KafkaError | None, Message], None]:
        def report(error: KafkaError | None, message: Message) -> None:
            # This may run on the executor's thread; `_report_deliveries` tells the loop on the loop's thread.
            if error is None:
                self._written.append((on_written, message.offset() or 0))
            elif self._undelivered is None:
                self._undelivered = delivery_error(error, place)

        return report

    def _report_deliveries(self) -> None:
        if self._undelivered is not None:
            raise self._undelivered
        while self._written:
            on_written, offset = self._written.popleft()
            on_written(offset)

    def flush(self) -> None:
        """Wait until the broker has all messages; raise the error of a message with `on_written` that failed."""
        with self._retry.waiting("flush") as is_expired, translated("flush"):
            while left := self._producer.flush(_FLUSH_SLICE_S):
                if is_expired():
                    raise self._retry.given_up("flush", f"{left} messages are not taken")
        self._report_deliveries()

    def commit(self, offsets: Mapping[int, Committed]) -> None:
        """Send the offsets with the group's present generation, so that a zombie's are refused; then commit."""
        positions = [
            TopicPartition(self._topic, partition, committed.offset, committed.metadata)
            for partition, committed in offsets.items()
        ]
        with translated("consumer_group_metadata"):
            member = self._consumer.consumer_group_metadata()
        self._retry.retry_until_deadline(
            "send_offsets_to_transaction",
            lambda: self._producer.send_offsets_to_transaction(positions, member, ATTEMPT_TIMEOUT_S),
            self._executor,
        )
        self._retry.retry_until_deadline(
            "commit_transaction", lambda: self._producer.commit_transaction(ATTEMPT_TIMEOUT_S), self._executor
        )
        self._forget()

    def abort(self) -> None:
        """Abort the transaction, if one is open, after sending the queued messages, which are aborted with it."""
        if self._open_since is not None:
            # Ending a transaction that the broker does not know of yet is a fatal error (INVALID_TXN_STATE).
            self._retry.retry_until_deadline("flush", self._flush_once, self._executor)
            self._retry.retry_until_deadline(
                "abort_transaction", lambda: self._producer.abort_transaction(ATTEMPT_TIMEOUT_S), self._executor
            )
            self._forget()

    def _flush_once(self) -> None:
        deadline = time.monotonic() + ATTEMPT_TIMEOUT_S
        while self._producer.flush(_FLUSH_SLICE_S) and time.monotonic() < deadline:
            pass

    def _forget(self) -> None:
        self._open_since = None
        self._confirmed_at = time.monotonic()
        self._written.clear()
        self._undelivered = None

    def close(self) -> None:
        """Abort an open transaction, as others wait for its offsets, and close; it blocks for some seconds at most."""
        deadline = time.monotonic() + _CLOSE_S
        ended = True
        if self._confirming is not None:
            with suppress(KafkaException, AbandonedError), as_kafka_exception():
                self._executor.wait(self._confirming, lambda: time.monotonic() >= deadline)
        if self._open_since is not None:
            ended = self._succeeds("abort_transaction", lambda: self._producer.abort_transaction(_CLOSE_S), deadline)
        # If the abort failed, closing would try it once more; the producer then ends with its last reference.
        if ended:
            self._succeeds("closing the producer", self._producer.close, deadline)
        self._executor.close()

    def _succeeds(self, what: str, call: Callable[[], object], deadline: float) -> bool:
        """Return whether the call succeeds in time; log its error, which must not hide the one that ends the worker."""
        try:
            with as_kafka_exception():
                self._executor.run(call, lambda: time.monotonic() >= deadline)
        except AbandonedError:
            _log.warning("close_error", doing=what, error="a call of the producer is still blocked")
            return False
        except KafkaException as error:
            _log.warning("close_error", doing=what, error=error.args[0].str())
            return False
        return True
