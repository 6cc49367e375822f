"""Examples -> a topic: order, keys, partitions, timestamps, pace, and every way in which it can fail."""

import time
from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import msgpack
import pytest
from confluent_kafka import Message, Producer
from support.clock import Clock
from support.kafka.fatal_error import make_fatal
from support.kafka.mock_cluster import MockCluster, make_mock_topics
from support.topics import TopicFactory, read_to_end
from support.waiting import DEADLINE_S, wait_until

from stream_apple.adapters.kafka.example_producer import RateLimiter, TopicWriter
from stream_apple.adapters.kafka.partitioner import partition_of
from stream_apple.errors import BrokerError, ConfigurationError, InputFileError
from stream_apple.records.message.example import Example, encode_example

START_MS = 1_700_000_000_000
AT_ONCE = RateLimiter(None)


def make_topic(bootstrap: str, name: str) -> str:
    """A topic of four partitions on the in-process cluster."""
    make_mock_topics(bootstrap, name)
    return name


def read_topic(bootstrap: str, topic: str, count: int, partitions: int = 4) -> list[list[Message]]:
    """The `count` messages that the topic holds, for each partition in order."""
    found = list(read_to_end(bootstrap, topic, partitions).values())
    assert sum(map(len, found)) == count
    return found


def examples(count: int) -> list[Example]:
    """Examples that differ, with ids of every kind and without, a millisecond apart."""
    ids: list[str | int | bytes | None] = [None, "name", 7, b"\x00\xff", ""]
    return [Example(float(n), 1.0, ids[n % 5], {f"f{n}": 2.0}, START_MS + n) for n in range(count)]


def test_everything_arrives_where_and_when_it_should(mock_cluster: str) -> None:
    """Value, key, partition and timestamp of every message are as specified, in the order of the examples."""
    topic = make_topic(mock_cluster, "examples")
    sent = examples(1000)
    totals = TopicWriter({"bootstrap.servers": mock_cluster}, topic).write(sent, AT_ONCE)
    expected: list[list[tuple[object, ...]]] = [[], [], [], []]
    for number, example in enumerate(sent):
        key = (
            example.id if isinstance(example.id, bytes) else str(number if example.id is None else example.id).encode()
        )
        expected[partition_of(key, 4)].append((encode_example(example), key, START_MS + number))
    found = read_topic(mock_cluster, topic, 1000)
    assert [
        [(message.value(), message.key(), message.timestamp()[1]) for message in messages] for messages in found
    ] == expected
    assert all(map(len, found))
    assert (totals.sent, totals.delivered) == (1000, 1000)
    assert totals.bytes == sum(len(encode_example(example)) for example in sent)


def test_one_partition_keeps_the_order_of_the_file(mock_cluster: str) -> None:
    """Restricted to the first partition, the topic's order is the order of the examples."""
    topic = make_topic(mock_cluster, "examples")
    TopicWriter({"bootstrap.servers": mock_cluster}, topic, 1).write(examples(500), AT_ONCE)
    first = read_topic(mock_cluster, topic, 500)[0]
    assert [msgpack.unpackb(message.value() or b"")["label"] for message in first] == list(range(500))


def test_fewer_partitions_are_the_first_ones(mock_cluster: str) -> None:
    """`partitions` is the number over which the rule spreads."""
    topic = make_topic(mock_cluster, "examples")
    sent = [Example(None, 1.0, str(number), {"a": 1.0}) for number in range(300)]
    TopicWriter({"bootstrap.servers": mock_cluster}, topic, 3).write(sent, AT_ONCE)
    found = read_topic(mock_cluster, topic, 300)
    for number, messages in enumerate(found):
        assert all(partition_of(message.key() or b"", 3) == number for message in messages)
    assert [bool(messages) for messages in found] == [True, True, True, False]


