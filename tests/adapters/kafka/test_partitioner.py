"""Which partition a key belongs to, held against Kafka's own vectors and against librdkafka."""

import pytest
from confluent_kafka import KafkaError, Message, Producer
from support.kafka.mock_cluster import make_mock_topics
from support.waiting import DEADLINE_S

from stream_apple.adapters.kafka.partitioner import murmur2, partition_of

VECTORS = {
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "abc": 479470107,
}


@pytest.mark.parametrize("key", VECTORS)
def test_the_hash_is_that_of_kafka(key: str) -> None:
    """The vectors are those of Kafka's own unit tests (signed, as in Java)."""
    assert murmur2(key.encode()) == VECTORS[key] % (1 << 32)


def test_the_partition_is_the_one_that_librdkafka_takes(mock_cluster: str) -> None:
    """For keys of every length, the rule agrees with the client's `murmur2_random` partitioner."""
    make_mock_topics(mock_cluster, "keys")
    keys = [bytes([n * 37 % 256, n * 101 % 256]) * (n % 9) + bytes(n % 2) for n in range(300)]
    chosen: dict[bytes, int | None] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None
        chosen[message.key() or b""] = message.partition()

    client = Producer({"bootstrap.servers": mock_cluster, "partitioner": "murmur2_random", "log_level": 0})
    for key in filter(None, keys):
        client.produce("keys", b"", key, on_delivery=delivered)
    assert client.flush(DEADLINE_S) == 0
    assert chosen == {key: partition_of(key, 4) for key in chosen}
    assert set(chosen.values()) == {0, 1, 2, 3}
    client.close()
