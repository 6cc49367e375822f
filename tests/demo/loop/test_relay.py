"""The relay between the worker and the embedded cluster: offsets of transactions are kept, and nothing else changes."""

import socket
import struct
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from support.waiting import DEADLINE_S, wait_until

from stream_apple.demo.loop.relay import OffsetsRelay, offset_commit
from stream_apple.errors import BrokerError

GROUP = "learners"


@pytest.fixture
def relay(mock_examples: str) -> Iterator[OffsetsRelay]:
    """A relay before a cluster with the topic `examples`."""
    with OffsetsRelay(mock_examples) as relay:
        yield relay


@pytest.fixture
def member(relay: OffsetsRelay) -> Iterator[Consumer]:
    """A member of the group, which has its partitions, by way of the relay."""
    consumer = Consumer(
        {"bootstrap.servers": relay.bootstrap, "group.id": GROUP, "enable.auto.commit": False, "log_level": 0}
    )
    consumer.subscribe(["examples"])
    wait_until(lambda: consumer.poll(0.1) or consumer.assignment(), "an assignment")
    yield consumer
    consumer.close()


def committed(bootstrap: str) -> dict[int, tuple[int, str | None]]:
    """Partition -> offset and metadata, of those that the group has committed."""
    onlooker = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0})
    asked = [TopicPartition("examples", number) for number in range(4)]
    found = onlooker.committed(asked, timeout=DEADLINE_S)
    onlooker.close()
    return {place.partition: (place.offset, place.metadata) for place in found if place.offset >= 0}


def test_offsets_are_there_when_the_transaction_is_committed(
    relay: OffsetsRelay, member: Consumer, mock_examples: str
) -> None:
    """With their metadata, for who asks the cluster itself; not before, and not those of an aborted transaction."""
    producer = Producer({"bootstrap.servers": relay.bootstrap, "transactional.id": "t", "log_level": 0})
    producer.init_transactions(DEADLINE_S)

    def send(offset: int) -> None:
        producer.begin_transaction()
        producer.produce("examples", b"sent by way of the relay", partition=2)
        places = [TopicPartition("examples", 0, offset, f"at {offset}"), TopicPartition("examples", 3, 1, "")]
        producer.send_offsets_to_transaction(places, member.consumer_group_metadata(), DEADLINE_S)
        assert producer.flush(DEADLINE_S) == 0

    send(3)
    assert committed(mock_examples) == {}
    producer.commit_transaction(DEADLINE_S)
    wait_until(lambda: committed(mock_examples) == {0: (3, "at 3"), 3: (1, "")}, "the offsets of the first")
    send(5)
    producer.abort_transaction(DEADLINE_S)
    send(7)
    assert committed(mock_examples)[0] == (3, "at 3")
    producer.commit_transaction(DEADLINE_S)
    wait_until(lambda: committed(mock_examples)[0] == (7, "at 7"), "the offsets of the last")
    relay.check()


def test_clients_do_not_go_around_it(relay: OffsetsRelay, mock_examples: str) -> None:
    """The broker's address, as they are told it, is that of the relay."""
    client = Producer({"bootstrap.servers": relay.bootstrap, "log_level": 0})
    (broker,) = client.list_topics(timeout=DEADLINE_S).brokers.values()
    assert f"{broker.host}:{broker.port}" == relay.bootstrap != mock_examples


def test_what_is_not_understood_is_told(relay: OffsetsRelay) -> None:
    """A version of the protocol that the relay does not know ends the connection, and the demo."""
    host, _, port = relay.bootstrap.partition(":")
    relay.check()
    with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as client:
        request = struct.pack(">hhih", 28, 9, 1, -1)
        client.sendall(struct.pack(">i", len(request)) + request)
        assert client.recv(1) == b""
    with pytest.raises(BrokerError, match="of request 28, found 9"):
        relay.check()


@pytest.mark.parametrize("body", [b"", b"\x00", b"\x00\x05ab", b"\x00\xff\xff\xff\xff\xff"])
def test_a_request_that_ends_too_early_is_an_error(body: bytes) -> None:
    """Not a commit of something else."""
    with pytest.raises((ValueError, IndexError, struct.error)):
        offset_commit(body)
