"""Kafka's admin client, with its errors in our words."""

import logging
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from stream_apple.errors import BrokerError, ConfigurationError

REACH_SECONDS = 6.0
REQUEST_SECONDS = 8.0
_RETRY_SECONDS = 0.2

# The client's own log lines would stand between ours; what is wrong comes as an error as well.
SILENT = logging.getLogger("librdkafka.admin")
SILENT.setLevel(logging.CRITICAL + 1)

_T = TypeVar("_T")

# Each attempt's timing makes the same complaint a new text.
_ATTEMPT = re.compile(r" \(after \d+ms in state \w+(, \d+ identical error\(s\) suppressed)?\)")

# A coordinator that has just started, or is being elected, gives these for a moment.
_SETTLING = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}


class Cluster:
    """A cluster that has answered at least once.

    topics      name -> number of partitions, of all that we may see.
    properties  librdkafka's; ConfigurationError if it refuses one, BrokerError if nothing answers within 6 s.
    """

    def __init__(self, properties: Mapping[str, str | int | float | bool]) -> None:
        self.properties = dict(properties)
        self.bootstrap = str(properties["bootstrap.servers"])
        complaints: list[KafkaError] = []
        settings: dict[str, Any] = {**properties, "error_cb": complaints.append, "logger": SILENT}
        try:
            self.client = AdminClient(settings)
        except KafkaException as error:
            raise ConfigurationError(f"kafka: the client refuses the configuration: {text(error)}") from error
        try:
            answer = self.client.list_topics(timeout=REACH_SECONDS)
        except KafkaException as error:
            self.client.poll(0)
            reasons = dict.fromkeys(_ATTEMPT.sub("", complaint.str()) for complaint in complaints)
            raise BrokerError(
                f"kafka: expected an answer from {self.bootstrap} within {REACH_SECONDS:g} s, found: "
                + "; ".join(reasons or [text(error)])
            ) from error
        self.brokers = len(answer.brokers)
        self.topics = {name: len(topic.partitions) for name, topic in answer.topics.items()}
        self.id = answer.cluster_id

    def settled(self, ask: Callable[[], _T]) -> _T:
        """The answer, asked for again while the coordinator is settling; KafkaException if it is an error."""
        deadline = time.monotonic() + REQUEST_SECONDS
        while True:
            try:
                return ask()
            except KafkaException as error:
                if error.args[0].code() not in _SETTLING or time.monotonic() > deadline:
                    raise
            time.sleep(_RETRY_SECONDS)

    def result(self, future: Future[_T], what: str) -> _T:
        """The future's value; BrokerError says that `what` failed, and why."""
        try:
            return future.result()
        except KafkaException as error:
            raise BrokerError(f"{what}: {self.bootstrap} answered: {text(error)}") from error


def text(error: KafkaException) -> str:
    """Kafka's own sentence, without the wrapping."""
    found = error.args[0]
    return f"{found.str()} ({found.name()})"