def test_an_example_without_a_time_has_that_of_its_sending(mock_cluster: str) -> None:
    """A timestamp is sent as it is, and none is not the first millisecond of 1970."""
    topic = make_topic(mock_cluster, "examples")
    sent = [Example(1.0, 1.0, None, {"a": 1.0}, moment) for moment in (5, 1_500_000_000_000, 1, None)]
    before = int(time.time() * 1000)
    TopicWriter({"bootstrap.servers": mock_cluster}, topic, 1).write(sent, AT_ONCE)
    *given, now = (message.timestamp()[1] for message in read_topic(mock_cluster, topic, 4)[0])
    assert given == [5, 1_500_000_000_000, 1]
    assert before <= now <= int(time.time() * 1000)


def test_a_full_queue_is_waited_for(mock_cluster: str) -> None:
    """A queue smaller than the file loses nothing."""
    topic = make_topic(mock_cluster, "examples")
    properties: dict[str, str | int] = {"bootstrap.servers": mock_cluster, "queue.buffering.max.messages": 10}
    totals = TopicWriter(properties, topic).write(examples(400), AT_ONCE)
    assert totals.delivered == sum(map(len, read_topic(mock_cluster, topic, 400))) == 400


def test_a_stop_ends_after_what_was_sent(mock_cluster: str) -> None:
    """What was sent before the stop is delivered, nothing after it is sent."""
    topic = make_topic(mock_cluster, "examples")
    writer = TopicWriter({"bootstrap.servers": mock_cluster}, topic)
    totals = writer.write(examples(100), AT_ONCE, stop=lambda: writer.totals.sent == 30)
    assert totals.delivered == sum(map(len, read_topic(mock_cluster, topic, 30))) == 30


def test_a_stop_ends_the_wait_for_the_pace(mock_cluster: str) -> None:
    """At one example in a thousand seconds, a stop is noticed while the second one is waited for."""
    topic = make_topic(mock_cluster, "examples")
    writer = TopicWriter({"bootstrap.servers": mock_cluster}, topic)
    totals = writer.write(examples(2), RateLimiter(Fraction(1, 1000)), stop=lambda: writer.totals.delivered == 1)
    assert (totals.sent, totals.delivered) == (1, 1)


def test_the_pace_is_kept(mock_cluster: str) -> None:
    """Twenty examples at 100 a second take at least 190 ms."""
    topic = make_topic(mock_cluster, "examples")
    writer = TopicWriter({"bootstrap.servers": mock_cluster}, topic)
    started = time.monotonic()
    writer.write(examples(20), RateLimiter(Fraction(100)))
    assert time.monotonic() - started >= 0.19


def test_an_unreadable_line_comes_after_what_was_read(mock_cluster: str) -> None:
    """The error of the file says how many examples before it were delivered."""

    def broken() -> Iterator[Example]:
        yield from examples(12)
        raise InputFileError("file:13: expected a number, found x")

    topic = make_topic(mock_cluster, "examples")
    message = "file:13: expected a number, found x; 12 examples before it were delivered"
    with pytest.raises(InputFileError, match=message):
        TopicWriter({"bootstrap.servers": mock_cluster}, topic).write(broken(), AT_ONCE)
    read_topic(mock_cluster, topic, 12)


def test_an_example_beyond_the_limit_is_named(mock_cluster: str) -> None:
    """The client refuses a message that is too large; the error says which one and what was delivered."""
    topic = make_topic(mock_cluster, "examples")
    large = Example(1.0, 1.0, None, {f"feature-{number}": 1.0 for number in range(1000)})
    writer = TopicWriter({"bootstrap.servers": mock_cluster, "message.max.bytes": 5000}, topic)
    with pytest.raises(
        InputFileError, match=r"example 4 \(\d+ bytes\) was refused: [^;]*; 3 examples before it were delivered$"
    ) as caught:
        writer.write([*examples(3), large], AT_ONCE)
    assert caught.value.exit_code == 65
    read_topic(mock_cluster, topic, 3)


