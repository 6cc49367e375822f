"""Kafka's admin client, with its errors in our words, and the form in which checks of a cluster report."""

import logging
import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Literal, NamedTuple, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from stream_apple.adapters.kafka.errors import as_kafka_exception, error_text, refused_configuration
from stream_apple.adapters.kafka.retry import RetryPolicy
from stream_apple.errors import BrokerError

CONNECT_S = 6.0
REQUEST_S = 8.0

# The client's own log lines would stand between ours; what is wrong comes as an error as well.
SILENT = logging.getLogger("librdkafka.admin")
SILENT.setLevel(logging.CRITICAL + 1)

_T = TypeVar("_T")

# The timing of each attempt would make a new text of the same error.
_TIMING = re.compile(r" \(after \d+ms in state \w+(, \d+ identical error\(s\) suppressed)?\)")

# A coordinator that has just started, or is being elected, gives these for a moment.
_COORDINATOR_ERRORS = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}


class Finding(NamedTuple):
    """One line of the report about a cluster. `note`: good to know, stops nothing."""

    verdict: Literal["ok", "note", "fault"]
    subject: str
    text: str


class Cluster:
    """A cluster that has answered at least once.

    topics      name -> number of partitions, of all topics that this client may see
    has_controller  whether one of its brokers answers questions about settings; librdkafka's own cluster has none
    properties  librdkafka's

    ConfigurationError if librdkafka refuses a property, BrokerError if no broker answers within CONNECT_S.
    """

    def __init__(self, properties: Mapping[str, str | int | float | bool]) -> None:
        self.properties = dict(properties)
        self.bootstrap = str(properties["bootstrap.servers"])
        reported: list[KafkaError] = []
        settings: dict[str, Any] = {**properties, "error_cb": reported.append, "logger": SILENT}
        with refused_configuration():
            self.client = AdminClient(settings)
        try:
            with as_kafka_exception():
                answer = self.client.list_topics(timeout=CONNECT_S)
        except KafkaException as error:
            self.client.poll(0)
            reasons = dict.fromkeys(_TIMING.sub("", one.str()) for one in reported)
            raise BrokerError(
                f"kafka: expected an answer from {self.bootstrap} within {CONNECT_S:g} s, found: "
                + "; ".join(reasons or [error_text(error.args[0])])
            ) from error
        self.brokers = len(answer.brokers)
        self.has_controller = answer.controller_id in answer.brokers
        self.topics = {name: len(topic.partitions) for name, topic in answer.topics.items()}
        self.id = answer.cluster_id

    def ask_coordinator(self, request: Callable[[], _T]) -> _T:
        """The answer to `request`, made again while a coordinator is being elected; KafkaException if refused."""
        return RetryPolicy(REQUEST_S).retry_while(lambda error: error.code() in _COORDINATOR_ERRORS, request)

    def result(self, future: Future[_T], what: str) -> _T:
        """The future's value; BrokerError says that `what` failed, and why."""
        try:
            with as_kafka_exception():
                return future.result()
        except KafkaException as error:
            raise BrokerError(f"{what}: {self.bootstrap} answered: {error_text(error.args[0])}") from error
