"""Properties of the clients: who gets which, and what librdkafka says to them."""

import logging
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Producer
from support.kafka.mock_cluster import make_mock_topics
from support.records import SETTINGS

from stream_apple.adapters.kafka.broker import KafkaBroker
from stream_apple.adapters.kafka.client_properties import (
    SNAPSHOT_MESSAGE_BYTES,
    Identity,
    Properties,
    checked_properties,
    producer_properties,
    property_faults,
    with_room,
)
from stream_apple.errors import ConfigurationError
from stream_apple.learners.apple.learner import as_apple
from stream_apple.learners.apple.options import Options
from stream_apple.learners.apple.state.table import SIDES
from stream_apple.records.message.decode import Decoder
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import Lineage
from stream_apple.stream.snapshots.codec import encode_snapshot

LARGEST = 1_048_700  # bytes of a message
OF_LARGE_SLOTS: list[dict[str, Any]] = [
    {},
    {"mixture": False, "selection": "ssm"},
    {"loss": "softmax", "classes": 3},
    {"loss": "softmax", "classes": 10, "method": "linear"},
    {"loss": "softmax", "classes": 1000, "bits": 8},
]


def test_properties_that_the_client_refuses() -> None:
    """What librdkafka says about it becomes a configuration error."""
    identity = Identity("g", "i", "t")
    with pytest.raises(ConfigurationError, match=r"no\.such\.property"):
        KafkaBroker({"bootstrap.servers": "localhost:1", "no.such.property": 1}, identity, "examples")


def test_a_property_that_takes_an_object() -> None:
    """The client stumbles over text in its place: that, too, is the configuration's fault."""
    properties: Properties = {"bootstrap.servers": "localhost:1", "default.topic.config": "x"}
    with pytest.raises(ConfigurationError, match="kafka: the client refuses the configuration: "):
        KafkaBroker(properties, Identity("g", "i", "t"), "examples")


class TestPropertiesTogether:
    """Each is good by itself, and the worker would end with them in the middle of its work."""

    @pytest.mark.parametrize(
        ("given", "fault"),
        [
            (
                {"linger.ms": 45_000},
                "linger.ms: expected less than 45000, the transaction.timeout.ms, found 45000",
            ),
            (
                {"queue.buffering.max.ms": "100", "delivery.timeout.ms": "50"},
                "queue.buffering.max.ms: expected less than 50, the delivery.timeout.ms, found 100",
            ),
            (
                {"linger.ms": 5000, "transaction.timeout.ms": "4000"},
                "linger.ms: expected less than 4000, the transaction.timeout.ms, found 5000",
            ),
            (
                {"transaction.timeout.ms": 500},
                (
                    "transaction.timeout.ms: expected more than 500, the worker.commit_interval, found 500: "
                    "the brokers would abort transactions before they are committed"
                ),
            ),
            (
                {"heartbeat.interval.ms": 6000, "session.timeout.ms": "6000"},
                (
                    "heartbeat.interval.ms: expected less than 6000, the session.timeout.ms, found 6000: "
                    "the group would lose this worker between two signs of life"
                ),
            ),
            (
                {"message.max.bytes": 1_000_000},
                (
                    "message.max.bytes: expected at least 1048700, for the largest message that the limits of records "
                    "allow, found 1000000"
                ),
            ),
            (
                {"queue.buffering.max.kbytes": 1000},
                (
                    "queue.buffering.max.kbytes: expected at least 1025, for the largest message that the limits of "
                    "records allow, found 1000"
                ),
            ),
        ],
    )
    def test_are_refused_before_a_client_is_made(self, given: Properties, fault: str) -> None:
        """With name, bound, whose bound, and value."""
        assert property_faults(given, 500, LARGEST) == [f"kafka.{fault}"]
        with pytest.raises(ConfigurationError) as caught:
            checked_properties(given, 500, LARGEST)
        assert str(caught.value) == f"kafka.{fault}"

    @pytest.mark.parametrize(
        "given",
        [
            {},
            {"linger.ms": 44_999},
            {"transaction.timeout.ms": 501, "linger.ms": 0},
            {"message.max.bytes": LARGEST, "queue.buffering.max.kbytes": 1025},
            {"linger.ms": "no number"},
        ],
    )
    def test_are_taken_up_to_the_bound(self, given: Properties) -> None:
        """What is no number at all, librdkafka refuses."""
        assert property_faults(given, 500, LARGEST) == []

    @pytest.mark.parametrize("chosen", OF_LARGE_SLOTS, ids=str)
    def test_no_message_of_a_snapshot_is_larger(self, chosen: dict[str, Any]) -> None:
        """A full block of base features that can't be compressed, and the manifest of a model whose sums are noise."""
        settings = SETTINGS._replace(options=Options(**{"bits": 14, **chosen}))
        model = PartitionModel("examples", 0, Lineage(0, "f" * 16), settings, Decoder(settings.limits))
        draw = np.random.default_rng(1)

        def fill(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> None:
            array.view(np.uint8)[:] = draw.integers(0, 256, array.nbytes, np.uint8)

        table = as_apple(model.learner).table
        sides = [side for name in SIDES if len(side := getattr(table, name))]
        beside = (table.tags, table.admission_filter, table.companions, *sides)
        for array in (
            table.slots,
            *beside,
            *as_apple(model.learner).sums.values(),
            *as_apple(model.learner).observed.values(),
        ):
            if array.flags.writeable:
                fill(array.reshape(-1))
        table.slots["degree"] = 1
        for part in (table.slots, table.companions, *sides):
            for numbers in [part[name] for name in part.dtype.names or ()] or [part]:
                if numbers.dtype.kind == "f":
                    numbers[:] = draw.uniform(-2.0, 2.0, numbers.shape)
        sizes = [len(message) for message in encode_snapshot(model).messages]
        assert SNAPSHOT_MESSAGE_BYTES // 3 < max(sizes) < SNAPSHOT_MESSAGE_BYTES - 10_000


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
    assert with_room(nobody, 1)["queue.buffering.max.kbytes"] == 32 << 10
    assert with_room({"queue.buffering.max.kbytes": 7}, largest) == {"queue.buffering.max.kbytes": 7}
