"""`check` on topics that are joined, and on what a joiner has left behind."""

import uuid

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from support.kafka.own_topics import make_topic, own_config
from support.waiting import DEADLINE_S

from stream_apple.adapters.kafka.admin import Cluster
from stream_apple.adapters.kafka.preflight.cluster_check import check_cluster
from stream_apple.adapters.kafka.preflight.join_check import check_before_joining
from stream_apple.adapters.kafka.topics import UNLIMITED, NeededTopics, ensure, existing
from stream_apple.config import Config
from stream_apple.config.schema import JoinSettings
from stream_apple.errors import ConfigurationError, GapError
from stream_apple.stream.joining.clock import OutcomeClock
from stream_apple.stream.joining.position import JoinPosition
from stream_apple.stream.joining.rule import JoinRule

HOUR = 3_600_000
DAY = 24 * HOUR


@pytest.fixture
def config(kafka: str) -> Config:
    """With a section `join`, and topics that nobody else uses."""
    own = uuid.uuid4().hex[:12]
    join = JoinSettings(
        impressions=f"impressions-{own}",
        outcomes=f"outcomes-{own}",
        dead_letters=f"join-dead-letters-{own}",
        group=f"join-{own}",
    )
    return own_config(kafka).model_copy(update={"join": join}).with_worker(id="one")


def findings(config: Config, verdict: str) -> list[tuple[str, str]]:
    """Subject and text of each finding of this verdict."""
    return [(found.subject, found.text) for found in check_cluster(config) if found.verdict == verdict]


def made(config: Config, partitions: int = 2) -> None:
    """All topics, as the command makes them."""
    ensure(Cluster(config.kafka), NeededTopics(config.topics, joining=config.join), partitions)


class Left:
    """What joiners have left in partition 0: ten impressions, ten outcomes, one offset."""

    def __init__(self, config: Config) -> None:
        self.config = config
        made(config)
        producer = Producer(config.kafka)
        for topic in (config.join.impressions, config.join.outcomes):
            for _ in range(10):
                producer.produce(topic, b"x", partition=0)
        assert producer.flush(DEADLINE_S) == 0

    def commit(self, impressions: int, outcomes: int, config: Config | None = None) -> None:
        """As a joiner does."""
        rule = JoinRule.of(config or self.config)
        position = JoinPosition(impressions, outcomes, outcomes, OutcomeClock())
        self.commit_text(impressions, position.to_committed(rule, rule.fingerprint).metadata)

    def commit_text(self, offset: int, metadata: str) -> None:
        """The offset and any text."""
        join = self.config.join
        member = Consumer({**self.config.kafka, "group.id": join.group})
        member.commit(offsets=[TopicPartition(join.impressions, 0, offset, metadata)], asynchronous=False)
        member.close()

    def delete_before(self, topic: str, offset: int) -> None:
        """As retention does."""
        client = AdminClient({"bootstrap.servers": str(self.config.kafka["bootstrap.servers"])})
        (future,) = client.delete_records([TopicPartition(topic, 0, offset)]).values()
        future.result(DEADLINE_S)

    def of_the_group(self, verdict: str) -> list[str]:
        """What is found about the group."""
        return [
            text for subject, text in findings(self.config, verdict) if subject == f"group {self.config.join.group}"
        ]


