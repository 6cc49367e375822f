"""The broker port on a real broker: what a transaction hides, who is fenced, and what an error means."""

import logging
import random
import time
import uuid
from collections.abc import Callable, Mapping, Sequence

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from runtime.records import DECODER, SETTINGS, stream

from stream_apple.adapters.clients import Identity, Properties
from stream_apple.adapters.kafka import KafkaBroker, verdict
from stream_apple.errors import BrokerError, ConfigurationError, GapError
from stream_apple.runtime.health import Health
from stream_apple.runtime.lineage import Lineage, lineage_of
from stream_apple.runtime.loop import Loop, Pace, Topics
from stream_apple.runtime.metrics import Metrics
from stream_apple.runtime.ports import AbortableError, Committed, Record
from stream_apple.runtime.recovery import Origin, Recovery
from stream_apple.runtime.step import PartitionModel

TopicFactory = Callable[..., str]
FOREVER = {"retention.ms": "-1"}
DEADLINE_S = 60.0


class Recorder:
    """An assignment that starts where it is told and remembers what it was told."""

    def __init__(self, positions: Mapping[int, int]) -> None:
        self.positions = positions
        self.told: list[str] = []

    def assigned(self, partitions: Sequence[int]) -> Mapping[int, int]:
        """All partitions at once."""
        self.told.append("assigned")
        return {number: self.positions[number] for number in partitions}

    def revoked(self, partitions: Sequence[int]) -> None:
        """In order."""
        self.told.append(f"revoked {list(partitions)}")

    def lost(self, partitions: Sequence[int]) -> None:
        """Without warning."""
        self.told.append(f"lost {list(partitions)}")


def connect(bootstrap: str, examples: str, name: str = "worker-0", group: str | None = None) -> KafkaBroker:
    """A worker's clients."""
    group = group or f"group-of-{examples}"
    properties: Properties = {"bootstrap.servers": bootstrap, "session.timeout.ms": 6000}
    return KafkaBroker(properties, Identity(group, name, f"{group}-{name}"), examples)


def fetch_some(broker: KafkaBroker, count: int = 1) -> list[Record]:
    """At least `count` records, within the deadline."""
    records: list[Record] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records after {DEADLINE_S} s"
        records += broker.fetch(1000, 0.1)
    return records


def fill(bootstrap: str, topic_name: str, count: int, partition: int = 0) -> None:
    """The sample of one partition."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for record in stream(count, partition=partition):
        producer.produce(topic_name, record.payload, record.named, partition, timestamp=record.time_ms or 1)
    assert producer.flush(30) == 0


def make_topics(mock_cluster: str, *names: str) -> None:
    """The embedded cluster makes a topic when a producer asks for it."""
    producer = Producer({"bootstrap.servers": mock_cluster})
    for name in names:
        producer.list_topics(name, timeout=10)
    producer.close()


def read_all(bootstrap: str, topic_name: str, partitions: int = 1) -> list[Message]:
    """What a reader of committed data finds at this moment, by partition and offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True})
    try:
        consumer.assign([TopicPartition(topic_name, number, 0) for number in range(partitions)])
        found: list[Message] = []
        ends = 0
        deadline = time.monotonic() + DEADLINE_S
        while ends < partitions:
            assert time.monotonic() < deadline
            for message in consumer.consume(1000, 0.2):
                if message.error() is None:
                    found.append(message)
                else:
                    ends += 1
    finally:
        consumer.close()
    return sorted(found, key=lambda message: (message.partition() or 0, message.offset() or 0))


