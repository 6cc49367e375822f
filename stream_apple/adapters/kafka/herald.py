"""Producers that live for a moment, and have the cluster abort what a dead predecessor left open.

A cluster answers the first call for a transactional id with an open transaction that it must be aborted first. That
takes the cluster some milliseconds, but librdkafka asks again only after half a second, which is not to be configured.
A new producer asks at once: so a few are sent ahead, until one hears that nothing is open. Predecessors are fenced by
them as by any other.
"""

import time
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from stream_apple.adapters.kafka.admin import SILENT
from stream_apple.adapters.kafka.client_properties import Identity, Properties, producer_properties
from stream_apple.adapters.kafka.errors import as_kafka_exception
from stream_apple.adapters.kafka.retry import ATTEMPT_TIMEOUT_S

_PAUSES_S = (0.01, 0.02, 0.04, 0.08)  # after so many the worker's own producer waits as long as librdkafka wants
_RECONNECT_MS = 20  # librdkafka lets half of it pass between the connections that `wait_for_connection` makes
_SLICE_S = 0.02  # the cluster's answer is seen between two of these


def prepare_to_fence(properties: Properties, identity: Identity, consumer: Consumer, topic: str) -> None:
    """Send heralds ahead, and connect the consumer meanwhile; what fails here will fail again, and be told then.

    topic  one that exists: to ask for it makes a connection
    """
    with suppress(KafkaException), as_kafka_exception():
        _send_ahead({**producer_properties(properties, identity), "reconnect.backoff.ms": _RECONNECT_MS}, topic)
        wait_for_connection(consumer, topic)


def _send_ahead(settings: dict[str, Any], topic: str) -> None:
    for pause_s in _PAUSES_S:
        producer = Producer(settings, logger=SILENT)
        wait_for_connection(producer, topic)
        if _answer(producer) != KafkaError.CONCURRENT_TRANSACTIONS:
            return
        del producer
        time.sleep(pause_s)


def wait_for_connection(client: Producer | Consumer, topic: str) -> None:
    """Wait for a connection. Without one, `init_transactions` would look for one only every half second."""
    # The first answer names the brokers, and librdkafka drops the connection by which it came; the second one comes by
    # a connection that stays.
    for _ in range(2):
        client.list_topics(topic, ATTEMPT_TIMEOUT_S)


def _answer(producer: Producer) -> int:
    """What the cluster says to `init_transactions`, or that it has said nothing in time.

    A producer must not go before it was answered: its call could come after that of the worker, and fence it.
    """
    deadline = time.monotonic() + ATTEMPT_TIMEOUT_S
    while True:
        try:
            producer.init_transactions(_SLICE_S)
        except KafkaException as failure:
            code: int = failure.args[0].code()
            if code != KafkaError._TIMED_OUT or time.monotonic() >= deadline:  # noqa: SLF001  codes of librdkafka's own
                return code
        else:
            return KafkaError.NO_ERROR
