"""The settings that topics must have, how existing topics differ from them, and the creation of missing ones.

An existing topic is altered only on request, as its records may be lost for good. Each requirement has its reason here:
the product could not keep a promise without it.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection

# The package types its admin module and does not mark what it exports.
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from stream_apple.adapters.kafka.admin import REQUEST_S, Cluster
from stream_apple.adapters.kafka.client_properties import SNAPSHOT_MESSAGE_BYTES
from stream_apple.adapters.kafka.retry import RetryPolicy
from stream_apple.config import Config, JoinSettings, TopicSettings
from stream_apple.errors import BrokerError, ConfigurationError
from stream_apple.records.message.message_size import USUAL_RECORD_BYTES, largest_dead_letter, largest_prediction

Rule = Literal["exactly", "at least", "at most", "no less than"]
"""`no less than` means at least, where -1 means without end."""
TopicVerdict = Literal[
    "as needed", "different", "missing", "created", "would be created", "altered", "would be altered"
]

KAFKA_MESSAGE_BYTES = 1_048_588  # Kafka's default for max.message.bytes
COMPACTION_LAG_MS = 3_600_000
DAY_MS = 86_400_000
RETENTION_MS = 14 * DAY_MS
AHEAD_MS = 7 * DAY_MS  # the default of `epochs.max_ahead`
UNLIMITED = (1 << 63) - 1
BROKER_DEFAULT = -1
BEFORE, AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
FOREVER = -1  # of retention.ms
BROKERS_TIME = {"message.timestamp.type": "LogAppendTime"}
"""For messages that have the time of day of a worker's machine: by default a topic refuses what is an hour ahead."""
_OLD_BROKERS = "brokers before Kafka 3.6 do not have this setting, and are too old"


class Requirement(NamedTuple):
    """A setting that a topic must have.

    written  whether a new topic is created with it; if not, Kafka's default is far above it
    """

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
    """A topic as it is on the cluster.

    operations  those that this client is allowed
    leaderless  the partitions that no broker leads: they can be neither read nor written
    in_sync     partition -> how many of its replicas are in sync, of those that a broker leads
    """

    partitions: int
    replicas: int
    settings: Mapping[str, str]
    operations: frozenset[str]
    leaderless: tuple[int, ...] = ()
    in_sync: Mapping[int, int] = {}


class Difference(NamedTuple):
    """One property of one topic that is not as needed."""

    topic: str
    property: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.property}: expected {self.expected}, found {self.found}"

    def value(self) -> str:
        """Return the value to set so that the property is as expected; of a bound, the bound itself."""
        return self.expected.rpartition(" ")[2]

    def alterable(self) -> bool:
        """Whether `alter` can change it, which moves no replicas and removes no records."""
        if self.property == "partitions":
            return int(self.expected) > int(self.found)
        return self.property not in {"replication factor", "cleanup.policy"}


class TopicReport(NamedTuple):
    """Says what was found of, or done for, one topic."""

    topic: str
    partitions: int
    verdict: TopicVerdict
    differences: list[Difference]


