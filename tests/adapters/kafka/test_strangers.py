"""Members of a group that are no workers, on a real broker."""

from confluent_kafka import Consumer
from structlog.typing import EventDict
from support.topics import TopicFactory
from support.waiting import wait_until

from stream_apple.adapters.kafka.admin import Cluster
from stream_apple.adapters.kafka.strangers import Strangers


def test_only_strangers_are_logged_and_once(kafka: str, topic: TopicFactory, log_events: list[EventDict]) -> None:
    """A worker is a static member, and a plain consumer is not."""
    name = topic(2)
    group = {"bootstrap.servers": kafka, "group.id": f"group-of-{name}"}
    worker = Consumer({**group, "group.instance.id": "worker-0"})
    plain = Consumer({**group, "client.id": "odd"})
    for member in (worker, plain):
        member.subscribe([name])
    cluster, strangers = Cluster({"bootstrap.servers": kafka}), Strangers(group["group.id"], "worker-0")

    def look(*members: Consumer) -> None:
        for member in members:
            member.poll(0.05)
        strangers.look(cluster)

    wait_until(lambda: seen_in(log_events), "the stranger was seen", meanwhile=lambda: look(worker, plain))
    second = Consumer({**group, "client.id": "odder"})
    second.subscribe([name])
    wait_until(
        lambda: len(seen_in(log_events)) > 1, "the second was seen", meanwhile=lambda: look(worker, plain, second)
    )
    for member in (worker, plain, second):
        member.close()
    assert seen_in(log_events) == [("odd", "/127.0.0.1"), ("odder", "/127.0.0.1")]


def seen_in(events: list[EventDict]) -> list[tuple[str, str]]:
    """The client ids and hosts of strangers that were logged."""
    return [(event["client"], event["host"]) for event in events if event["event"] == "stranger_in_group"]
