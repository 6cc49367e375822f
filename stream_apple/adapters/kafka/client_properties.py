"""The properties of librdkafka's clients: the user's, those that are fixed, and which belong to which client."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, Producer

from stream_apple.adapters.kafka.errors import refused_configuration
from stream_apple.config.memory import Queues
from stream_apple.errors import ConfigurationError

Properties = Mapping[str, str | int | float | bool]

SESSION_MS = 45_000
SNAPSHOT_MESSAGE_BYTES = 1_048_576
"""The largest size in bytes of a message of a snapshot, whatever the model holds."""
STATISTICS_MS = 1_000
"""How often the consumer reports its statistics, a few kilobytes of JSON for each partition."""


class Identity(NamedTuple):
    """The names by which the cluster knows a worker; they are the same after every restart."""

    group: str
    instance: str
    transactional_id: str


# The user may override each of these defaults: they affect speed and memory, not results.
_DEFAULTS: dict[str, Any] = {
    "reconnect.backoff.max.ms": 2_000,
}
_READING_DEFAULTS: dict[str, Any] = {
    **_DEFAULTS,
    "check.crcs": True,  # a flipped bit would be learned
}
_MEMBER_DEFAULTS: dict[str, Any] = {
    # By default, a producer never finds its coordinator again after all brokers were down (librdkafka 5511).
    # With "none", a client never finds brokers again if one that is just coming back names none (librdkafka 5301):
    # `connectivity` notices that, and ends the worker. Readers keep the default, as they need no coordinator.
    "metadata.recovery.strategy": "none",
    # A broker that is frozen or cut off keeps its connections. With librdkafka's minute, its clients would turn to
    # another broker long after the cluster has.
    "socket.timeout.ms": 10_000,
}
_CONSUMER_DEFAULTS: dict[str, Any] = {
    **_READING_DEFAULTS,
    **_MEMBER_DEFAULTS,
    # The client keeps an answer even if its queue is full: with its own default of 50 MiB, answers would take most of
    # the memory.
    "fetch.max.bytes": 2 << 20,
    "fetch.queue.backoff.ms": 20,  # the default leaves a drained queue empty for up to a second
    "fetch.wait.max.ms": 100,  # a resumed partition may wait so long, for the answer to a request without it
    "max.partition.fetch.bytes": 1 << 20,
    "queued.max.messages.kbytes": 16 << 10,
    "queued.min.messages": 20_000,
    "session.timeout.ms": SESSION_MS,
}
# A snapshot is some hundred messages of half a megabyte, read once: so answers are large, and much is fetched ahead.
_READER_DEFAULTS: dict[str, Any] = {
    **_READING_DEFAULTS,
    "max.partition.fetch.bytes": 16 << 20,
    "queued.max.messages.kbytes": 32 << 10,
}
_READING_FIXED: dict[str, Any] = {
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
}
_PRODUCER_DEFAULTS: dict[str, Any] = {
    **_DEFAULTS,
    **_MEMBER_DEFAULTS,
    "batch.num.messages": 10_000,
    "compression.type": "lz4",
    "linger.ms": 20,
    # The broker judges the size of compressed batches; a dead letter must not fail before it is compressed.
    "message.max.bytes": 128 << 20,
    "queue.buffering.max.kbytes": 32 << 10,
    "queue.buffering.max.messages": 100_000,
    # As long as a session: when a dead worker's partitions move, the broker has already aborted its last transaction.
    "transaction.timeout.ms": SESSION_MS,
}
_RETRY_BACKOFF_MS = 625
RESENT_AFTER_S = 0.8 * _RETRY_BACKOFF_MS / 1000
"""The shortest time after which the transactional producer sends a request again: librdkafka takes up to 20 % from
`retry.backoff.ms` at random, and waits for 0.5 s before a `TxnOffsetCommit`. `transactional_producer` relies on it."""
_PRODUCER_FIXED: dict[str, Any] = {
    "allow.auto.create.topics": False,  # asking about a topic must not create it
    "retry.backoff.max.ms": 1_000,
    "retry.backoff.ms": _RETRY_BACKOFF_MS,
}

_CONSUMER_ONLY = frozenset(
    {
        "auto.offset.reset",
        "check.crcs",
        "client.rack",
        "consume.callback.max.messages",
        "coordinator.query.interval.ms",
        "fetch.error.backoff.ms",
        "fetch.max.bytes",
        "fetch.message.max.bytes",
        "fetch.min.bytes",
        "fetch.queue.backoff.ms",
        "fetch.wait.max.ms",
        "group.protocol",
        "group.protocol.type",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "partition.assignment.strategy",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "session.timeout.ms",
    }
)
_PRODUCER_ONLY = frozenset(
    {
        "batch.num.messages",
        "batch.size",
        "compression.codec",
        "compression.level",
        "compression.type",
        "delivery.timeout.ms",
        "enable.gapless.guarantee",
        "linger.ms",
        "max.in.flight",
        "max.in.flight.requests.per.connection",
        "message.send.max.retries",
        "message.timeout.ms",
        "partitioner",
        "queue.buffering.backpressure.threshold",
        "queue.buffering.max.kbytes",
        "queue.buffering.max.messages",
        "queue.buffering.max.ms",
        "queuing.strategy",
        "request.timeout.ms",
        "retries",
        "sticky.partitioning.linger.ms",
        "transaction.timeout.ms",
    }
)


def consumer_properties(properties: Properties, identity: Identity) -> dict[str, Any]:
    """Return the properties of the consumer, without those of a producer only, of which librdkafka would warn."""
    given = {name: value for name, value in properties.items() if name not in _PRODUCER_ONLY}
    return {
        **_CONSUMER_DEFAULTS,
        **given,
        **_READING_FIXED,
        "group.id": identity.group,
        "group.instance.id": identity.instance,
        # The protocol is classic because of workers that die without leaving, and whose successor has the same identity
        # (tests/broker/test_group_protocol.py): the successor owns the partitions in 0.1 s; under KIP-848 (`consumer`)
        # it is refused, fatally, until the dead member's session of 45 s has ended. The assignor is an eager one as the
        # transaction of a revoked partition can be committed before the partition moves only if all members stop for a
        # moment.
        "group.protocol": "classic",
        "statistics.interval.ms": STATISTICS_MS,
        "partition.assignment.strategy": "range",
    }


def reader_properties(properties: Properties, group: str, ahead_kib: int | None = None) -> dict[str, Any]:
    """Return the properties of a consumer that joins no group and reads committed records.

    ahead_kib  KiB of records that it may fetch ahead; None: as much as is best for snapshots
    """
    given = {name: value for name, value in properties.items() if name not in _PRODUCER_ONLY}
    if ahead_kib is not None:
        given |= {"queued.max.messages.kbytes": ahead_kib, "max.partition.fetch.bytes": ahead_kib << 9}
    return {
        **_READER_DEFAULTS,
        **given,
        **_READING_FIXED,
        "enable.partition.eof": True,
        "fetch.min.bytes": 1,
        "fetch.queue.backoff.ms": 1,
        "group.id": group,
    }


def producer_properties(properties: Properties, identity: Identity) -> dict[str, Any]:
    """Return the properties of the transactional producer."""
    given = {name: value for name, value in properties.items() if name not in _CONSUMER_ONLY}
    defaults = dict(_PRODUCER_DEFAULTS)
    with suppress(ValueError):  # librdkafka will refuse a value that is no number, and a longer wait than this
        open_ms = int(given.get("transaction.timeout.ms", SESSION_MS))
        defaults["socket.timeout.ms"] = min(open_ms, defaults["socket.timeout.ms"])
    return {
        **defaults,
        **given,
        **_PRODUCER_FIXED,
        "transactional.id": identity.transactional_id,
    }


def queues_of(properties: Properties, brokers: int) -> Queues:
    """Return how many bytes a worker's clients may keep in their queues, by their final properties."""

    def number(own: Mapping[str, Any], name: str) -> int:
        with suppress(ValueError):  # librdkafka will refuse a value that is no number
            return int(properties.get(name, own.get(name, 0)))
        return int(own.get(name, 0))

    ahead, buffered = "queued.max.messages.kbytes", "queue.buffering.max.kbytes"
    return Queues(
        fetched=number(_CONSUMER_DEFAULTS, ahead) << 10,
        # The client asks for as much as the largest message, if that is more.
        answer=max(number(_CONSUMER_DEFAULTS, "fetch.max.bytes"), number({}, "message.max.bytes")),
        brokers=brokers,
        sent=number(_PRODUCER_DEFAULTS, buffered) << 10,
        read=(number(_READER_DEFAULTS, ahead) << 10) + number(_READER_DEFAULTS, "max.partition.fetch.bytes"),
    )