class NeededTopics(NamedTuple):
    """Says which topics a configuration needs, and what of each.

    max_record_bytes  of the examples; it decides how large outputs may be
    merging           whether the merges topic is needed
    joining           the settings of joining; None: its topics are not needed
    """

    topics: TopicSettings
    max_record_bytes: int = USUAL_RECORD_BYTES
    merging: bool = False
    joining: JoinSettings | None = None

    @classmethod
    def of(cls, config: Config) -> "NeededTopics":
        """Return what workers need, and joiners, if the configuration has a section for them."""
        joining = config.join if config.joining else None
        return cls(config.topics, config.limits.max_record_bytes, config.merging, joining)

    @property
    def names(self) -> list[str]:
        """Return the names of all topics, the examples first."""
        return self.topics.names(merging=self.merging) + ([] if self.joining is None else self.joining.topics)

    @property
    def input(self) -> str:
        """Return the topic that is only read: the examples, or with `joining` the impressions."""
        return self.topics.examples if self.joining is None else self.joining.impressions

    def partitions_of(self, name: str, examples: int) -> int:
        """Return how many partitions a new topic gets, given those of the examples topic; one orders all merges."""
        return 1 if name == self.topics.merges else examples

    def needed_partitions(self, name: str, examples: int) -> int | None:
        """Return how many partitions a topic must have; None for dead letters, which fold into any number."""
        folding = {self.topics.dead_letters, None if self.joining is None else self.joining.dead_letters}
        return None if name in folding else self.partitions_of(name, examples)

    def requirements(self, settings: Mapping[str, Mapping[str, str]]) -> dict[str, list[Requirement]]:
        """Return topic name -> its requirements; `settings` are those that each topic has, or gets, by its name."""
        topics, joining = self.topics, self.joining
        answers, letters = largest_prediction(self.max_record_bytes), largest_dead_letter(self.max_record_bytes)
        examples = settings.get(topics.examples, {})

        def outputs_of(*inputs: str) -> list[Requirement]:
            """What is true of topics whose messages have the timestamps of these.

            The broker must neither replace nor refuse them, however late the worker is. If it refused one once, it
            would refuse it after every restart.
            """
            ahead = max(int(settings.get(name, {}).get(AFTER, UNLIMITED)) for name in inputs)
            # Compaction would remove the earlier of two answers with one key, and refuses messages without a key.
            return [_DELETES, *_as_sent(ahead)]

        outputs = outputs_of(topics.examples)
        found = {
            # Compaction would remove examples in the middle of the log, and a replay would learn another model.
            topics.examples: [_DELETES],
            topics.predictions: [*outputs, *_room(answers)],
            topics.dead_letters: [*outputs, *_room(letters)],
            # min.compaction.lag.ms is not needed, as compaction never removes a snapshot that is being restored. A
            # restore reads the snapshot that the committed offset points to, once the transactions that could still
            # change that have ended; only the partition's owner writes a newer one, and the owner is who restores.
            # Compaction ignores messages of aborted transactions. A reader outside the group may find a snapshot gone,
            # and a newer one there.
            topics.models: [
                # Deletion by age would remove the only snapshot of a partition that is quiet for a week.
                Requirement("cleanup.policy", "exactly", "compact"),
                *_room(SNAPSHOT_MESSAGE_BYTES),
                # By default compaction waits for a full segment, and superseded snapshots would accumulate.
                Requirement("max.compaction.lag.ms", "at most", COMPACTION_LAG_MS),
            ],
        }
        if self.merging:
            found[topics.merges] = [
                # Adoption records have a key for each partition: compaction would keep only the newest of each.
                _DELETES,
                # Examples can be learned again only with the merged models that were adopted among them.
                Requirement("retention.ms", "no less than", int(examples.get("retention.ms", FOREVER))),
                # A merged model that partitions still wait for must not be deleted because others write much.
                Requirement("retention.bytes", "exactly", FOREVER),
                *_room(SNAPSHOT_MESSAGE_BYTES),
            ]
        if joining is not None:
            stays = Requirement("retention.ms", "no less than", _joined_ms(joining))
            # Joined examples have their impressions' times, but come later. A joiner refuses impressions that are
            # further ahead (`stream/joining/rule.py`).
            found[topics.examples] += [stays, *_as_sent(AHEAD_MS), *_room(answers)]
            found[joining.impressions] = found[joining.outcomes] = [_DELETES, stays]
            found[joining.dead_letters] = [*outputs_of(joining.impressions, joining.outcomes), *_room(letters)]
        return found

    def creation(self, retention_ms: int) -> dict[str, dict[str, str]]:
        """Return topic name -> the settings that a new topic gets besides its requirements.

        retention_ms  how long a record is kept, by its own timestamp, or FOREVER
        """
        found = {name: dict[str, str]() for name in self.names} | self.kept_for(retention_ms)
        # The size is set, as a larger default of the broker, set later, would allow records too large for dead letters.
        found[self.topics.examples] |= {"cleanup.policy": "delete", "max.message.bytes": str(KAFKA_MESSAGE_BYTES)}
        for name in {self.topics.models, self.topics.merges} & found.keys():
            found[name] |= BROKERS_TIME
        return found

    def kept_for(self, retention_ms: int) -> dict[str, dict[str, str]]:
        """Return topic name -> the settings that keep a record for so long by its own timestamp, or FOREVER.

        With `joining`, it is at least so long as joining takes.
        """
        topics, joining = self.topics, self.joining
        if joining is not None and retention_ms != FOREVER:
            retention_ms = max(retention_ms, _joined_ms(joining))
        # Kafka deletes by the records' own timestamps: old records would be deleted as they are written, learned or
        # not. A topic that refuses records older than half of the retention makes that an error which the producer
        # sees, and leaves its readers, such as a worker that was down, at least the other half.
        kept = {"retention.ms": str(retention_ms)}
        oldest = UNLIMITED if retention_ms == FOREVER else retention_ms // 2
        # Kafka refuses timestamps an hour ahead of its clock, before `epochs.max_ahead` can judge them. Without any
        # limit, one record of a broken clock would keep its segment, and all after it, from being deleted for years.
        newest = UNLIMITED if retention_ms == FOREVER else AHEAD_MS
        as_sent = {BEFORE: str(oldest), AFTER: str(newest), **kept}
        # With a shorter retention, outputs of late examples would be deleted as they arrive.
        found = {topics.examples: as_sent, topics.predictions: kept, topics.dead_letters: kept}
        if joining is not None:
            found[topics.examples] = {**as_sent, BEFORE: str(UNLIMITED)}
            found |= {joining.impressions: as_sent, joining.outcomes: as_sent, joining.dead_letters: kept}
        return found

    def missing_permissions(self, name: str, allowed: frozenset[str]) -> list[str]:
        """Return a line if a worker, or a joiner, lacks a permission on one of its topics; else nothing."""
        needed = {"READ", "WRITE"}
        if name == self.input:
            needed = {"READ"}
        elif self.joining is not None and name == self.joining.dead_letters:
            needed = {"WRITE"}
        return [] if needed <= allowed else [refused(needed, allowed)]


