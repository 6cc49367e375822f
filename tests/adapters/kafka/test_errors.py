"""What an error of Kafka means for the loop, and that none is lost on its way out of the client."""

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from support.kafka.fatal_error import make_fatal
from support.waiting import DEADLINE_S

from stream_apple.adapters.kafka.errors import (
    UNKNOWN,
    RefusedTimeoutError,
    as_kafka_exception,
    call_error,
    delivery_error,
    translated,
)
from stream_apple.errors import BrokerError, ConfigurationError, FencedError
from stream_apple.stream.log.ports import AbortableError


class TestMeaning:
    """From an error of Kafka to one of the port."""

    @pytest.mark.parametrize(
        ("error", "expected"),
        [
            (KafkaError(KafkaError._FATAL, "x"), AbortableError),
            (KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "x"), ConfigurationError),
            (KafkaError(KafkaError.RECORD_LIST_TOO_LARGE, "x"), ConfigurationError),
            (KafkaError(KafkaError._PURGE_QUEUE, "x"), AbortableError),
            (KafkaError(KafkaError._MSG_TIMED_OUT, "x"), AbortableError),
        ],
    )
    def test_deliveries(self, error: KafkaError, expected: type[Exception]) -> None:
        """A message that was lost closes its transaction, and only what an operator must mend ends the worker."""
        found = delivery_error(error, "models-3")
        assert type(found) is expected
        assert str(found).startswith(f"sending to models-3: x ({error.name()})")

    @pytest.mark.parametrize(
        ("code", "words"),
        [
            (KafkaError.INVALID_TIMESTAMP, "a topic refuses times that are too old or too far ahead"),
            (KafkaError.INVALID_RECORD, "a topic refuses messages of this form; see its cleanup.policy"),
            (KafkaError.MSG_SIZE_TOO_LARGE, "a message or batch is larger than the topic's max.message.bytes"),
            (KafkaError.RECORD_LIST_TOO_LARGE, "a message or batch is larger than the topic's max.message.bytes"),
        ],
    )
    def test_a_message_that_a_topic_refuses(self, code: int, words: str) -> None:
        """The error says which settings decide about it, and which command compares them."""
        error = KafkaError(code, "x")
        told = str(call_error(error, "sending"))
        assert told.startswith(f"sending: x ({error.name()}): {words}")
        assert "`stream-apple check`" in told

    @pytest.mark.parametrize("code", sorted(UNKNOWN))
    def test_a_topic_that_is_gone(self, code: int) -> None:
        """What has failed is only where it was noticed, such as a commit of offsets: the cause comes first."""
        error = KafkaError(code, "x", txn_requires_abort=True)
        told = call_error(error, "committing")
        assert isinstance(told, ConfigurationError)
        assert str(told).startswith("expected topics and their partitions to stay while they are used, found one gone")
        assert str(told).endswith(f": committing: x ({error.name()})")

    @pytest.mark.parametrize(
        ("error", "expected"),
        [
            (KafkaError(KafkaError._FENCED, "x", fatal=True), FencedError),
            (KafkaError(KafkaError.PRODUCER_FENCED, "x", fatal=True), FencedError),
            (KafkaError(KafkaError.FENCED_INSTANCE_ID, "x", fatal=True), FencedError),
            (KafkaError(KafkaError.FENCED_INSTANCE_ID, "x", txn_requires_abort=True), AbortableError),
            (KafkaError(KafkaError.INVALID_PRODUCER_EPOCH, "x", fatal=True), FencedError),
            (KafkaError(KafkaError.INVALID_PRODUCER_EPOCH, "x", txn_requires_abort=True), AbortableError),
            (KafkaError(KafkaError._FATAL, "x"), BrokerError),
            (KafkaError(KafkaError.UNKNOWN_MEMBER_ID, "x", txn_requires_abort=True), AbortableError),
            (KafkaError(KafkaError.ILLEGAL_GENERATION, "x", txn_requires_abort=True), AbortableError),
            (KafkaError(KafkaError._STATE, "x"), AbortableError),
            (KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "x", txn_requires_abort=True), ConfigurationError),
            (KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "x"), ConfigurationError),
            (KafkaError(KafkaError.RECORD_LIST_TOO_LARGE, "x"), ConfigurationError),
            (KafkaError(KafkaError.INVALID_TRANSACTION_TIMEOUT, "x", fatal=True), RefusedTimeoutError),
            (KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "x", fatal=True), ConfigurationError),
            (KafkaError(KafkaError._UNSUPPORTED_FEATURE, "x", fatal=True), ConfigurationError),
            (KafkaError(KafkaError._INVALID_ARG, "x"), ConfigurationError),
            (KafkaError(KafkaError.GROUP_MAX_SIZE_REACHED, "x"), ConfigurationError),
            (KafkaError(KafkaError.INCONSISTENT_GROUP_PROTOCOL, "x"), ConfigurationError),
            (KafkaError(KafkaError.INVALID_GROUP_ID, "x"), ConfigurationError),
            (KafkaError(KafkaError._TIMED_OUT, "x"), BrokerError),
        ],
    )
    def test_calls(self, error: KafkaError, expected: type[Exception]) -> None:
        """Fatal leaves, what an operator must mend leaves with that word, doubt starts over."""
        found = call_error(error, "doing this")
        assert type(found) is expected
        assert str(found).startswith(f"doing this: x ({error.name()})")
        replaced = call_error(error, "doing this", replaced=True)
        assert type(replaced) is (AbortableError if expected is BrokerError else expected)


