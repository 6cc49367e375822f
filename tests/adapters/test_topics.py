"""`topics` and `check` on a real cluster: what they create, what they accept, what they must find."""

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import (
    Consumer,
    Producer,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # the package does not mark its exports
    AclBinding,
    AclOperation,
    AclPermissionType,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka_broker import Broker, create_topics, free_ports

from stream_apple.adapters.admin import Cluster
from stream_apple.adapters.checks import inspect
from stream_apple.adapters.topics import FOREVER, UNLIMITED, Difference, Outcome, Requirement, ensure, existing
from stream_apple.config import Config, load
from stream_apple.errors import BrokerError, ConfigurationError


def _config(bootstrap: str) -> Config:
    """A configuration whose topics and group nobody else uses."""
    own = uuid.uuid4().hex[:12]
    environ = {
        "STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS": bootstrap,
        "STREAM_APPLE_WORKER__GROUP": f"group-{own}",
    }
    for role in ("examples", "predictions", "dead_letters", "models"):
        environ[f"STREAM_APPLE_TOPICS__{role.upper()}"] = f"{role}-{own}"
    return load(None, environ)


@pytest.fixture
def config(kafka: str) -> Iterator[Config]:
    """A configuration of the shared broker; its topics are deleted afterwards."""
    config = _config(kafka)
    yield config
    cluster = Cluster(config.kafka)
    made = [name for name in config.topics.model_dump().values() if name in cluster.topics]
    if made:
        for future in cluster.client.delete_topics(made).values():
            future.result(30)


def _make(config: Config, name: str, partitions: int = 1, **settings: str) -> None:
    topic = NewTopic(name, partitions, 1, config={key.replace("_", "."): value for key, value in settings.items()})
    create_topics(str(config.kafka["bootstrap.servers"]), topic)


def _verdicts(outcomes: list[Outcome]) -> set[str]:
    return {outcome.verdict for outcome in outcomes}


def _faults(config: Config) -> list[tuple[str, str]]:
    return [(found.subject, found.text) for found in inspect(config) if found.verdict == "fault"]


class TestEnsure:
    """Creation and comparison."""

    def test_creates_what_it_then_accepts(self, config: Config) -> None:
        """Missing topics are created with the same count, and a second look finds nothing to do."""
        made = ensure(Cluster(config.kafka), config.topics, 3)
        assert _verdicts(made) == {"created"}
        again = ensure(Cluster(config.kafka), config.topics)
        assert _verdicts(again) == {"as needed"}
        assert [outcome.partitions for outcome in again] == [3, 3, 3, 3]

    def test_creates_what_the_promises_need(self, config: Config) -> None:
        """Snapshots are compacted soon, examples are not, and a dead letter has room for its headers."""
        ensure(Cluster(config.kafka), config.topics)
        topics = config.topics
        found = existing(Cluster(config.kafka), list(topics.model_dump().values()))
        assert found[topics.models].settings["cleanup.policy"] == "compact"
        assert int(found[topics.models].settings["max.compaction.lag.ms"]) <= 3_600_000
        assert int(found[topics.models].settings["max.message.bytes"]) >= 1 << 20
        assert found[topics.examples].settings["cleanup.policy"] == "delete"
        example = int(found[topics.examples].settings["max.message.bytes"])
        assert int(found[topics.dead_letters].settings["max.message.bytes"]) == example + 65_536

    def test_every_record_stays_long_enough_to_be_learned(self, config: Config) -> None:
        """What is accepted of examples stays for a week at least, its prediction and its dead letter as well."""
        ensure(Cluster(config.kafka), config.topics)
        topics = config.topics
        found = existing(Cluster(config.kafka), list(topics.model_dump().values()))
        week = 7 * 86_400_000
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
        ensure(Cluster(config.kafka), config.topics, retention_ms=FOREVER)
        topics = config.topics
        found = existing(Cluster(config.kafka), list(topics.model_dump().values()))
        for name in (topics.examples, topics.predictions, topics.dead_letters):
            settings = found[name].settings
            assert settings["retention.ms"] == "-1"
            assert int(settings["message.timestamp.before.max.ms"]) == UNLIMITED
            assert int(settings["message.timestamp.after.max.ms"]) == UNLIMITED
        producer = Producer(config.kafka)
        for moment in (1, 1 << 42):
            producer.produce(topics.examples, b"x", timestamp=moment)
        assert producer.flush(20) == 0
        assert _verdicts(ensure(Cluster(config.kafka), topics)) == {"as needed"}

    def test_a_time_that_would_not_stay_is_refused(self, config: Config) -> None:
        """The producer of a record that retention would take at once, or never, hears of it."""
        ensure(Cluster(config.kafka), config.topics)
        now, week = time.time_ns() // 1_000_000, 7 * 86_400_000
        refused: list[bool] = []
        producer = Producer(config.kafka)
        for offset in (-week - 60_000, -week + 60_000, week - 60_000, week + 60_000):
            producer.produce(
                config.topics.examples,
                b"x",
                timestamp=now + offset,
                on_delivery=lambda error, _: refused.append(error is not None),
            )
            assert producer.flush(20) == 0
        assert refused == [True, False, False, True]

    def test_outputs_must_take_the_times_of_their_examples(self, config: Config) -> None:
        """A prediction or dead letter that is refused for its time would stop the worker for good."""
        topics = config.topics
        _make(config, topics.examples, message_timestamp_after_max_ms="7200000")
        _make(config, topics.predictions)
        _make(config, topics.dead_letters, message_timestamp_before_max_ms="1000", max_message_bytes="2000000")
        differences = [difference for outcome in ensure(Cluster(config.kafka), topics) for difference in outcome[3]]
        assert differences == [
            Difference(topics.predictions, "message.timestamp.after.max.ms", "at least 7200000", "3600000"),
            Difference(topics.dead_letters, "message.timestamp.before.max.ms", f"at least {UNLIMITED}", "1000"),
            Difference(topics.dead_letters, "message.timestamp.after.max.ms", "at least 7200000", "3600000"),
        ]

    def test_a_dry_run_creates_nothing(self, config: Config) -> None:
        """After a dry run the topics are still missing."""
        assert _verdicts(ensure(Cluster(config.kafka), config.topics, 2, dry_run=True)) == {"would be created"}
        assert existing(Cluster(config.kafka), list(config.topics.model_dump().values())) == {}

    def test_a_dry_run_hears_the_broker_s_refusal(self, config: Config) -> None:
        """What the broker would refuse is an error in a dry run too, for each topic."""
        with pytest.raises(ConfigurationError, match="INVALID_REPLICATION_FACTOR") as caught:
            ensure(Cluster(config.kafka), config.topics, 1, 5, dry_run=True)
        assert str(caught.value).count("expected to create it") == 4

    def test_follows_the_partitions_of_the_examples(self, config: Config) -> None:
        """Without a count, the missing topics get as many partitions as the examples have."""
        _make(config, config.topics.examples, 4, max_message_bytes="2000000")
        outcomes = ensure(Cluster(config.kafka), config.topics)
        assert [(outcome.verdict, outcome.partitions) for outcome in outcomes] == [
            ("as needed", 4),
            ("created", 4),
            ("created", 4),
            ("created", 4),
        ]
        found = existing(Cluster(config.kafka), [config.topics.dead_letters])
        assert found[config.topics.dead_letters].settings["max.message.bytes"] == str(2_000_000 + 65_536)

    def test_names_every_difference_and_touches_nothing(self, config: Config) -> None:
        """Each wrong property is told with expected and found; missing topics are not made meanwhile."""
        topics = config.topics
        _make(config, topics.examples, 2, cleanup_policy="compact")
        _make(config, topics.predictions, 3, message_timestamp_type="LogAppendTime")
        _make(config, topics.models, 2, max_message_bytes="1000")
        outcomes = ensure(Cluster(config.kafka), topics, replication_factor=2)
        assert [difference for outcome in outcomes for difference in outcome.differences] == [
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
        assert [outcome.verdict for outcome in outcomes] == ["different", "different", "missing", "different"]
        after = existing(Cluster(config.kafka), list(topics.model_dump().values()))
        assert topics.dead_letters not in after
        assert after[topics.models].settings["cleanup.policy"] == "delete"

    def test_no_answer_is_told_in_time(self) -> None:
        """When nothing listens, the address and the reason are in the error within 10 seconds."""
        address = f"127.0.0.1:{free_ports(1)[0]}"
        begun = time.monotonic()
        with pytest.raises(BrokerError, match="Connection refused") as caught:
            Cluster({"bootstrap.servers": address})
        assert time.monotonic() - begun < 10
        assert address in str(caught.value)

    def test_a_refused_property_is_named(self) -> None:
        """A property that librdkafka does not know is a fault of the configuration, with its name."""
        with pytest.raises(ConfigurationError, match=r'"bootstrap\.server"'):
            Cluster({"bootstrap.servers": "localhost:1", "bootstrap.server": "x"})

    def test_a_cluster_without_administration_says_so(self, mock_cluster: str) -> None:
        """The client's in-process cluster can't describe topics: an error with its address, not a hang."""
        producer = Producer({"bootstrap.servers": mock_cluster})
        producer.produce("examples", b"x")
        assert producer.flush(20) == 0
        cluster = Cluster({"bootstrap.servers": mock_cluster})
        with pytest.raises(BrokerError, match=mock_cluster):
            existing(cluster, ["examples"])


class TestRequirement:
    """A setting that must hold."""

    @pytest.mark.parametrize(
        ("requirement", "good", "bad"),
        [
            (Requirement("p", "exactly", "compact"), "compact", "compact,delete"),
            (Requirement("p", "at least", 10), "10", "9"),
            (Requirement("p", "at most", 10), "10", "11"),
        ],
    )
    def test_accepts_up_to_its_bound(self, requirement: Requirement, good: str, bad: str) -> None:
        """The bound itself is good, the next value is not."""
        assert requirement.accepts(good)
        assert not requirement.accepts(bad)


class TestCheck:
    """The report about a live cluster."""

    def test_finds_no_fault_where_there_is_none(self, config: Config) -> None:
        """Right after `topics`, every line is ok or a note, and each part is spoken of."""
        ensure(Cluster(config.kafka), config.topics, 2)
        findings = list(inspect(config))
        assert {finding.verdict for finding in findings} == {"ok", "note"}
        topics = config.topics
        assert {finding.subject for finding in findings if finding.verdict == "ok"} == {
            "cluster",
            *(f"topic {name}" for name in topics.model_dump().values()),
            f"group {config.worker.group}",
            f"transactional id {config.worker.transactional_id}-check",
        }

    def test_finds_missing_topics(self, config: Config) -> None:
        """Each missing topic is a fault that names the command which makes it."""
        faults = _faults(config)
        assert [subject for subject, _ in faults] == [f"topic {name}" for name in config.topics.model_dump().values()]
        assert all("`stream-apple topics` creates it" in text for _, text in faults)

    def test_finds_every_wrong_property(self, config: Config) -> None:
        """Other counts, a models topic that is not compacted, and in-sync replicas that can't be had."""
        topics = config.topics
        _make(config, topics.examples, 2)
        _make(config, topics.predictions, 1, min_insync_replicas="2")
        _make(config, topics.dead_letters, 2)
        _make(config, topics.models, 2)
        assert set(_faults(config)) == {
            (f"topic {topics.predictions}", "partitions: expected 2, found 1"),
            (
                f"topic {topics.predictions}",
                "min.insync.replicas: expected at most 1 (the replicas there are), found 2",
            ),
            (f"topic {topics.dead_letters}", "max.message.bytes: expected at least 1114124, found 1048588"),
            (f"topic {topics.models}", "cleanup.policy: expected compact, found delete"),
            (
                f"topic {topics.models}",
                "max.compaction.lag.ms: expected at most 3600000, found 9223372036854775807",
            ),
        }

    def test_says_whose_clock_epochs_follow(self, config: Config) -> None:
        """Where the broker stamps the examples, the note says so."""
        _make(config, config.topics.examples, 1, message_timestamp_type="LogAppendTime", retention_ms="-1")
        notes = [finding.text for finding in inspect(config) if finding.verdict == "note"]
        assert notes == ["message.timestamp.type LogAppendTime: epochs follow the broker's clock"]

    @pytest.mark.parametrize(
        ("settings", "expected"),
        [
            ({"retention_ms": "86400000"}, "retention.ms 86400000: records go after 1d; a worker that still has to"),
            ({"retention_ms": "-1", "retention_bytes": "1000"}, "retention.bytes 1000: the oldest records go whenever"),
            (
                {"retention_ms": "604800000"},
                f"message.timestamp.before.max.ms {UNLIMITED}: a record that is older than",
            ),
        ],
    )
    def test_says_how_records_may_go_too_soon(self, config: Config, settings: dict[str, str], expected: str) -> None:
        """Short retention, retention by size, and old timestamps that retention takes at once."""
        _make(config, config.topics.examples, 1, **settings)
        notes = [finding.text for finding in inspect(config) if finding.verdict == "note"]
        assert any(note.startswith(expected) for note in notes), notes

    @pytest.mark.parametrize("settings", [{"retention_ms": "-1"}, {"message_timestamp_type": "LogAppendTime"}])
    def test_says_nothing_where_records_stay(self, config: Config, settings: dict[str, str]) -> None:
        """Kept for ever, or for a week by the broker's clock: the only note is whose clock it is."""
        _make(config, config.topics.examples, 1, **settings)
        notes = [finding.text for finding in inspect(config) if finding.verdict == "note"]
        assert [note.partition(" ")[0] for note in notes] == ["message.timestamp.type"]

    def test_does_not_disturb_a_live_worker(self, config: Config) -> None:
        """A transaction that is open under the worker's own id is committed after the check as ever."""
        ensure(Cluster(config.kafka), config.topics)
        live = Producer({**config.kafka, "transactional.id": config.worker.transactional_id})
        live.init_transactions(20)
        live.begin_transaction()
        live.produce(config.topics.predictions, b"x")
        assert _faults(config) == []
        live.commit_transaction(20)

    def test_names_the_members_of_the_group(self, config: Config) -> None:
        """A worker that is running already is in the report by its identity."""
        ensure(Cluster(config.kafka), config.topics)
        member = Consumer({**config.kafka, "group.id": config.worker.group, "group.instance.id": "worker-7"})
        member.subscribe([config.topics.examples])
        deadline = time.monotonic() + 20
        while not member.assignment() and time.monotonic() < deadline:
            member.poll(0.1)
        notes = [finding.text for finding in inspect(config) if finding.subject.startswith("group")]
        member.close()
        assert notes[-1] == "stable, members now: worker-7"

    def test_stops_at_a_cluster_that_does_not_answer(self) -> None:
        """Without an answer there is one fault, within 10 seconds."""
        begun = time.monotonic()
        (finding,) = inspect(_config(f"127.0.0.1:{free_ports(1)[0]}"))
        assert time.monotonic() - begun < 10
        assert finding.verdict == "fault"
        assert "expected an answer" in finding.text


def _deny(cluster: Cluster, kind: ResourceType, name: str, operation: AclOperation) -> None:
    for permission, granted in (
        (AclPermissionType.ALLOW, AclOperation.ALL),
        (AclPermissionType.DENY, operation),
    ):
        binding = AclBinding(kind, name, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", granted, permission)
        (future,) = cluster.client.create_acls([binding]).values()
        future.result(20)


def test_check_finds_refused_permissions(jars: Path, tmp_path: Path) -> None:
    """On a cluster with access control, each denied operation that a worker needs is a fault."""
    broker = Broker(
        tmp_path / "broker",
        jars,
        {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
        },
    )
    broker.start()
    try:
        config = _config(broker.bootstrap)
        ensure(Cluster(config.kafka), config.topics)
        cluster = Cluster(config.kafka)
        _deny(cluster, ResourceType.TOPIC, config.topics.predictions, AclOperation.WRITE)
        _deny(cluster, ResourceType.GROUP, config.worker.group, AclOperation.READ)
        probe = f"{config.worker.transactional_id}-check"
        _deny(cluster, ResourceType.TRANSACTIONAL_ID, probe, AclOperation.WRITE)
        faults = dict(_faults(config))
    finally:
        broker.kill()
    predictions, group = f"topic {config.topics.predictions}", f"group {config.worker.group}"
    transactional = f"transactional id {probe}"
    assert set(faults) == {predictions, group, transactional}
    assert faults[predictions].startswith("permissions: expected WRITE, found ")
    assert "WRITE" not in faults[predictions].partition("found")[2]
    assert faults[group].startswith("permissions: expected READ, found ")
    assert "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in faults[transactional]
