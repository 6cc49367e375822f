"""Kafka's admin client, with errors that say what was expected and found, and the findings of checks of a cluster."""

import logging
import re
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

# The package types its admin module and does not mark what it exports.
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from stream_apple.adapters.kafka.client_properties import SESSION_MS
from stream_apple.adapters.kafka.errors import as_kafka_exception, error_text, refused_configuration, translated
from stream_apple.adapters.kafka.retry import RetryPolicy
from stream_apple.errors import BrokerError, ConfigurationError
from stream_apple.stream.log.ports import Committed, LogRange

CONNECT_S = 6.0
REQUEST_S = 8.0
_CONNECTION_S = 3.0  # for a TCP connection
_CONNECTING = 16  # connections that are tried at the same time

# Without this the client would log lines of its own; what is wrong also comes as an error.
SILENT = logging.getLogger("librdkafka.admin")
SILENT.setLevel(logging.CRITICAL + 1)

_T = TypeVar("_T")

# Times in the text would make the same error look new at each attempt.
_TIMING = re.compile(r" \(after \d+ms in state \w+(, \d+ identical error\(s\) suppressed)?\)")


_TIMEOUT_BOUNDS: tuple[tuple[str, str, Literal["at least", "at most"]], ...] = (
    ("session.timeout.ms", "group.min.session.timeout.ms", "at least"),
    ("session.timeout.ms", "group.max.session.timeout.ms", "at most"),
    ("transaction.timeout.ms", "transaction.max.timeout.ms", "at most"),
)


class Finding(NamedTuple):
    """One line of the report about a cluster; a `note` informs, and stops no worker."""

    verdict: Literal["ok", "note", "fault"]
    subject: str
    text: str


