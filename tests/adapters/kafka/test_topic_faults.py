"""What is wrong with topics: replicas, leaders, topics that brokers can't create, and transactions that stay open."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from support.clock import Clock
from support.kafka.broker import Broker
from support.kafka.own_topics import own_config
from support.ports import free_ports
from support.topics import FOREVER, TopicFactory
from support.waiting import DEADLINE_S, wait_until

from stream_apple.adapters.kafka.admin import Cluster, Finding
from stream_apple.adapters.kafka.connectivity import Connectivity
from stream_apple.adapters.kafka.preflight.before_fencing import check_before_fencing
from stream_apple.adapters.kafka.preflight.cluster_check import check_cluster
from stream_apple.adapters.kafka.topic_faults import OpenTransactions, TopicFault, unavailable
from stream_apple.adapters.kafka.topics import Existing, NeededTopics, ensure
from stream_apple.config import Config
from stream_apple.errors import BrokerError, ConfigurationError


@contextmanager
def open_transaction(bootstrap: str, name: str, place: tuple[str, int]) -> Iterator[Producer]:
    """Another application's transaction, which has written one record; a context, at whose end it is aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    topic, partition = place
    producer.produce(topic, b"foreign", partition=partition)
    assert producer.flush(DEADLINE_S) == 0
    yield producer
    producer.abort_transaction(DEADLINE_S)


@pytest.mark.parametrize(
    ("topic", "kinds", "told"),
    [
        (Existing(3, 1, {"min.insync.replicas": "1"}, frozenset(), (), {0: 1}), [], ""),
        (
            Existing(3, 1, {"min.insync.replicas": "2"}, frozenset(), (), {0: 1}),
            [("NOT_ENOUGH_REPLICAS", True)],
            "at most 1 (the replicas there are), found 2",
        ),
        (
            Existing(3, 3, {"min.insync.replicas": "2"}, frozenset(), (), {0: 2, 1: 1, 2: 1}),
            [("NOT_ENOUGH_REPLICAS", False)],
            "replicas in sync: expected at least 2 (min.insync.replicas), found fewer of partitions 1, 2:",
        ),
        (
            Existing(3, 1, {}, frozenset(), (0, 2), {1: 1}),
            [("LEADER_NOT_AVAILABLE", False)],
            "expected a leader of each, found none of 0, 2: their brokers",
        ),
    ],
    ids=["usable", "too few replicas", "too few in sync", "without leaders"],
)
def test_why_a_topic_can_not_be_used(topic: Existing, kinds: list[tuple[str, bool]], told: str) -> None:
    """Replicas that are missing permanently or now, and leaders that are missing now."""
    found = list(unavailable("name", topic, written=True))
    assert [(fault.kind, fault.lasting) for fault in found] == kinds
    assert all(told in fault.text and fault.stops_answers for fault in found)


def test_replicas_matter_only_for_writes() -> None:
    """A worker reads examples however few replicas are in sync."""
    topic = Existing(1, 3, {"min.insync.replicas": "2"}, frozenset(), (), {0: 1})
    assert not list(unavailable("name", topic, written=False))


def _ended(cluster: Cluster, topic: str) -> bool:
    """Whether no transaction is open in partition 0."""
    fresh = OpenTransactions()
    fresh.look(cluster, [topic], [0])
    return not fresh.any_open


