"""One suite of what the broker port promises, for the broker in memory and for Kafka.

What is proved about the worker by simulation holds for Kafka as far as this suite reaches.
"""

from collections.abc import Iterator

import pytest
from contract.harness import Client, Harness, Join, owning, until
from contract.memory_harness import MemoryHarness


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.broker)])
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    """Each broker in turn, with empty topics."""
    if request.param == "memory":
        made: Harness = MemoryHarness()
    else:
        from contract.kafka_harness import KafkaHarness

        made = KafkaHarness(request.getfixturevalue("kafka"))
    yield made
    made.close()


@pytest.fixture
def join(harness: Harness) -> Iterator[Join]:
    """Make a client that has joined: `join("a", short_session=False)`. All are closed in the end."""
    opened: list[Client] = []

    def make(instance: str = "a", *, short_session: bool = False) -> Client:
        opened.append(Client(harness.broker(instance, short_session=short_session), harness.examples))
        return opened[-1].join()

    yield make
    for client in opened:
        client.close()


@pytest.fixture
def alone(join: Join) -> Client:
    """The only member of the group, which owns both partitions."""
    client = join("a")
    until(owning({0, 1}, client), client)
    return client
