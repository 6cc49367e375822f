"""What the topics must be like, how existing ones differ from that, and the creation of missing ones.

An existing topic is altered only when that is asked for: it may hold what can't be had again. Each setting that is
needed has its reason here, and nothing is needed that the promises do not need.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from confluent_kafka import TopicCollection

# The package types its admin module and does not mark what it exports.
from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType  # type: ignore[attr-defined]

from stream_apple.adapters.kafka.admin import REQUEST_S, Cluster
from stream_apple.adapters.kafka.client_properties import SNAPSHOT_MESSAGE_BYTES
from stream_apple.adapters.kafka.retry import RetryPolicy
from stream_apple.config import JoinSettings, TopicSettings
from stream_apple.core.codec.message_size import USUAL_RECORD_BYTES, largest_dead_letter, largest_prediction
from stream_apple.errors import BrokerError

Rule = Literal["exactly", "at least", "at most", "no less than"]
"""`no less than`: at least, where -1 is without end."""

KAFKA_MESSAGE_BYTES = 1_048_588  # Kafka's default for max.message.bytes
COMPACTION_LAG_MS = 3_600_000
DAY_MS = 86_400_000
RETENTION_MS = 14 * DAY_MS
AHEAD_MS = 7 * DAY_MS  # as `epochs.max_ahead` by default
UNLIMITED = (1 << 63) - 1
BROKER_DEFAULT = -1
BEFORE, AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
FOREVER = -1  # of retention.ms


class Requirement(NamedTuple):
    """A topic setting that must hold. `written`: a new topic gets it by name; else Kafka's default is far above."""

    setting: str
    rule: Rule
    value: str | int
    written: bool = True

    def accepts(self, found: str) -> bool:
        """Whether the value that the broker reports is good enough."""
        if self.rule == "exactly" or (self.rule == "no less than" and self.value == FOREVER):
            return found == str(self.value)
        if self.rule == "no less than" and int(found) == FOREVER:
            return True
        return int(found) <= int(self.value) if self.rule == "at most" else int(found) >= int(self.value)

    def __str__(self) -> str:
        bare = self.rule == "exactly" or self.value == FOREVER
        return str(self.value) if bare else f"{self.rule} {self.value}"


class Existing(NamedTuple):
    """A topic as it is on the cluster. `operations`: what this client may do with it."""

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

    def value(self) -> str:
        """What is expected, as the topic has it: of a bound, the bound itself."""
        return self.expected.rpartition(" ")[2]

    def alterable(self) -> bool:
        """Whether `alter` changes it: without moving replicas, and without taking away what may be in the topic."""
        if self.property == "partitions":
            return int(self.expected) > int(self.found)
        return self.property not in {"replication factor", "cleanup.policy"}


class TopicReport(NamedTuple):
    """What was found or done for one topic."""

    topic: str
    partitions: int
    verdict: Literal["as needed", "different", "missing", "created", "would be created", "altered", "would be altered"]
    differences: list[Difference]


