"""Examples -> a topic: order, keys, partitions, timestamps, pace, and every way in which it can fail."""

import time
from collections.abc import Callable, Iterator
from fractions import Fraction

import msgpack
import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from stream_apple.adapters.partitioner import murmur2, partition_of
from stream_apple.adapters.producing import EvenlySpaced, Pace, TopicWriter
from stream_apple.core.examples import Example, encode_example
from stream_apple.errors import BrokerError, ConfigurationError, InputFileError

NOW = EvenlySpaced(1_700_000_000_000, Fraction(1))
AT_ONCE = Pace(None)
SECONDS = 30  # in which everything that is waited for must have happened


def make_topic(bootstrap: str, name: str) -> str:
    """A topic of four partitions on the in-process cluster, which makes topics when it is asked about them."""
    client = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    deadline = time.monotonic() + SECONDS
    while client.list_topics(name, timeout=SECONDS).topics[name].error is not None:
        assert time.monotonic() < deadline, "the topic was not made"
    client.close()
    return name


def read_topic(bootstrap: str, topic: str, count: int, partitions: int = 4) -> list[list[Message]]:
    """The `count` messages that the topic holds, for each partition in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "test",
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 10,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found: list[list[Message]] = [[] for _ in range(partitions)]
    deadline = time.monotonic() + SECONDS
    while sum(map(len, found)) < count:
        assert time.monotonic() < deadline, f"expected {count} messages, found {sum(map(len, found))}"
        for message in consumer.consume(1000, 0.05):
            assert message.error() is None, message.error()
            found[message.partition() or 0].append(message)
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, number))[1] for number in range(partitions)]
    consumer.close()
    assert ends == [len(messages) for messages in found]
    return found


def examples(count: int) -> list[Example]:
    """Examples that differ, with ids of every kind and without."""
    ids: list[str | int | bytes | None] = [None, "name", 7, b"\x00\xff", ""]
    return [Example(float(n), 1.0, ids[n % 5], {f"f{n}": 2.0}) for n in range(count)]


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
    topic = make_topic(mock_cluster, "keys")
    keys = [bytes([n * 37 % 256, n * 101 % 256]) * (n % 9) + bytes(n % 2) for n in range(300)]
    chosen: dict[bytes, int | None] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None
        chosen[message.key() or b""] = message.partition()

    client = Producer({"bootstrap.servers": mock_cluster, "partitioner": "murmur2_random", "log_level": 0})
    for key in filter(None, keys):
        client.produce(topic, b"", key, on_delivery=delivered)
    assert client.flush(SECONDS) == 0
    assert chosen == {key: partition_of(key, 4) for key in chosen}
    assert set(chosen.values()) == {0, 1, 2, 3}
    client.close()


def test_everything_arrives_where_and_when_it_should(mock_cluster: str) -> None:
    """Value, key, partition and timestamp of every message are as specified, in the order of the examples."""
    topic = make_topic(mock_cluster, "examples")
    sent = examples(1000)
    totals = TopicWriter({"bootstrap.servers": mock_cluster}, topic).write(
        sent, EvenlySpaced(1_600_000_000_000, Fraction(1000, 3)), AT_ONCE
    )
    expected: list[list[tuple[object, ...]]] = [[], [], [], []]
    for number, example in enumerate(sent):
        key = (
            example.id if isinstance(example.id, bytes) else str(number if example.id is None else example.id).encode()
        )
        moment = 1_600_000_000_000 + number * 1000 // 3
        expected[partition_of(key, 4)].append((encode_example(example), key, moment))
    found = read_topic(mock_cluster, topic, 1000)
    assert [
        [(message.value(), message.key(), message.timestamp()[1]) for message in messages] for messages in found
    ] == expected
    assert all(map(len, found))
    assert (totals.sent, totals.delivered, totals.without_features) == (1000, 1000, 0)
    assert totals.bytes == sum(len(encode_example(example)) for example in sent)


def test_one_partition_keeps_the_order_of_the_file(mock_cluster: str) -> None:
    """Restricted to the first partition, the topic's order is the order of the examples."""
    topic = make_topic(mock_cluster, "examples")
    TopicWriter({"bootstrap.servers": mock_cluster}, topic, 1).write(examples(500), NOW, AT_ONCE)
    first = read_topic(mock_cluster, topic, 500)[0]
    assert [msgpack.unpackb(message.value() or b"")["label"] for message in first] == list(range(500))


def test_fewer_partitions_are_the_first_ones(mock_cluster: str) -> None:
    """`partitions` is the number over which the rule spreads."""
    topic = make_topic(mock_cluster, "examples")
    sent = [Example(None, 1.0, str(number), {"a": 1.0}) for number in range(300)]
    TopicWriter({"bootstrap.servers": mock_cluster}, topic, 3).write(sent, NOW, AT_ONCE)
    found = read_topic(mock_cluster, topic, 300)
    for number, messages in enumerate(found):
        assert all(partition_of(message.key() or b"", 3) == number for message in messages)
    assert [bool(messages) for messages in found] == [True, True, True, False]