class Cluster:
    """A cluster that has answered at least once.

    brokers     their numbers
    addresses   number of a broker -> the host and port that it advertises
    topics      name -> number of partitions, of all topics that this client may see
    has_controller  whether one of its brokers answers questions about settings; librdkafka's own cluster has none
    properties  librdkafka's
    request_s   how many seconds one answer may take
    counted     name -> number of partitions of the topics that matter; if given, the many others are not asked for

    ConfigurationError if librdkafka refuses a property, BrokerError if no broker answers within CONNECT_S.
    """

    def __init__(
        self,
        properties: Mapping[str, str | int | float | bool],
        request_s: float = REQUEST_S,
        counted: Mapping[str, int] | None = None,
    ) -> None:
        self.properties = dict(properties)
        self.request_s = request_s
        self.bootstrap = str(properties["bootstrap.servers"])
        reported: list[KafkaError] = []
        settings: dict[str, Any] = {**properties, "error_cb": reported.append, "logger": SILENT}
        with refused_configuration():
            self.client = AdminClient(settings)
        try:
            with as_kafka_exception():
                answer = self.client.list_topics(next(iter(counted or ()), None), CONNECT_S)
        except KafkaException as error:
            self.client.poll(0)
            reasons = dict.fromkeys(_TIMING.sub("", one.str()) for one in reported)
            raise BrokerError(
                f"kafka: expected an answer from {self.bootstrap} within {CONNECT_S:g} s, found: "
                + "; ".join(reasons or [error_text(error.args[0])])
            ) from error
        self.brokers = sorted(answer.brokers)
        self.addresses = {number: (each.host, each.port) for number, each in sorted(answer.brokers.items())}
        self.has_controller = answer.controller_id in answer.brokers
        found = {name: len(topic.partitions) for name, topic in answer.topics.items()}
        self.topics = found if counted is None else dict(counted)
        self.id = answer.cluster_id

    def unreachable(self) -> list[str]:
        """Return a line for each broker whose advertised address accepts no connection.

        The cluster answers at the address that was configured, but clients connect to advertised addresses.
        """
        with ThreadPoolExecutor(_CONNECTING) as executor:
            refusals = executor.map(_refused, self.addresses.values())
            found = zip(self.addresses, refusals, strict=True)
            return [f"broker {number}: {text}" for number, text in found if text is not None]

    def refuse_unreachable(self) -> None:
        """Raise BrokerError if no broker can be reached at the address that it advertises."""
        refused = self.unreachable()
        if refused and len(refused) == len(self.brokers):
            raise BrokerError(f"kafka: {'; '.join(refused)}")

    def partition_count(self, topic: str) -> int:
        """Return how many partitions the topic had when the cluster was asked; ConfigurationError without it."""
        if topic not in self.topics:
            raise ConfigurationError(
                f"topic {topic}: expected it on {self.bootstrap}, found no such topic; `stream-apple topics` creates it"
            )
        return self.topics[topic]

    def log_ranges(self, topic: str, partitions: Iterable[int]) -> dict[int, LogRange]:
        """Return the offsets in the logs, up to their very ends; BrokerError if a broker does not tell those of one."""
        places = [TopicPartition(topic, number) for number in partitions]
        if not places:
            return {}
        lows, highs = [
            self.client.list_offsets(dict.fromkeys(places, spec), request_timeout=self.request_s)
            for spec in (OffsetSpec.earliest(), OffsetSpec.latest())  # type: ignore[no-untyped-call]
        ]
        found = {}
        for place in places:
            what = f"the ends of {topic}-{place.partition}"
            low, high = (self.result(ends[place], what).offset for ends in (lows, highs))
            # A broker that has just come back may answer without an offset, and without an error.
            if min(low, high) < 0:
                raise BrokerError(f"{what}: expected {self.bootstrap} to tell offsets, found {low} and {high}")
            found[place.partition] = LogRange(low, high)
        return found

    def groups(self) -> list[str]:
        """Return the names of the consumer groups that this client may see, from the brokers that answer."""
        try:
            with as_kafka_exception():
                listed = self.client.list_consumer_groups(request_timeout=REQUEST_S).result()
        except KafkaException:
            return []
        return sorted(group.group_id for group in listed.valid)

    def committed_by(self, groups: Iterable[str], topic: str, within_s: float) -> dict[str, list[Committed]]:
        """Return what each of these groups has committed in the topic; the groups are asked for at the same time.

        Groups that this client may not see, or whose coordinator does not answer within `within_s` seconds, are left
        out.
        """
        places = [TopicPartition(topic, number) for number in range(self.topics.get(topic, 0))]
        if not places:
            return {}
        asked: dict[str, Future[Any]] = {}
        for group in groups:
            request = [ConsumerGroupTopicPartitions(group, places)]
            asked |= self.client.list_consumer_group_offsets(request, request_timeout=within_s)
        found = {}
        for group, future in asked.items():
            try:
                with as_kafka_exception():
                    answers = future.result().topic_partitions
            except KafkaException:
                continue
            told = [each for each in answers if each.error is None and each.offset >= 0]
            found[group] = [Committed(each.offset, each.metadata or "") for each in told]
        return found

    def create(self, topics: Sequence[NewTopic], *, dry_run: bool = False) -> None:
        """Create these topics, or with `dry_run` only have the brokers check that.

        ConfigurationError if the brokers refuse one; BrokerError if they don't answer, or it does not become visible.
        """
        futures = self.client.create_topics(
            list(topics), operation_timeout=REQUEST_S, request_timeout=REQUEST_S, validate_only=dry_run
        )
        refused: list[BrokerError | ConfigurationError] = []
        for name, future in futures.items():
            try:
                _carry_out(future, f"topic {name}: expected to create it")
            except (BrokerError, ConfigurationError) as error:
                refused.append(error)
        if refused:
            unanswered = any(isinstance(error, BrokerError) for error in refused)
            raise (BrokerError if unanswered else ConfigurationError)("\n  ".join(map(str, refused)))
        if not dry_run:
            self._wait_until_visible(set(futures))

    def _wait_until_visible(self, names: set[str]) -> None:
        """Wait until a broker knows of the topics: the controller creates them before each broker does."""
        unseen = names
        for _ in RetryPolicy(REQUEST_S).attempts():
            with translated(f"asking for {', '.join(sorted(unseen))}"):
                unseen = names - set(self.client.list_topics(timeout=REQUEST_S).topics)
            if not unseen:
                return
        missing = ", ".join(sorted(unseen))
        raise BrokerError(f"expected to see what was created within {REQUEST_S:g} s, found no {missing}")

    def set_settings(self, topic: str, settings: Mapping[str, str], *, dry_run: bool = False) -> None:
        """Change only these settings of a topic, or have the brokers check that; it raises what `create` does."""
        operation = AlterConfigOpType.SET
        entries = [ConfigEntry(name, value, incremental_operation=operation) for name, value in settings.items()]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        futures = self.client.incremental_alter_configs([resource], request_timeout=REQUEST_S, validate_only=dry_run)
        _carry_out(futures[resource], f"topic {topic}: expected to set {', '.join(settings)}")

    def add_partitions(self, topic: str, count: int, *, dry_run: bool = False) -> None:
        """Give a topic `count` partitions, or have the brokers check that; it raises what `create` does."""
        futures = self.client.create_partitions(
            [NewPartitions(topic, count)], operation_timeout=REQUEST_S, request_timeout=REQUEST_S, validate_only=dry_run
        )
        _carry_out(futures[topic], f"topic {topic}: expected to give it {count} partitions")

    def asked_settings(
        self, kind: Literal["topic", "broker"], names: Iterable[str]
    ) -> dict[str, Callable[[], dict[str, str]]]:
        """Ask for the settings of topics, or of one broker by its number.

        Return by name what waits for the answer; BrokerError if it is refused, or none comes.
        """
        resources = {name: ConfigResource(ResourceType[kind.upper()], name) for name in names}
        answers = self.client.describe_configs(list(resources.values()), request_timeout=self.request_s)

        def told(name: str) -> dict[str, str]:
            entries = self.result(answers[resources[name]], f"reading the settings of {kind} {name}")
            return {entry.name: entry.value for entry in entries.values() if entry.value is not None}

        return {name: partial(told, name) for name in resources}

    def result(self, future: Future[_T], what: str) -> _T:
        """Return the future's value; BrokerError says that `what` failed, and why."""
        try:
            with as_kafka_exception():
                return future.result()
        except KafkaException as error:
            raise BrokerError(f"{what}: {self.bootstrap} answered: {error_text(error.args[0])}") from error


