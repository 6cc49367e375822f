"""What the four topics must be like, how existing ones differ from that, and the creation of missing ones.

An existing topic is never altered: it may hold what can't be had again. Each setting that is asked for has
its reason here, and nothing is asked for that the promises do not need.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from confluent_kafka import KafkaException, TopicCollection

# The package types its admin module and does not mark what it exports.
from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType  # type: ignore[attr-defined]

from stream_apple.adapters.admin import REQUEST_SECONDS, Cluster, text
from stream_apple.config import TopicSettings
from stream_apple.errors import BrokerError, ConfigurationError

Rule = Literal["exactly", "at least", "at most"]

KAFKA_MESSAGE_BYTES = 1_048_588  # Kafka's default for max.message.bytes
DEAD_LETTER_HEADER_BYTES = 65_536
SNAPSHOT_MESSAGE_BYTES = 1_048_576
COMPACTION_LAG_MS = 3_600_000
BROKER_DEFAULT = -1
FOREVER = "-1"  # of retention.ms


class Requirement(NamedTuple):
    """A topic setting that must hold."""

    setting: str
    rule: Rule
    value: str | int

    def accepts(self, found: str) -> bool:
        """Whether the value that the broker reports is good enough."""
        if self.rule == "exactly":
            return found == str(self.value)
        return int(found) >= int(self.value) if self.rule == "at least" else int(found) <= int(self.value)

    def __str__(self) -> str:
        return str(self.value) if self.rule == "exactly" else f"{self.rule} {self.value}"


class Existing(NamedTuple):
    """A topic as it is on the cluster. `operations`: what we may do with it."""

    partitions: int
    replicas: int
    settings: Mapping[str, str]
    operations: frozenset[str]


class Difference(NamedTuple):
    """One property of one topic that is not as needed."""

    topic: str
    property: str
    expected: str
    found: str


class Outcome(NamedTuple):
    """What was found or done for one topic."""

    topic: str
    partitions: int
    verdict: Literal["as needed", "different", "missing", "created", "would be created"]
    differences: list[Difference]


def requirements(topics: TopicSettings, example_bytes: int) -> dict[str, list[Requirement]]:
    """Topic name -> what must hold; `example_bytes` is the largest message that `examples` accepts."""
    # The prediction and the dead letter carry their example's timestamp: the broker must not replace it.
    own_time = Requirement("message.timestamp.type", "exactly", "CreateTime")
    return {
        # Compaction would take examples out of the middle: a replay would learn another model.
        topics.examples: [Requirement("cleanup.policy", "exactly", "delete")],
        topics.predictions: [own_time],
        topics.dead_letters: [
            own_time,
            # The original record and our headers: an example of the largest size must still fit.
            Requirement("max.message.bytes", "at least", example_bytes + DEAD_LETTER_HEADER_BYTES),
        ],
        topics.models: [
            # Deletion by age would take the only snapshot of a partition that is quiet for a week.
            Requirement("cleanup.policy", "exactly", "compact"),
            Requirement("max.message.bytes", "at least", SNAPSHOT_MESSAGE_BYTES),
            # By default compaction waits for a full segment: superseded snapshots would pile up.
            Requirement("max.compaction.lag.ms", "at most", COMPACTION_LAG_MS),
        ],
    }


def existing(cluster: Cluster, names: list[str]) -> dict[str, Existing]:
    """Those of `names` that exist; BrokerError if the cluster does not let us look."""
    present = [name for name in names if name in cluster.topics]
    if not present:
        return {}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in present]
    described = cluster.client.describe_topics(
        TopicCollection(present), include_authorized_operations=True, request_timeout=REQUEST_SECONDS
    )
    configured = cluster.client.describe_configs(resources, request_timeout=REQUEST_SECONDS)
    found = {}
    for name, resource in zip(present, resources, strict=True):
        topic = cluster.result(described[name], f"describing topic {name}")
        entries = cluster.result(configured[resource], f"reading the settings of topic {name}")
        found[name] = Existing(
            partitions=len(topic.partitions),
            replicas=min(len(partition.replicas) for partition in topic.partitions),
            settings={entry.name: entry.value for entry in entries.values() if entry.value is not None},
            operations=frozenset(operation.name for operation in topic.authorized_operations or ()),
        )
    return found


def largest_example(topics: TopicSettings, found: Mapping[str, Existing]) -> int:
    """Bytes of the largest message that `examples` accepts, or will accept once it is made."""
    if topics.examples not in found:
        return KAFKA_MESSAGE_BYTES
    return int(found[topics.examples].settings["max.message.bytes"])


def compare(
    name: str,
    found: Existing,
    needed: list[Requirement],
    partitions: int,
    replication_factor: int = BROKER_DEFAULT,
) -> list[Difference]:
    """Every property of an existing topic that is not as needed; replication only if it is asked for."""
    differences = []
    if found.partitions != partitions:
        differences.append(Difference(name, "partitions", str(partitions), str(found.partitions)))
    if replication_factor not in {BROKER_DEFAULT, found.replicas}:
        differences.append(Difference(name, "replication factor", str(replication_factor), str(found.replicas)))
    for requirement in needed:
        value = found.settings.get(requirement.setting)
        if value is None or not requirement.accepts(value):
            differences.append(
                Difference(name, requirement.setting, str(requirement), "nothing" if value is None else value)
            )
    return differences


def ensure(
    cluster: Cluster,
    topics: TopicSettings,
    partitions: int | None = None,
    replication_factor: int = BROKER_DEFAULT,
    *,
    dry_run: bool = False,
) -> list[Outcome]:
    """Compare what exists and create what is missing; nothing is created while anything differs.

    partitions  None: as many as `examples` has, 1 if it is missing too.
    dry_run     the broker checks the creation and does not carry it out.
    """
    found = existing(cluster, list(topics.model_dump().values()))
    example_bytes = largest_example(topics, found)
    if partitions is None:
        partitions = found[topics.examples].partitions if topics.examples in found else 1
    outcomes = []
    missing: dict[str, NewTopic] = {}
    for name, needed in requirements(topics, example_bytes).items():
        if name in found:
            differences = compare(name, found[name], needed, partitions, replication_factor)
            verdict: Literal["different", "as needed"] = "different" if differences else "as needed"
            outcomes.append(Outcome(name, found[name].partitions, verdict, differences))
        else:
            settings = {requirement.setting: str(requirement.value) for requirement in needed}
            if name == topics.examples:
                # Written down, so that a later change of the broker's default can't outgrow the dead letters.
                settings["max.message.bytes"] = str(example_bytes)
                # A restarted worker replays from its model's first record; and retention goes by event time, so
                # that a history would be deleted while it is being written.
                settings["retention.ms"] = FOREVER
            missing[name] = NewTopic(name, partitions, replication_factor, config=settings)
            outcomes.append(Outcome(name, partitions, "missing", []))
    if not missing or any(outcome.differences for outcome in outcomes):
        return outcomes
    _create(cluster, missing, dry_run=dry_run)
    made: Literal["would be created", "created"] = "would be created" if dry_run else "created"
    return [row._replace(verdict=made) if row.topic in missing else row for row in outcomes]


def _create(cluster: Cluster, missing: Mapping[str, NewTopic], *, dry_run: bool) -> None:
    futures = cluster.client.create_topics(
        list(missing.values()),
        operation_timeout=REQUEST_SECONDS,
        request_timeout=REQUEST_SECONDS,
        validate_only=dry_run,
    )
    refused = []
    unanswered = False
    for name, future in futures.items():
        try:
            future.result()
        except KafkaException as error:
            refused.append(f"topic {name}: expected to create it, found: {text(error)}")
            unanswered = unanswered or error.args[0].code() < 0
    if refused:
        # Negative codes are the client's own: the broker was not heard. All others are its refusal.
        raise (BrokerError if unanswered else ConfigurationError)("\n  ".join(refused))
