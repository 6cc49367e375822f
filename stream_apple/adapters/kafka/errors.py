"""What an error of Kafka means: repeat the call, abort the transaction, or end the worker with an exit code.

confluent-kafka raises KafkaException, and in rare cases a SystemError in its place. Only this module deals with that:
a call of a client is made inside `as_kafka_exception`, or inside one of the two contexts that translate further.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException, Message

from stream_apple.errors import BrokerError, ConfigurationError, FencedError, GapError, StreamAppleError
from stream_apple.stream.log.ports import AbortableError

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
        # Of a broker that has gone from the cluster: the client gives it up, with all that it was asked.
        KafkaError._DESTROY_BROKER,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._WAIT_COORD,  # noqa: SLF001
    }
)
UNKNOWN = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
    }
)
"""Errors that say that a topic or partition does not exist, or that the asked broker does not know of it yet."""
_CONFIGURATION_ERRORS = UNKNOWN | frozenset(
    {
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.GROUP_MAX_SIZE_REACHED,
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
        KafkaError.INVALID_GROUP_ID,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_SESSION_TIMEOUT,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.OFFSET_METADATA_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError._INVALID_ARG,  # noqa: SLF001
        KafkaError._INVALID_DIFFERENT_RECORD,  # noqa: SLF001
        KafkaError._UNSUPPORTED_FEATURE,  # noqa: SLF001
    }
)
_TOO_LARGE = (
    "a message or batch is larger than the topic's max.message.bytes or segment.bytes allow, or than message.max.bytes "
    "of this client"
)
_REFUSALS = {
    KafkaError.INVALID_RECORD: (
        "a topic refuses messages of this form; see its cleanup.policy, as a compacted topic takes none without a key"
    ),
    KafkaError.INVALID_TIMESTAMP: (
        "a topic refuses times that are too old or too far ahead; see its message.timestamp.before.max.ms and "
        "message.timestamp.after.max.ms, and the clock of this machine"
    ),
    KafkaError.MSG_SIZE_TOO_LARGE: _TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE: _TOO_LARGE,
}
"""What it means that a topic refuses a message, and which of its settings to look at."""
_FENCING = frozenset(
    {
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
    }
)
_FENCED_MEMBER = KafkaError(KafkaError.FENCED_INSTANCE_ID).str()
_REFUSED_TIMEOUTS = frozenset({KafkaError.INVALID_SESSION_TIMEOUT, KafkaError.INVALID_TRANSACTION_TIMEOUT})


class RefusedTimeoutError(ConfigurationError):
    """The brokers don't accept a timeout of this client; `admin.timeout_faults` finds out what they accept."""


def error_text(error: KafkaError) -> str:
    """Return Kafka's own sentence, and the name of the error."""
    return f"{error.str()} ({error.name()})"


@contextmanager
def as_kafka_exception() -> Iterator[None]:
    """Inside this context, a client's failures are all KafkaExceptions.

    When a client reports a fatal error inside `flush` or another call that serves callbacks, confluent-kafka sets a
    KafkaException and lets librdkafka go on. If another callback runs then, a delivery report or a signal handler, it
    runs with an exception set, where none may be. Python raises SystemError, with the KafkaException as its cause; or
    the callback's own code clears the exception, and the call fails with a SystemError that has no cause.
    """
    try:
        yield
    except SystemError as failure:
        cause = failure.__cause__
        while cause is not None and not isinstance(cause, KafkaException):
            cause = cause.__cause__
        if cause is None:
            lost = KafkaError(KafkaError._FATAL, f"a fatal error whose text is lost: {failure}", fatal=True)  # noqa: SLF001
            raise KafkaException(lost) from failure
        raise KafkaException(cause.args[0]) from failure


@contextmanager
def translated(what: str, *, replaced: bool = False) -> Iterator[None]:
    """Inside this context, a client's failures are the errors of the port, as `call_error` returns them."""
    try:
        with as_kafka_exception():
            yield
    except KafkaException as failure:
        raise call_error(failure.args[0], what, replaced=replaced) from failure