class TestTopics:
    """Topics, as they have to be for a join."""

    def test_no_fault_where_there_is_none(self, config: Config) -> None:
        """Right after `topics`, all of a joiner's parts are spoken of, and all are fit."""
        made(config)
        assert findings(config, "fault") == []
        join = config.join
        assert {subject for subject, _ in findings(config, "ok")} >= {
            *(f"topic {name}" for name in join.topics),
            f"group {join.group}",
            f"transactional id {join.group}-one-check",
        }
        notes = findings(config, "note")
        said = "message.timestamp.type CreateTime: what is joined follows the producer's clock"
        assert {(f"topic {name}", said) for name in (join.impressions, join.outcomes)} <= set(notes)

    def test_nothing_is_said_where_nothing_is_joined(self, config: Config) -> None:
        """Without the section, topics of these names need not exist."""
        plain = Config.model_validate({**config.model_dump(exclude={"join"}, exclude_unset=True)})
        ensure(Cluster(plain.kafka), NeededTopics(plain.topics), 2)
        assert findings(plain, "fault") == []

    def test_missing_topics(self, config: Config) -> None:
        """Each is a fault that names the command which makes it; nothing is asked of the group then."""
        ensure(Cluster(config.kafka), NeededTopics(config.topics), 2)
        faults = findings(config, "fault")
        assert {(f"topic {name}", True) for name in config.join.topics} <= {
            (subject, "`stream-apple topics` creates it" in text) for subject, text in faults
        }

    def test_every_wrong_property(self, config: Config) -> None:
        """Other numbers of partitions, compaction, a retention that the wait outlasts, examples that are refused."""
        join, topics = config.join, config.topics
        ensure(Cluster(config.kafka), NeededTopics(topics), 2)
        make_topic(config, join.impressions, 3, retention_ms=str(HOUR))
        make_topic(config, join.outcomes, 2, cleanup_policy="compact", retention_bytes="1000")
        make_topic(config, join.dead_letters, 1)
        faults = set(findings(config, "fault"))
        needed = join.wait + join.tolerance + DAY
        assert {
            (f"topic {join.impressions}", "partitions: expected 2, found 3"),
            (f"topic {join.impressions}", f"retention.ms: expected no less than {needed}, found {HOUR}"),
            (f"topic {join.outcomes}", "cleanup.policy: expected delete, found compact"),
            (f"topic {join.dead_letters}", "max.message.bytes: expected at least 1114124, found 1048588"),
        } <= faults
        assert (f"topic {join.dead_letters}", "partitions: expected 2, found 1") not in faults
        of_examples = [text for subject, text in faults if subject == f"topic {topics.examples}"]
        assert [text.partition(":")[0] for text in of_examples] == ["message.timestamp.before.max.ms"]
        notes = [text for subject, text in findings(config, "note") if subject == f"topic {join.outcomes}"]
        assert any(text.startswith("retention.bytes 1000") and "impressions that may need" in text for text in notes)

    @pytest.mark.parametrize("role", ["impressions", "outcomes"])
    def test_dead_letters_have_the_times_of_what_is_joined(self, config: Config, role: str) -> None:
        """A topic of Kafka 3 takes any time; a refused record's dead letter would be refused after each restart."""
        letters = config.join.dead_letters
        make_topic(config, getattr(config.join, role), 2, message_timestamp_after_max_ms=str(UNLIMITED))
        make_topic(config, letters, 2, message_timestamp_after_max_ms=str(7 * DAY))
        fault = f"message.timestamp.after.max.ms: expected at least {UNLIMITED}, found {7 * DAY}"
        assert (f"topic {letters}", fault) in findings(config, "fault")
        own = f"{letters}-made"
        made(config.model_copy(update={"join": config.join.model_copy(update={"dead_letters": own})}))
        assert existing(Cluster(config.kafka), [own])[own].settings["message.timestamp.after.max.ms"] == str(UNLIMITED)

    def test_examples_have_room_for_what_is_joined(self, config: Config) -> None:
        """An impression of the limit's size must not be refused as an example."""
        made(config)
        limits = config.limits.model_copy(update={"max_record_bytes": 3_000_000})
        faults = findings(config.model_copy(update={"limits": limits}), "fault")
        wanted = "max.message.bytes: expected at least 3048588, found 1048588"
        assert (f"topic {config.topics.examples}", wanted) in faults


def test_permissions(config: Config) -> None:
    """What a joiner reads and writes, in topics that a worker only reads, too."""
    join, topics = config.join, config.topics
    needs = NeededTopics(topics, joining=join)
    found = {
        name: needs.missing_permissions(name, frozenset({"READ"}))
        for name in (topics.examples, join.impressions, join.outcomes, join.dead_letters)
    }
    both = "permissions: expected READ, WRITE, found READ"
    assert found == {
        topics.examples: [both],
        join.impressions: [],
        join.outcomes: [both],
        join.dead_letters: ["permissions: expected WRITE, found READ"],
    }
    assert NeededTopics(topics).missing_permissions(topics.examples, frozenset({"READ"})) == []


