"""The transactional producer when the client's queue is full or does not empty."""

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from support.waiting import DEADLINE_S, wait_until

from stream_apple.adapters.kafka.retry import RetryPolicy
from stream_apple.adapters.kafka.transactional_producer import TransactionalProducer
from stream_apple.errors import BrokerError, ConfigurationError, FencedError
from stream_apple.stream.log.ports import AbortableError


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

    def close(self) -> None:
        """Nothing to do."""


class Client:
    """A transactional client whose cluster gives `answers` to offsets, one after the other, the last one for ever.

    calls  what it was asked for
    """

    def __init__(self, *answers: KafkaError | None) -> None:
        self.calls: list[str] = []
        self._answers = list(answers)

    def produce(self, *_: object) -> None:
        """Nobody sends anything."""

    def list_topics(self, *_: object) -> None:
        """A connection."""

    def init_transactions(self, _seconds: float) -> None:
        """Fence."""
        self.calls.append("init")

    def begin_transaction(self) -> None:
        """Local."""
        self.calls.append("begin")

    def send_offsets_to_transaction(self, *_: object) -> None:
        """Answer."""
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        self.calls.append("offsets" if answer is None else answer.name())
        if answer is not None:
            raise KafkaException(answer)

    def abort_transaction(self, _seconds: float) -> None:
        """As the cluster that has not fenced it."""
        self.calls.append("abort")

    def close(self) -> None:
        """Nothing to do."""


class Member:
    """What is asked of the consumer. `id`: that of the member that it is; "" while it waits for the group."""

    def __init__(self, id: str = "m1") -> None:  # noqa: A002
        self._id = id

    def memberid(self) -> str:
        """As Kafka's client has it."""
        return self._id

    def consumer_group_metadata(self) -> object:
        """Anything."""
        return object()


def asking(
    client: Client, monkeypatch: pytest.MonkeyPatch, prepare: Callable[[], object] = lambda: None, member: str = "m1"
) -> TransactionalProducer:
    """A producer that asks at once whose its id is."""
    monkeypatch.setattr("stream_apple.adapters.kafka.transactional_producer.CONFIRM_S", 0.0)
    return TransactionalProducer(cast("Any", client), cast("Any", Member(member)), RetryPolicy(), "examples", prepare)


class TestWhoseIdItIs:
    """What is asked while there is no transaction."""

    def test_a_worker_whose_id_it_is_goes_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The question is a transaction that is aborted; the next one begins when it has ended."""
        stale = KafkaError(KafkaError.ILLEGAL_GENERATION, "x", txn_requires_abort=True)
        joined_again = KafkaError(KafkaError.FENCED_INSTANCE_ID, "x", txn_requires_abort=True)
        for answer, name in ((None, "offsets"), (stale, stale.name()), (joined_again, joined_again.name())):
            client = Client(answer)
            producer = asking(client, monkeypatch)
            producer.confirm()
            producer.begin()
            producer.confirm()  # not within a transaction
            assert client.calls == ["begin", name, "abort", "begin"]
            producer.close()

    def test_a_worker_whose_id_is_taken_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """By one of the next calls, without any transaction."""
        producer = asking(Client(KafkaError(KafkaError._FENCED, "x", fatal=True)), monkeypatch)
        with pytest.raises(FencedError, match="confirming the transactional id"):
            wait_until(lambda: False, "the answer", meanwhile=producer.confirm)
        producer.close()

    def test_a_topic_that_is_gone_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nobody else asks for it where no record comes; a broker that has just come back may be wrong once."""
        client = Client(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "x", txn_requires_abort=True))
        producer = asking(client, monkeypatch)
        with pytest.raises(ConfigurationError, match=r"found one gone .* confirming the transactional id: x"):
            wait_until(lambda: False, "the answer", meanwhile=producer.confirm)
        assert client.calls == ["begin", "UNKNOWN_TOPIC_OR_PART", "abort", "begin", "UNKNOWN_TOPIC_OR_PART"]
        producer.close()

    def test_it_is_not_asked_where_nobody_answers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """How long there may be no broker is for others to judge."""
        client = Client(None)
        producer = asking(client, monkeypatch)
        producer.confirm(ask=False)
        producer.close()
        assert client.calls == []

    def test_it_is_not_asked_before_the_group_has_taken_it_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The group would say that the id is another's, and the log that this worker is fenced; which it is not."""
        client = Client(KafkaError(KafkaError.FENCED_INSTANCE_ID, "x", txn_requires_abort=True))
        producer = asking(client, monkeypatch, member="")
        producer.confirm()
        producer.close()
        assert client.calls == []

    def test_a_question_without_an_answer_blocks_nobody(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The loop turns on, and asks no second one; the worker may end."""
        client = Client(KafkaError(KafkaError._TIMED_OUT, "x"))
        producer = asking(client, monkeypatch)
        for _ in range(3):
            producer.confirm()
        wait_until(lambda: client.calls.count("_TIMED_OUT") > 2, "questions")
        producer.close()
        wait_until(lambda: client.calls[-1] == "abort", "the end")
        assert client.calls.count("begin") == 1


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
        monkeypatch: pytest.MonkeyPatch,
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

        producer, of_one = asking(Over(answer), monkeypatch), ("predictions", 0, [None], [b"x"], [0])
        producer.begin()
        with pytest.raises(kind, match=f"sending 1 bytes to predictions-0: .*{said}"):
            producer.send_all(*of_one) if at_once else producer.send("predictions", 0, None, b"x", 0)
        producer.close()


class TestFencing:
    """Who may."""

    def test_nobody_is_fenced_without_permission(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its refusal is the error, and the client is asked for nothing, neither early nor late."""
        client, prepared = Client(None), []

        def refuse() -> None:
            raise ConfigurationError("no such topic")

        producer = asking(client, monkeypatch, lambda: prepared.append(True))
        producer.start_fencing(refuse)
        with pytest.raises(ConfigurationError, match="no such topic"):
            producer.fence()
        producer.close()
        assert (client.calls, prepared) == ([], [])

    def test_with_permission(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Once."""
        client, prepared = Client(None), []
        producer = asking(client, monkeypatch, lambda: prepared.append(True))
        producer.start_fencing(lambda: None)
        producer.fence()
        producer.close()
        assert (client.calls, prepared) == (["init"], [True])


Parts = tuple[TransactionalProducer, RetryPolicy]


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> Queue:
    """The client."""
    return Queue(request.param)


@pytest.fixture
def parts(queue: Queue) -> Iterator[Parts]:
    """What writes into it; it gives up when something is wrong."""
    retry = RetryPolicy(DEADLINE_S)
    producer = TransactionalProducer(cast("Any", queue), cast("Any", Member()), retry, "examples", lambda: None)
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