_DELETES = Requirement("cleanup.policy", "exactly", "delete")


def _as_sent(ahead_ms: int) -> list[Requirement]:
    """Return what a topic needs that takes records of any age, and those of times up to so far ahead."""
    return [
        Requirement("message.timestamp.type", "exactly", "CreateTime"),
        Requirement(BEFORE, "at least", UNLIMITED),
        Requirement(AFTER, "at least", ahead_ms),
    ]


def _room(largest: int) -> list[Requirement]:
    """Return what a topic needs for messages of so many bytes: a message that is refused once always will be."""
    return [
        Requirement("max.message.bytes", "at least", largest),
        Requirement("segment.bytes", "at least", largest, written=False),
    ]


def _joined_ms(joining: JoinSettings) -> int:
    """Return how long a record must stay: its wait goes by first, and then a joiner or a worker may be down for a day.

    That of an example is over when it comes: a topic that deletes sooner would delete it at once.
    """
    return joining.wait + joining.tolerance + DAY_MS


def written(needed: list[Requirement]) -> dict[str, str]:
    """Return the settings with which a new topic is created so that the requirements hold."""
    return {requirement.setting: str(requirement.value) for requirement in needed if requirement.written}


def existing(cluster: Cluster, names: list[str]) -> dict[str, Existing]:
    """Return the topics of `names` that exist; BrokerError if this client may not see them or their settings."""
    present = [name for name in names if name in cluster.topics]
    return {name: answer() for name, answer in _described(cluster, present).items()}