class TestBeforeJoining:
    """What ends a joiner before it fences its predecessor."""

    def test_a_group_that_can_go_on(self, config: Config) -> None:
        """A new one, and one with an offset."""
        left = Left(config)
        check_before_joining(Cluster(config.kafka), config)
        left.commit(5, 3)
        check_before_joining(Cluster(config.kafka), config)

    def test_topics_of_another_join(self, config: Config) -> None:
        """A mistyped name of a topic that is there."""
        left = Left(config)
        left.commit(5, 3)
        join = config.join.model_copy(update={"outcomes": config.topics.predictions})
        with pytest.raises(ConfigurationError, match="expected a join with the topic of outcomes"):
            check_before_joining(Cluster(config.kafka), config.model_copy(update={"join": join}))

    def test_impressions_that_are_gone(self, config: Config) -> None:
        """They keep the code of their own."""
        left = Left(config)
        left.commit(5, 3)
        left.delete_before(config.join.impressions, 7)
        with pytest.raises(GapError, match="expected impressions from offset 5 on"):
            check_before_joining(Cluster(config.kafka), config)

    def test_a_session_that_the_brokers_refuse(self, config: Config) -> None:
        """They refuse it only after the fencing."""
        made(config)
        kafka = {**config.kafka, "session.timeout.ms": 3_600_000}
        with pytest.raises(ConfigurationError, match=r"^kafka: kafka.session.timeout.ms: expected at most"):
            check_before_joining(Cluster(kafka), config)


class TestOffsets:
    """What the group has committed, against what the logs still hold."""

    def test_a_group_that_can_go_on(self, config: Config) -> None:
        """A new one, and one with an offset."""
        left = Left(config)
        assert left.of_the_group("ok") == [f"readable, partitions of {config.join.impressions} with an offset: 0"]
        left.commit(5, 3)
        assert left.of_the_group("ok") == [f"readable, partitions of {config.join.impressions} with an offset: 1"]
        assert left.of_the_group("fault") == left.of_the_group("note") == []

    def test_impressions_that_are_gone(self, config: Config) -> None:
        """A fault, unless it is accepted."""
        left = Left(config)
        left.commit(5, 3)
        left.delete_before(config.join.impressions, 7)
        (fault,) = left.of_the_group("fault")
        assert f"expected impressions from offset 5 on in {config.join.impressions}-0, found the first at 7" in fault
        worker = config.worker.model_copy(update={"accept_gap": ("0@5",)})
        left.config = config.model_copy(update={"worker": worker})
        assert left.of_the_group("fault") == []
        assert any("without the impressions from offset 5 on" in text for text in left.of_the_group("note"))

    def test_outcomes_that_are_gone(self, config: Config) -> None:
        """A note: what may need them is late."""
        left = Left(config)
        left.commit(5, 3)
        left.delete_before(config.join.outcomes, 4)
        assert left.of_the_group("fault") == []
        assert any("outcomes from offset 3 up to 4 are gone" in text for text in left.of_the_group("note"))

    def test_offsets_of_somebody_else(self, config: Config) -> None:
        """Of a consumer that is no joiner, or of a join with other topics."""
        left = Left(config)
        left.commit_text(5, "")
        assert "expected what `stream-apple join` writes" in left.of_the_group("fault")[0]
        for what, section in (("outcomes", "join"), ("examples", "topics")):
            here = getattr(config, section)
            other = here.model_copy(update={what: "others"})
            left.commit(5, 3, config.model_copy(update={section: other}))
            told = f"expected a join with the topic of {what} {getattr(here, what)}, found one with others"
            assert told in left.of_the_group("fault")[0]

    def test_settings_that_have_changed(self, config: Config) -> None:
        """A note, as it may be meant."""
        left = Left(config)
        join = config.join.model_copy(update={"wait": 2 * HOUR})
        left.commit(5, 3, config.model_copy(update={"join": join}))
        assert left.of_the_group("fault") == []
        assert any("from offset 5 on" in text for text in left.of_the_group("note"))
