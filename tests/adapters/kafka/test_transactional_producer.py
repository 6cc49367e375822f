"""The transactional producer: when it is replaced, and what it does when the client's queue is full."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from support.waiting import DEADLINE_S, wait_until

from stream_apple.adapters.kafka.client_properties import RESENT_AFTER_S
from stream_apple.adapters.kafka.retry import RetryPolicy
from stream_apple.adapters.kafka.transactional_producer import TransactionalProducer
from stream_apple.errors import BrokerError, ConfigurationError, FencedError
from stream_apple.stream.log.ports import AbortableError, Committed


class Queue:
    """A client's queue of one message that is taken at every `takes`th poll; 0: never."""

    def __init__(self, takes: int) -> None:
        self.takes = takes
        self.polls = 0
        self.waiting: list[tuple[bytes, bytes, int]] = []
        self.taken: list[tuple[bytes, bytes, int]] = []

    def produce(self, _topic: str, value: bytes, key: bytes, *more: Any) -> None:
        """BufferError while a message is waiting."""
        if value == b"refused":
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        if self.waiting:
            raise BufferError
        self.waiting.append((key, value, more[3]))

    def poll(self, _seconds: float) -> None:
        """Time passes."""
        self.polls += 1
        if self.takes and self.polls % self.takes == 0:
            self.taken += self.waiting
            self.waiting = []

    def flush(self, seconds: float) -> int:
        """As poll; the number of messages that are left."""
        self.poll(seconds)
        return len(self.waiting)

    def abort_transaction(self, _seconds: float) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


class Client:
    """A transactional client whose cluster gives `answers` to offsets, one after the other, the last one for ever.

    calls     what it was asked for
    failures  of a call, one after the other, before it succeeds
    seconds   that a call takes
    gates     a call waits for
    """

    def __init__(self, *answers: KafkaError | None) -> None:
        self.calls: list[str] = []
        self.failures: dict[str, list[KafkaError]] = {}
        self.seconds: dict[str, float] = {}
        self.gates: dict[str, threading.Event] = {}
        self._answers = list(answers)

    def _called(self, name: str, answer: KafkaError | None = None) -> None:
        failures = self.failures.get(name)
        if failures:
            answer = failures.pop(0)
        self.calls.append(name if answer is None else answer.name())
        if name in self.gates:
            self.gates[name].wait(DEADLINE_S)
        time.sleep(self.seconds.get(name, 0.0))
        if answer is not None:
            raise KafkaException(answer)

    def produce(self, *_: object) -> None:
        """Nobody sends anything."""

    def flush(self, _seconds: float) -> int:
        """Nothing is queued."""
        return 0

    def list_topics(self, *_: object) -> None:
        """A connection."""

    def init_transactions(self, _seconds: float) -> None:
        """Fence."""
        self._called("init")

    def begin_transaction(self) -> None:
        """Local."""
        self._called("begin")

    def send_offsets_to_transaction(self, *_: object) -> None:
        """Answer."""
        self._called("offsets", self._answers.pop(0) if len(self._answers) > 1 else self._answers[0])

    def commit_transaction(self, _seconds: float) -> None:
        """Commit."""
        self._called("commit")

    def abort_transaction(self, _seconds: float) -> None:
        """Abort."""
        self._called("abort")

    def close(self) -> None:
        """End."""
        self.calls.append("close")


class Member:
    """What is asked of the consumer."""

    def consumer_group_metadata(self) -> object:
        """Anything."""
        return object()


class Opened:
    """Opens a client for each epoch, one after the other; `suspects`: what each is to call when a connection fails."""

    def __init__(self, *clients: Any) -> None:
        self._left = list(clients)
        self.suspects: list[Callable[[], None]] = []

    def __call__(self, suspect: Callable[[], None]) -> Any:
        """The next client, or a silent one."""
        self.suspects.append(suspect)
        return self._left.pop(0) if self._left else Client(None)


def producing(
    opened: Opened,
    prepare: Callable[[], object] = lambda: None,
    deadline_s: float = DEADLINE_S,
    timeout_s: float = DEADLINE_S,
) -> TransactionalProducer:
    """A producer of these clients."""
    retry = RetryPolicy(deadline_s, failure=AbortableError)
    return TransactionalProducer(opened, cast("Any", Member()), retry, "examples", prepare, timeout_s)


OFFSETS = {0: Committed(7, "note")}