def test_the_time_of_an_example_goes_before_the_even_spacing(mock_cluster: str) -> None:
    """A timestamp from the file is sent as it is."""
    topic = make_topic(mock_cluster, "examples")
    sent = [Example(1.0, 1.0, None, {"a": 1.0}, moment) for moment in (5, 1_500_000_000_000, 1)]
    TopicWriter({"bootstrap.servers": mock_cluster}, topic, 1).write(sent, NOW, AT_ONCE)
    assert [message.timestamp()[1] for message in read_topic(mock_cluster, topic, 3)[0]] == [5, 1_500_000_000_000, 1]


@pytest.mark.parametrize("features", [{}, {"a": 0.0}, {"n": {}}, {"n": {"a": 0.0}, "m": {}}])
def test_examples_without_features_are_sent_and_counted(
    features: dict[str, float] | dict[str, dict[str, float]], mock_cluster: str
) -> None:
    """They are the dead letters that the stream makes of them; zeros count as none, as they do there."""
    topic = make_topic(mock_cluster, "examples")
    sent = [Example(1.0, 1.0, None, features), Example(1.0, 1.0, None, {"n": {"a": 0.0, "b": 1.0}})]
    totals = TopicWriter({"bootstrap.servers": mock_cluster}, topic).write(sent, NOW, AT_ONCE)
    assert (totals.delivered, totals.without_features) == (2, 1)


def test_a_full_queue_is_waited_for(mock_cluster: str) -> None:
    """A queue smaller than the file loses nothing."""
    topic = make_topic(mock_cluster, "examples")
    properties: dict[str, str | int] = {"bootstrap.servers": mock_cluster, "queue.buffering.max.messages": 10}
    totals = TopicWriter(properties, topic).write(examples(400), NOW, AT_ONCE)
    assert totals.delivered == sum(map(len, read_topic(mock_cluster, topic, 400))) == 400


def test_a_stop_ends_after_what_was_sent(mock_cluster: str) -> None:
    """What was sent before the stop is delivered, nothing after it is sent."""
    topic = make_topic(mock_cluster, "examples")
    writer = TopicWriter({"bootstrap.servers": mock_cluster}, topic)
    totals = writer.write(examples(100), NOW, AT_ONCE, stop=lambda: writer.totals.sent == 30)
    assert totals.delivered == sum(map(len, read_topic(mock_cluster, topic, 30))) == 30


def test_a_stop_ends_the_wait_for_the_pace(mock_cluster: str) -> None:
    """At one example in a thousand seconds, a stop is noticed while the second one is waited for."""
    topic = make_topic(mock_cluster, "examples")
    writer = TopicWriter({"bootstrap.servers": mock_cluster}, topic)
    totals = writer.write(examples(2), NOW, Pace(Fraction(1, 1000)), stop=lambda: writer.totals.delivered == 1)
    assert (totals.sent, totals.delivered) == (1, 1)


def test_the_pace_is_kept(mock_cluster: str) -> None:
    """Twenty examples at 100 a second take at least 190 ms."""
    topic = make_topic(mock_cluster, "examples")
    writer = TopicWriter({"bootstrap.servers": mock_cluster}, topic)
    started = time.monotonic()
    writer.write(examples(20), NOW, Pace(Fraction(100)))
    assert time.monotonic() - started >= 0.19


def test_an_unreadable_line_comes_after_what_was_read(mock_cluster: str) -> None:
    """The error of the file says how many examples before it were delivered."""

    def broken() -> Iterator[Example]:
        yield from examples(12)
        raise InputFileError("file:13: expected a number, found x")

    topic = make_topic(mock_cluster, "examples")
    message = "file:13: expected a number, found x; 12 examples before it were delivered"
    with pytest.raises(InputFileError, match=message):
        TopicWriter({"bootstrap.servers": mock_cluster}, topic).write(broken(), NOW, AT_ONCE)
    read_topic(mock_cluster, topic, 12)


def test_an_example_beyond_the_limit_is_named(mock_cluster: str) -> None:
    """The client refuses a message that is too large; the error says which one and what was delivered."""
    topic = make_topic(mock_cluster, "examples")
    large = Example(1.0, 1.0, None, {f"feature-{number}": 1.0 for number in range(1000)})
    writer = TopicWriter({"bootstrap.servers": mock_cluster, "message.max.bytes": 5000}, topic)
    with pytest.raises(BrokerError, match=r"example 4 \(\d+ bytes\) was refused: .*; 3 examples before it were deliv"):
        writer.write([*examples(3), large], NOW, AT_ONCE)
    read_topic(mock_cluster, topic, 3)