class TestOpenTransactions:
    """Those that stay open."""

    def test_one_is_named_until_it_ends(self, kafka: str, topic: TopicFactory) -> None:
        """With its partition, its offset, since when, and the commands; ended ones and young ones are not named."""
        clock, cluster, name = Clock(0.0), Cluster({"bootstrap.servers": kafka}), topic("examples", 2, FOREVER)
        watched = OpenTransactions(60.0, clock)

        def look() -> list[TopicFault]:
            return [*watched.look(cluster, [name, "there-is-none"], range(3))]

        assert not look()
        assert not watched.any_open
        with open_transaction(kafka, name, (name, 1)):
            assert not look()
            assert watched.any_open
            clock.now += 59
            assert not look()
            clock.now += 1
            (fault,) = look()
            assert (fault.topic, fault.kind, fault.lasting) == (name, "HANGING_TRANSACTION", False)
            assert not fault.stops_answers
            assert fault.text.startswith("partition 1: expected transactions to end, found one open at offset 0 since ")
            assert f"describe-producers --topic {name} --partition 1`" in fault.text
            clock.now += 60
            assert look() == [fault]
        wait_until(lambda: not look(), "the marker of its end is written")

    def test_a_stream_of_transactions_hangs_nowhere(self, kafka: str, topic: TopicFactory) -> None:
        """Each is open when it is looked for, and each is another one."""
        clock, cluster, name = Clock(0.0), Cluster({"bootstrap.servers": kafka}), topic("examples")
        watched = OpenTransactions(60.0, clock)
        for _ in range(3):
            with open_transaction(kafka, name, (name, 0)):
                assert not watched.look(cluster, [name], [0])
                assert watched.any_open
                clock.now += 100
            wait_until(lambda: _ended(cluster, name), "the marker of its end is written")

    def test_check_notes_it(self, config: Config) -> None:
        """It stops no worker: the note stands next to the topic that is fine."""
        ensure(Cluster(config.kafka), NeededTopics(config.topics))
        name = config.topics.examples
        with open_transaction(str(config.kafka["bootstrap.servers"]), name, (name, 0)):
            found = list(check_cluster(config))
        notes = [each for each in found if each.verdict == "note" and "describe-producers" in each.text]
        assert [each.subject for each in notes] == [f"topic {name}"]
        assert not [each for each in found if each.verdict == "fault"]


def faults(config: Config) -> list[Finding]:
    """What `check` finds."""
    return [each for each in check_cluster(config) if each.verdict == "fault"]


def test_a_single_broker_with_defaults_for_three(jars: Path, tmp_path: Path) -> None:
    """`check` and a start name the brokers' settings; at another listener, the address that can't be reached."""
    setting = "transaction.state.log.replication.factor"
    other, closed = free_ports(2)
    listeners = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOST:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listeners": f"PLAINTEXT://127.0.0.1:{{port}},LOST://127.0.0.1:{other},CONTROLLER://127.0.0.1:{{controller}}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{{port}},LOST://127.0.0.1:{closed}",
        "inter.broker.listener.name": "PLAINTEXT",
    }
    factors = {setting: "3", "offsets.topic.replication.factor": "3"}
    broker = Broker(tmp_path / "broker", jars, {**factors, **listeners})
    broker.start()
    try:
        config = own_config(broker.bootstrap)
        ensure(Cluster(config.kafka), NeededTopics(config.topics))
        found = faults(config)
        with pytest.raises(ConfigurationError) as refused:
            check_before_fencing(Cluster(config.kafka), config)

        lost = config.model_copy(update={"kafka": {"bootstrap.servers": f"127.0.0.1:{other}"}})
        unreachable = list(check_cluster(lost))
        with pytest.raises(BrokerError) as cut_off:
            check_before_fencing(Cluster(lost.kafka), lost)
        # A client whose first question is answered may not get another answer at the configured address.
        with pytest.raises(BrokerError) as unanswered:
            Connectivity(lost.kafka, lambda: False).diagnose()
    finally:
        broker.kill()
    (fault,) = found
    expected = "expected at most 1 (the number of brokers), found 3 at broker 1"
    assert fault.subject == "cluster"
    assert fault.text.startswith(f"topic __transaction_state: {setting}: {expected}: Kafka can't create the topic")
    assert f"; topic __consumer_offsets: offsets.topic.replication.factor: {expected}: " in fault.text
    assert str(refused.value) == fault.text

    (first,) = unreachable
    reached = "broker 1: advertised.listeners: expected an address that this client can reach"
    assert (first.verdict, first.subject) == ("fault", "cluster")
    assert first.text.startswith(f"{reached}, found 127.0.0.1:{closed}: ")
    assert str(cut_off.value) == str(unanswered.value) == f"kafka: {first.text}"
