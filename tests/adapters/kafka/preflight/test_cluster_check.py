"""`check` on a real cluster: everything that it must find, and what it must leave alone."""

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # the package does not mark its exports
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from support.kafka.broker import Broker
from support.kafka.own_topics import make_topic, own_config
from support.ports import free_ports
from support.waiting import DEADLINE_S, wait_until

from stream_apple.adapters.kafka.admin import Cluster
from stream_apple.adapters.kafka.preflight.before_fencing import check_before_fencing
from stream_apple.adapters.kafka.preflight.cluster_check import check_cluster
from stream_apple.adapters.kafka.topics import UNLIMITED, NeededTopics, ensure
from stream_apple.config import Config
from stream_apple.config.input_settings import InputSettings
from stream_apple.config.memory import MemoryLimit
from stream_apple.errors import ConfigurationError


def _faults(config: Config) -> list[tuple[str, str]]:
    return [(found.subject, found.text) for found in check_cluster(config) if found.verdict == "fault"]


class TestCheck:
    """The report about a live cluster."""

    def test_finds_no_fault_where_there_is_none(self, config: Config) -> None:
        """Right after `topics`, every line is ok or a note, and each part is spoken of."""
        ensure(Cluster(config.kafka), NeededTopics(config.topics), 2)
        findings = list(check_cluster(config))
        assert {finding.verdict for finding in findings} == {"ok", "note"}
        topics = config.topics
        assert {finding.subject for finding in findings if finding.verdict == "ok"} == {
            "cluster",
            "kafka",
            "memory",
            *(f"topic {name}" for name in topics.names(merging=False)),
            f"group {config.worker.group}",
            f"transactional id {config.worker.transactional_id}-check",
        }

    def test_finds_missing_topics(self, config: Config) -> None:
        """Each missing topic is a fault that names the command which makes it."""
        faults = _faults(config)
        assert [subject for subject, _ in faults] == [f"topic {name}" for name in config.topics.names(merging=False)]
        assert all("`stream-apple topics` creates it" in text for _, text in faults)

    def test_looks_at_merges_where_there_are_any(self, config: Config) -> None:
        """Missing, made, and with a retention that is shorter than that of the examples."""
        merging = config.model_copy(update={"merge": config.merge.model_copy(update={"mode": "average"})})
        subject = f"topic {config.topics.merges}"
        ensure(Cluster(config.kafka), NeededTopics(config.topics), 3)
        assert [(found, "creates it" in text) for found, text in _faults(merging)] == [(subject, True)]
        assert _faults(config) == []
        ensure(Cluster(config.kafka), NeededTopics(config.topics, merging=True))
        assert _faults(merging) == []
        assert subject in {found.subject for found in check_cluster(merging) if found.verdict == "ok"}
        short = merging.model_copy(
            update={"topics": config.topics.model_copy(update={"merges": "short-" + subject[6:]})}
        )
        make_topic(config, short.topics.merges, retention_ms="1000")
        assert _faults(short) == [
            (f"topic {short.topics.merges}", "retention.ms: expected no less than 1209600000, found 1000")
        ]

    def test_finds_every_wrong_property(self, config: Config) -> None:
        """Other counts, but of dead letters, which fold; models that are not compacted; replicas that can't be had."""
        topics = config.topics
        make_topic(config, topics.examples, 2)
        make_topic(config, topics.predictions, 1, min_insync_replicas="2")
        make_topic(config, topics.dead_letters, 1)
        make_topic(config, topics.models, 2)
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

    def test_finds_outputs_that_are_compacted(self, config: Config) -> None:
        """As `topics` does."""
        topics = config.topics
        ensure(
            Cluster(config.kafka),
            NeededTopics(topics.model_copy(update={"predictions": f"{topics.predictions}-other"})),
        )
        make_topic(config, topics.predictions, cleanup_policy="compact")
        found = [text for subject, text in _faults(config) if subject == f"topic {topics.predictions}"]
        assert found[0] == "cleanup.policy: expected delete, found compact"

    def test_compares_all_sizes(self, config: Config) -> None:
        """What the limits of records allow, what topics take, and what both clients can hold."""
        topics = config.topics
        ensure(Cluster(config.kafka), NeededTopics(topics))
        around = "(receive.message.max.bytes of the client, less 512 for what is around a batch)"
        limits = config.limits.model_copy(update={"max_record_bytes": 3_000_000})
        kafka = {
            **config.kafka,
            "message.max.bytes": 1_000_000,
            "queue.buffering.max.kbytes": 1_000,
            "batch.size": 1_048_577,
            "receive.message.max.bytes": 1_048_999,
            "fetch.max.bytes": 1_000_000,
        }
        assert set(_faults(config.model_copy(update={"limits": limits, "kafka": kafka}))) == {
            (f"topic {topics.predictions}", "max.message.bytes: expected at least 3048588, found 1048588"),
            (f"topic {topics.dead_letters}", "max.message.bytes: expected at least 3114124, found 1114124"),
            (
                f"topic {topics.examples}",
                f"max.message.bytes: expected at most 1048487 {around}, found 1048588",
            ),
            (
                "kafka",
                (
                    "kafka.message.max.bytes: expected at least 3114124, for the largest message that the limits of "
                    "records allow, found 1000000"
                ),
            ),
            (
                "kafka",
                (
                    "kafka.queue.buffering.max.kbytes: expected at least 3042, for the largest message that the limits "
                    "of records allow, found 1000"
                ),
            ),
            ("kafka.batch.size", "expected at most 1048576 (the least max.message.bytes), found 1048577"),
        }

    def test_says_what_is_not_repeated(self, config: Config) -> None:
        """Where the topic takes records that are far above the limit, their dead letters don't have them."""
        ensure(
            Cluster(config.kafka),
            NeededTopics(config.topics.model_copy(update={"examples": f"{config.topics.examples}-other"})),
        )
        make_topic(config, config.topics.examples, max_message_bytes="4000000", retention_ms="-1")
        notes = [finding.text for finding in check_cluster(config) if finding.verdict == "note"]
        assert notes[-1] == (
            "max.message.bytes 4000000: a record above 1114124 bytes, which limits.max_record_bytes 1000000 refuses, "
            "is not repeated in its dead letter"
        )

    def test_finds_timeouts_that_the_brokers_refuse(self, config: Config) -> None:
        """Each with the bound, whose it is, and what it is compared with; and properties that do not fit together."""
        ensure(Cluster(config.kafka), NeededTopics(config.topics))
        given = {
            "session.timeout.ms": 3_600_000,
            "max.poll.interval.ms": 3_600_000,
            "transaction.timeout.ms": "900001",
            "message.max.bytes": 5000,
        }
        wrong = config.model_copy(update={"kafka": {**config.kafka, **given}})
        assert [text for subject, text in _faults(wrong) if subject == "kafka"] == [
            (
                "kafka.message.max.bytes: expected at least 1114124, for the largest message that the limits of "
                "records allow, found 5000"
            ),
            (
                "kafka.session.timeout.ms: expected at most 1800000, the group.max.session.timeout.ms of broker 1, "
                "found 3600000"
            ),
            (
                "kafka.transaction.timeout.ms: expected at most 900000, the transaction.max.timeout.ms of broker 1, "
                "found 900001"
            ),
        ]

    def test_compares_models_with_the_memory(self, config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
        """A fault if not even one partition has room; a note if a worker could not own all of them.

        Records count too: with what they may be, by as many threads as there are.
        """
        ensure(Cluster(config.kafka), NeededTopics(config.topics), 3)
        config = config.model_copy(update={"worker": config.worker.model_copy(update={"threads": 2})})

        def verdict(mebibytes: int) -> tuple[str, str]:
            limit = MemoryLimit(mebibytes << 20, "limit of x")
            monkeypatch.setattr("stream_apple.adapters.kafka.preflight.cluster_check.memory_limit", lambda: limit)
            (found,) = [each for each in check_cluster(config) if each.subject == "memory"]
            return found.verdict, found.text

        assert verdict(500) == ("ok", "a worker here has room for all 3 partitions, by the limit of x")
        assert verdict(435) == (
            "note",
            (
                "a worker here has memory for 2 of the 3 partitions, by the limit of x: "
                "so many it may own, also while others are down"
            ),
        )
        kind, text = verdict(400)
        assert kind == "fault"
        assert text.startswith("learner.bits, limits.max_features_per_example: expected models that fit into 400 MiB")
        assert text.endswith(", 180 of it records (limits.max_record_bytes, worker.threads)")
        config = config.model_copy(update={"worker": config.worker.model_copy(update={"threads": 4})})
        assert verdict(435)[0] == "fault"

    def test_says_whose_clock_epochs_follow(self, config: Config) -> None:
        """Where the broker stamps the examples, the note says so."""
        make_topic(config, config.topics.examples, 1, message_timestamp_type="LogAppendTime", retention_ms="-1")
        notes = [finding.text for finding in check_cluster(config) if finding.verdict == "note"]
        assert notes == ["message.timestamp.type LogAppendTime: epochs follow the broker's clock"]
        of_field = config.model_copy(update={"input": InputSettings(timestamp="at")})
        notes = [finding.text for finding in check_cluster(of_field) if finding.verdict == "note"]
        assert notes == ["input.timestamp: epochs follow the times in the field 'at'"]

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
        make_topic(config, config.topics.examples, 1, **settings)
        notes = [finding.text for finding in check_cluster(config) if finding.verdict == "note"]
        assert any(note.startswith(expected) for note in notes), notes

    @pytest.mark.parametrize("settings", [{"retention_ms": "-1"}, {"message_timestamp_type": "LogAppendTime"}])
    def test_says_nothing_where_records_stay(self, config: Config, settings: dict[str, str]) -> None:
        """Kept for ever, or for a week by the broker's clock: the only note is whose clock it is."""
        make_topic(config, config.topics.examples, 1, **settings)
        notes = [finding.text for finding in check_cluster(config) if finding.verdict == "note"]
        assert [note.partition(" ")[0] for note in notes] == ["message.timestamp.type"]

    def test_does_not_disturb_a_live_worker(self, config: Config) -> None:
        """A transaction that is open under the worker's own id is committed after the check as ever."""
        ensure(Cluster(config.kafka), NeededTopics(config.topics))
        live = Producer({**config.kafka, "transactional.id": config.worker.transactional_id})
        live.init_transactions(DEADLINE_S)
        live.begin_transaction()
        live.produce(config.topics.predictions, b"x")
        assert _faults(config) == []
        live.commit_transaction(DEADLINE_S)

    def test_names_the_members_of_the_group(self, config: Config) -> None:
        """A worker that is running already is in the report by its identity."""
        ensure(Cluster(config.kafka), NeededTopics(config.topics))
        member = Consumer({**config.kafka, "group.id": config.worker.group, "group.instance.id": "worker-7"})
        member.subscribe([config.topics.examples])
        wait_until(member.assignment, "the member's partitions", meanwhile=lambda: member.poll(0.1))
        notes = [finding.text for finding in check_cluster(config) if finding.subject.startswith("group")]
        member.close()
        assert notes[-1] == "stable, members now: worker-7"

    def test_stops_at_a_cluster_that_does_not_answer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without an answer in time there is one fault, soon after."""
        monkeypatch.setattr("stream_apple.adapters.kafka.admin.CONNECT_S", 1.0)
        begun = time.monotonic()
        (finding,) = check_cluster(own_config(f"127.0.0.1:{free_ports(1)[0]}"))
        assert time.monotonic() - begun < 5
        assert finding.verdict == "fault"
        assert "expected an answer" in finding.text


def _deny(cluster: Cluster, kind: ResourceType, name: str, operation: AclOperation) -> None:
    for permission, granted in (
        (AclPermissionType.ALLOW, AclOperation.ALL),
        (AclPermissionType.DENY, operation),
    ):
        binding = AclBinding(kind, name, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", granted, permission)
        (future,) = cluster.client.create_acls([binding]).values()
        future.result(DEADLINE_S)


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
        config = own_config(broker.bootstrap)
        ensure(Cluster(config.kafka), NeededTopics(config.topics))
        cluster = Cluster(config.kafka)
        _deny(cluster, ResourceType.TOPIC, config.topics.predictions, AclOperation.WRITE)
        _deny(cluster, ResourceType.GROUP, config.worker.group, AclOperation.READ)
        probe = f"{config.worker.transactional_id}-check"
        _deny(cluster, ResourceType.TRANSACTIONAL_ID, probe, AclOperation.WRITE)
        _deny(cluster, ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE_CONFIGS)
        findings = list(check_cluster(config))
        faults = {found.subject: found.text for found in findings if found.verdict == "fault"}
        (note,) = [found.text for found in findings if found.subject == "brokers"]
        with pytest.raises(ConfigurationError) as before_fencing:
            check_before_fencing(cluster, config)
        other = own_config(broker.bootstrap)
        ensure(cluster, NeededTopics(other.topics))
        _deny(cluster, ResourceType.GROUP, other.worker.group, AclOperation.DESCRIBE)
        with pytest.raises(ConfigurationError) as unseen:
            check_before_fencing(Cluster(other.kafka), other)
    finally:
        broker.kill()
    # Nothing that a worker needs: it is only not compared.
    assert note.startswith("session and transaction timeouts are not compared with theirs: reading the settings of br")
    predictions, group = f"topic {config.topics.predictions}", f"group {config.worker.group}"
    transactional = f"transactional id {probe}"
    assert set(faults) == {predictions, group, transactional}
    assert faults[predictions].startswith("permissions: expected READ, WRITE, found ")
    assert "WRITE" not in faults[predictions].partition("found")[2]
    assert faults[group].startswith("permissions: expected READ, found ")
    assert "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in faults[transactional]
    # A worker finds the topic's before it fences anybody. The id's is refused instead of the fencing.
    assert str(before_fencing.value) == f"{predictions}: {faults[predictions]}"
    # A group that can't even be seen, too, and does not wait for an answer that can't come.
    assert "(GROUP_AUTHORIZATION_FAILED)" in str(unseen.value)
