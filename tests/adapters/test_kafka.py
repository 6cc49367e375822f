"""The broker port on a real broker: what a transaction hides, who is fenced, and what an error means."""

import logging
import random
import time
import uuid
from collections.abc import Mapping
from typing import cast

import pytest
from adapters.connections import (
    DEADLINE_S,
    FOREVER,
    Recorder,
    TopicFactory,
    connect,
    fetch_some,
    fetch_until,
    fill,
    make_topics,
    members_of,
    read_all,
    wait_for_assignment,
)
from confluent_kafka import Consumer, KafkaError, TopicPartition
from runtime.records import DECODER, SETTINGS

from stream_apple.adapters.clients import Identity, Properties
from stream_apple.adapters.kafka import KafkaBroker
from stream_apple.adapters.verdicts import delivery_verdict, verdict
from stream_apple.errors import BrokerError, ConfigurationError, GapError
from stream_apple.runtime.health import Health
from stream_apple.runtime.lineage import Lineage, lineage_of
from stream_apple.runtime.loop import Loop, Pace, Topics
from stream_apple.runtime.metrics import Metrics
from stream_apple.runtime.ports import AbortableError, Committed
from stream_apple.runtime.recovery import Origin, Recovery
from stream_apple.runtime.step import PartitionModel


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

    def test_a_worker_may_begin_to_fence_early(self, kafka: str, topic: TopicFactory) -> None:
        """From `prepare` on, without a join, the predecessor commits nothing; the join then finds the work done."""
        examples, outputs = topic("examples", config=FOREVER), topic("outputs")
        fill(kafka, examples, 5)
        first, second = connect(kafka, examples), connect(kafka, examples)
        first.join(Recorder({0: 0}))
        fetch_some(first)
        first.begin()
        first.send(outputs, 0, None, b"of the first", 0)
        first.flush()
        second.prepare()
        assert second._transactions._prepared is not None
        second._transactions._prepared()
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

    def test_an_early_start_that_fails_is_made_good(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a broker, the join goes on trying after it, and says at last what it was doing."""
        monkeypatch.setattr("stream_apple.adapters.patience.HURRY_S", 0.1)
        broker = connect("127.0.0.1:1", "examples")
        broker.prepare()
        broker.hurry()
        with pytest.raises(BrokerError, match="init_transactions: asked to stop while waiting for Kafka"):
            broker.join(Recorder({0: 0}))
        broker.close()

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

    def test_offsets_of_messages_are_told_when_the_broker_has_them(self, kafka: str, topic: TopicFactory) -> None:
        """On this thread, in order, before `flush` returns or inside `fetch`, and only those that were asked for."""
        examples, outputs = topic("examples", config=FOREVER), topic("outputs")
        broker = connect(kafka, examples)
        broker.join(Recorder({0: 0}))
        told: list[tuple[int, int]] = []
        broker.begin()
        for number in range(100):
            tell = (lambda offset, number=number: told.append((number, offset))) if number % 10 == 0 else None
            broker.send(outputs, 0, None, b"%d" % number, 0, None, tell)
        broker.flush()
        assert told == [(number, number) for number in range(0, 100, 10)]
        broker.send(outputs, 0, None, b"100", 0, None, lambda offset: told.append((100, offset)))
        fetch_until(broker, lambda: told[-1] == (100, 100), "the offset was told by fetch")
        broker.commit({})
        written = {message.offset(): message.value() for message in read_all(kafka, outputs)}
        assert [written[offset] for _, offset in told] == [b"%d" % number for number, _ in told]
        broker.close()

    def test_offsets_of_a_transaction_that_has_ended_are_not_told(self, kafka: str, topic: TopicFactory) -> None:
        """Neither after an abort nor after a commit does a message report to the transaction that follows."""
        examples, outputs = topic("examples", config=FOREVER), topic("outputs")
        broker = connect(kafka, examples)
        broker.join(Recorder({0: 0}))
        told: list[int] = []
        for end in (broker.abort, lambda: broker.commit({})):
            broker.begin()
            broker.send(outputs, 0, None, b"early", 0, None, told.append)
            end()
        broker.begin()
        broker.send(outputs, 0, None, b"last", 0)
        broker.flush()
        broker.fetch(1, 0.0)
        assert told == []
        broker.abort()
        broker.close()

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


class TestHeldPartitions:
    """Partitions that are ours while their models are still being found."""

    def test_nothing_comes_of_a_held_partition_until_it_is_released(self, kafka: str, topic: TopicFactory) -> None:
        """The other partition's records come meanwhile; after the release all come, from the start on."""
        examples = topic("examples", partitions=2, config=FOREVER)
        for number in range(2):
            fill(kafka, examples, 3000, number)
        broker = connect(kafka, examples)
        for _ in range(5):
            recorder = Recorder({0: 7, 1: 5}, held=[0])
            if broker._assignment is None:
                broker.join(recorder)
            else:
                broker._assignment = recorder
                broker.rejoin()
            free = fetch_some(broker, 2995)
            for _ in range(3):
                free += broker.fetch(1000, 0.1)
            assert [record.offset() for record in free if record.partition() == 1][-2995:] == list(range(5, 3000))
            assert {record.partition() for record in free} == {1}
            assert broker.backlog(0) == -1
            broker.release(0)
            released = fetch_some(broker, 2993)
            assert [(record.partition(), record.offset()) for record in released] == [(0, n) for n in range(7, 3000)]
            assert recorder.told[-1] == "assigned"
        broker.close()

    def test_an_assignment_that_fails_can_be_had_again(self, kafka: str, topic: TopicFactory) -> None:
        """Its error comes out of `fetch`, and after `rejoin` the partitions come back, without a word in between."""
        examples = topic("examples", config=FOREVER)
        fill(kafka, examples, 10)
        broker = connect(kafka, examples)
        recorder = Recorder({})
        broker.join(recorder)
        with pytest.raises(KeyError):
            fetch_some(broker)
        recorder.positions = {0: 3}
        broker.rejoin()
        assert [record.offset() for record in fetch_some(broker, 7)] == list(range(3, 10))
        broker.rejoin()
        assert [record.offset() for record in fetch_some(broker, 7)] == list(range(3, 10))
        assert recorder.told == ["assigned"] * 3
        broker.close()

    def test_to_release_what_is_not_held_does_nothing(self, kafka: str, topic: TopicFactory) -> None:
        """Neither for a partition that was never ours, nor for one that was given up, nor twice."""
        examples = topic("examples", config=FOREVER)
        fill(kafka, examples, 10)
        broker = connect(kafka, examples)
        broker.release(0)
        recorder = Recorder({0: 4}, held=[0])
        broker.join(recorder)
        fetch_until(broker, lambda: recorder.told == ["assigned"], "the partition was assigned")
        broker.rejoin()
        broker.release(0)
        held = fetch_until(broker, lambda: recorder.told.count("assigned") == 2, "it was assigned again")
        held += broker.fetch(1000, 0.2)
        assert held == []
        broker.release(0)
        broker.release(0)
        assert [record.offset() for record in fetch_some(broker, 6)] == list(range(4, 10))
        broker.close()


class TestClosing:
    """The way out."""

    def test_an_assignment_is_answered_before_the_consumer_closes(self, kafka: str, topic: TopicFactory) -> None:
        """Inside the consumer's own `close` the answer could block the process for ever, whatever signal comes."""
        order: list[str] = []

        class Watched(KafkaBroker):
            def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
                order.append(f"assigned {[partition.partition for partition in partitions]}")
                super()._on_assign(consumer, partitions)

        class Closing:
            def __init__(self, consumer: Consumer) -> None:
                self._consumer = consumer

            def __getattr__(self, name: str) -> object:
                return getattr(self._consumer, name)

            def close(self) -> None:
                order.append("consumer closes")
                self._consumer.close()
                order.append("consumer is closed")

        examples = topic("examples", config=FOREVER)
        fill(kafka, examples, 5)
        group = f"group-of-{examples}"
        broker = Watched({"bootstrap.servers": kafka}, Identity(group, "w", f"{group}-w"), examples)
        broker._consumer = cast("Consumer", Closing(broker._consumer))
        broker.join(Recorder({0: 0}))
        wait_for_assignment(kafka, group)
        broker.close()
        assert order == ["assigned [0]", "consumer closes", "consumer is closed"]

    @pytest.mark.parametrize("leaves", [False, True])
    def test_who_is_expected_back_stays_a_member(self, kafka: str, topic: TopicFactory, *, leaves: bool) -> None:
        """The group keeps the partitions for a successor; only who was told to leave gives them to others."""
        examples = topic("examples", config=FOREVER)
        fill(kafka, examples, 5)
        group = f"group-of-{examples}"
        broker = KafkaBroker({"bootstrap.servers": kafka}, Identity(group, "w", f"{group}-w"), examples)
        recorder = Recorder({0: 0})
        broker.join(recorder)
        fetch_some(broker, 5)
        assert members_of(kafka, group) == ["w"]
        if leaves:
            broker.leave()
        broker.close()
        assert members_of(kafka, group) == ([] if leaves else ["w"])
        assert recorder.told == ["assigned"]


class TestErrors:
    """What an error means for the loop."""

    @pytest.mark.parametrize(
        ("error", "expected"),
        [
            (KafkaError(KafkaError._FATAL, "x"), BrokerError),
            (KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "x"), ConfigurationError),
            (KafkaError(KafkaError._PURGE_QUEUE, "x"), AbortableError),
            (KafkaError(KafkaError._MSG_TIMED_OUT, "x"), AbortableError),
        ],
    )
    def test_verdicts_on_deliveries(self, error: KafkaError, expected: type[Exception]) -> None:
        """A message that was lost closes its transaction, and only what an operator must mend ends the worker."""
        found = delivery_verdict(error, "models-3")
        assert type(found) is expected
        assert str(found) == f"sending to models-3: x ({error.name()})"

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
        monkeypatch.setattr("stream_apple.adapters.patience.HURRY_S", 0.1)
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

    @pytest.mark.parametrize("count", [1, 2, 3])
    @pytest.mark.parametrize("flush", [True, False])
    def test_a_message_that_fails_is_known_at_the_flush(
        self, kafka: str, topic: TopicFactory, *, flush: bool, count: int
    ) -> None:
        """A time that the topic does not take: to try again would fail for ever, so the operator is told."""
        examples = topic("examples", config=FOREVER)
        outputs = topic("outputs", config={"message.timestamp.after.max.ms": "1000"})
        broker = connect(kafka, examples)
        broker.join(Recorder({0: 0}))
        told: list[int] = []
        broker.begin()
        for ahead_ms in [0, 3_600_000, 3_600_000][-count:]:
            broker.send(outputs, 0, None, b"x", time.time_ns() // 1_000_000 + ahead_ms, None, told.append)
        with pytest.raises(ConfigurationError, match="INVALID_"):
            broker.flush() if flush else broker.commit({})
        assert told == []
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
            self._transactions._producer.flush(0.01 * (self.commits % 3))
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
        models = topic("models", partitions=partitions)
        for number in range(partitions):
            fill(kafka, examples, count, number)
        group = f"group-of-{examples}"
        broker = Doubtful({"bootstrap.servers": kafka}, Identity(group, "w", f"{group}-w"), examples)
        broker.doubts = doubts
        run_until_done(broker, Topics(examples, predictions, letters, models), group, count * partitions)

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
        make_topics(mock_cluster, "examples", "predictions", "dead-letters", "models")
        fill(mock_cluster, "examples", count)
        broker = Doubtful(
            {"bootstrap.servers": mock_cluster, "fetch.wait.max.ms": 10}, Identity("g", "w", "t"), "examples"
        )
        topics = Topics("examples", "predictions", "dead-letters", "models")
        metrics = run_until_done(broker, topics, "g", count)
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
        Pace(fetch_records=500, commit_records=700, commit_interval_s=0.05, snapshot_interval_s=0.1),
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