def visible(cluster: Cluster, names: list[str]) -> tuple[dict[str, Existing], list[str]]:
    """Return those of the topics that the brokers describe to this client, and the names that no topic has.

    A topic has no settings here if this client may not read them: a worker can do without that permission.
    BrokerError if no broker answers.
    """
    found, absent = {}, []
    for name, answer in _described(cluster, names, strict=False).items():
        try:
            found[name] = answer()
        except BrokerError as error:
            if (code := _refusal(error)) is None:
                raise
            if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                absent.append(name)
    return found, absent


def _refusal(error: BrokerError) -> int | None:
    """Return the code with which a broker has refused to answer; None if no broker has answered."""
    cause = error.__cause__
    code = cause.args[0].code() if isinstance(cause, KafkaException) else -1
    return code if code > 0 else None  # negative codes are the client's own


def _described(cluster: Cluster, names: list[str], *, strict: bool = True) -> dict[str, Callable[[], Existing]]:
    """Ask for these topics together; return by name what waits for the answer.

    strict  whether settings that this client may not read are a BrokerError
    """
    if not names:
        return {}
    described = cluster.client.describe_topics(
        TopicCollection(names), include_authorized_operations=True, request_timeout=cluster.request_s
    )
    configured = cluster.asked_settings("topic", names)

    def answer(name: str) -> Existing:
        topic = cluster.result(described[name], f"describing topic {name}")
        try:
            settings = configured[name]()
        except BrokerError as error:
            if strict or _refusal(error) is None:
                raise
            settings = {}
        return Existing(
            partitions=len(topic.partitions),
            replicas=min(len(partition.replicas) for partition in topic.partitions),
            settings=settings,
            operations=frozenset(operation.name for operation in topic.authorized_operations or ()),
            leaderless=tuple(partition.id for partition in topic.partitions if partition.leader is None),
            in_sync={each.id: len(each.isr) for each in topic.partitions if each.leader is not None},
        )

    return {name: partial(answer, name) for name in names}


def refused(needed: set[str], allowed: frozenset[str]) -> str:
    """Return a text that says which operations were expected to be allowed, and which are."""
    return f"permissions: expected {', '.join(sorted(needed))}, found {', '.join(sorted(allowed)) or 'none'}"


def compare(
    name: str,
    found: Existing,
    needed: list[Requirement],
    partitions: int | None,
    replication_factor: int = BROKER_DEFAULT,
) -> list[Difference]:
    """Return each property of an existing topic that is not as needed.

    partitions          None: any number will do
    replication_factor  is compared only if it is given
    """
    differences = []
    if partitions not in {None, found.partitions}:
        differences.append(Difference(name, "partitions", str(partitions), str(found.partitions)))
    if replication_factor not in {BROKER_DEFAULT, found.replicas}:
        differences.append(Difference(name, "replication factor", str(replication_factor), str(found.replicas)))
    for requirement in needed:
        value = found.settings.get(requirement.setting)
        if value is None or not requirement.accepts(value):
            absent = f"nothing: {_OLD_BROKERS}" if requirement.setting in {BEFORE, AFTER} else "nothing"
            told = absent if value is None else value
            differences.append(Difference(name, requirement.setting, str(requirement), told))
    return differences


def ensure(
    cluster: Cluster,
    needs: NeededTopics,
    partitions: int | None = None,
    replication_factor: int = BROKER_DEFAULT,
    retention_ms: int | None = None,
    *,
    dry_run: bool = False,
) -> list[TopicReport]:
    """Compare existing topics with the requirements and create missing ones, but none while an existing one differs.

    partitions    None: as many as the examples topic has; if that is missing, as many as the impressions, else 1; and
                  of dead letters as many as there are
    retention_ms  how long a record is kept, by its own timestamp, or FOREVER; None: RETENTION_MS in new topics, and
                  unchanged in existing ones
    dry_run       the broker checks the creation and does not carry it out
    """
    found = existing(cluster, needs.names)
    created = needs.creation(RETENTION_MS if retention_ms is None else retention_ms)
    asked = {} if retention_ms is None else needs.kept_for(retention_ms)
    needed = _needed(needs, {**created, **{name: topic.settings for name, topic in found.items()}}, asked)
    compared = needs.needed_partitions if partitions is None else needs.partitions_of
    if partitions is None:
        inputs = (needs.topics.examples, needs.input)
        partitions = next((found[name].partitions for name in inputs if name in found), 1)
    reports = {}
    for name, topic in found.items():
        differences = compare(name, topic, needed[name], compared(name, partitions), replication_factor)
        reports[name] = TopicReport(name, topic.partitions, "different" if differences else "as needed", differences)
    missing = {name: needs.partitions_of(name, partitions) for name in needs.names if name not in found}
    outcome: TopicVerdict = "missing"
    if missing and not any(report.differences for report in reports.values()):
        new = []
        for name, count in missing.items():
            new.append(NewTopic(name, count, replication_factor, config=written(needed[name]) | created[name]))
        _create(cluster, new, dry_run=dry_run)
        outcome = "would be created" if dry_run else "created"
    reports |= {name: TopicReport(name, count, outcome, []) for name, count in missing.items()}
    return [reports[name] for name in needs.names]


