"""What all tests share: brokers, topics, reference data, Hypothesis's profile."""

import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # exports are not marked
from hypothesis import settings
from kafka_broker import Broker, UnavailableError, create_topics, resolve_jars
from required import unavailable

settings.register_profile("stream_apple", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("stream_apple")

# Taken out of the environment: the product refuses variables of its prefix that it does not know.
_OWN_BROKER = os.environ.pop("STREAM_APPLE_TEST_BOOTSTRAP", None)

TopicFactory = Callable[..., str]

_MOCK_S = 30.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that uses the real broker, so that `-m "not broker"` leaves them out."""
    for item in items:
        if {"kafka", "jars"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.broker)


@pytest.fixture(scope="session")
def jars() -> Path:
    """Kafka's jars, for tests that start and break brokers of their own."""
    try:
        return resolve_jars()
    except UnavailableError as error:
        unavailable(str(error))


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a real broker that all tests share: no test stops it, or relies on its being empty."""
    if _OWN_BROKER:
        yield _OWN_BROKER
        return
    broker = Broker(tmp_path_factory.mktemp("kafka"), request.getfixturevalue("jars"))
    broker.start()
    try:
        yield broker.bootstrap
    finally:
        broker.kill()


@pytest.fixture
def topic(kafka: str) -> Iterator[TopicFactory]:
    """Make a topic: `topic("examples", partitions=2, config={...})` returns a name that was never used."""
    client = AdminClient({"bootstrap.servers": kafka})
    made: list[str] = []

    def make(stem: str = "topic", partitions: int = 1, config: dict[str, str] | None = None) -> str:
        name = f"{stem}-{uuid.uuid4().hex[:12]}"
        create_topics(kafka, NewTopic(name, partitions, 1, config=config or {}))
        made.append(name)
        return name

    yield make
    if made:
        for future in client.delete_topics(made).values():
            future.result(30)


@pytest.fixture
def mock_cluster() -> Iterator[str]:
    """Bootstrap address of librdkafka's in-process cluster: any topic is there, with 4 partitions."""
    host = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    brokers = host.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    host.close()


@pytest.fixture
def mock_examples(mock_cluster: str) -> str:
    """A cluster with the topic `examples` of four partitions."""
    client = Producer({"bootstrap.servers": mock_cluster, "log_level": 0})
    deadline = time.monotonic() + _MOCK_S
    while client.list_topics("examples", timeout=_MOCK_S).topics["examples"].error is not None:
        assert time.monotonic() < deadline, "the topic was not made"
    client.close()
    return mock_cluster


@pytest.fixture(scope="session")
def shared() -> Path:
    """The directory of reference data and tools that lies beside the repository."""
    path = Path(__file__).resolve().parent.parent.parent / "shared"
    if not path.is_dir():
        unavailable(f"there is no reference data at {path}")
    return path
