"""KafkaBroker, where it does more than the port promises: early fencing, large transactions, words for the operator."""

import random
import re
import time
import uuid
from functools import partial

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from support.assignment import Recorder
from support.kafka.connections import connect, fetch_some, fill
from support.topics import FOREVER, TopicFactory, read_all
from support.waiting import DEADLINE_S, wait_until

from stream_apple.adapters.kafka.broker import KafkaBroker
from stream_apple.adapters.kafka.client_properties import Identity, Properties, producer_properties
from stream_apple.adapters.kafka.connectivity import Connectivity
from stream_apple.adapters.kafka.errors import RefusedTimeoutError
from stream_apple.adapters.kafka.herald import _answer, prepare_to_fence, wait_for_connection
from stream_apple.errors import BrokerError, ConfigurationError
from stream_apple.stream.log.ports import AbortableError, Committed


def begun(kafka: str, topic: TopicFactory, config: dict[str, str]) -> tuple[KafkaBroker, str]:
    """A worker's clients with a transaction begun, and the name of an output topic that has this configuration."""
    broker = connect(kafka, topic("examples", config=FOREVER))
    broker.join(Recorder({0: 0}))
    broker.begin()
    return broker, topic("outputs", config=config)


class TestTransactions:
    """What fences, what fails, and how much one transaction holds."""

    def test_a_worker_may_begin_to_fence_early(self, kafka: str, topic: TopicFactory) -> None:
        """From `start_fencing` on the predecessor commits nothing; the join then finds the work done."""
        examples, outputs = topic("examples", config=FOREVER), topic("outputs")
        fill(kafka, examples, 5)
        first, second = connect(kafka, examples), connect(kafka, examples)
        first.join(Recorder({0: 0}))
        fetch_some(first)
        first.begin()
        first.send(outputs, 0, None, b"of the first", 0)
        first.flush()
        second.start_fencing()
        fencing = second._producer._epoch.fencing
        assert fencing is not None
        fencing.result(DEADLINE_S)
        with pytest.raises(BrokerError):
            first.commit({0: Committed(1, "")})
        second.join(Recorder({0: 0}))
        fetch_some(second)
        second.begin()
        second.send(outputs, 0, None, b"of the second", 0)
        second.commit({0: Committed(1, "")})
        first.close()
        second.close()
        assert [message.value() for message in read_all(kafka, outputs)] == [b"of the second"]

    @pytest.mark.long
    @pytest.mark.parametrize("sends", [False, True])
    def test_a_transaction_that_was_open_for_too_long(self, kafka: str, topic: TopicFactory, *, sends: bool) -> None:
        """Brokers abort it, which they look for every ten seconds, and fence its producer; the worker starts over."""
        examples, outputs = topic("examples", config=FOREVER), topic("outputs", config=FOREVER)
        properties: Properties = {"bootstrap.servers": kafka, "transaction.timeout.ms": 2_000}
        broker = KafkaBroker(properties, Identity("group", "worker", f"id-{uuid.uuid4()}"), examples)
        broker.join(Recorder({0: 0}))
        fill(kafka, examples, 5)
        fetch_some(broker)
        broker.begin()
        broker.send(outputs, 0, None, b"aborted", 0)
        broker.flush()
        time.sleep(13.0)
        end = broker.flush if sends else partial(broker.commit, {0: Committed(1, "")})
        if sends:
            broker.send(outputs, 0, None, b"aborted", 0)
        with pytest.raises(AbortableError, match=r"longer than transaction\.timeout\.ms: .*_FENCED"):
            end()
        broker.abort()
        assert broker.decided([0]) == {0: None}
        broker.begin()
        broker.send(outputs, 0, None, b"committed", 0)
        broker.commit({0: Committed(1, "")})
        broker.close()
        assert [message.value() for message in read_all(kafka, outputs)] == [b"committed"]

    def test_what_a_dead_predecessor_left_open_costs_no_wait(self, kafka: str, topic: TopicFactory) -> None:
        """Heralds have it aborted: a producer that comes after them is told so at its first call."""
        examples, outputs = topic("examples", config=FOREVER), topic("outputs")
        identity, properties = Identity("group", "worker", f"id-{uuid.uuid4()}"), {"bootstrap.servers": kafka}
        dead = Producer(producer_properties(properties, identity))
        dead.init_transactions(DEADLINE_S)
        dead.begin_transaction()
        dead.produce(outputs, b"undecided")
        dead.flush(DEADLINE_S)
        consumer = Consumer({**properties, "group.id": "group"})
        prepare_to_fence(properties, identity, consumer, examples)
        heir = Producer(producer_properties(properties, identity))
        wait_for_connection(heir, examples)
        assert _answer(heir) == KafkaError.NO_ERROR
        heir.begin_transaction()
        heir.produce(outputs, b"decided")
        heir.commit_transaction(DEADLINE_S)
        consumer.close()
        assert [message.value() for message in read_all(kafka, outputs)] == [b"decided"]

    def test_an_early_start_that_fails_is_made_good(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a broker, the join goes on trying after it, and says at last what it was doing."""
        monkeypatch.setattr("stream_apple.adapters.kafka.retry.SHORTENED_DEADLINE_S", 0.1)
        broker = connect("127.0.0.1:1", "examples")
        broker.start_fencing()
        broker.shorten_deadline()
        with pytest.raises(BrokerError, match="init_transactions: asked to stop while waiting for Kafka"):
            broker.join(Recorder({0: 0}))
        broker.close()

    def test_a_member_that_was_replaced_commits_nothing(self, kafka: str, topic: TopicFactory) -> None:
        """Offsets under a generation that the group has left behind are refused, and outputs are never seen."""
        examples, outputs = topic("examples", config=FOREVER), topic("outputs")
        fill(kafka, examples, 5)
        broker = connect(kafka, examples)
        recorder = Recorder({0: 0})
        broker.join(recorder)
        fetch_some(broker)
        broker.begin()
        broker.send(outputs, 0, None, b"too late", 0)
        usurper = Consumer(
            {
                "bootstrap.servers": kafka,
                "group.id": f"group-of-{examples}",
                "group.instance.id": "worker-0",
                "session.timeout.ms": 6000,
            }
        )
        usurper.subscribe([examples])
        wait_until(usurper.assignment, "the usurper's partition", meanwhile=lambda: usurper.poll(0.1))
        with pytest.raises((AbortableError, BrokerError)):
            broker.commit({0: Committed(1, "")})
        usurper.close()
        broker.close()
        assert read_all(kafka, outputs) == []

    def test_a_large_transaction_is_written_whole(self, kafka: str, topic: TopicFactory) -> None:
        """More than the client's queue holds at once is waited for, and every offset is told."""
        examples, models = topic("examples", config=FOREVER), topic("models")
        broker = connect(kafka, examples)
        broker.join(Recorder({0: 0}))
        told: list[int] = []
        chunk = random.Random(1).randbytes(500_000)
        broker.begin()
        for _ in range(200):
            broker.send(models, 0, b"key", chunk, 0, None, told.append)
        broker.flush()
        assert told == list(range(200))
        broker.commit({})
        broker.close()

    def test_more_messages_at_once_than_the_queue_holds(self, kafka: str, topic: TopicFactory) -> None:
        """The rest waits for room; all of them are there, in order, each with its own key and time."""
        examples, outputs = topic("examples", config=FOREVER), topic("outputs", config=FOREVER)
        broker = connect(kafka, examples)
        broker.join(Recorder({0: 0}))
        count, value = 250_000, random.Random(1).randbytes(300)
        keys = [b"%d" % number for number in range(count)]
        times = [1_700_000_000_000 + number for number in range(count)]
        broker.begin()
        broker.send_all(outputs, 0, keys, [value] * count, times)
        broker.commit({0: Committed(1, "")})
        reader = broker.reader(outputs, 0, 0)
        found = fetch_some(reader, count)
        reader.close()
        broker.close()
        assert [record.key() for record in found] == keys
        assert [record.timestamp() for record in found] == [(1, at) for at in times]

    def test_a_message_that_no_broker_takes(self, kafka: str, topic: TopicFactory) -> None:
        """Too large for the topic: an operator must mend it, trying again would not."""
        examples = topic("examples", config=FOREVER)
        outputs = topic("outputs", config={"max.message.bytes": "2000"})
        fill(kafka, examples, 5)
        broker = connect(kafka, examples)
        broker.join(Recorder({0: 0}))
        fetch_some(broker)
        broker.begin()
        broker.send(outputs, 0, None, random.Random(0).randbytes(10_000), 0)
        with pytest.raises(ConfigurationError, match="MSG_SIZE_TOO_LARGE"):
            broker.commit({0: Committed(1, "")})
        broker.close()

    @pytest.mark.parametrize("count", [1, 2, 3])
    @pytest.mark.parametrize("flush", [True, False])
    def test_a_message_that_fails_is_known_at_the_flush(
        self, kafka: str, topic: TopicFactory, *, flush: bool, count: int
    ) -> None:
        """A time that the topic does not take: to try again would fail for ever, so the operator is told."""
        broker, outputs = begun(kafka, topic, {"message.timestamp.after.max.ms": "1000"})
        told: list[int] = []
        for ahead_ms in [0, 3_600_000, 3_600_000][-count:]:
            broker.send(outputs, 0, None, b"x", time.time_ns() // 1_000_000 + ahead_ms, None, told.append)
        with pytest.raises(ConfigurationError, match="INVALID_"):
            broker.flush() if flush else broker.commit({})
        assert told == []
        broker.close()

    def test_a_message_that_fails_is_known_without_a_flush(self, kafka: str, topic: TopicFactory) -> None:
        """A loop that waits for its offset, and has nothing else to do, would wait for ever."""
        broker, outputs = begun(kafka, topic, {"max.message.bytes": "2000"})
        told: list[int] = []
        broker.send(outputs, 0, None, random.Random(0).randbytes(10_000), 0, None, told.append)
        with pytest.raises(ConfigurationError, match="MSG_SIZE_TOO_LARGE"):
            wait_until(lambda: False, "the report", meanwhile=lambda: broker.fetch(1, 0.01))
        assert told == []
        broker.close()

    def test_what_is_sent_after_a_message_that_fails(self, kafka: str, topic: TopicFactory) -> None:
        """A worker with a backlog sends on: it is told what is wrong with the topic, not just that it may not send."""
        broker, outputs = begun(kafka, topic, {"max.message.bytes": "2000"})
        broker.send(outputs, 0, None, random.Random(0).randbytes(10_000), 0)
        with pytest.raises(ConfigurationError, match=r"sending 1 bytes to .*MSG_SIZE_TOO_LARGE"):
            wait_until(lambda: False, "a refusal", meanwhile=lambda: broker.send_all(outputs, 0, [None], [b"x"], [0]))
        broker.close()


class TestErrors:
    """What the operator is told."""

    def test_a_shortened_deadline_ends_the_wait_for_kafka(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Asked to stop while nothing answers, it leaves long before the deadline, and says why."""
        monkeypatch.setattr("stream_apple.adapters.kafka.retry.SHORTENED_DEADLINE_S", 0.1)
        broker = connect("127.0.0.1:1", "examples")
        broker.shorten_deadline()
        started = time.monotonic()
        with pytest.raises(BrokerError, match="asked to stop while waiting for Kafka"):
            broker.partition_count("examples")
        assert time.monotonic() - started < 10
        broker.close()

    def test_no_broker_answers(self) -> None:
        """The last message names the address that was asked: it may be a wrong one."""
        broker = connect("127.0.0.1:1", "examples")
        broker._retry.deadline_s = 0.1
        with pytest.raises(AbortableError, match=r"topic examples: no success within 0\.1 s at 127\.0\.0\.1:1: "):
            broker.partition_count("examples")
        broker.close()

    def test_a_topic_that_does_not_exist(self, kafka: str, topic: TopicFactory) -> None:
        """The message names the topic and the command that makes it; asking does not create it."""
        broker = connect(kafka, topic("examples", partitions=3))
        assert broker.partition_count(broker._input_topic) == 3
        missing = f"missing-{uuid.uuid4().hex}"
        for _ in range(2):
            with pytest.raises(ConfigurationError, match=f"topic {missing}.*`stream-apple topics` creates it"):
                broker.partition_count(missing)
        broker.close()

    @pytest.mark.parametrize(
        ("given", "fault"),
        [
            ({"session.timeout.ms": 500}, "session.timeout.ms: expected at least {}, the group.min.session.timeout.ms"),
            (
                {"session.timeout.ms": 3_600_000, "max.poll.interval.ms": 3_600_000},
                "session.timeout.ms: expected at most 1800000, the group.max.session.timeout.ms",
            ),
            (
                {"transaction.timeout.ms": 900_001},
                "transaction.timeout.ms: expected at most 900000, the transaction.max.timeout.ms",
            ),
        ],
    )
    @pytest.mark.parametrize("early", [False, True])
    def test_a_timeout_that_the_brokers_refuse(
        self, kafka: str, topic: TopicFactory, given: dict[str, int], fault: str, *, early: bool
    ) -> None:
        """Such a worker would live for ever and never join: it is told the bound, and whose it is; nothing is read."""
        examples = topic("examples", config=FOREVER)
        fill(kafka, examples, 5)
        name = f"group-of-{examples}"
        broker = KafkaBroker({"bootstrap.servers": kafka, **given}, Identity(name, "worker-0", name), examples)
        if early:
            broker.start_fencing()
        records: list[object] = []

        def work() -> None:
            broker.join(Recorder({0: 0}))
            wait_until(lambda: False, "a refusal", meanwhile=lambda: records.extend(broker.fetch(10, 0.1)))

        with pytest.raises(ConfigurationError) as caught:
            work()
        broker.close()
        assert records == []
        assert re.match(
            f"kafka.{fault.format('[0-9]+')} of broker [0-9]+, found {next(iter(given.values()))}; ", str(caught.value)
        )

    def test_a_refusal_without_permission_to_ask_for_the_bound(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The message has the names of both sides' settings, at least."""
        monkeypatch.setattr("stream_apple.adapters.kafka.admin.CONNECT_S", 0.2)
        connectivity = Connectivity({"bootstrap.servers": "127.0.0.1:1"}, lambda: True)
        text = str(connectivity.explained(RefusedTimeoutError("joining the group: no")))
        assert text.startswith("joining the group: no: see session.timeout.ms and transaction.timeout.ms in [kafka]")
        assert "group.max.session.timeout.ms" in text