def test_an_example_that_no_queue_holds_is_named(mock_cluster: str) -> None:
    """It would be waited for without end."""
    topic = make_topic(mock_cluster, "examples")
    large = Example(1.0, 1.0, None, {f"feature-{number}": 1.0 for number in range(1000)})
    writer = TopicWriter({"bootstrap.servers": mock_cluster, "queue.buffering.max.kbytes": 5}, topic)
    with pytest.raises(
        InputFileError,
        match=r"was refused: queue.buffering.max.kbytes is smaller; 3 examples before it were delivered$",
    ):
        writer.write([*examples(3), large], AT_ONCE)
    read_topic(mock_cluster, topic, 3)


def test_an_example_beyond_the_topic_s_limit_is_the_data_s_fault(kafka: str, topic: TopicFactory) -> None:
    """The broker refuses what the client would send: the message says whose limit it is."""
    examples = topic("examples", config={"max.message.bytes": "2000"})
    large = Example(1.0, 1.0, None, {f"feature-{number}": float(number) for number in range(1000)})
    with pytest.raises(InputFileError, match=r"MSG_SIZE_TOO_LARGE.* 0 delivered of 1 sent; the limit is the topic's"):
        TopicWriter({"bootstrap.servers": kafka, "compression.type": "none"}, examples).write([large], AT_ONCE)


def make_ready(writer: TopicWriter) -> None:
    """Have a message delivered that the writer does not count.

    An idempotent producer asks for its number in steps of half a second, and on a busy machine needs several:
    messages with a short timeout would not survive that.
    """
    delivered: list[bool] = []

    def try_again() -> None:
        writer._producer.produce(
            writer.topic, b"", partition=0, on_delivery=lambda error, _: delivered.append(error is None)
        )
        writer._producer.flush(DEADLINE_S)

    wait_until(lambda: any(delivered), "a delivery", DEADLINE_S, meanwhile=try_again)


def test_a_lost_broker_ends_the_run_with_the_count() -> None:
    """When delivery fails, the error says how many examples were acknowledged before."""
    cluster = MockCluster()
    topic = make_topic(cluster.bootstrap, "examples")
    writer = TopicWriter({"bootstrap.servers": cluster.bootstrap, "message.timeout.ms": 3000}, topic)
    make_ready(writer)

    def losing() -> Iterator[Example]:
        yield from examples(25)
        poll = partial(writer._producer.poll, 0.05)
        wait_until(lambda: writer.totals.delivered >= 25, "25 deliveries", DEADLINE_S, meanwhile=poll)
        cluster.stop()
        while True:
            yield from examples(10)

    with pytest.raises(BrokerError, match=r"examples: expected every .* after 25 delivered of \d+ sent"):
        writer.write(losing(), RateLimiter(Fraction(1000)))
    assert writer.totals.sent > 25


def test_a_missing_topic_is_reported_and_not_made(mock_cluster: str) -> None:
    """A mistyped name must not become a topic."""
    with pytest.raises(ConfigurationError, match=r"topic exmaples: expected it on .*, found no such topic"):
        TopicWriter({"bootstrap.servers": mock_cluster}, "exmaples")
    client = Producer({"bootstrap.servers": mock_cluster, "log_level": 0})
    assert "exmaples" not in client.list_topics(timeout=DEADLINE_S).topics
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


@pytest.mark.parametrize("at", [0, 500])
def test_a_fatal_error_ends_the_run(mock_cluster: str, at: int) -> None:
    """Whichever call of the client reports it, first or last, alone or with the messages that failed by it."""
    writer = TopicWriter({"bootstrap.servers": mock_cluster, "linger.ms": 1000}, make_topic(mock_cluster, "examples"))

    def until_fatal() -> Iterator[Example]:
        for number, example in enumerate(examples(501)):
            if number == at:
                make_fatal(writer._producer)
            yield example

    with pytest.raises(
        BrokerError, match=r"expected every example to be delivered, found .*\(INVALID_PRODUCER_EPOCH\)"
    ):
        writer.write(until_fatal(), AT_ONCE)


