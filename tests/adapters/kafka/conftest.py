"""What the tests of the Kafka adapter share."""

from collections.abc import Iterator

import pytest
from support.kafka.own_topics import own_config
from support.waiting import DEADLINE_S

from stream_apple.adapters.kafka.admin import Cluster
from stream_apple.config import Config


@pytest.fixture
def config(kafka: str) -> Iterator[Config]:
    """A configuration of the shared broker; its topics are deleted afterwards."""
    config = own_config(kafka)
    yield config
    cluster = Cluster(config.kafka)
    made = [name for name in config.topics.names(merging=True) if name in cluster.topics]
    if made:
        for future in cluster.client.delete_topics(made).values():
            future.result(DEADLINE_S)