class TestTransactions:
    """What readers see, and who may write."""

    def test_committed_outputs_and_offsets_appear_together(self, kafka: str, topic: TopicFactory) -> None:
        """Nothing before the commit; message, key, time, headers, offset and its text after it."""
        examples, outputs = topic("examples", config=FOREVER), topic("outputs", config=FOREVER)
        fill(kafka, examples, 5)
        broker = connect(kafka, examples)
        broker.join(Recorder({0: 0}))
        record = fetch_some(broker)[0]
        broker.begin()
        broker.send(outputs, 0, b"k", b"v", 1_700_000_000_123, [("h", b"1"), ("h", None)])
        broker.send(outputs, 0, None, None, 1_700_000_000_124)
        assert read_all(kafka, outputs) == []
        assert broker.committed([0]) == {0: None}
        broker.commit({0: Committed(record.offset() + 1, '{"note":1}')})
        first, second = read_all(kafka, outputs)
        assert (first.key(), first.value(), first.timestamp()[1]) == (b"k", b"v", 1_700_000_000_123)
        assert list(first.headers() or []) == [("h", b"1"), ("h", None)]
        assert (second.key(), second.value(), second.headers()) == (None, None, None)
        assert broker.committed([0]) == {0: Committed(1, '{"note":1}')}
        broker.close()

    def test_aborted_outputs_are_never_seen(self, kafka: str, topic: TopicFactory) -> None:
        """Neither by abort, nor by closing with a transaction open; abort without one does nothing."""
        examples, outputs = topic("examples", config=FOREVER), topic("outputs")
        fill(kafka, examples, 5)
        broker = connect(kafka, examples)
        broker.join(Recorder({0: 0}))
        fetch_some(broker)
        broker.abort()
        for _ in range(2):
            broker.begin()
            broker.send(outputs, 0, None, b"aborted", 0)
            broker.abort()
        broker.begin()
        broker.send(outputs, 0, None, b"left open", 0)
        broker.close()
        assert read_all(kafka, outputs) == []

    def test_a_successor_fences_its_predecessor(self, kafka: str, topic: TopicFactory) -> None:
        """What the predecessor left open is aborted, and it can't commit any more: BrokerError."""
        examples, outputs = topic("examples", config=FOREVER), topic("outputs")
        fill(kafka, examples, 5)
        first, second = connect(kafka, examples), connect(kafka, examples)
        first.join(Recorder({0: 0}))
        fetch_some(first)
        first.begin()
        first.send(outputs, 0, None, b"of the first", 0)
        second.join(Recorder({0: 0}))
        assert second.committed([0]) == {0: None}
        with pytest.raises(BrokerError):
            first.commit({0: Committed(1, "")})
        fetch_some(second)
        second.begin()
        second.send(outputs, 0, None, b"of the second", 0)
        second.commit({0: Committed(1, "")})
        first.close()
        second.close()
        assert [message.value() for message in read_all(kafka, outputs)] == [b"of the second"]

    def test_a_transaction_of_a_member_that_was_put_out_is_abortable(self, kafka: str, topic: TopicFactory) -> None:
        """Offsets under a generation that the group has left behind are refused, and the way on is to rejoin."""
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
        deadline = time.monotonic() + DEADLINE_S
        while not usurper.assignment():
            assert time.monotonic() < deadline
            usurper.poll(0.1)
        with pytest.raises((AbortableError, BrokerError)):
            broker.commit({0: Committed(1, "")})
        usurper.close()
        broker.close()
        assert read_all(kafka, outputs) == []