def _needed(
    needs: NeededTopics, settings: Mapping[str, Mapping[str, str]], asked: Mapping[str, Mapping[str, str]]
) -> dict[str, list[Requirement]]:
    """Return topic name -> its requirements, and exactly those values that are asked for.

    settings  topic name -> the settings that it has, or gets
    """
    needed = needs.requirements({name: {**each, **asked.get(name, {})} for name, each in settings.items()})
    for name, values in asked.items():
        exact = [Requirement(setting, "exactly", value) for setting, value in values.items()]
        needed[name] = exact + [requirement for requirement in needed[name] if requirement.setting not in values]
    return needed


def _create(cluster: Cluster, topics: list[NewTopic], *, dry_run: bool) -> None:
    """Do what `Cluster.create` does; the error of brokers that are too old says so."""
    try:
        cluster.create(topics, dry_run=dry_run)
    except ConfigurationError as error:
        if f"Unknown topic config name: {BEFORE}" in str(error):
            raise ConfigurationError(f"{error}\n  {BEFORE}: {_OLD_BROKERS}") from error
        raise


def alter(cluster: Cluster, examples: str, reports: list[TopicReport], *, dry_run: bool = False) -> list[TopicReport]:
    """Change the settings that differ, but none if one of them is not alterable; return the reports with the outcome.

    reports  from `ensure`; the returned ones say which topics are altered, and keep what these had before
    dry_run  the brokers check the changes and do not carry them out
    """
    wrong = [report for report in reports if report.differences]
    if not all(difference.alterable() for report in wrong for difference in report.differences):
        return reports
    # The examples topic comes last: the others must be ready for all outputs of its examples.
    for report in sorted(wrong, key=lambda report: report.topic == examples):
        settings = {each.property: each.value() for each in report.differences if each.property != "partitions"}
        if settings:
            cluster.set_settings(report.topic, settings, dry_run=dry_run)
        for each in report.differences:
            if each.property == "partitions":
                cluster.add_partitions(report.topic, int(each.value()), dry_run=dry_run)
    if not dry_run:
        _wait_until_altered(cluster, wrong)
    outcome: TopicVerdict = "would be altered" if dry_run else "altered"
    return [report._replace(verdict=outcome) if report.differences else report for report in reports]


def _wait_until_altered(cluster: Cluster, reports: list[TopicReport]) -> None:
    """Wait until a broker knows of the changes: the controller makes them before each broker does."""
    for _ in RetryPolicy(REQUEST_S).attempts():
        found = existing(cluster, [report.topic for report in reports])
        told = {name: {**topic.settings, "partitions": str(topic.partitions)} for name, topic in found.items()}
        changes = [each for report in reports for each in report.differences]
        unseen = [each for each in changes if told[each.topic].get(each.property) != each.value()]
        if not unseen:
            return
    names = ", ".join(f"{each.property} {each.value()} of {each.topic}" for each in unseen)
    raise BrokerError(f"expected to see what was altered within {REQUEST_S:g} s, found no {names}")