def with_room(properties: Properties, largest: int) -> Properties:
    """Return the properties with a producer's queue that has room for a message of `largest` bytes, unless it is set.

    In a queue that is too small for a message, there would never be room for it.
    """
    name = "queue.buffering.max.kbytes"
    return {name: max(_PRODUCER_DEFAULTS[name], -(-largest // 1024)), **properties}


def property_faults(properties: Properties, commit_interval_ms: int, largest: int) -> list[str]:
    """Return a line for each property that librdkafka accepts, but that does not fit the others or this worker.

    A line says what is expected, what was found, and why. `largest` is the size of the largest message, in bytes.
    """
    given = {name: str(value) for name, value in {**_PRODUCER_DEFAULTS, **properties}.items()}

    def number(*names: str, default: float) -> tuple[str, float]:
        """Return the first of the property's names that has a number, and that; librdkafka will refuse other values."""
        for name in names:
            with suppress(ValueError, KeyError):
                return name, float(given[name])
        return names[0], default

    transaction, open_ms = number("transaction.timeout.ms", default=SESSION_MS)
    delivery, delivery_ms = number("message.timeout.ms", "delivery.timeout.ms", default=open_ms)
    linger, linger_ms = number("queue.buffering.max.ms", "linger.ms", default=0)
    heartbeat, heartbeat_ms = number("heartbeat.interval.ms", default=0)
    _, session_ms = number("session.timeout.ms", default=SESSION_MS)
    faults = []
    if heartbeat_ms >= session_ms:
        faults.append(
            f"{heartbeat}: expected less than {session_ms:.15g}, the session.timeout.ms, found {heartbeat_ms:.15g}: "
            f"the group would lose this worker between two signs of life"
        )
    if linger_ms >= delivery_ms:
        bound = delivery if delivery in given else transaction
        faults.append(f"{linger}: expected less than {delivery_ms:.15g}, the {bound}, found {linger_ms:.15g}")
    if commit_interval_ms >= open_ms:
        faults.append(
            f"{transaction}: expected more than {commit_interval_ms}, the worker.commit_interval, "
            f"found {open_ms:.15g}: the brokers would abort transactions before they are committed"
        )
    for name, least in (("message.max.bytes", largest), ("queue.buffering.max.kbytes", -(-largest // 1024))):
        _, found = number(name, default=least)
        if found < least:
            faults.append(
                f"{name}: expected at least {least}, for the largest message that the limits of records allow, "
                f"found {found:.15g}"
            )
    return [f"kafka.{fault}" for fault in faults]


def checked_properties(properties: Properties, commit_interval_ms: int, largest: int) -> Properties:
    """Return the properties `with_room` for the largest message; ConfigurationError if there are `property_faults`."""
    found = with_room(properties, largest)
    faults = property_faults(found, commit_interval_ms, largest)
    if faults:
        raise ConfigurationError("; ".join(faults))
    return found


def open_clients(
    properties: Properties,
    identity: Identity,
    on_error: Callable[[KafkaError], None],
    on_statistics: Callable[[str], None],
) -> tuple[Consumer, Callable[[Callable[[], None]], Producer]]:
    """Open the consumer, and return it with a function that opens a producer.

    on_error       is given what the connections of all of them report; the logger `librdkafka` is, too
    on_statistics  is given the consumer's statistics, as JSON

    The function is given what the producer calls in addition, when one of its connections fails. ConfigurationError if
    librdkafka refuses a property, also one of a producer.
    """
    logger = logging.getLogger("librdkafka")

    def open_producer(suspect: Callable[[], None]) -> Producer:
        def report(error: KafkaError) -> None:
            suspect()
            on_error(error)

        with refused_configuration():
            return Producer({**producer_properties(properties, identity), "error_cb": report}, logger=logger)

    with refused_configuration():
        listening = {**consumer_properties(properties, identity), "error_cb": on_error, "stats_cb": on_statistics}
        consumer = Consumer(listening, logger=logger)
    return consumer, open_producer
