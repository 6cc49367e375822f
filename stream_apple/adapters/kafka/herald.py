"""Heralds: short-lived producers that have the cluster abort the transaction which a dead predecessor left open.

If a transactional id has an open transaction, a cluster answers the first `init_transactions` that it is aborting that.
This takes it some milliseconds, but librdkafka asks again only after half a second, which can't be configured. A new
producer asks at once: so a few are made one after another, until one hears that no transaction is open. They fence
predecessors as any producer does.
"""

import time
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from stream_apple.adapters.kafka.admin import SILENT
from stream_apple.adapters.kafka.client_properties import Identity, Properties, producer_properties
from stream_apple.adapters.kafka.errors import as_kafka_exception
from stream_apple.adapters.kafka.retry import ATTEMPT_TIMEOUT_S

_PAUSES_S = (0.01, 0.02, 0.04, 0.08)  # after these heralds, the worker's own producer waits as librdkafka does
_RECONNECT_MS = 20  # librdkafka waits half of it between the connections that `wait_for_connection` makes
_SLICE_S = 0.02  # seconds of a call between two looks at the cluster's answer


def prepare_to_fence(properties: Properties, identity: Identity, consumer: Consumer, topic: str) -> None:
    """Send heralds, then connect the consumer; errors are ignored, as the worker's own calls will report them.

    topic  one that exists: asking for it makes a connection
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
    """Wait for a connection: without one, `init_transactions` would look for one only every half second."""
    # The first answer names the brokers, and librdkafka then drops its connection; the second answer comes by a
    # connection that stays.
    for _ in range(2):
        client.list_topics(topic, ATTEMPT_TIMEOUT_S)


def _answer(producer: Producer) -> int:
    """Return the code of the cluster's answer to `init_transactions`, or of a timeout.

    It waits for the answer, as the herald's call could otherwise reach the cluster after the worker's, and fence it.
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