def make_ready(writer: TopicWriter) -> None:
    """Have a message delivered that the writer does not count.

    An idempotent producer asks for its number in steps of half a second, and on a busy machine needs several:
    messages with a short timeout would not survive that.
    """
    delivered: list[bool] = []
    deadline = time.monotonic() + SECONDS
    while not any(delivered):
        assert time.monotonic() < deadline
        writer._producer.produce(
            writer.topic, b"", partition=0, on_delivery=lambda error, _: delivered.append(error is None)
        )
        writer._producer.flush(SECONDS)


def test_a_lost_broker_ends_the_run_with_the_count() -> None:
    """When delivery fails, the error says how many examples were acknowledged before."""
    host = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    broker = host.list_topics(timeout=SECONDS).brokers[1]
    bootstrap = f"{broker.host}:{broker.port}"
    topic = make_topic(bootstrap, "examples")
    writer = TopicWriter({"bootstrap.servers": bootstrap, "message.timeout.ms": 3000}, topic)
    make_ready(writer)

    def losing() -> Iterator[Example]:
        yield from examples(25)
        deadline = time.monotonic() + SECONDS
        while writer.totals.delivered < 25:
            assert time.monotonic() < deadline
            writer._producer.poll(0.05)
        host.close()
        while True:
            yield from examples(10)

    with pytest.raises(BrokerError, match=r"examples: expected every .* after 25 delivered of \d+ sent"):
        writer.write(losing(), NOW, Pace(Fraction(1000)))
    assert writer.totals.sent > 25


def test_a_missing_topic_is_reported_and_not_made(mock_cluster: str) -> None:
    """A mistyped name must not become a topic."""
    with pytest.raises(ConfigurationError, match=r"topic exmaples: expected it on .*, found no such topic"):
        TopicWriter({"bootstrap.servers": mock_cluster}, "exmaples")
    client = Producer({"bootstrap.servers": mock_cluster, "log_level": 0})
    assert "exmaples" not in client.list_topics(timeout=SECONDS).topics
    client.close()


def test_more_partitions_than_there_are_is_an_error(mock_cluster: str) -> None:
    """The topic's own number is the limit."""
    topic = make_topic(mock_cluster, "examples")
    with pytest.raises(ConfigurationError, match="topic examples: expected at least 5 partitions, found 4"):
        TopicWriter({"bootstrap.servers": mock_cluster}, topic, 5)


def test_a_property_that_the_client_does_not_know_is_an_error(mock_cluster: str) -> None:
    """The client's own words say which."""
    with pytest.raises(ConfigurationError, match="bogus"):
        TopicWriter({"bootstrap.servers": mock_cluster, "bogus.property": 1}, "examples")


@given(st.integers(0, 2**41), st.fractions(0, 10**6, max_denominator=10**6), st.integers(0, 10**9))
def test_even_spacing_is_exact(start: int, interval: Fraction, number: int) -> None:
    """No error adds up: each timestamp is the floor of the exact one."""
    exact = start + number * interval
    assert EvenlySpaced(start, interval).at(number) <= exact < EvenlySpaced(start, interval).at(number) + 1


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_pace_makes_up_for_small_delays_only() -> None:
    """Due times are a period apart, whatever the caller's delay; after a long stall one second is made up for."""
    clock = _Clock()
    pace = Pace(Fraction(4), clock)
    due = []
    for now in (100.0, 100.1, 100.7, 100.8, 160.0, 160.0, 160.0):
        clock.now = now
        due.append(pace.due())
    assert due == [100.0, 100.25, 100.5, 100.75, 159.0, 159.25, 159.5]
    assert Pace(None, clock).due() is None


def test_a_real_broker_holds_the_same(kafka: str, topic: Callable[..., str]) -> None:
    """Keys, partitions, timestamps and order on a real broker with three partitions."""
    # Retention goes by the messages' timestamps, and these are old.
    name = topic("examples", partitions=3, config={"retention.ms": "-1"})
    sent = examples(2000)
    totals = TopicWriter({"bootstrap.servers": kafka}, name).write(sent, NOW, AT_ONCE)
    found = read_topic(kafka, name, 2000, partitions=3)
    assert totals.delivered == 2000
    for number, messages in enumerate(found):
        assert all(partition_of(message.key() or b"", 3) == number for message in messages)
        labels = [int(msgpack.unpackb(message.value() or b"")["label"]) for message in messages]
        assert labels == sorted(labels)
        assert [message.timestamp()[1] for message in messages] == [NOW.at(label) for label in labels]


@pytest.mark.parametrize("count", [1, 5])
def test_a_time_that_the_topic_refuses_is_explained(kafka: str, topic: Callable[..., str], count: int) -> None:
    """The error names the broker's reason and what such examples need."""
    name = topic("examples", config={"message.timestamp.before.max.ms": "86400000"})
    with pytest.raises(BrokerError, match=r"INVALID_.* after 0 delivered of .*topics --retention forever"):
        TopicWriter({"bootstrap.servers": kafka}, name).write(examples(count), NOW, AT_ONCE)
