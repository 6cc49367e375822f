"""The transactional producer: messages and offsets that become visible together, or never.

Calls that may block are made aside: while we wait for them, signals are seen, and after `Patience.hurry` the wait
ends even if the call does not.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from stream_apple.adapters.aside import AbandonedError, Aside
from stream_apple.adapters.patience import DEADLINE_S, SLICE_S, Patience
from stream_apple.adapters.verdicts import delivery_verdict, verdict
from stream_apple.errors import BrokerError, StreamAppleError
from stream_apple.runtime.ports import AbortableError, Committed, Header

_FLUSH_SLICE_S = 0.2
_CLOSE_S = 3.0

_log = structlog.get_logger()


class Transactions:
    """One transaction at a time; see `ports.Broker` for what the methods promise. `fence` comes first."""

    def __init__(self, producer: Producer, patience: Patience) -> None:
        self._producer = producer
        self._produce = producer.produce
        self._patience = patience
        self._aside = Aside("producer", producer)
        self._prepared: Callable[[], None] | None = None
        self._open = False
        self._written: deque[tuple[Callable[[int], None], int]] = deque()
        self._undelivered: StreamAppleError | AbortableError | None = None

    def prepare(self, topic: str) -> None:
        """Begin what `fence` does, and return at once.

        A transaction that a dead predecessor left open costs half a second: so long librdkafka waits before it asks
        again whether it has been aborted.
        """
        begun = self._aside.begin(lambda: self._fence_once(topic))
        self._prepared = lambda: self._aside.wait(begun, lambda: self._patience.is_over)

    def fence(self, topic: str) -> None:
        """Put out predecessors with our id, and abort what they left open. `topic` is any that exists."""
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            # What went wrong will go wrong again, and be judged then.
            with suppress(KafkaException, AbandonedError):
                prepared()
                return
        self._patience.insist("init_transactions", lambda: self._fence_once(topic), self._aside)

    def _fence_once(self, topic: str) -> None:
        # Without a connection `init_transactions` would look for one only every half second.
        self._producer.list_topics(topic, SLICE_S)
        self._producer.init_transactions(SLICE_S)

    def serve(self) -> None:
        """Pass on what the producer has to tell."""
        try:
            self._producer.poll(0)
        except KafkaException as error:
            raise verdict(error.args[0], "the producer") from error
        self._tell_written()

    def begin(self) -> None:
        """Local: the broker hears of it with the first message."""
        self._patience.insist("begin_transaction", self._producer.begin_transaction)
        self._open = True

    def send(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: list[Header] | None,
        on_written: Callable[[int], None] | None,
    ) -> None:
        """Queue a message; waits while the queue is full."""
        report = None if on_written is None else self._report_to(on_written, f"{topic}-{partition}")
        message = (topic, value, key, partition, report, None, timestamp_ms, headers)
        try:
            try:
                self._produce(*message)
            except BufferError:
                self._send_later(message)
        except KafkaException as error:
            size = len(value or b"")
            raise verdict(error.args[0], f"sending {size} bytes to {topic}-{partition}") from error

    def _send_later(self, message: tuple[Any, ...]) -> None:
        place = f"{message[0]}-{message[3]}"
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            if self._patience.is_over:
                raise BrokerError(f"{place}: asked to stop while waiting for room in the queue")
            self._producer.poll(0.01)
            try:
                self._produce(*message)
            except BufferError:
                continue
            return
        raise BrokerError(f"{place}: expected room in the queue within {DEADLINE_S:g} s, found none")

    def _report_to(self, on_written: Callable[[int], None], place: str) -> Callable[[KafkaError | None, Message], None]:
        def report(error: KafkaError | None, message: Message) -> None:
            # This may be the thread aside; the loop is told on its own.
            if error is None:
                self._written.append((on_written, message.offset() or 0))
            elif self._undelivered is None:
                self._undelivered = delivery_verdict(error, place)

        return report

    def _tell_written(self) -> None:
        while self._written:
            tell, offset = self._written.popleft()
            tell(offset)

    def flush(self) -> None:
        """Wait in slices, so that signals are seen; the verdict if one of the messages with `on_written` failed."""
        deadline = time.monotonic() + DEADLINE_S
        while left := self._flush(_FLUSH_SLICE_S):
            if self._patience.is_over:
                raise BrokerError(f"flush: asked to stop while waiting for Kafka to take {left} messages")
            if time.monotonic() >= deadline:
                raise BrokerError(f"flush: no success within {DEADLINE_S:g} s: {left} messages are not taken")
        if self._undelivered is not None:
            raise self._undelivered
        self._tell_written()

    def _flush(self, timeout_s: float) -> int:
        try:
            return self._producer.flush(timeout_s)
        except KafkaException as error:
            raise verdict(error.args[0], "flush") from error

    def commit(self, topic: str, offsets: Mapping[int, Committed], consumer: Consumer) -> None:
        """Offsets under the group's present generation, so that a zombie's are refused; then commit."""
        positions = [
            TopicPartition(topic, partition, committed.offset, committed.metadata)
            for partition, committed in offsets.items()
        ]
        member = consumer.consumer_group_metadata()
        self._patience.insist(
            "send_offsets_to_transaction",
            lambda: self._producer.send_offsets_to_transaction(positions, member, SLICE_S),
            self._aside,
        )
        self._patience.insist("commit_transaction", lambda: self._producer.commit_transaction(SLICE_S), self._aside)
        self._forget()

    def abort(self) -> None:
        """What was queued is sent first, if the broker answers; all of it is marked aborted in the log."""
        if self._open:
            # To end a transaction that the broker has not heard of yet is a fatal error (INVALID_TXN_STATE).
            self._patience.insist("flush", lambda: self._producer.flush(SLICE_S), self._aside)
            self._patience.insist("abort_transaction", lambda: self._producer.abort_transaction(SLICE_S), self._aside)
            self._forget()

    def _forget(self) -> None:
        self._open = False
        self._written.clear()
        self._undelivered = None

    def close(self) -> None:
        """Abort: others wait for the offsets that an open transaction has in doubt. Blocks some seconds at most."""
        deadline = time.monotonic() + _CLOSE_S
        ended = True
        if self._open:
            ended = self._attempt("abort_transaction", lambda: self._producer.abort_transaction(_CLOSE_S), deadline)
        # Otherwise closing would try to abort once more. The producer is left to whoever drops its last reference.
        if ended:
            self._attempt("closing the producer", self._producer.close, deadline)
        self._aside.close()

    def _attempt(self, what: str, call: Callable[[], object], deadline: float) -> bool:
        """Whether it went well. On the way out an error must not hide the one that we leave with."""
        try:
            self._aside.run(call, lambda: time.monotonic() >= deadline)
        except AbandonedError:
            _log.warning("close_error", doing=what, error="a call of the producer is still blocked")
            return False
        except KafkaException as error:
            _log.warning("close_error", doing=what, error=error.args[0].str())
            return False
        return True