class TestEpochs:
    """When the next transaction has a new producer, and so an epoch that fences late requests of the last one."""

    @staticmethod
    def commit_twice(client: Client, during: Callable[[Opened], None] = lambda _: None) -> tuple[list[str], list[str]]:
        """What is asked of the first producer, and of the second one if there is one."""
        second = Client(None)
        opened = Opened(client, second)
        producer = producing(opened)
        producer.begin()
        during(opened)
        producer.commit(OFFSETS)
        producer.begin()
        producer.commit(OFFSETS)
        producer.close()
        return client.calls, second.calls

    def test_it_stays_while_commits_are_prompt(self) -> None:
        """The usual case costs nothing."""
        first, second = self.commit_twice(Client(None))
        assert first == ["init", *["begin", "offsets", "commit"] * 2, "abort", "close"]
        assert second == []

    @pytest.mark.parametrize("slow", ["offsets", "commit"])
    def test_it_ends_with_a_commit_that_was_slow_enough_for_a_second_request(self, slow: str) -> None:
        """Librdkafka says nothing of the requests that it sends again, but it waits before."""
        client = Client(None)
        client.seconds[slow] = RESENT_AFTER_S
        first, second = self.commit_twice(client)
        assert first == ["init", "begin", "offsets", "commit", "abort", "close"]
        assert second == ["init", "begin", "offsets", "commit", "abort", "close"]

    @pytest.mark.parametrize("repeated", ["offsets", "commit"])
    def test_it_ends_with_a_call_that_was_made_twice(self, repeated: str) -> None:
        """However prompt each was."""
        client = Client(None)
        client.failures[repeated] = [KafkaError(KafkaError._TIMED_OUT, "x", retriable=True)]
        first, second = self.commit_twice(client)
        assert first.count("begin") == second.count("begin") == 1
        assert first.count(repeated) == 1
        assert first.count("_TIMED_OUT") == 1

    def test_it_ends_when_a_connection_failed_during_the_transaction(self) -> None:
        """What was sent over it may have been sent again over another one."""
        first, second = self.commit_twice(Client(None), lambda opened: opened.suspects[0]())
        assert first.count("begin") == second.count("begin") == 1

    def test_a_connection_that_failed_before_is_no_reason(self) -> None:
        """Brokers close idle connections every day."""
        opened = Opened(Client(None))
        producer = producing(opened)
        producer.fence()
        opened.suspects[0]()
        producer.begin()
        producer.commit(OFFSETS)
        producer.begin()
        assert len(opened.suspects) == 1
        producer.close()

    def test_the_failure_of_a_producer_that_was_replaced_is_no_reason(self) -> None:
        """It closes its connections."""
        opened = Opened()
        producer = producing(opened)
        producer.begin()
        producer.abort()
        producer.begin()
        opened.suspects[0]()
        producer.commit(OFFSETS)
        producer.begin()
        assert len(opened.suspects) == 2
        producer.close()

    def test_it_ends_with_every_abort(self) -> None:
        """An abort is waited for, so that others need not wait for the transaction's timeout."""
        first, second = Client(None), Client(None)
        producer = producing(Opened(first, second))
        producer.abort()
        producer.begin()
        producer.abort()
        assert first.calls == ["init", "begin", "abort", "close"]
        assert second.calls == []
        producer.fence()
        producer.fence()
        assert second.calls == ["init"]
        producer.close()

    def test_an_abort_that_says_that_the_id_is_taken(self) -> None:
        """Another process has it: this one must not fence that."""
        client = Client(None)
        client.failures["abort"] = [KafkaError(KafkaError._FENCED, "x", fatal=True)]
        producer = producing(Opened(client))
        producer.begin()
        with pytest.raises(FencedError, match="abort_transaction: x"):
            producer.abort()
        producer.close()

    @pytest.mark.parametrize("failing", ["offsets", "commit"])
    def test_one_whose_transaction_timed_out_is_fenced_too(self, failing: str) -> None:
        """By the brokers, as if another process had the id: this one goes on with another epoch."""
        client = Client(None)
        client.failures = {name: [KafkaError(KafkaError._FENCED, "x", fatal=True)] for name in (failing, "abort")}
        opened = Opened(client)
        producer = producing(opened, timeout_s=0.01)
        producer.begin()
        time.sleep(0.01)
        with pytest.raises(AbortableError, match=r"open for 0 s, longer than transaction\.timeout\.ms: .*_FENCED"):
            producer.commit(OFFSETS)
        producer.abort()
        producer.begin()
        producer.commit(OFFSETS)
        producer.close()

    @pytest.mark.parametrize(
        "error",
        [
            KafkaError(KafkaError.INVALID_TXN_STATE, "x", fatal=True),
            KafkaError(KafkaError.INVALID_PRODUCER_ID_MAPPING, "x", txn_requires_abort=True),
            KafkaError(KafkaError.UNKNOWN, "x"),
        ],
    )
    @pytest.mark.parametrize("failing", ["offsets", "commit"])
    def test_an_error_of_a_commit_ends_the_transaction_only(self, error: KafkaError, failing: str) -> None:
        """Even a fatal one: another producer goes on, once it is known what was committed."""
        client = Client(None)
        client.failures[failing] = [error]
        opened = Opened(client)
        producer = producing(opened)
        producer.begin()
        with pytest.raises(AbortableError, match=error.name()):
            producer.commit(OFFSETS)
        producer.abort()
        producer.begin()
        producer.commit(OFFSETS)
        assert len(opened.suspects) == 2
        producer.close()

    @pytest.mark.parametrize("blocked", ["offsets", "commit"])
    def test_a_call_that_blocks_is_left_behind(self, monkeypatch: pytest.MonkeyPatch, blocked: str) -> None:
        """A client whose coordinator has died may block for a minute; a new one finds the new coordinator."""
        monkeypatch.setattr("stream_apple.adapters.kafka.transactional_producer.CALL_S", 0.3)
        gate, client = threading.Event(), Client(None)
        client.gates[blocked] = gate
        opened = Opened(client)
        producer = producing(opened)
        producer.begin()
        with pytest.raises(AbortableError, match=r"no success within 0\.3 s: the call is still blocked"):
            producer.commit(OFFSETS)
        producer.abort()
        producer.begin()
        producer.commit(OFFSETS)
        assert len(opened.suspects) == 2
        producer.close()
        assert "close" not in client.calls
        gate.set()
        wait_until(lambda: client.calls[-1] == "close", "the end of the first producer")

    def test_fencing_goes_on_with_another_producer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A client may never find its coordinator again."""
        monkeypatch.setattr("stream_apple.adapters.kafka.transactional_producer.CALL_S", 0.3)
        gate, client, second = threading.Event(), Client(None), Client(None)
        client.gates["init"] = gate
        second.failures["init"] = [KafkaError(KafkaError.INVALID_PRODUCER_EPOCH, "x", fatal=False)]
        opened = Opened(client, second)
        producer = producing(opened)
        producer.fence()
        producer.begin()
        assert len(opened.suspects) == 3
        producer.close()
        gate.set()

    def test_fencing_ends_at_the_deadline(self) -> None:
        """It leaves a producer that can still try."""
        client = Client(None)
        client.failures["init"] = [KafkaError(KafkaError.COORDINATOR_NOT_AVAILABLE, "x", retriable=True)] * 1000
        producer = producing(Opened(client), deadline_s=0.3)
        with pytest.raises(AbortableError, match="init_transactions: no success within"):
            producer.fence()
        producer.fence()
        producer.close()


class TestMessagesThatFail:
    """What ends a transaction in the background is told, whatever meets it first."""

    @pytest.mark.parametrize("at_once", [False, True])
    @pytest.mark.parametrize(
        ("answer", "kind", "said"),
        [
            (KafkaError(KafkaError.INVALID_TIMESTAMP, "x", txn_requires_abort=True), ConfigurationError, "INVALID_TIM"),
            (KafkaError(KafkaError._TIMED_OUT, "x", txn_requires_abort=True), AbortableError, "_TIMED_OUT"),
            (None, AbortableError, "_STATE"),
            (KafkaError(KafkaError._FENCED, "x", fatal=True), FencedError, "_FENCED"),
            (
                KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "x", fatal=True),
                ConfigurationError,
                "TRANSACTIONAL_ID",
            ),
        ],
    )
    def test_a_message_after_one_that_failed(
        self,
        answer: KafkaError | None,
        kind: type[Exception],
        said: str,
        *,
        at_once: bool,
    ) -> None:
        """The client says only that the transaction is over, or an error fatal: why, says what it is asked next."""
        fatal = answer is not None and answer.fatal()

        class Over(Client):
            def produce(self, *_: object) -> None:
                raise KafkaException(KafkaError(KafkaError._FATAL if fatal else KafkaError._STATE))

        producer, of_one = producing(Opened(Over(answer))), ("predictions", 0, [None], [b"x"], [0])
        producer.begin()
        with pytest.raises(kind, match=f"sending 1 bytes to predictions-0: .*{said}"):
            producer.send_all(*of_one) if at_once else producer.send("predictions", 0, None, b"x", 0)
        producer.close()


class TestFencing:
    """Who may."""

    def test_nobody_is_fenced_without_permission(self) -> None:
        """Its refusal is the error, and the client is asked for nothing, neither early nor late."""
        client, prepared = Client(None), []

        def refuse() -> None:
            raise ConfigurationError("no such topic")

        producer = producing(Opened(client), lambda: prepared.append(True))
        producer.start_fencing(refuse)
        with pytest.raises(ConfigurationError, match="no such topic"):
            producer.fence()
        producer.close()
        assert (client.calls, prepared) == (["abort", "close"], [])

    def test_with_permission(self) -> None:
        """Once."""
        client, prepared = Client(None), []
        producer = producing(Opened(client), lambda: prepared.append(True))
        producer.start_fencing(lambda: None)
        producer.fence()
        producer.close()
        assert (client.calls, prepared) == (["init", "abort", "close"], [True])


Parts = tuple[TransactionalProducer, RetryPolicy]


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> Queue:
    """The client."""
    return Queue(request.param)


@pytest.fixture
def parts(queue: Queue) -> Iterator[Parts]:
    """What writes into it; it gives up when something is wrong."""
    retry = RetryPolicy(DEADLINE_S)
    producer = TransactionalProducer(Opened(queue), cast("Any", Member()), retry, "examples", lambda: None, DEADLINE_S)
    yield producer, retry
    producer.close()


MESSAGES = [(b"key %d" % number, b"value %d" % number, number) for number in range(10)]


@pytest.mark.parametrize("queue", [3], indirect=True)
@pytest.mark.parametrize("at_once", [False, True])
def test_a_full_queue_is_waited_for(parts: Parts, queue: Queue, *, at_once: bool) -> None:
    """Nothing is lost, the order is kept, and each key and time stays with its value."""
    producer, _ = parts
    keys, values, times = (list(column) for column in zip(*MESSAGES, strict=True))
    if at_once:
        producer.send_all("predictions", 0, keys, values, times)
    else:
        for key, value, time in MESSAGES:
            producer.send("predictions", 0, key, value, time)
    producer.flush()
    assert queue.taken == MESSAGES


@pytest.mark.parametrize("queue", [1], indirect=True)
def test_a_message_of_many_that_is_refused(parts: Parts, queue: Queue) -> None:
    """The error tells which it is; what comes before it has been queued, what comes after it has not."""
    producer, _ = parts
    keys, values, times = (list(column) for column in zip(*MESSAGES, strict=True))
    values[4] = b"refused"
    with pytest.raises(ConfigurationError, match=r"sending 7 bytes to predictions-0: .*MSG_SIZE_TOO_LARGE"):
        producer.send_all("predictions", 0, keys, values, times)
    assert queue.taken + queue.waiting == MESSAGES[:4]


@pytest.mark.parametrize("queue", [0], indirect=True)
def test_a_full_queue_ends_a_worker_that_is_to_stop(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits no longer than it may for room, nor for the broker to take what is queued."""
    monkeypatch.setattr("stream_apple.adapters.kafka.retry.SHORTENED_DEADLINE_S", 0.05)
    producer, retry = parts
    producer.send("predictions", 1, None, b"1", 0)
    retry.shorten_deadline()
    with pytest.raises(BrokerError, match="predictions-1: asked to stop while waiting for Kafka: the queue has no"):
        producer.send("predictions", 1, None, b"2", 0)
    with pytest.raises(BrokerError, match="flush: asked to stop while waiting for Kafka: 1 messages are not taken"):
        producer.flush()