def requirements(
    topics: TopicSettings,
    examples: Mapping[str, str],
    max_record_bytes: int = USUAL_RECORD_BYTES,
    *,
    merging: bool = False,
    joining: JoinSettings | None = None,
) -> dict[str, list[Requirement]]:
    """Topic name -> what must hold; `examples` are the settings of that topic, perhaps yet to be made."""
    kept = int(examples.get("retention.ms", FOREVER))
    merges = [
        # Adoption records have a key for each partition: compaction would leave the newest of each.
        Requirement("cleanup.policy", "exactly", "delete"),
        # Where examples are, what came of merging on the way must be, too: without it they can't be learned again.
        Requirement("retention.ms", "no less than", kept),
        # What partitions still wait for must not go because others write much.
        Requirement("retention.bytes", "exactly", FOREVER),
        *_room(SNAPSHOT_MESSAGE_BYTES),
    ]
    # The prediction and the dead letter carry their example's timestamp: the broker must neither replace nor refuse
    # it, however late the worker is. A transaction that is refused for it would be refused after every restart.
    outputs = [
        # Readers would lose the earlier of two answers with one key, and Kafka refuses one without a key.
        Requirement("cleanup.policy", "exactly", "delete"),
        Requirement("message.timestamp.type", "exactly", "CreateTime"),
        Requirement(BEFORE, "at least", UNLIMITED),
        Requirement(AFTER, "at least", int(examples.get(AFTER, UNLIMITED))),
    ]
    return {
        # Compaction would take examples out of the middle: a replay would learn another model.
        topics.examples: [
            Requirement("cleanup.policy", "exactly", "delete"),
            *_of_joined_examples(joining, max_record_bytes),
        ],
        topics.predictions: [*outputs, *_room(largest_prediction(max_record_bytes))],
        topics.dead_letters: [*outputs, *_room(largest_dead_letter(max_record_bytes))],
        # No min.compaction.lag.ms: a restore never reads a set that compaction may take from under it. It reads the
        # one that the committed offset points to, once the transactions that could still move the pointer have
        # ended; only the partition's owner writes a newer one, and that is who restores. What a fenced or aborted
        # writer left displaces nothing: compaction ignores it. Whoever reads the topic from outside the group
        # may see a set vanish, and finds the newer one that took its place.
        topics.models: [
            # Deletion by age would take the only snapshot of a partition that is quiet for a week.
            Requirement("cleanup.policy", "exactly", "compact"),
            *_room(SNAPSHOT_MESSAGE_BYTES),
            # By default compaction waits for a full segment: superseded snapshots would pile up.
            Requirement("max.compaction.lag.ms", "at most", COMPACTION_LAG_MS),
        ],
        **({topics.merges: merges} if merging else {}),
        **({} if joining is None else _of_joiners(joining, outputs, max_record_bytes)),
    }


def _of_joined_examples(joining: JoinSettings | None, max_record_bytes: int) -> list[Requirement]:
    """An example that is joined has the time of its impression, and comes when that has waited."""
    if joining is None:
        return []
    return [
        Requirement("message.timestamp.type", "exactly", "CreateTime"),
        Requirement(BEFORE, "at least", UNLIMITED),
        *_room(largest_prediction(max_record_bytes)),
    ]


def _of_joiners(
    joining: JoinSettings, outputs: list[Requirement], max_record_bytes: int
) -> dict[str, list[Requirement]]:
    # A record is still needed when it has waited, and a joiner may be away for a day.
    kept = Requirement("retention.ms", "no less than", joining.wait + joining.tolerance + DAY_MS)
    logs = [Requirement("cleanup.policy", "exactly", "delete"), kept]
    return {
        joining.impressions: logs,
        joining.outcomes: logs,
        joining.dead_letters: [*outputs, *_room(largest_dead_letter(max_record_bytes))],
    }


def partitions_of(topics: TopicSettings, name: str, examples: int) -> int:
    """How many partitions a topic must have, where the examples have so many: all merges are in one order."""
    return 1 if name == topics.merges else examples


def _room(largest: int) -> list[Requirement]:
    """For messages of so many bytes, in a batch of their own: one that is refused is refused after every restart."""
    return [
        Requirement("max.message.bytes", "at least", largest),
        Requirement("segment.bytes", "at least", largest, written=False),
    ]


def creation(
    topics: TopicSettings, retention_ms: int, joining: JoinSettings | None = None
) -> dict[str, dict[str, str]]:
    """Topic name -> what a new topic gets besides its requirements; examples get all they are made with.

    retention_ms  how long a record stays by its own timestamp, or FOREVER
    """
    kept = kept_for(topics, retention_ms, joining)
    joined = {} if joining is None else {name: kept[name] for name in joining.topics}
    return {
        # Written down, so that a later change of the broker's default can't outgrow the dead letters.
        topics.examples: {
            "cleanup.policy": "delete",
            "max.message.bytes": str(KAFKA_MESSAGE_BYTES),
            **kept[topics.examples],
        },
        topics.predictions: kept[topics.predictions],
        topics.dead_letters: kept[topics.dead_letters],
        topics.models: {},
        topics.merges: {},
        **joined,
    }


