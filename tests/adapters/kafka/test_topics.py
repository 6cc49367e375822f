"""The topics on a real cluster: what is created, what is accepted, what is told apart."""

import time

import pytest
from confluent_kafka import KafkaError, Message, Producer
from support.kafka.own_topics import make_topic
from support.waiting import DEADLINE_S

from stream_apple.adapters.kafka.admin import Cluster
from stream_apple.adapters.kafka.topics import (
    BEFORE,
    FOREVER,
    UNLIMITED,
    Difference,
    Existing,
    NeededTopics,
    Requirement,
    TopicReport,
    alter,
    compare,
    ensure,
    existing,
)
from stream_apple.config import Config, JoinSettings
from stream_apple.errors import ConfigurationError

DAY_MS = 86_400_000


def _verdicts(reports: list[TopicReport]) -> set[str]:
    return {report.verdict for report in reports}


def test_brokers_that_lack_a_setting_are_named() -> None:
    """Kafka 3.5 does not know the bounds of timestamps."""
    old = Existing(1, 1, {"retention.bytes": "-1"}, frozenset())
    (found,) = compare("predictions", old, [Requirement(BEFORE, "at least", UNLIMITED)], 1)
    assert found.found == "nothing: brokers before Kafka 3.6 do not have this setting, and are too old"