@pytest.mark.parametrize("queue", [0], indirect=True)
def test_a_queue_that_does_not_empty_is_an_error(parts: Parts) -> None:
    """After the deadline, with its length and the place."""
    producer, retry = parts
    retry.deadline_s = 0.1
    producer.send("predictions", 1, None, b"1", 0)
    with pytest.raises(BrokerError, match=r"predictions-1: no success within 0\.1 s: the queue has no room"):
        producer.send("predictions", 1, None, b"2", 0)
    with pytest.raises(BrokerError, match=r"flush: no success within 0\.1 s: 1 messages are not taken"):
        producer.flush()


@pytest.mark.parametrize("queue", [3], indirect=True)
def test_waiting_for_the_queue_is_waiting_for_kafka(parts: Parts, queue: Queue) -> None:
    """Other threads are told, as of any call: a frozen broker that takes no message may not pass for one that does."""
    producer, retry = parts
    waited: list[bool] = []
    poll = queue.poll

    def watched(_seconds: float) -> None:
        waited.append(retry.waiting_s > 0)
        poll(_seconds)

    queue.poll = watched  # type: ignore[method-assign]
    producer.send("predictions", 1, None, b"1", 0)
    assert waited == []
    producer.send("predictions", 1, None, b"2", 0)
    assert waited == [True] * 3
    producer.flush()
    assert waited == [True] * 6
    assert retry.waiting_s == 0