def _refused(address: tuple[str, int]) -> str | None:
    """Return why nothing accepts a connection at an advertised address; None if something does."""
    try:
        socket.create_connection(address, _CONNECTION_S).close()
    except OSError as error:
        at = "{}:{}".format(*address)
        return (
            f"advertised.listeners: expected an address that this client can reach, found {at}: {error}. The broker "
            f"names the address for all clients, and kafka.bootstrap.servers is only the first one to ask"
        )
    return None


def _carry_out(future: Future[_T], what: str) -> None:
    """Wait for the future; ConfigurationError if the brokers refuse, BrokerError if they do not answer."""
    try:
        with as_kafka_exception():
            future.result()
    except KafkaException as error:
        # Negative codes are the client's own: no broker has answered.
        kind = BrokerError if error.args[0].code() < 0 else ConfigurationError
        raise kind(f"{what}, found: {error_text(error.args[0])}") from error


def timeout_faults(cluster: Cluster) -> list[str]:
    """Return a line for each timeout of this client that a broker refuses; BrokerError if no broker tells its bounds.

    All brokers are asked, as bounds may differ, and any broker may coordinate the group or the transaction.
    """
    faults: dict[tuple[str, str], str] = {}
    told = broker_settings(cluster)
    for name, setting, rule in _TIMEOUT_BOUNDS:
        value = int(float(str(cluster.properties.get(name, SESSION_MS))))
        for number, settings in told.items():
            bound = int(settings.get(setting, value))
            if value < bound if rule == "at least" else value > bound:
                fault = f"kafka.{name}: expected {rule} {bound}, the {setting} of broker {number}, found {value}"
                faults.setdefault((name, rule), fault)
    return list(faults.values())


def broker_settings(cluster: Cluster) -> dict[int, dict[str, str]]:
    """Return the static and dynamic settings of each broker that tells them; BrokerError if none does."""
    # librdkafka takes one broker a call; the answers are waited for together.
    asked = {number: cluster.asked_settings("broker", [str(number)])[str(number)] for number in cluster.brokers}
    told, refused = {}, None
    for number, settings in asked.items():
        try:
            told[number] = settings()
        except BrokerError as error:
            refused = error
    if not told and refused is not None:
        raise refused
    return told
