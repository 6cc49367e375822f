"""The transactional producer: messages and offsets that become visible together, or never.

**Why a producer may be replaced.** Kafka's client sends the requests that shape a transaction over several connections,
and sends a request again if its connection breaks. The first copy may hang in the network and arrive later. The broker
obeys it as long as its producer epoch is the current one: a late `EndTxn` then ends the *next* transaction, and a late
`AddOffsetsToTxn` opens one (KAFKA-17754; the protocol that rules this out, KIP-890, needs a client that sends `EndTxn`
version 5). So the next transaction keeps the epoch only if no request that ends a transaction, or adds offsets to it,
can have been sent twice. Otherwise a new producer with the same transactional id gets a new epoch, which makes the
brokers refuse everything that is still on its way. Three signals together are complete:

    the transaction did not end with a commit   an abort always replaces the producer, whatever the reason
    a call was made more than once              `RetryPolicy` repeated it after a timeout or a transient error
    a call took RESENT_AFTER_S or longer        librdkafka waits at least for so long before it sends a request again

A late `Produce` is refused by its sequence number. A late `AddPartitionsToTxn` harms no answer, but may open a
transaction that nobody ends. Its timeout then fences this producer, and the process ends with 75.
A fourth signal, a connection that failed during the transaction, makes that rare.

**An executor** makes calls that may block: signal handlers run while they are waited for, and the wait ends after
`CALL_S` even if the call does not. A blocked producer is replaced, too, and one that has delivered nothing for so long.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future  # noqa: TC003  an import like the others
from contextlib import contextmanager, suppress
from itertools import repeat, starmap
from math import inf
from operator import length_hint
from typing import Any, NoReturn

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from stream_apple.adapters.kafka.client_properties import RESENT_AFTER_S
from stream_apple.adapters.kafka.errors import (
    as_kafka_exception,
    call_error,
    delivery_error,
    is_fenced,
    translated,
)
from stream_apple.adapters.kafka.executor import AbandonableExecutor, AbandonedError
from stream_apple.adapters.kafka.herald import wait_for_connection
from stream_apple.adapters.kafka.retry import ATTEMPT_TIMEOUT_S, RetryPolicy
from stream_apple.errors import FencedError, StreamAppleError
from stream_apple.stream.log.ports import AbortableError, Committed, Header

CALL_S = 6.0
"""The longest time for a call that ends a transaction, with its repetitions; after it the outcome is in doubt. If no
message is taken for so long, a transaction that is to be committed is aborted."""

# Signal handlers run between slices. From 0.2 s on, confluent-kafka would call librdkafka several times, which could
# call back again after a fatal error (see `errors.as_kafka_exception`).
_FLUSH_SLICE_S = 0.1
_ROOM_POLL_S = 0.01
_CLOSE_S = 3.0

_log = structlog.get_logger()


class _Epoch:
    """A producer, which has one epoch of the transactional id from its fencing on, and the thread that calls it.

    fenced     whether the epoch has begun: `init_transactions` has succeeded
    fencing    the fencing that is under way in the background; None: there is none
    reported   the delivered messages whose `on_written` has not been called yet, each with its offset
    failure    the error of a message that was not delivered
    suspected  whether a connection has failed since the open transaction began
    """

    def __init__(self, open_producer: Callable[[Callable[[], None]], Producer]) -> None:
        self.producer = open_producer(self._suspect)
        self.executor = AbandonableExecutor("producer", self.producer)
        self.fenced = False
        self.fencing: Future[None] | None = None
        self.reported: deque[tuple[Callable[[int], None], int]] = deque()
        self.failure: StreamAppleError | AbortableError | None = None
        self.suspected = False

    def _suspect(self) -> None:
        self.suspected = True

    def end(self, wait_s: float = 0.0) -> bool:
        """Abort what is open and close the producer; wait for that, but not long; return whether it has succeeded.

        The rest is done in the background. FencedError if another process has the transactional id.
        """
        deadline, blocked = time.monotonic() + wait_s, self.executor.blocked
        try:
            with translated("abort_transaction"):
                self.executor.run(self._end, lambda: time.monotonic() >= deadline)
        except AbandonedError:
            return False
        finally:
            self.executor.close(self._end if blocked else None)
        return True

    def _end(self) -> None:
        try:
            with as_kafka_exception():
                self.producer.abort_transaction(_CLOSE_S)
        except KafkaException as failure:
            # Others don't matter: there was no transaction, or the next fencing aborts it.
            if is_fenced(failure.args[0]):
                raise
        finally:
            with suppress(KafkaException), as_kafka_exception():
                self.producer.close()


class TransactionalProducer:
    """Has one transaction at a time; see `ports.Broker` for the contracts of the methods.

    open_producer  opens a producer, which calls the function that it is given when a connection fails
    consumer       the member of the group whose offsets are committed
    topic          of these offsets; it exists
    prepare        called before fencing in the background, to make that short; it may block
    timeout_s      seconds after which the brokers abort an open transaction
    """

    def __init__(
        self,
        open_producer: Callable[[Callable[[], None]], Producer],
        consumer: Consumer,
        retry: RetryPolicy,
        topic: str,
        prepare: Callable[[], object],
        timeout_s: float,
    ) -> None:
        self._open_producer = open_producer
        self._consumer = consumer
        self._retry = retry
        self._topic = topic
        self._prepare = prepare
        self._timeout_s = timeout_s
        self._open_since: float | None = None
        self._begin_epoch()

    @property
    def open_s(self) -> float:
        """Return for how many seconds a transaction has been open; 0 if none is."""
        return 0.0 if self._open_since is None else time.monotonic() - self._open_since

    def _begin_epoch(self) -> None:
        self._epoch = epoch = _Epoch(self._open_producer)
        self._produce = epoch.producer.produce

    def start_fencing(self, permitted: Callable[[], object] = lambda: None) -> None:
        """Begin what `fence` does, and return immediately, so that it takes less time then. Call it once, early.

        No one is fenced before `permitted` returns. If `permitted` raises, `fence` raises that.
        """

        def prepare() -> None:
            permitted()
            self._prepare()

        self._epoch.fencing = self._epoch.executor.submit(self._fencing(prepare))

    def fence(self) -> None:
        """Begin a new epoch, unless it has begun, so that nothing of an earlier one can be committed any more.

        That holds for predecessors with this transactional id, and for late requests of this worker's own earlier
        producers. What they left open is aborted. After `start_fencing`, this waits for that, and raises what
        `permitted` raised.
        """
        if self._epoch.fenced or self._fenced_in_background():
            self._epoch.fenced = True
            return
        limit_s = min(CALL_S, self._retry.deadline_s)
        with self._retry.waiting("init_transactions"):
            for _ in self._retry.attempts():
                try:
                    self._retry.retry_until_deadline(
                        "init_transactions", self._fencing(), self._epoch.executor, limit_s=limit_s, replaced=True
                    )
                except AbortableError as error:
                    # librdkafka may never find the coordinator again with this one; a new one asks from scratch.
                    self._replace(str(error))
                    failure = error
                else:
                    self._epoch.fenced = True
                    return
            raise failure

    def _fencing(self, prepare: Callable[[], object] = lambda: None) -> Callable[[], None]:
        producer = self._epoch.producer

        def fence() -> None:
            prepare()
            wait_for_connection(producer, self._topic)
            producer.init_transactions(ATTEMPT_TIMEOUT_S)

        return fence

    def _fenced_in_background(self) -> bool:
        epoch = self._epoch
        fencing, epoch.fencing = epoch.fencing, None
        if fencing is not None:
            # Errors are ignored here: the call is made again, and its errors are translated then.
            with (
                self._retry.waiting("init_transactions", inf) as is_expired,
                suppress(KafkaException, AbandonedError),
                as_kafka_exception(),
            ):
                epoch.executor.wait(fencing, is_expired)
                return True
        return False

    def serve(self) -> None:
        """Have librdkafka report deliveries, and call the messages' `on_written`; raise the error of one that failed.

        A caller that waits for its `on_written` would otherwise wait indefinitely.
        """
        with self._not_fenced_by_timeout():
            with translated("the producer", replaced=True):
                self._epoch.producer.poll(0)
            self._report_deliveries()

    @contextmanager
    def _not_fenced_by_timeout(self) -> Iterator[None]:
        """Inside this context, FencedError is AbortableError if the transaction has been open for `timeout_s`.

        When the brokers abort such a transaction, they fence its producer, as another process would.
        """
        try:
            yield
        except FencedError as error:
            if self.open_s < self._timeout_s:
                raise
            late = f"open for {self.open_s:.0f} s, longer than transaction.timeout.ms"
            raise AbortableError(f"{late}: {error}") from error

    def begin(self) -> None:
        """Begin a transaction in the client; the broker learns of it with the first message."""
        self.fence()
        self._epoch.suspected = False
        self._open_since = time.monotonic()
        self._retry.retry_until_deadline("begin_transaction", self._epoch.producer.begin_transaction, replaced=True)

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
            self._refuse(failure.args[0], value, f"{topic}-{partition}")

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
                self._refuse(failure.args[0], refused, f"{topic}-{partition}")
            else:
                return

    def _refuse(self, error: KafkaError, value: bytes | None, place: str) -> NoReturn:
        """Raise the port's error for a message that the client does not take.

        If an earlier message has failed, the client says only that the transaction is over, or that it has had a fatal
        error, as when another process has fenced it. A call with offsets then returns the cause, and sends nothing.
        Some causes an operator must mend, so that to repeat the transaction would be in vain.
        """
        if error.code() in (KafkaError._STATE, KafkaError._FATAL):  # noqa: SLF001  librdkafka's own codes begin so
            try:
                with as_kafka_exception():
                    member = self._consumer.consumer_group_metadata()
                    offsets = [TopicPartition(self._topic, 0, 0)]
                    self._epoch.producer.send_offsets_to_transaction(offsets, member, ATTEMPT_TIMEOUT_S)
            except KafkaException as failure:
                error = failure.args[0]
        with self._not_fenced_by_timeout():
            raise call_error(error, f"sending {len(value or b'')} bytes to {place}", replaced=True)

    def _send_when_there_is_room(self, message: tuple[Any, ...]) -> None:
        what = f"sending to {message[0]}-{message[3]}"
        with self._retry.waiting(what) as is_expired:
            while not is_expired():
                with as_kafka_exception():
                    self._epoch.producer.poll(_ROOM_POLL_S)
                with suppress(BufferError):
                    self._produce(*message)
                    return
            raise self._retry.given_up(what, "the queue has no room")

    def _delivery_report(
        self, on_written: Callable[[int], None], place: str
    ) -> Callable[[KafkaError | None, Message], None]:
        epoch = self._epoch

        def report(error: KafkaError | None, message: Message) -> None:
            # This may run on the executor's thread; `_report_deliveries` informs the loop on the loop's thread.
            if error is None:
                epoch.reported.append((on_written, message.offset() or 0))
            elif epoch.failure is None:
                epoch.failure = delivery_error(error, place)

        return report

    def _report_deliveries(self) -> None:
        epoch = self._epoch
        if epoch.failure is not None:
            raise epoch.failure
        while epoch.reported:
            on_written, offset = epoch.reported.popleft()
            on_written(offset)

    def flush(self) -> None:
        """Wait until the broker has all messages; raise the error of a message with `on_written` that failed."""
        with self._not_fenced_by_timeout():
            self._deliver()
            self._report_deliveries()

    def _deliver(self) -> None:
        least, since = inf, time.monotonic()
        with self._retry.waiting("flush") as is_expired, translated("flush", replaced=True):
            while left := self._epoch.producer.flush(_FLUSH_SLICE_S):
                if is_expired():
                    raise self._retry.given_up("flush", f"{left} messages are not taken")
                if left < least:
                    least, since = left, time.monotonic()
                elif time.monotonic() >= since + CALL_S:
                    raise AbortableError(f"flush: no message was taken for {CALL_S:g} s, {left} are left")

    def commit(self, offsets: Mapping[int, Committed]) -> None:
        """Send the offsets with the group's present generation, so that a zombie's are refused; then commit.

        AbortableError if the outcome is in doubt: what is committed can be read after the next fencing.
        """
        positions = [
            TopicPartition(self._topic, partition, committed.offset, committed.metadata)
            for partition, committed in offsets.items()
        ]
        producer = self._epoch.producer
        with self._not_fenced_by_timeout():
            # Only the end of the transaction is timed: messages may take as long as the brokers need for them.
            self._deliver()
            with translated("consumer_group_metadata"):
                member = self._consumer.consumer_group_metadata()
            sent_once = [
                self._sends_once(
                    "send_offsets_to_transaction",
                    lambda: producer.send_offsets_to_transaction(positions, member, ATTEMPT_TIMEOUT_S),
                ),
                self._sends_once("commit_transaction", lambda: producer.commit_transaction(ATTEMPT_TIMEOUT_S)),
            ]
        self._open_since = None
        self._epoch.reported.clear()
        if not all(sent_once) or self._epoch.suspected:
            self._replace("a request may have been sent twice")

    def _sends_once(self, what: str, call: Callable[[], object]) -> bool:
        """Make a call; return whether it cannot have sent any request twice."""
        seconds = []

        def timed() -> None:
            seconds.append(inf)
            began = time.monotonic()
            call()
            seconds[-1] = time.monotonic() - began

        self._retry.retry_until_deadline(what, timed, self._epoch.executor, limit_s=CALL_S, replaced=True)
        return len(seconds) == 1 and seconds[0] < RESENT_AFTER_S

    def abort(self) -> None:
        """Give up the open transaction, if there is one, with its producer; no reader ever sees anything of it.

        This waits a few seconds at most, and raises FencedError if another process has the transactional id. If the
        brokers have not confirmed the abort by then, the next fencing aborts the transaction.
        """
        if self._open_since is not None:
            try:
                with suppress(AbortableError), self._not_fenced_by_timeout():
                    self._replace("the transaction was aborted", _CLOSE_S)
            finally:
                self._open_since = None

    def _replace(self, reason: str, wait_s: float = 0.0) -> None:
        """Give up the producer, and wait for its end, but not long; the next one begins its epoch in `fence`."""
        _log.info("producer_replaced", reason=reason)
        ended = self._epoch
        self._begin_epoch()
        ended.end(wait_s)

    def close(self) -> None:
        """Abort an open transaction, as others wait for its offsets, and close; it blocks for some seconds at most."""
        try:
            closed, error = self._epoch.end(_CLOSE_S), "a call of the producer is still blocked"
        except StreamAppleError as failure:  # it must not hide the one that ends the worker
            closed, error = False, str(failure)
        if not closed:
            _log.warning("close_error", doing="closing the producer", error=error)