class TestErrors:
    """What an error means for the loop."""

    @pytest.mark.parametrize(
        ("error", "expected"),
        [
            (KafkaError(KafkaError._FENCED, "x", fatal=True), BrokerError),
            (KafkaError(KafkaError._FATAL, "x"), BrokerError),
            (KafkaError(KafkaError.UNKNOWN_MEMBER_ID, "x", txn_requires_abort=True), AbortableError),
            (KafkaError(KafkaError.ILLEGAL_GENERATION, "x", txn_requires_abort=True), AbortableError),
            (KafkaError(KafkaError._STATE, "x"), AbortableError),
            (KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "x", txn_requires_abort=True), ConfigurationError),
            (KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "x"), ConfigurationError),
            (KafkaError(KafkaError._TIMED_OUT, "x"), BrokerError),
        ],
    )
    def test_verdicts(self, error: KafkaError, expected: type[Exception]) -> None:
        """Fatal leaves, what an operator must mend leaves with that word, doubt starts over."""
        found = verdict(error, "doing this")
        assert type(found) is expected
        assert str(found) == f"doing this: x ({error.name()})"

    def test_a_hurried_worker_does_not_wait_for_kafka(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Asked to stop while nothing answers, it leaves long before the deadline, and says why."""
        monkeypatch.setattr("stream_apple.adapters.kafka._HURRY_S", 0.1)
        broker = connect("127.0.0.1:1", "examples")
        broker.hurry()
        started = time.monotonic()
        with pytest.raises(BrokerError, match="asked to stop while waiting for Kafka"):
            broker.partition_count("examples")
        assert time.monotonic() - started < 10
        broker.close()

    def test_a_zombie_leaves(self, kafka: str, topic: TopicFactory) -> None:
        """Who is fenced from the group by a worker of the same name does not wait for records for ever."""
        examples = topic("examples", config=FOREVER)
        fill(kafka, examples, 3)
        zombie, heir = connect(kafka, examples), connect(kafka, examples)
        zombie.join(Recorder({0: 0}))
        fetch_some(zombie)
        heir.join(Recorder({0: 0}))
        fetch_some(heir)

        def fetch_on() -> None:
            deadline = time.monotonic() + DEADLINE_S
            while time.monotonic() < deadline:
                zombie.fetch(1000, 0.1)

        with pytest.raises(BrokerError, match="fenced"):
            fetch_on()
        zombie.close()
        heir.close()

    def test_a_topic_that_does_not_exist(self, kafka: str, topic: TopicFactory) -> None:
        """The message names the topic and the command that makes it; asking does not create it."""
        broker = connect(kafka, topic("examples", partitions=3))
        assert broker.partition_count(broker._examples) == 3
        missing = f"missing-{uuid.uuid4().hex}"
        for _ in range(2):
            with pytest.raises(ConfigurationError, match=f"topic {missing}.*`stream-apple topics` creates it"):
                broker.partition_count(missing)
        broker.close()

    def test_a_position_that_is_gone_is_a_gap(self, kafka: str, topic: TopicFactory) -> None:
        """An offset outside the log stops the worker, it is not moved."""
        examples = topic("examples", config=FOREVER)
        fill(kafka, examples, 5)
        broker = connect(kafka, examples)
        broker.join(Recorder({0: 1000}))
        with pytest.raises(GapError, match=f"{examples}-0@1000: expected the next record to be in the log"):
            fetch_some(broker)
        broker.close()

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

    def test_properties_that_the_client_refuses(self) -> None:
        """What librdkafka says about it becomes a configuration error."""
        identity = Identity("g", "i", "t")
        with pytest.raises(ConfigurationError, match=r"no\.such\.property"):
            KafkaBroker({"bootstrap.servers": "localhost:1", "no.such.property": 1}, identity, "examples")

    def test_both_clients_take_their_properties_without_a_warning(
        self, mock_cluster: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A consumer's property does not reach the producer, nor the other way round."""
        properties: Properties = {
            "bootstrap.servers": mock_cluster,
            "fetch.min.bytes": 1,
            "linger.ms": 5,
            "max.poll.interval.ms": 400_000,
            "compression.type": "zstd",
        }
        make_topics(mock_cluster, "examples")
        with caplog.at_level(logging.DEBUG, "librdkafka"):
            broker = KafkaBroker(properties, Identity("g", "i", "t"), "examples")
            broker.partition_count("examples")
            broker.fetch(1, 0.0)
            broker.close()
        assert not [line for line in caplog.messages if "CONFWARN" in line or "ignored" in line]


class Doubtful(KafkaBroker):
    """A connection in which some calls end in doubt, as when the coordinator moves."""

    doubts: tuple[int, ...] = ()
    commits = 0

    def commit(self, offsets: Mapping[int, Committed]) -> None:
        """Every commit that is listed fails, with its messages still in the client, on the way, or in the log."""
        self.commits += 1
        if self.commits in self.doubts:
            self._producer.flush(0.01 * (self.commits % 3))
            raise AbortableError(f"commit {self.commits} in doubt")
        super().commit(offsets)


class TestLoop:
    """The loop of the worker on this adapter, in this process."""

    @pytest.mark.parametrize("doubts", [(), (1,), (2, 3, 7)])
    def test_starting_over_leaves_no_trace(self, kafka: str, topic: TopicFactory, doubts: tuple[int, ...]) -> None:
        """Aborted transactions make the worker rejoin and replay; outputs equal those of one undisturbed model."""
        count, partitions = 3000, 2
        examples = topic("examples", partitions=partitions, config=FOREVER)
        predictions = topic("predictions", partitions=partitions, config=FOREVER)
        letters = topic("letters", config=FOREVER)
        for number in range(partitions):
            fill(kafka, examples, count, number)
        group = f"group-of-{examples}"
        broker = Doubtful({"bootstrap.servers": kafka}, Identity(group, "w", f"{group}-w"), examples)
        broker.doubts = doubts
        run_until_done(broker, Topics(examples, predictions, letters), group, count * partitions)

        found = [(m.partition(), m.key(), m.value()) for m in read_all(kafka, predictions, partitions)]
        inputs = read_all(kafka, examples, partitions)
        expected = []
        rejected = 0
        for number in range(partitions):
            records = [message for message in inputs if message.partition() == number]
            model = PartitionModel(examples, number, lineage_of({}, examples, number, 0), SETTINGS, DECODER)
            outcome = model.process(records)  # type: ignore[arg-type]
            rejected += len(outcome.rejects)
            expected += [
                (number, records[i].key(), value) for i, value in zip(outcome.indices, outcome.predictions, strict=True)
            ]
        assert found == expected
        assert len(read_all(kafka, letters)) == rejected > 0

    def test_the_embedded_cluster_runs_the_same_code(self, mock_cluster: str) -> None:
        """Nothing to install: every record of the in-process cluster is answered."""
        count = 500
        make_topics(mock_cluster, "examples", "predictions", "dead-letters")
        fill(mock_cluster, "examples", count)
        broker = Doubtful(
            {"bootstrap.servers": mock_cluster, "fetch.wait.max.ms": 10}, Identity("g", "w", "t"), "examples"
        )
        metrics = run_until_done(broker, Topics("examples", "predictions", "dead-letters"), "g", count)
        answered = [
            metrics.registry.get_sample_value("stream_apple_examples_total", {"partition": "0", "outcome": outcome})
            for outcome in ("learned", "unlabelled", "rejected")
        ]
        assert sum(value or 0 for value in answered) == count


def run_until_done(broker: Doubtful, topics: Topics, group: str, total: int) -> Metrics:
    """Run a loop until all `total` records are committed."""
    metrics = Metrics()
    committed: dict[int, int] = {}

    def new_model(partition: int, lineage: Lineage) -> PartitionModel:
        return PartitionModel(topics.examples, partition, lineage, SETTINGS, DECODER)

    loop = Loop(
        broker,
        topics,
        Pace(fetch_records=500, commit_records=700, commit_interval_s=0.05),
        Recovery(Origin(topics.examples, group, {}), new_model),
        metrics,
        Health(),
    )
    commit = broker.commit
    deadline = time.monotonic() + DEADLINE_S

    def counted(offsets: Mapping[int, Committed]) -> None:
        commit(offsets)
        committed.update({number: each.offset for number, each in offsets.items()})
        if sum(committed.values()) >= total:
            loop.stop()
        assert time.monotonic() < deadline, f"{committed} of {total} after {DEADLINE_S} s"

    broker.commit = counted  # type: ignore[method-assign]
    loop.run()
    return metrics
