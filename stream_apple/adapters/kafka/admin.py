"""Kafka's admin client, with its errors in our words, and the form in which checks of a cluster report."""

import logging
import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Literal, NamedTuple, TypeVar

from confluent_kafka import KafkaError, KafkaException

# The package types its admin module and does not mark what it exports.
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]

from stream_apple.adapters.kafka.client_properties import SESSION_MS
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


_TIMEOUT_BOUNDS: tuple[tuple[str, str, Literal["at least", "at most"]], ...] = (
    ("session.timeout.ms", "group.min.session.timeout.ms", "at least"),
    ("session.timeout.ms", "group.max.session.timeout.ms", "at most"),
    ("transaction.timeout.ms", "transaction.max.timeout.ms", "at most"),
)


class Finding(NamedTuple):
    """One line of the report about a cluster. `note`: good to know, stops nothing."""

    verdict: Literal["ok", "note", "fault"]
    subject: str
    text: str


class Cluster:
    """A cluster that has answered at least once.

    brokers     their numbers
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
        self.brokers = sorted(answer.brokers)
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


def timeout_faults(cluster: Cluster) -> list[str]:
    """Timeouts of this client that the brokers don't accept, a line each; BrokerError if no broker tells its bounds.

    They may differ from broker to broker, and each may coordinate the group or the transaction.
    """
    faults: dict[tuple[str, str], str] = {}
    told = _broker_settings(cluster)
    for name, setting, rule in _TIMEOUT_BOUNDS:
        value = int(float(str(cluster.properties.get(name, SESSION_MS))))
        for number, settings in told.items():
            bound = int(settings.get(setting, value))
            if value < bound if rule == "at least" else value > bound:
                fault = f"kafka.{name}: expected {rule} {bound}, the {setting} of broker {number}, found {value}"
                faults.setdefault((name, rule), fault)
    return list(faults.values())


def _broker_settings(cluster: Cluster) -> dict[int, dict[str, str]]:
    """Static and dynamic settings of each broker that tells them; BrokerError if none does."""
    resources = {number: ConfigResource(ResourceType.BROKER, str(number)) for number in cluster.brokers}
    asked = cluster.client.describe_configs(list(resources.values()), request_timeout=REQUEST_S)
    told, refused = {}, None
    for number, resource in resources.items():
        try:
            entries = cluster.result(asked[resource], f"reading the settings of broker {number}")
        except BrokerError as error:
            refused = error
        else:
            told[number] = {entry.name: entry.value for entry in entries.values() if entry.value is not None}
    if not told and refused is not None:
        raise refused
    return told