class TestClientCalls:
    """What comes out of a call of the client."""

    def test_a_hidden_error_comes_out(self) -> None:
        """However many callbacks Python has refused because of it."""
        fatal = KafkaException(KafkaError(KafkaError._FENCED, "x", fatal=True))
        with pytest.raises(KafkaException, match="_FENCED") as caught, as_kafka_exception():
            hide(fatal, 3)
        assert caught.value.args[0].fatal()
        with pytest.raises(BrokerError, match=r"asking: x \(_FENCED\)") as left, translated("asking"):
            hide(fatal, 1)
        assert left.value.exit_code == 75

    def test_an_error_that_is_lost_is_fatal(self) -> None:
        """A SystemError of the client tells that it has failed, even if it does not tell how."""
        with pytest.raises(BrokerError, match=r"text is lost: returned NULL.*\(_FATAL\)"), translated("asking"):
            raise SystemError("returned NULL without setting an exception")

    def test_other_errors_are_left_alone(self) -> None:
        """What is not of the client is not translated."""
        with pytest.raises(ValueError, match="x"), translated("asking"):
            raise ValueError("x")

    def test_confluent_kafka_hides_a_fatal_error(self, mock_cluster: str) -> None:
        """If this fails, the client has been mended, and `as_kafka_exception` is needed no more.

        It hides one if a report comes within the fifth of a second after it, which a busy machine may miss.
        """
        names: list[str] = []

        def report(error: KafkaError | None, _message: Message) -> None:
            names.append("" if error is None else error.name())

        raised: list[type[BaseException]] = []
        while SystemError not in raised and len(raised) < 20:
            producer = Producer({"bootstrap.servers": mock_cluster, "enable.idempotence": True, "log_level": 0})
            producer.list_topics("examples", timeout=DEADLINE_S)
            for number in range(4):
                producer.produce("examples", b"x", partition=number, on_delivery=report)
            make_fatal(producer)
            with pytest.raises((SystemError, KafkaException)) as caught:
                producer.flush(DEADLINE_S)
            raised.append(caught.type)
        assert SystemError in raised
        make_fatal(other := Producer({"bootstrap.servers": mock_cluster, "enable.idempotence": True, "log_level": 0}))
        with pytest.raises(KafkaException, match="INVALID_PRODUCER_EPOCH"):
            other.poll(DEADLINE_S)


def hide(error: Exception, callbacks: int) -> None:
    """Raise SystemError as Python does when a callback is called while `error` is set, and another one after it."""
    found = error
    for _ in range(callbacks):
        refused = SystemError("refused")
        refused.__cause__ = found
        found = refused
    raise found