def test_brokers_that_refuse_a_setting_are_named(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """So Kafka 3.5 answers, whose own words say nothing of a version."""

    def refuse(*_: object, **__: object) -> None:
        raise ConfigurationError(f"topic examples: expected to create it, found: Unknown topic config name: {BEFORE}")

    cluster = Cluster(config.kafka)
    monkeypatch.setattr(cluster, "create", refuse)
    with pytest.raises(ConfigurationError, match=r"brokers before Kafka 3\.6 do not have this setting"):
        ensure(cluster, NeededTopics(config.topics), 1)


class TestEnsure:
    """Creation and comparison."""

    def test_creates_what_it_then_accepts(self, config: Config) -> None:
        """Missing topics are created with the same count, and a second look finds nothing to do."""
        made = ensure(Cluster(config.kafka), NeededTopics(config.topics), 3)
        assert _verdicts(made) == {"created"}
        again = ensure(Cluster(config.kafka), NeededTopics(config.topics))
        assert _verdicts(again) == {"as needed"}
        assert [report.partitions for report in again] == [3, 3, 3, 3]

    def test_creates_what_the_promises_need(self, config: Config) -> None:
        """Snapshots are compacted soon, examples are not, and a dead letter has room for its headers."""
        ensure(Cluster(config.kafka), NeededTopics(config.topics))
        topics = config.topics
        found = existing(Cluster(config.kafka), topics.names(merging=False))
        assert found[topics.models].settings["cleanup.policy"] == "compact"
        assert int(found[topics.models].settings["max.compaction.lag.ms"]) <= 3_600_000
        assert int(found[topics.models].settings["max.message.bytes"]) >= 1 << 20
        assert found[topics.examples].settings["cleanup.policy"] == "delete"
        example = int(found[topics.examples].settings["max.message.bytes"])
        assert int(found[topics.dead_letters].settings["max.message.bytes"]) == example + 65_536

    def test_every_record_stays_long_enough_to_be_learned(self, config: Config) -> None:
        """What is accepted of examples stays for a week at least, its prediction and its dead letter as well."""
        ensure(Cluster(config.kafka), NeededTopics(config.topics))
        topics = config.topics
        found = existing(Cluster(config.kafka), topics.names(merging=False))
        week = 7 * DAY_MS
        examples = found[topics.examples].settings
        assert int(examples["retention.ms"]) - int(examples["message.timestamp.before.max.ms"]) >= week
        assert int(examples["message.timestamp.after.max.ms"]) == week
        for name in (topics.predictions, topics.dead_letters):
            settings = found[name].settings
            assert settings["retention.ms"] == examples["retention.ms"]
            assert int(settings["message.timestamp.after.max.ms"]) >= week
            assert int(settings["message.timestamp.before.max.ms"]) == UNLIMITED

    def test_a_history_can_be_kept_for_ever(self, config: Config) -> None:
        """Asked for, nothing is deleted, and no timestamp is refused."""
        ensure(Cluster(config.kafka), NeededTopics(config.topics), retention_ms=FOREVER)
        topics = config.topics
        found = existing(Cluster(config.kafka), topics.names(merging=False))
        for name in (topics.examples, topics.predictions, topics.dead_letters):
            settings = found[name].settings
            assert settings["retention.ms"] == "-1"
            assert int(settings["message.timestamp.before.max.ms"]) == UNLIMITED
            assert int(settings["message.timestamp.after.max.ms"]) == UNLIMITED
        producer = Producer(config.kafka)
        for moment in (1, 1 << 42):
            producer.produce(topics.examples, b"x", timestamp=moment)
        assert producer.flush(DEADLINE_S) == 0
        assert _verdicts(ensure(Cluster(config.kafka), NeededTopics(topics))) == {"as needed"}

    def test_a_time_that_would_not_stay_is_refused(self, config: Config) -> None:
        """The producer of a record that retention would take at once, or never, hears of it."""
        ensure(Cluster(config.kafka), NeededTopics(config.topics))
        now, week = time.time_ns() // 1_000_000, 7 * DAY_MS
        refused: list[bool] = []
        producer = Producer(config.kafka)
        for offset in (-week - 60_000, -week + 60_000, week - 60_000, week + 60_000):
            producer.produce(
                config.topics.examples,
                b"x",
                timestamp=now + offset,
                on_delivery=lambda error, _: refused.append(error is not None),
            )
            assert producer.flush(DEADLINE_S) == 0
        assert refused == [True, False, False, True]

    def test_outputs_must_take_the_times_of_their_examples(self, config: Config) -> None:
        """A prediction or dead letter that is refused for its time would stop the worker for good."""
        topics = config.topics
        make_topic(config, topics.examples, message_timestamp_after_max_ms="7200000")
        ahead = "3600000"  # the default of Kafka 4
        make_topic(config, topics.predictions, message_timestamp_after_max_ms=ahead)
        make_topic(
            config,
            topics.dead_letters,
            message_timestamp_before_max_ms="1000",
            message_timestamp_after_max_ms=ahead,
            max_message_bytes="2000000",
        )
        differences = [
            difference for report in ensure(Cluster(config.kafka), NeededTopics(topics)) for difference in report[3]
        ]
        assert differences == [
            Difference(topics.predictions, "message.timestamp.after.max.ms", "at least 7200000", "3600000"),
            Difference(topics.dead_letters, "message.timestamp.before.max.ms", f"at least {UNLIMITED}", "1000"),
            Difference(topics.dead_letters, "message.timestamp.after.max.ms", "at least 7200000", "3600000"),
        ]

    def test_a_dry_run_creates_nothing(self, config: Config) -> None:
        """After a dry run the topics are still missing."""
        assert _verdicts(ensure(Cluster(config.kafka), NeededTopics(config.topics), 2, dry_run=True)) == {
            "would be created"
        }
        assert existing(Cluster(config.kafka), config.topics.names(merging=True)) == {}

    def test_a_dry_run_hears_the_broker_s_refusal(self, config: Config) -> None:
        """What the broker would refuse is an error in a dry run too, for each topic."""
        with pytest.raises(ConfigurationError, match="INVALID_REPLICATION_FACTOR") as caught:
            ensure(Cluster(config.kafka), NeededTopics(config.topics), 1, 5, dry_run=True)
        assert str(caught.value).count("expected to create it") == 4

    def test_follows_the_partitions_of_the_examples(self, config: Config) -> None:
        """Without a count, the missing topics get as many partitions as the examples have."""
        make_topic(config, config.topics.examples, 4)
        reports = ensure(Cluster(config.kafka), NeededTopics(config.topics))
        assert [(report.verdict, report.partitions) for report in reports] == [
            ("as needed", 4),
            ("created", 4),
            ("created", 4),
            ("created", 4),
        ]

    def test_dead_letters_may_have_any_number_of_partitions(self, config: Config) -> None:
        """They fold, so that groups may share a small topic of them; a number that is asked for holds for it, too."""
        topics = config.topics
        make_topic(config, topics.examples, 3)
        make_topic(
            config, topics.dead_letters, max_message_bytes="2000000", message_timestamp_after_max_ms=str(UNLIMITED)
        )
        reports = ensure(Cluster(config.kafka), NeededTopics(topics))
        assert [(report.verdict, report.partitions) for report in reports] == [
            ("as needed", 3),
            ("created", 3),
            ("as needed", 1),
            ("created", 3),
        ]
        asked = [
            difference for report in ensure(Cluster(config.kafka), NeededTopics(topics), 3) for difference in report[3]
        ]
        assert asked == [Difference(topics.dead_letters, "partitions", "3", "1")]

    def test_outputs_are_never_compacted(self, config: Config) -> None:
        """Readers would lose the earlier of two predictions with one key, and a record without a key is refused."""
        topics = config.topics
        make_topic(config, topics.predictions, cleanup_policy="compact")
        make_topic(config, topics.dead_letters, cleanup_policy="compact,delete", max_message_bytes="2000000")
        make_topic(config, topics.examples)
        found = [
            difference for report in ensure(Cluster(config.kafka), NeededTopics(topics)) for difference in report[3]
        ]
        policies = [difference for difference in found if difference.property == "cleanup.policy"]
        assert policies == [
            Difference(topics.predictions, "cleanup.policy", "delete", "compact"),
            Difference(topics.dead_letters, "cleanup.policy", "delete", "compact,delete"),
        ]

    def test_outputs_take_what_the_limits_allow(self, config: Config) -> None:
        """Larger examples may have larger ids and larger dead letters; a segment must hold a message, too."""
        topics = config.topics
        made = ensure(Cluster(config.kafka), NeededTopics(topics, max_record_bytes=4_000_000))
        assert _verdicts(made) == {"created"}
        found = existing(Cluster(config.kafka), [topics.predictions, topics.dead_letters])
        assert found[topics.predictions].settings["max.message.bytes"] == "4048588"
        assert found[topics.dead_letters].settings["max.message.bytes"] == "4114124"
        assert found[topics.predictions].settings["segment.bytes"] == str(1 << 30)
        larger = ensure(Cluster(config.kafka), NeededTopics(topics, max_record_bytes=5_000_000))
        assert [difference for report in larger for difference in report.differences] == [
            Difference(topics.predictions, "max.message.bytes", "at least 5048588", "4048588"),
            Difference(topics.dead_letters, "max.message.bytes", "at least 5114124", "4114124"),
        ]

    def test_a_message_must_fit_into_a_segment(self, config: Config) -> None:
        """Kafka refuses a batch that is larger than a segment, whatever the limit of messages."""
        topics = config.topics
        make_topic(config, topics.dead_letters, segment_bytes="1050000", max_message_bytes="2000000")
        found = [
            difference for report in ensure(Cluster(config.kafka), NeededTopics(topics)) for difference in report[3]
        ]
        assert Difference(topics.dead_letters, "segment.bytes", "at least 1114124", "1050000") in found

    def test_names_every_difference_and_touches_nothing(self, config: Config) -> None:
        """Each wrong property is told with expected and found; missing topics are not made meanwhile."""
        topics = config.topics
        make_topic(config, topics.examples, 2, cleanup_policy="compact")
        make_topic(config, topics.predictions, 3, message_timestamp_type="LogAppendTime")
        make_topic(config, topics.models, 2, max_message_bytes="1000")
        reports = ensure(Cluster(config.kafka), NeededTopics(topics), replication_factor=2)
        assert [difference for report in reports for difference in report.differences] == [
            Difference(topics.examples, "replication factor", "2", "1"),
            Difference(topics.examples, "cleanup.policy", "delete", "compact"),
            Difference(topics.predictions, "partitions", "2", "3"),
            Difference(topics.predictions, "replication factor", "2", "1"),
            Difference(topics.predictions, "message.timestamp.type", "CreateTime", "LogAppendTime"),
            Difference(topics.models, "replication factor", "2", "1"),
            Difference(topics.models, "cleanup.policy", "compact", "delete"),
            Difference(topics.models, "max.message.bytes", "at least 1048576", "1000"),
            Difference(topics.models, "max.compaction.lag.ms", "at most 3600000", "9223372036854775807"),
        ]
        assert [report.verdict for report in reports] == ["different", "different", "missing", "different"]
        after = existing(Cluster(config.kafka), topics.names(merging=False))
        assert topics.dead_letters not in after
        assert after[topics.models].settings["cleanup.policy"] == "delete"


class TestGivenSettings:
    """What is asked for by name is compared with what the topic has, and changed if that is asked for, too."""

    def test_another_retention_is_a_difference(self, config: Config) -> None:
        """Each setting that the retention stands for, of each topic; without one, all is as needed."""
        topics = config.topics
        ensure(Cluster(config.kafka), NeededTopics(topics))
        week = str(7 * DAY_MS)
        reports = ensure(Cluster(config.kafka), NeededTopics(topics), retention_ms=FOREVER)
        assert [difference for report in reports for difference in report.differences] == [
            Difference(topics.examples, "message.timestamp.before.max.ms", str(UNLIMITED), week),
            Difference(topics.examples, "message.timestamp.after.max.ms", str(UNLIMITED), week),
            Difference(topics.examples, "retention.ms", "-1", str(14 * DAY_MS)),
            Difference(topics.predictions, "retention.ms", "-1", str(14 * DAY_MS)),
            Difference(topics.predictions, "message.timestamp.after.max.ms", f"at least {UNLIMITED}", week),
            Difference(topics.dead_letters, "retention.ms", "-1", str(14 * DAY_MS)),
            Difference(topics.dead_letters, "message.timestamp.after.max.ms", f"at least {UNLIMITED}", week),
        ]
        assert [report.verdict for report in reports] == ["different"] * 3 + ["as needed"]
        assert _verdicts(ensure(Cluster(config.kafka), NeededTopics(topics), retention_ms=14 * DAY_MS)) == {"as needed"}
        assert _verdicts(ensure(Cluster(config.kafka), NeededTopics(topics))) == {"as needed"}

    def test_it_is_altered_and_nothing_else(self, config: Config) -> None:
        """Then old examples are taken, and what was set by hand besides is as it was."""
        topics = config.topics
        make_topic(config, topics.examples, 2, segment_ms="3600000")
        make_topic(config, topics.predictions, 2, max_message_bytes="1500000", compression_type="lz4")
        ensure_reports = ensure(Cluster(config.kafka), NeededTopics(topics), retention_ms=FOREVER)
        before = existing(Cluster(config.kafka), topics.names(merging=False))
        tried = alter(Cluster(config.kafka), topics.examples, ensure_reports, dry_run=True)
        assert [report.verdict for report in tried] == ["would be altered"] * 2 + ["missing"] * 2
        assert existing(Cluster(config.kafka), topics.names(merging=False)) == before
        done = alter(Cluster(config.kafka), topics.examples, ensure_reports)
        assert [(report.verdict, report.differences) for report in done[:2]] == [
            ("altered", report.differences) for report in ensure_reports[:2]
        ]
        after = existing(Cluster(config.kafka), topics.names(merging=False))
        for name, topic in after.items():
            named = {each.property for report in done if report.topic == name for each in report.differences}
            changed = {key for key, value in topic.settings.items() if value != before[name].settings.get(key)}
            assert changed == named
        made = ensure(Cluster(config.kafka), NeededTopics(topics), retention_ms=FOREVER)
        assert [report.verdict for report in made] == ["as needed"] * 2 + ["created"] * 2
        producer = Producer(config.kafka)
        refused: list[bool] = []
        producer.produce(topics.examples, b"x", timestamp=1, on_delivery=lambda error, _: refused.append(bool(error)))
        assert producer.flush(DEADLINE_S) == 0
        assert refused == [False]

    def test_what_is_needed_is_altered_too(self, config: Config) -> None:
        """Without any option: larger answers, and models that are compacted soon."""
        topics = config.topics
        ensure(Cluster(config.kafka), NeededTopics(topics))
        wrong = ensure(Cluster(config.kafka), NeededTopics(topics, max_record_bytes=5_000_000))
        alter(Cluster(config.kafka), topics.examples, wrong)
        assert _verdicts(ensure(Cluster(config.kafka), NeededTopics(topics, max_record_bytes=5_000_000))) == {
            "as needed"
        }

    def test_partitions_are_added_and_never_taken(self, config: Config) -> None:
        """As many as were asked for; fewer than there are change nothing at all, whatever else differs."""
        topics = config.topics
        ensure(Cluster(config.kafka), NeededTopics(topics), 2)
        alter(Cluster(config.kafka), topics.examples, ensure(Cluster(config.kafka), NeededTopics(topics), 3))
        found = existing(Cluster(config.kafka), topics.names(merging=False))
        assert {topic.partitions for topic in found.values()} == {3}
        fewer = ensure(Cluster(config.kafka), NeededTopics(topics), 1, retention_ms=FOREVER)
        assert alter(Cluster(config.kafka), topics.examples, fewer) == fewer
        assert existing(Cluster(config.kafka), topics.names(merging=False)) == found

    @pytest.mark.parametrize("policy", ["compact", "compact,delete"])
    def test_a_policy_is_left_as_it_is(self, config: Config, policy: str) -> None:
        """Whoever compacts a topic would lose what is in it, and so would who keeps the newest of each key."""
        make_topic(config, config.topics.examples, cleanup_policy=policy)
        reports = ensure(Cluster(config.kafka), NeededTopics(config.topics), retention_ms=FOREVER)
        assert alter(Cluster(config.kafka), config.topics.examples, reports) == reports
        settings = existing(Cluster(config.kafka), [config.topics.examples])[config.topics.examples].settings
        assert (settings["cleanup.policy"], settings["retention.ms"]) == (policy, "604800000")

    def test_a_refusal_is_told(self, config: Config) -> None:
        """By topic and setting, as the broker has said it."""
        ensure(Cluster(config.kafka), NeededTopics(config.topics))
        with pytest.raises(ConfigurationError, match=r"topic .*: expected to set retention.ms, found: .*INVALID"):
            Cluster(config.kafka).set_settings(config.topics.examples, {"retention.ms": "-7"})


class TestMerges:
    """The topic that is there only where models are merged."""

    def test_one_partition_for_as_long_as_the_examples(self, config: Config) -> None:
        """However many the others have; a second look finds nothing to do, and without merging it is not made."""
        topics, cluster = config.topics, Cluster(config.kafka)
        ensure(cluster, NeededTopics(topics), 3, retention_ms=3 * DAY_MS)
        assert topics.merges not in Cluster(config.kafka).topics
        made = ensure(Cluster(config.kafka), NeededTopics(topics, merging=True))
        assert [(row.verdict, row.partitions) for row in made if row.topic == topics.merges] == [("created", 1)]
        settings = existing(Cluster(config.kafka), [topics.merges])[topics.merges].settings
        assert settings["retention.ms"] == str(3 * DAY_MS)
        assert settings["cleanup.policy"] == "delete"
        again = ensure(Cluster(config.kafka), NeededTopics(topics, merging=True))
        assert _verdicts(again) == {"as needed"}
        assert len(again) == 5

    def test_a_machine_s_clock_may_be_wrong(self, config: Config) -> None:
        """Snapshots and merges have its time: they are taken all the same, and stay."""
        topics = config.topics
        ensure(Cluster(config.kafka), NeededTopics(topics, merging=True))
        producer = Producer(config.kafka)
        refused: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                refused.append(error)

        for hours in (-24 * 365, 24 * 365):
            time_ms = int(time.time() * 1000) + hours * DAY_MS // 24
            for name in (topics.models, topics.merges):
                producer.produce(name, b"x", b"key", 0, timestamp=time_ms, on_delivery=delivered)
        assert producer.flush(DEADLINE_S) == 0
        assert refused == []

    def test_a_dry_run(self, config: Config) -> None:
        """It says what would be, and makes nothing."""
        reports = ensure(Cluster(config.kafka), NeededTopics(config.topics, merging=True), 2, dry_run=True)
        assert [report.partitions for report in reports] == [2, 2, 2, 2, 1]
        assert _verdicts(reports) == {"would be created"}
        assert existing(Cluster(config.kafka), config.topics.names(merging=True)) == {}

    def test_names_every_difference(self, config: Config) -> None:
        """Records would go before the examples do, or all but the newest, or be refused; or in no one order."""
        topics = config.topics
        ensure(Cluster(config.kafka), NeededTopics(topics))
        wrong = {"retention_ms": "86400000", "retention_bytes": "1000000", "max_message_bytes": "1000"}
        make_topic(config, topics.merges, 2, cleanup_policy="compact", **wrong)
        (found,) = [row for row in ensure(Cluster(config.kafka), NeededTopics(topics, merging=True)) if row.differences]
        assert found.differences == [
            Difference(topics.merges, "partitions", "1", "2"),
            Difference(topics.merges, "cleanup.policy", "delete", "compact"),
            Difference(topics.merges, "retention.ms", "no less than 1209600000", "86400000"),
            Difference(topics.merges, "retention.bytes", "-1", "1000000"),
            Difference(topics.merges, "max.message.bytes", "at least 1048576", "1000"),
        ]


class TestJoining:
    """The topics that are there only where impressions are joined."""

    def test_records_stay_until_they_are_joined(self, config: Config) -> None:
        """Three more topics; examples may be as old as any impression, and a second look finds nothing to do."""
        own = {role: f"{role}-{config.topics.examples}" for role in ("impressions", "outcomes", "dead_letters")}
        join = JoinSettings(**own, wait="10d")  # type: ignore[arg-type]  # names of topics
        made = ensure(Cluster(config.kafka), NeededTopics(config.topics, joining=join), 3)
        assert [report.partitions for report in made] == [3] * 7
        assert _verdicts(ensure(Cluster(config.kafka), NeededTopics(config.topics, joining=join))) == {"as needed"}
        found = existing(Cluster(config.kafka), [config.topics.examples, *join.topics])
        assert int(found[config.topics.examples].settings["message.timestamp.before.max.ms"]) == UNLIMITED
        longer = join.model_copy(update={"wait": 14 * DAY_MS})
        reports = ensure(Cluster(config.kafka), NeededTopics(config.topics, joining=longer))
        least = f"no less than {15 * DAY_MS + 60_000}"
        assert [each for report in reports for each in report.differences] == [
            Difference(name, "retention.ms", least, str(14 * DAY_MS))
            for name in (config.topics.examples, join.impressions, join.outcomes)
        ]

    @pytest.mark.parametrize("retention_ms", [None, 2 * DAY_MS])
    def test_a_long_wait_makes_the_retention_longer(self, config: Config, retention_ms: int | None) -> None:
        """Else the new topics would delete impressions before they are joined, and examples as they come."""
        own = {role: f"{role}-{config.topics.examples}" for role in ("impressions", "outcomes", "dead_letters")}
        join = JoinSettings(**own, wait="20d")  # type: ignore[arg-type]  # names of topics
        for verdict in ("created", "as needed"):
            found = ensure(Cluster(config.kafka), NeededTopics(config.topics, joining=join), retention_ms=retention_ms)
            assert _verdicts(found) == {verdict}
        names = {*config.topics.names(merging=False), *join.topics} - {config.topics.models}
        kept = {topic.settings["retention.ms"] for topic in existing(Cluster(config.kafka), [*names]).values()}
        assert kept == {str(21 * DAY_MS + 60_000)}

    def test_follows_the_partitions_of_the_impressions(self, config: Config) -> None:
        """Without a count, where the examples are missing, too."""
        own = {role: f"{role}-{config.topics.examples}" for role in ("impressions", "outcomes", "dead_letters")}
        make_topic(config, own["impressions"], 3)
        reports = ensure(Cluster(config.kafka), NeededTopics(config.topics, joining=JoinSettings(**own)))  # type: ignore[arg-type]
        assert [(report.partitions, report.differences) for report in reports] == [(3, [])] * 7

    def test_a_topic_that_refuses_old_examples_is_a_difference(self, config: Config) -> None:
        """It would refuse an impression that has waited, or one whose time is days ahead."""
        own = {role: f"{role}-{config.topics.examples}" for role in ("impressions", "outcomes", "dead_letters")}
        make_topic(config, config.topics.examples, message_timestamp_before_max_ms="3600000")
        reports = ensure(Cluster(config.kafka), NeededTopics(config.topics, joining=JoinSettings(**own)))  # type: ignore[arg-type]
        differences = [each for report in reports for each in report.differences]
        assert [(each.topic, each.property, each.expected) for each in differences] == [
            (config.topics.examples, "message.timestamp.before.max.ms", f"at least {UNLIMITED}"),
            (config.topics.examples, "message.timestamp.after.max.ms", f"at least {7 * DAY_MS}"),
        ]


class TestRequirement:
    """A setting that must hold."""

    @pytest.mark.parametrize(
        ("requirement", "good", "bad"),
        [
            (Requirement("p", "exactly", "compact"), "compact", "compact,delete"),
            (Requirement("p", "at least", 10), "10", "9"),
            (Requirement("p", "at most", 10), "10", "11"),
            (Requirement("p", "no less than", 10), "10", "9"),
            (Requirement("p", "no less than", 10), "-1", "-2"),
            (Requirement("p", "no less than", -1), "-1", "99"),
        ],
    )
    def test_accepts_up_to_its_bound(self, requirement: Requirement, good: str, bad: str) -> None:
        """The bound itself is good, the next value is not."""
        assert requirement.accepts(good)
        assert not requirement.accepts(bad)
