"""Properties of the clients: who gets which, and what librdkafka says to them."""

import logging

import pytest
from confluent_kafka import Producer
from support.kafka.mock_cluster import make_mock_topics

from stream_apple.adapters.kafka.broker import KafkaBroker
from stream_apple.adapters.kafka.client_properties import Identity, Properties, producer_properties, with_room
from stream_apple.errors import ConfigurationError


def test_properties_that_the_client_refuses() -> None:
    """What librdkafka says about it becomes a configuration error."""
    identity = Identity("g", "i", "t")
    with pytest.raises(ConfigurationError, match=r"no\.such\.property"):
        KafkaBroker({"bootstrap.servers": "localhost:1", "no.such.property": 1}, identity, "examples")


def test_both_clients_take_their_properties_without_a_warning(
    mock_cluster: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A consumer's property does not reach the producer, nor the other way round."""
    properties: Properties = {
        "bootstrap.servers": mock_cluster,
        "fetch.min.bytes": 1,
        "linger.ms": 5,
        "max.poll.interval.ms": 400_000,
        "compression.type": "zstd",
    }
    make_mock_topics(mock_cluster, "examples")
    with caplog.at_level(logging.DEBUG, "librdkafka"):
        broker = KafkaBroker(properties, Identity("g", "i", "t"), "examples")
        broker.partition_count("examples")
        broker.fetch(1, 0.0)
        broker.close()
    assert not [line for line in caplog.messages if "CONFWARN" in line or "ignored" in line]


def test_the_queue_holds_the_largest_message() -> None:
    """Where the limits of records allow more than the default holds; what a user sets stays, and `check` judges it."""
    largest, identity = 70 << 20, Identity("g", "i", "t")
    nobody: Properties = {"bootstrap.servers": "localhost:1", "log_level": 0}
    for properties, fits in ((nobody, False), (with_room(nobody, largest), True)):
        given = producer_properties(properties, identity)
        del given["transactional.id"]
        producer = Producer(given)
        try:
            producer.produce("examples", bytes(largest))
        except BufferError:
            assert not fits
        else:
            assert fits
        producer.purge()
    assert with_room(nobody, 1)["queue.buffering.max.kbytes"] == 64 << 10
    assert with_room({"queue.buffering.max.kbytes": 7}, largest) == {"queue.buffering.max.kbytes": 7}