def test_the_pace_makes_up_for_small_delays_only() -> None:
    """Due times are a period apart, whatever the caller's delay; after a long stall one second is made up for."""
    clock = Clock(100.0)
    pace = RateLimiter(Fraction(4), clock)
    due = []
    for now in (100.0, 100.1, 100.7, 100.8, 160.0, 160.0, 160.0):
        clock.now = now
        pace.next()
        due.append(now + pace.wait_s)
    assert due == pytest.approx([100.0, 100.25, 100.5, 100.75, 159.0, 159.25, 159.5])
    assert RateLimiter(None, clock).wait_s == 0


def test_a_real_broker_holds_the_same(kafka: str, topic: TopicFactory) -> None:
    """Keys, partitions, timestamps and order on a real broker with three partitions."""
    # Retention goes by the messages' timestamps, and these are old.
    name = topic("examples", partitions=3, config={"retention.ms": "-1"})
    sent = examples(2000)
    totals = TopicWriter({"bootstrap.servers": kafka}, name).write(sent, AT_ONCE)
    found = read_topic(kafka, name, 2000, partitions=3)
    assert totals.delivered == 2000
    for number, messages in enumerate(found):
        assert all(partition_of(message.key() or b"", 3) == number for message in messages)
        labels = [int(msgpack.unpackb(message.value() or b"")["label"]) for message in messages]
        assert labels == sorted(labels)
        assert [message.timestamp()[1] for message in messages] == [START_MS + label for label in labels]


DAY_MS = 86_400_000
HOUR_AHEAD = {"message.timestamp.after.max.ms": "3600000"}  # the default of Kafka 4; that of Kafka 3 is no limit


@pytest.mark.parametrize(
    ("config", "taken", "refused"),
    [
        (
            {"message.timestamp.before.max.ms": str(DAY_MS), **HOUR_AHEAD},
            [(-0.9, 0.04)],
            [(-1.1, 0), (0, 0.05), (-9, 9)],
        ),
        ({"message.timestamp.after.max.ms": str(DAY_MS), "retention.ms": str(2 * DAY_MS)}, [(-1.9, 0.9)], [(-2.1, 0)]),
        ({"message.timestamp.after.max.ms": str(1 << 62), "retention.ms": "-1"}, [(-9999, 9999)], []),
        ({"message.timestamp.type": "LogAppendTime"}, [(-9999, 9999)], []),
        ({"cleanup.policy": "compact", "retention.ms": "1000", **HOUR_AHEAD}, [(-9999, 0)], [(0, 1)]),
    ],
)
def test_which_times_a_topic_takes_is_known_beforehand(
    kafka: str,
    topic: TopicFactory,
    config: dict[str, str],
    taken: list[tuple[float, float]],
    refused: list[tuple[float, float]],
) -> None:
    """What its brokers would refuse, and what its retention would delete; by days from now."""
    writer = TopicWriter({"bootstrap.servers": kafka}, topic("examples", config=config))
    now = time.time_ns() // 1_000_000
    for first, last in taken:
        writer.check_times(now + round(first * DAY_MS), now + round(last * DAY_MS))
    for first, last in refused:
        with pytest.raises(ConfigurationError, match=r"expected times from .* to .*, found 20.*; nothing was sent"):
            writer.check_times(now + round(first * DAY_MS), now + round(last * DAY_MS))


@pytest.mark.parametrize("count", [1, 5])
def test_a_time_that_the_topic_refuses_is_explained(kafka: str, topic: TopicFactory, count: int) -> None:
    """The error names the broker's reason and what such examples need."""
    name = topic("examples", config={"message.timestamp.before.max.ms": "86400000"})
    with pytest.raises(BrokerError, match=r"INVALID_.* after 0 delivered of .*topics --retention forever"):
        TopicWriter({"bootstrap.servers": kafka}, name).write(examples(count), AT_ONCE)