@contextmanager
def refused_configuration() -> Iterator[None]:
    """Inside this context, a client is made; ConfigurationError if librdkafka refuses a property or its value."""
    try:
        yield
    except KafkaException as failure:
        text = failure.args[0].str().strip()
        if failure.args[0].code() == KafkaError._CRIT_SYS_RESOURCE:  # noqa: SLF001
            raise BrokerError(f"kafka: the client lacks threads or file descriptors: {text}") from failure
        raise ConfigurationError(f"kafka: the client refuses the configuration: {text}") from failure
    except (AttributeError, TypeError, ValueError) as failure:  # for properties that take a Python object
        raise ConfigurationError(f"kafka: the client refuses the configuration: {failure}") from failure


def is_fatal(error: KafkaError) -> bool:
    """Whether the client can't be used any more. An error that comes as a message has the code, but not the flag."""
    return bool(error.fatal()) or error.code() == KafkaError._FATAL  # noqa: SLF001


def is_fenced(error: KafkaError) -> bool:
    """Whether another process has taken this worker's group.instance.id or transactional.id."""
    # If such an error is not fatal, this worker may have caused it: a member that has joined again after an outage has
    # another id than the one in its open transaction. A consumer's fatal error names its cause only in its text.
    fatally = is_fatal(error) and (error.code() in _FENCING or _FENCED_MEMBER in error.str())
    return fatally or error.code() == KafkaError._FENCED  # noqa: SLF001


def is_transient(error: KafkaError) -> bool:
    """Whether the same call may succeed later, in the same transaction."""
    repeatable = error.retriable() or error.code() in _TRANSIENT
    return bool(repeatable) and not is_fatal(error) and not error.txn_requires_abort()


def is_configuration_error(error: KafkaError) -> bool:
    """Whether a topic, a permission or a setting must be changed before the call can succeed."""
    return error.code() in _CONFIGURATION_ERRORS


def call_error(error: KafkaError, what: str, *, replaced: bool = False) -> StreamAppleError | AbortableError:
    """Return the port's error for a call that has failed and is not to be repeated, or not any more.

    what      was being done
    replaced  whether another client takes the place of this one, so that even its fatal errors end only a transaction
    """
    text = f"{what}: {error_text(error)}"
    if error.code() in UNKNOWN:
        return ConfigurationError(
            f"expected topics and their partitions to stay while they are used, found one gone (`stream-apple check` "
            f"names what is missing): {text}"
        )
    # This comes before the test for fatal errors, as the brokers would refuse a new process, too.
    if error.code() in _REFUSED_TIMEOUTS:
        return RefusedTimeoutError(text)
    if error.code() in _REFUSALS:
        text += f": {_REFUSALS[error.code()]}; `stream-apple check` compares the topics with what they need"
    if is_configuration_error(error):
        return ConfigurationError(text)
    if is_fenced(error):
        return FencedError(text)
    # _STATE means that an error in the background has already ended the transaction.
    over = error.txn_requires_abort() or error.code() == KafkaError._STATE  # noqa: SLF001
    if replaced or (over and not is_fatal(error)):
        return AbortableError(text)
    return BrokerError(text)


def delivery_error(error: KafkaError, place: str) -> StreamAppleError | AbortableError:
    """Return the port's error for a message of the open transaction that did not reach `place`."""
    if is_fatal(error) or is_configuration_error(error):
        return call_error(error, f"sending to {place}", replaced=True)
    # librdkafka has ended the transaction, which the message's own report does not say.
    return AbortableError(f"sending to {place}: {error_text(error)}")


def records_among(
    messages: list[Message], passed_over: Callable[[Message, KafkaError], None] = lambda *_: None
) -> list[Message]:
    """Return the records among what a client delivers; raise the first error after which librdkafka does not retry.

    passed_over  is given each other error, with its message
    """
    if any(map(Message.error, messages)):
        for message in messages:
            error = message.error()
            if error is not None:
                problem = _fetch_error(message, error)
                if problem is not None:
                    raise problem
                passed_over(message, error)
        messages = [message for message in messages if message.error() is None]
    return messages


def _fetch_error(message: Message, error: KafkaError) -> StreamAppleError | AbortableError | None:
    """Return the port's error for an error that comes as a message; None if librdkafka retries."""
    place = f"{message.topic()}-{message.partition()}"
    what = f"fetching {place}" if message.topic() is not None else "joining the group"
    if error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
        return GapError(
            f"{place}@{message.offset()}: expected the next record to be in the log, found that it is gone: "
            f"retention has overtaken this worker, or the topic was made anew ({error.str()})"
        )
    if is_fatal(error) or is_fenced(error) or is_configuration_error(error):
        return call_error(error, what)
    return None
