"""Impressions that were joined before: whose heartbeats say so, and when they say nothing."""

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from support.topics import TopicFactory
from support.waiting import DEADLINE_S

from stream_apple.adapters.kafka.admin import Cluster
from stream_apple.adapters.kafka.preflight.join_check import check_before_joining
from stream_apple.adapters.kafka.preflight.joined_before import committed_by_joiners, joined_before
from stream_apple.config import Config
from stream_apple.errors import ConfigurationError
from stream_apple.stream.joining.own_messages import heartbeat_key, heartbeat_value

PARTITIONS = 2


class Join:
    """Topics and a group of joiners that has no offset."""

    def __init__(self, kafka: str, topic: TopicFactory) -> None:
        impressions, outcomes = (topic(stem, PARTITIONS) for stem in ("impressions", "outcomes"))
        self.config = Config.model_validate(
            {
                "kafka": {"bootstrap.servers": kafka},
                "join": {"impressions": impressions, "outcomes": outcomes, "group": f"join-{impressions}"},
            }
        )
        self._kafka = kafka
        self._producer = Producer({"bootstrap.servers": kafka})
        for partition in range(PARTITIONS):
            self.write(impressions, b"impression", partition, times=5)

    def write(self, topic: str, value: bytes, partition: int, key: bytes | None = None, times: int = 1) -> None:
        """The same message, so many times."""
        for _ in range(times):
            self._producer.produce(topic, value, key, partition)
        assert self._producer.flush(DEADLINE_S) == 0

    def beat(self, covers: int, group: str, examples: str, impressions: str = "", partition: int = 1) -> None:
        """A heartbeat of a joiner, of these impressions if no others are named."""
        key = heartbeat_key(group, impressions or self.config.join.impressions, examples)
        self.write(self.config.join.outcomes, heartbeat_value(covers), partition, key)

    def commit(self, partition: int) -> None:
        """The group has an offset."""
        member = Consumer({"bootstrap.servers": self._kafka, "group.id": self.config.join.group})
        place = TopicPartition(self.config.join.impressions, partition, 3)
        member.commit(offsets=[place], asynchronous=False)
        member.close()

    def faults(self) -> list[str]:
        """What `check` says; `join` refuses to start where that is something."""
        cluster = Cluster(self.config.kafka)
        committed = committed_by_joiners(self.config, range(cluster.topics[self.config.join.impressions]))
        text = joined_before(self.config, cluster, committed)
        found = [] if text is None else [f"group {self.config.join.group}: {text}"]
        if found:
            with pytest.raises(ConfigurationError) as caught:
                check_before_joining(cluster, self.config)
            assert str(caught.value) == found[0]
        return found


@pytest.fixture
def join(kafka: str, topic: TopicFactory) -> Join:
    """Of topics that nobody has joined."""
    return Join(kafka, topic)


def test_the_first_joiner_begins(join: Join) -> None:
    """Nobody has joined; or into another topic; or other impressions, in a topic of this name that was there before."""
    assert join.faults() == []
    join.beat(5, "other", "elsewhere")
    join.beat(5, "other", join.config.topics.examples, "others")
    join.beat(6, "other", join.config.topics.examples)
    join.write(join.config.join.outcomes, heartbeat_value(5), 1)  # of a version that did not say who joins
    join.write(join.config.join.outcomes, b"an outcome", 1, b'{"group": 3}')
    assert join.faults() == []


@pytest.mark.parametrize("behind", [0, 1500])
def test_another_group_is_named(join: Join, behind: int) -> None:
    """However many outcomes are behind its newest heartbeat."""
    told = join.config.join
    join.beat(5, "first", join.config.topics.examples)
    join.write(told.outcomes, b"an outcome", 1, b"key", times=behind)
    (fault,) = join.faults()
    assert fault.startswith(
        f"group {told.group}: expected an offset of {told.impressions}-1 that it has committed, or "
    )
    assert f"a heartbeat at {told.outcomes}-1@0 of group first, another one: " in fault
    assert fault.endswith(
        'Set join.group = "first" to go on as that one, or topics.examples to a new topic, with a new worker.group'
    )


def test_a_group_that_has_lost_its_offsets(join: Join) -> None:
    """It is told so; with an offset it goes on, whoever else joins."""
    group, examples = join.config.join.group, join.config.topics.examples
    join.beat(4, group, examples)
    (fault,) = join.faults()
    assert f"a heartbeat at {join.config.join.outcomes}-1@0 of group {group}, whose offsets are lost: " in fault
    assert fault.endswith("Set topics.examples to a new topic, with a new worker.group")
    join.commit(0)
    assert len(join.faults()) == 1
    join.commit(1)
    assert join.faults() == []
