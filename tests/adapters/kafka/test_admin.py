"""A cluster that does not answer, refuses, or can not be administered."""

import time
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import ListOffsetsResultInfo  # type: ignore[attr-defined]
from support.ports import free_ports
from support.topics import TopicFactory
from support.waiting import DEADLINE_S, wait_until

from stream_apple.adapters.kafka.admin import Cluster, timeout_faults
from stream_apple.adapters.kafka.topics import existing
from stream_apple.errors import BrokerError, ConfigurationError
from stream_apple.stream.log.ports import Committed


def test_no_answer_is_told_in_time() -> None:
    """When nothing listens, the address and the reason are in the error within 10 seconds."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    begun = time.monotonic()
    with pytest.raises(BrokerError, match="Connection refused") as caught:
        Cluster({"bootstrap.servers": address})
    assert time.monotonic() - begun < 10
    assert address in str(caught.value)


def test_a_refused_property_is_named() -> None:
    """A property that librdkafka does not know is a fault of the configuration, with its name."""
    with pytest.raises(ConfigurationError, match=r'"bootstrap\.server"'):
        Cluster({"bootstrap.servers": "localhost:1", "bootstrap.server": "x"})


def test_a_cluster_without_administration_says_so(mock_cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's in-process cluster can't describe topics: an error with its address, not a hang."""
    monkeypatch.setattr("stream_apple.adapters.kafka.topics.REQUEST_S", 1.0)
    producer = Producer({"bootstrap.servers": mock_cluster})
    producer.produce("examples", b"x")
    assert producer.flush(DEADLINE_S) == 0
    cluster = Cluster({"bootstrap.servers": mock_cluster})
    with pytest.raises(BrokerError, match=mock_cluster):
        existing(cluster, ["examples"])


def test_each_of_several_brokers_is_asked(kafka: str) -> None:
    """The client takes one broker a call, and refuses the call for two; one that does not answer hides no other."""
    cluster = Cluster({"bootstrap.servers": kafka, "session.timeout.ms": 3_600_000}, request_s=1.0)
    (number,) = cluster.brokers
    cluster.brokers = [number, number + 1]
    (fault,) = timeout_faults(cluster)
    assert f"expected at most 1800000, the group.max.session.timeout.ms of broker {number}, found 3600000" in fault


def test_an_answer_without_offsets_is_none(mock_cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that has just come back may name no end of a log: that is not taken for offset -1001."""
    cluster = Cluster({"bootstrap.servers": mock_cluster})
    unknown = Future[ListOffsetsResultInfo]()
    unknown.set_result(ListOffsetsResultInfo(OFFSET_INVALID, -1, -1))
    monkeypatch.setattr(cluster.client, "list_offsets", lambda asked, **_: dict.fromkeys(asked, unknown))
    with pytest.raises(BrokerError, match=r"the ends of examples-2: .* found -1001 and -1001"):
        cluster.log_ranges("examples", [2])


def test_what_many_groups_have_committed(kafka: str, topic: TopicFactory) -> None:
    """Of each, with its note; of a group without offsets nothing; of one that can't be asked there is no answer."""
    examples = topic("examples", partitions=2)
    cluster = Cluster({"bootstrap.servers": kafka})
    names = [f"{examples}-{number}" for number in range(120)]
    for number, name in enumerate(names):
        noted = TopicPartition(examples, 1, number, f"note {number}")
        request = [ConsumerGroupTopicPartitions(name, [noted])]

        def committed(request: list[ConsumerGroupTopicPartitions] = request) -> bool:
            (future,) = cluster.client.alter_consumer_group_offsets(request).values()
            (place,) = future.result(DEADLINE_S).topic_partitions
            return place.error is None  # a coordinator that has just been made says that it is loading

        wait_until(committed, f"{name} has committed")
    found = cluster.committed_by([*names, f"{examples}-nobody"], examples, DEADLINE_S)
    assert found == {
        **{name: [Committed(number, f"note {number}")] for number, name in enumerate(names)},
        f"{examples}-nobody": [],
    }
    assert cluster.committed_by(names, "not-there", DEADLINE_S) == {}


def test_groups_that_are_not_answered_for_are_passed_over(
    kafka: str, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client may look at some groups and not at others."""
    examples = topic("examples", partitions=1)
    cluster = Cluster({"bootstrap.servers": kafka})
    asked = cluster.client.list_consumer_group_offsets

    def ask(requests: list[ConsumerGroupTopicPartitions], **how: Any) -> dict[str, Future[Any]]:
        if requests[0].group_id != "closed":
            return asked(requests, **how)
        refused = Future[Any]()
        refused.set_exception(KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)))
        return {"closed": refused}

    monkeypatch.setattr(cluster.client, "list_consumer_group_offsets", ask)
    assert cluster.committed_by(["open", "closed"], examples, DEADLINE_S).keys() == {"open"}
