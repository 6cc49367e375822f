"""A watch of the topics of a running worker, on a real broker: what it logs, shows, and does."""

import threading
from collections.abc import Iterator, Mapping
from typing import Self

import pytest
from adapters.kafka.test_topic_faults import open_transaction
from confluent_kafka import Consumer
from structlog.typing import EventDict
from support.waiting import DEADLINE_S, wait_until

from stream_apple.adapters.kafka import topic_watch
from stream_apple.adapters.kafka.admin import Cluster
from stream_apple.adapters.kafka.strangers import Strangers
from stream_apple.adapters.kafka.topic_faults import (
    NeededOfTopics,
    OpenTransactions,
    TopicFault,
    topic_faults,
)
from stream_apple.adapters.kafka.topic_watch import TopicWatch
from stream_apple.adapters.kafka.topics import NeededTopics, ensure
from stream_apple.config import Config
from stream_apple.errors import BrokerError, ConfigurationError


class Watched:
    """A watch that looks often, and what it shows; a context."""

    def __init__(self, config: Config) -> None:
        self.shown: Mapping[tuple[str, str], float] = {}
        self.stopped = threading.Event()
        needed = NeededOfTopics.by_worker(config)
        strangers = Strangers(config.worker.group, "worker-0")
        self.watch = TopicWatch(config.kafka, needed, strangers, lambda: [0], self._show, OpenTransactions(0.5), 0.1)
        self.watch.stop_worker = self.stopped.set

    def _show(self, faults: Mapping[tuple[str, str], float]) -> None:
        self.shown = faults

    def __enter__(self) -> Self:
        self.watch.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.watch.__exit__()

    def wait_for(self, *faults: tuple[str, str]) -> None:
        """Wait until it shows exactly these."""
        wait_until(
            lambda: {key for key, seconds in self.shown.items() if seconds > 0} == set(faults),
            lambda: f"{faults} instead of {self.shown}",
        )


@pytest.fixture
def watched(config: Config) -> Iterator[Watched]:
    """A watch of topics with which nothing is wrong."""
    ensure(Cluster(config.kafka), NeededTopics(config.topics))
    with Watched(config) as made:
        yield made


def test_a_defect_does_not_end_the_watch(
    watched: Watched, config: Config, log_events: list[EventDict], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is logged, and what changes afterwards is seen."""
    with monkeypatch.context() as patch:
        patch.setattr(topic_watch, "topic_faults", lambda *_: 1 / 0)
        wait_until(lambda: any(event["event"] == "topic_watch_failed" for event in log_events), "the defect was logged")
    Cluster(config.kafka).set_settings(config.topics.models, {"cleanup.policy": "compact,delete"})
    watched.wait_for((config.topics.models, "INVALID_CONFIG"))


def test_a_stranger_is_logged(watched: Watched, config: Config, log_events: list[EventDict]) -> None:
    """The same thread looks for members of the group that are no workers."""
    del watched
    stranger = Consumer({"bootstrap.servers": config.kafka["bootstrap.servers"], "group.id": config.worker.group})
    stranger.subscribe([config.topics.examples])
    wait_until(
        lambda: any(event["event"] == "stranger_in_group" for event in log_events),
        "the stranger was seen",
        meanwhile=lambda: stranger.poll(0.05),
    )
    stranger.close()


def test_what_changes_is_logged_once_and_so_is_its_end(
    watched: Watched, config: Config, log_events: list[EventDict]
) -> None:
    """A policy that deletes models, a requirement without replicas, and a transaction of another application."""
    cluster, topics = Cluster(config.kafka), config.topics
    cluster.set_settings(topics.models, {"cleanup.policy": "compact,delete"})
    policy = topics.models, "INVALID_CONFIG"
    watched.wait_for(policy)
    assert not watched.watch.stopping_answers
    cluster.set_settings(topics.predictions, {"min.insync.replicas": "2"})
    replicas = topics.predictions, "NOT_ENOUGH_REPLICAS"
    watched.wait_for(policy, replicas)
    assert watched.watch.stopping_answers == [f"topic {topics.predictions} (NOT_ENOUGH_REPLICAS)"]
    with open_transaction(str(config.kafka["bootstrap.servers"]), topics.examples, (topics.examples, 0)):
        hanging = topics.examples, "HANGING_TRANSACTION"
        watched.wait_for(policy, replicas, hanging)
        assert watched.shown[policy] >= watched.shown[replicas] >= watched.shown[hanging]
    watched.wait_for(policy, replicas)
    cluster.set_settings(topics.models, {"cleanup.policy": "compact"})
    cluster.set_settings(topics.predictions, {"min.insync.replicas": "1"})
    watched.wait_for()
    assert not watched.watch.stopping_answers
    told = [(event["event"], event["topic"], event["fault"]) for event in log_events]
    assert told[:4] == [
        ("topic_fault", *policy),
        ("topic_fault", *replicas),
        ("topic_fault", *hanging),
        ("topic_mended", *hanging),
    ]
    assert sorted(told[4:]) == sorted([("topic_mended", *policy), ("topic_mended", *replicas)])
    assert log_events[0]["error"].startswith("cleanup.policy: expected compact, found compact,delete: ")
    watched.watch.raise_if_gone()


def test_a_topic_that_is_deleted_stops_the_worker(
    watched: Watched, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle worker would not notice it; it is believed after a while only."""
    monkeypatch.setattr(topic_watch, "UNKNOWN_S", 1.0)
    cluster, name = Cluster(config.kafka), config.topics.examples
    cluster.client.delete_topics([name])[name].result(DEADLINE_S)
    watched.wait_for((name, "UNKNOWN_TOPIC_OR_PART"))
    watched.watch.raise_if_gone()
    assert watched.stopped.wait(DEADLINE_S)
    assert watched.shown[name, "UNKNOWN_TOPIC_OR_PART"] >= 1.0
    with pytest.raises(ConfigurationError, match=f"^topic {name}: expected an existing topic, found none: "):
        watched.watch.raise_if_gone()


def test_silence_mends_nothing(watched: Watched, config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found stays found while no broker answers."""
    name = config.topics.predictions
    Cluster(config.kafka).set_settings(name, {"min.insync.replicas": "2"})
    watched.wait_for((name, "NOT_ENOUGH_REPLICAS"))
    looks = threading.Semaphore(0)

    def silent(*_: object) -> Iterator[TopicFault]:
        looks.release()
        raise BrokerError("no answer")

    monkeypatch.setattr(topic_watch, "topic_faults", silent)
    for _ in range(3):
        assert looks.acquire(timeout=DEADLINE_S)
    assert watched.watch.stopping_answers == [f"topic {name} (NOT_ENOUGH_REPLICAS)"]
    monkeypatch.setattr(topic_watch, "topic_faults", topic_faults)
    Cluster(config.kafka).set_settings(name, {"min.insync.replicas": "1"})
    watched.wait_for()
