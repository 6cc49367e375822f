"""What an error of Kafka means: try again, start over, or leave with a word for the operator."""

from confluent_kafka import KafkaError, Message

from stream_apple.errors import BrokerError, ConfigurationError, GapError, StreamAppleError
from stream_apple.runtime.ports import AbortableError

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
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.OFFSET_METADATA_TOO_LARGE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._INVALID_DIFFERENT_RECORD,  # noqa: SLF001
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    }
)


def is_fatal(error: KafkaError) -> bool:
    """Whether the client is of no more use. An error that comes as a message has the code and not the flag."""
    return bool(error.fatal()) or error.code() == KafkaError._FATAL  # noqa: SLF001


def is_transient(error: KafkaError) -> bool:
    """Whether the same call may succeed later, in the same transaction."""
    repeatable = error.retriable() or error.code() in _TRANSIENT
    return bool(repeatable) and not is_fatal(error) and not error.txn_requires_abort()


def is_for_the_operator(error: KafkaError) -> bool:
    """Whether somebody must change a topic, a permission or a setting first."""
    return error.code() in _FOR_THE_OPERATOR


def verdict(error: KafkaError, what: str) -> StreamAppleError | AbortableError:
    """What an error that waiting did not cure means for the loop."""
    text = f"{what}: {error.str()} ({error.name()})"
    if is_fatal(error):
        return BrokerError(text)
    if is_for_the_operator(error):
        return ConfigurationError(text)
    # _STATE: an error that has come in the background has closed the transaction to this call.
    if error.txn_requires_abort() or error.code() == KafkaError._STATE:  # noqa: SLF001
        return AbortableError(text)
    return BrokerError(text)


def delivery_verdict(error: KafkaError, place: str) -> StreamAppleError | AbortableError:
    """What it means that a message of the open transaction did not reach `place`."""
    if is_fatal(error) or is_for_the_operator(error):
        return verdict(error, f"sending to {place}")
    # librdkafka has closed the transaction; the report of the message itself does not say so.
    return AbortableError(f"sending to {place}: {error.str()} ({error.name()})")


def fetch_verdict(message: Message) -> StreamAppleError | AbortableError | None:
    """What an error that came in a message's place means; None: nothing yet, librdkafka goes on trying."""
    error = message.error()
    if error is None:
        return None
    place = f"{message.topic()}-{message.partition()}"
    if error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
        return GapError(
            f"{place}@{message.offset()}: expected the next record to be in the log, found that it is gone: "
            f"retention has overtaken this worker ({error.str()})"
        )
    if is_fatal(error) or is_for_the_operator(error):
        return verdict(error, f"fetching {place}")
    return None