def kept_for(
    topics: TopicSettings, retention_ms: int, joining: JoinSettings | None = None
) -> dict[str, dict[str, str]]:
    """Topic name -> the settings that keep a record for so long by its own timestamp, or FOREVER."""
    # Kafka deletes by the records' own timestamps: a history would be gone while it is being written, learned or not.
    # Refusing what is older than half of the retention turns that into an error that its producer sees, and leaves
    # whoever reads the topic, a worker that was away among them, at least the other half.
    kept = {"retention.ms": str(retention_ms)}
    oldest = UNLIMITED if retention_ms == FOREVER else retention_ms // 2
    # Kafka refuses timestamps an hour ahead of its clock, before `epochs.max_ahead` can judge them. Without any limit,
    # one record of a broken clock would keep its segment, and all after it, from being deleted for years.
    newest = UNLIMITED if retention_ms == FOREVER else AHEAD_MS
    as_sent = {BEFORE: str(oldest), AFTER: str(newest), **kept}
    joined = (
        {}
        if joining is None
        else {
            topics.examples: {**as_sent, BEFORE: str(UNLIMITED)},
            joining.impressions: as_sent,
            joining.outcomes: as_sent,
            joining.dead_letters: kept,
        }
    )
    return {
        topics.examples: as_sent,
        # With a shorter retention, the outputs of late examples would be deleted on arrival.
        topics.predictions: kept,
        topics.dead_letters: kept,
        **joined,
    }


def written(needed: list[Requirement]) -> dict[str, str]:
    """The settings that a new topic gets so that the requirements hold."""
    return {requirement.setting: str(requirement.value) for requirement in needed if requirement.written}


def existing(cluster: Cluster, names: list[str], *, settings: bool = True) -> dict[str, Existing]:
    """Those of `names` that exist; BrokerError if the cluster does not let this client look.

    settings  whether to ask for them, which needs a permission that a worker can do without
    """
    present = [name for name in names if name in cluster.topics]
    if not present:
        return {}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in present]
    described = cluster.client.describe_topics(
        TopicCollection(present), include_authorized_operations=True, request_timeout=cluster.request_s
    )
    configured = cluster.client.describe_configs(resources, request_timeout=cluster.request_s) if settings else {}
    found = {}
    for name, resource in zip(present, resources, strict=True):
        topic = cluster.result(described[name], f"describing topic {name}")
        reading = f"reading the settings of topic {name}"
        entries = cluster.result(configured[resource], reading).values() if settings else ()
        found[name] = Existing(
            partitions=len(topic.partitions),
            replicas=min(len(partition.replicas) for partition in topic.partitions),
            settings={entry.name: entry.value for entry in entries if entry.value is not None},
            operations=frozenset(operation.name for operation in topic.authorized_operations or ()),
        )
    return found


def missing_permissions(
    topics: TopicSettings, name: str, allowed: frozenset[str], joining: JoinSettings | None = None
) -> list[str]:
    """A line about what a worker, or a joiner, may not do with one of its topics, if there is something."""
    needed = {"READ", "WRITE"}
    if (joining is None and name == topics.examples) or (joining is not None and name == joining.impressions):
        needed = {"READ"}
    elif joining is not None and name == joining.dead_letters:
        needed = {"WRITE"}
    return [] if needed <= allowed else [refused(needed, allowed)]


def refused(needed: set[str], allowed: frozenset[str]) -> str:
    """What was expected to be allowed, and what is."""
    return f"permissions: expected {', '.join(sorted(needed))}, found {', '.join(sorted(allowed)) or 'none'}"


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
    retention_ms: int | None = None,
    max_record_bytes: int = USUAL_RECORD_BYTES,
    *,
    merging: bool = False,
    joining: JoinSettings | None = None,
    dry_run: bool = False,
) -> list[TopicReport]:
    """Compare what exists and create what is missing; nothing is created while anything differs.

    partitions    None: as many as `examples` has, 1 if it is missing too.
    retention_ms  how long a record stays by its own timestamp, or FOREVER; None: RETENTION_MS for what is created, and
                  as it is for what exists
    max_record_bytes  of the examples: how large answers may be follows from it
    merging       whether there is to be a topic for merges
    joining       what is joined, if anything: then there are to be topics for that
    dry_run       the broker checks the creation and does not carry it out.
    """
    names = topics.names(merging=merging) + ([] if joining is None else joining.topics)
    found = existing(cluster, names)
    created = creation(topics, RETENTION_MS if retention_ms is None else retention_ms, joining)
    asked = {} if retention_ms is None else kept_for(topics, retention_ms, joining)
    examples = found[topics.examples].settings if topics.examples in found else created[topics.examples]
    examples = {**examples, **asked.get(topics.examples, {})}
    if partitions is None:
        partitions = found[topics.examples].partitions if topics.examples in found else 1
    reports = []
    missing: dict[str, NewTopic] = {}
    for name, needed in requirements(topics, examples, max_record_bytes, merging=merging, joining=joining).items():
        count = partitions_of(topics, name, partitions)
        if name in found:
            wanted = asked.get(name, {})
            exact = [Requirement(setting, "exactly", value) for setting, value in wanted.items()]
            rest = [requirement for requirement in needed if requirement.setting not in wanted]
            differences = compare(name, found[name], [*exact, *rest], count, replication_factor)
            verdict: Literal["different", "as needed"] = "different" if differences else "as needed"
            reports.append(TopicReport(name, found[name].partitions, verdict, differences))
        else:
            settings = written(needed) | created[name]
            missing[name] = NewTopic(name, count, replication_factor, config=settings)
            reports.append(TopicReport(name, count, "missing", []))
    if not missing or any(report.differences for report in reports):
        return reports
    cluster.create(list(missing.values()), dry_run=dry_run)
    made: Literal["would be created", "created"] = "would be created" if dry_run else "created"
    return [row._replace(verdict=made) if row.topic in missing else row for row in reports]


def alter(cluster: Cluster, examples: str, reports: list[TopicReport], *, dry_run: bool = False) -> list[TopicReport]:
    """Change what differs; nothing is changed if anything differs that is not alterable.

    reports  what `ensure` has found; what comes back says which topics are altered, with what they had before
    dry_run  the brokers check the changes and do not carry them out.
    """
    wrong = [report for report in reports if report.differences]
    if not all(difference.alterable() for report in wrong for difference in report.differences):
        return reports
    # Outputs first: they must take whatever a worker makes of the examples.
    for report in sorted(wrong, key=lambda report: report.topic == examples):
        settings = {each.property: each.value() for each in report.differences if each.property != "partitions"}
        if settings:
            cluster.set_settings(report.topic, settings, dry_run=dry_run)
        for each in report.differences:
            if each.property == "partitions":
                cluster.add_partitions(report.topic, int(each.value()), dry_run=dry_run)
    if not dry_run:
        _wait_until_altered(cluster, wrong)
    made: Literal["would be altered", "altered"] = "would be altered" if dry_run else "altered"
    return [report._replace(verdict=made) if report.differences else report for report in reports]


def _wait_until_altered(cluster: Cluster, reports: list[TopicReport]) -> None:
    """The controller has changed the topics before each broker knows of it."""
    for _ in RetryPolicy(REQUEST_S).attempts():
        found = existing(cluster, [report.topic for report in reports])
        told = {name: {**topic.settings, "partitions": str(topic.partitions)} for name, topic in found.items()}
        changes = [each for report in reports for each in report.differences]
        unseen = [each for each in changes if told[each.topic].get(each.property) != each.value()]
        if not unseen:
            return
    names = ", ".join(f"{each.property} {each.value()} of {each.topic}" for each in unseen)
    raise BrokerError(f"expected to see what was altered within {REQUEST_S:g} s, found no {names}")
