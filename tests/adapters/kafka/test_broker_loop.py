"""The worker's loop on the Kafka adapter, in this process."""

import random
import time
from collections.abc import Mapping

import msgpack
import pytest
from confluent_kafka import Producer
from support.kafka.connections import fill
from support.kafka.mock_cluster import make_mock_topics
from support.kafka.raw_header import send_with_header
from support.merges import nothing_merged
from support.null_watchers import NullObserver
from support.records import DECODER, SETTINGS, START
from support.topics import FOREVER, TopicFactory, read_all
from support.waiting import DEADLINE_S, wait_until

from stream_apple.adapters.kafka.broker import KafkaBroker
from stream_apple.adapters.kafka.client_properties import Identity
from stream_apple.adapters.kafka.topics import NeededTopics, written
from stream_apple.config import Config
from stream_apple.errors import FencedError
from stream_apple.monitoring.health import Health
from stream_apple.monitoring.metrics import Metrics
from stream_apple.records.message.decode import Decoder
from stream_apple.records.message.prediction_formats import decode_prediction
from stream_apple.stream.learning.threads import ThreadPool
from stream_apple.stream.log.ports import AbortableError, Committed
from stream_apple.stream.loop.loop import Loop, LoopSettings
from stream_apple.stream.loop.owned_partitions import OwnedPartitions
from stream_apple.stream.loop.transaction import CommitSettings
from stream_apple.stream.loop.watchers import Watchers
from stream_apple.stream.model.dead_letters import header_list
from stream_apple.stream.model.partition_model import ModelSettings, PartitionModel
from stream_apple.stream.positions.lineage import Lineage, Provenance, Topics

LARGE = SETTINGS._replace(limits=SETTINGS.limits._replace(max_record_bytes=1_000_000))


class Doubtful(KafkaBroker):
    """A connection in which some calls end in doubt, as when the coordinator moves."""

    doubts: tuple[int, ...] = ()
    commits = 0

    def commit(self, offsets: Mapping[int, Committed]) -> None:
        """Every commit that is listed fails, with its messages still in the client, on the way, or in the log."""
        self.commits += 1
        if self.commits in self.doubts:
            self._producer._epoch.producer.flush(0.01 * (self.commits % 3))
            raise AbortableError(f"commit {self.commits} in doubt")
        super().commit(offsets)


class Fenced(KafkaBroker):
    """A connection whose first commit meets a successor, and whose errors then come all at once."""

    def expect_successor(self, kafka: str, transactional_id: str, outputs: str) -> None:
        """Whose successor comes, and where messages of the fenced one would go."""
        properties = {"bootstrap.servers": kafka, "transactional.id": transactional_id, "log_level": 0}
        self._successor = Producer(properties)
        self._outputs = outputs

    def commit(self, offsets: Mapping[int, Committed]) -> None:
        """In doubt, once librdkafka has both to report: the fatal error, and the messages that have failed by it."""
        del offsets
        self.flush()
        self._successor.init_transactions(DEADLINE_S)
        for partition in range(2):
            self.send(self._outputs, partition, None, b"too late", 0, None, lambda _: None)
        # Messages and reports.
        wait_until(lambda: len(self._producer._epoch.producer) > 2, "the reports")
        self._successor.close()
        raise AbortableError("in doubt")


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
        provenance = Provenance(group, Topics(examples, predictions, letters, models), {})
        run_until_done(broker, provenance, count * partitions)

        found = [(m.partition(), m.key(), m.value()) for m in read_all(kafka, predictions, partitions)]
        inputs = read_all(kafka, examples, partitions)
        expected = []
        rejected = 0
        for number in range(partitions):
            records = [message for message in inputs if message.partition() == number]
            model = PartitionModel(examples, number, provenance.lineage(number, 0), SETTINGS, DECODER)
            result = model.process(records)  # type: ignore[arg-type]
            rejected += len(result.rejects)
            expected += [
                (number, record.key(), value) for record, value in zip(result.examples, result.predictions, strict=True)
            ]
        assert found == expected
        assert len(read_all(kafka, letters)) == rejected > 0

    def test_no_record_is_too_large_to_be_answered(self, kafka: str, topic: TopicFactory) -> None:
        """A key as large as a message may be, and ids and values that only the examples topic takes."""
        sizes = [(1_048_400, 4, 0), (214_000, 900_000, 0), (400_000, 600_000, 3_000_000), (10, 20, 0)]
        draw = random.Random(0)
        values = [
            msgpack.packb({"id": draw.randbytes(size), "more": draw.randbytes(more), "features": {"a": 1.0}})
            for _, size, more in sizes
        ]
        examples = topic("examples", config={**FOREVER, "max.message.bytes": "4500000"})
        settings = Config().topics.model_copy(update={"examples": examples})
        needed = NeededTopics(settings, LARGE.limits.max_record_bytes).requirements({})
        predictions = topic("predictions", config=FOREVER | written(needed[settings.predictions]))
        letters = topic("letters", config=FOREVER | written(needed[settings.dead_letters]))
        models = topic("models")
        producer = Producer({"bootstrap.servers": kafka, "message.max.bytes": 5_000_000})
        for (key, _, _), value in zip(sizes, values, strict=True):
            producer.produce(examples, value, draw.randbytes(key), timestamp=START)
        assert producer.flush(DEADLINE_S) == 0
        group = f"group-of-{examples}"
        broker = KafkaBroker({"bootstrap.servers": kafka}, Identity(group, "w", f"{group}-w"), examples)
        provenance = Provenance(group, Topics(examples, predictions, letters, models), {})
        run_until_done(broker, provenance, len(sizes), LARGE)
        answered = [decode_prediction(message.value() or b"")["offset"] for message in read_all(kafka, predictions)]
        refused = read_all(kafka, letters)
        numbers = [f"__stream_apple.errors.{name}" for name in ("offset", "omitted")]
        told = [
            {name: int(text or b"") for name, text in header_list(message) if name in numbers}  # type: ignore[arg-type]
            for message in refused
        ]
        assert answered == [3]
        assert [each[numbers[0]] for each in told] == [0, 1, 2]
        assert [message.value() for message in refused] == [values[0], None, None]
        assert [each.get(numbers[1], 0) > 1_100_000 for each in told] == [False, True, True]

    def test_a_fenced_worker_leaves_with_its_exit_code(self, kafka: str, topic: TopicFactory) -> None:
        """Whatever the client makes of a fatal error and failed messages that it has to report in one call."""
        examples, outputs = topic("examples", config=FOREVER), topic("outputs", partitions=2, config=FOREVER)
        letters, models = topic("letters"), topic("models")
        fill(kafka, examples, 100)
        group = f"group-of-{examples}"
        broker = Fenced({"bootstrap.servers": kafka}, Identity(group, "w", f"{group}-w"), examples)
        broker.expect_successor(kafka, f"{group}-w", outputs)
        predictions = topic("predictions", config=FOREVER)
        with pytest.raises(FencedError, match="fenced") as caught:
            run_until_done(broker, Provenance(group, Topics(examples, predictions, letters, models), {}), 100)
        assert caught.value.exit_code == 75
        assert read_all(kafka, outputs, 2) == []

    def test_a_header_whose_name_is_no_text(self, mock_cluster: str) -> None:
        """The record is a dead letter without its headers; so says the client that can't give them.

        Behind many with headers: by then the interpreter has optimised the lines that ask for them.
        """
        names = ("examples", "predictions", "dead-letters", "models")
        make_mock_topics(mock_cluster, *names)
        producer = Producer({"bootstrap.servers": mock_cluster, "log_level": 0})
        for _ in range(100):
            producer.produce("examples", b"\xc1", partition=0, headers=[("name", b"v")])
        assert producer.flush(DEADLINE_S) == 0
        send_with_header(mock_cluster, "examples", b"\xc1", b"\xff\xfe")
        broker = KafkaBroker(
            {"bootstrap.servers": mock_cluster, "fetch.wait.max.ms": 10}, Identity("g", "w", "t"), "examples"
        )
        run_until_done(broker, Provenance("g", Topics(*names), {}), 101)
        *_, letter = read_all(mock_cluster, "dead-letters")
        assert letter.value() == b"\xc1"
        told = dict(header_list(letter))["__stream_apple.errors.message"]  # type: ignore[arg-type]
        assert str(told).endswith("its headers are left out: expected names in UTF-8, found others'")

    def test_the_embedded_cluster_runs_the_same_code(self, mock_cluster: str) -> None:
        """Nothing to install: every record of the in-process cluster is answered."""
        count = 500
        make_mock_topics(mock_cluster, "examples", "predictions", "dead-letters", "models")
        fill(mock_cluster, "examples", count)
        broker = Doubtful(
            {"bootstrap.servers": mock_cluster, "fetch.wait.max.ms": 10}, Identity("g", "w", "t"), "examples"
        )
        topics = Topics("examples", "predictions", "dead-letters", "models")
        metrics = run_until_done(broker, Provenance("g", topics, {}), count)
        answered = [
            metrics.registry.get_sample_value("stream_apple_examples_total", {"partition": "0", "outcome": outcome})
            for outcome in ("learned", "unlabelled", "rejected")
        ]
        assert sum(value or 0 for value in answered) == count


def run_until_done(
    broker: KafkaBroker, provenance: Provenance, total: int, chosen: ModelSettings = SETTINGS
) -> Metrics:
    """Run a loop until all `total` records are committed."""
    metrics = Metrics()
    committed: dict[int, int] = {}

    def new_model(partition: int, lineage: Lineage) -> PartitionModel:
        return PartitionModel(provenance.topics.examples, partition, lineage, chosen, Decoder(chosen.limits))

    owned = OwnedPartitions(broker, provenance, new_model, metrics)
    settings = LoopSettings(fetch_records=500, commits=CommitSettings(700, 0.05), snapshot_interval_s=0.1)
    watchers, merging = Watchers(metrics, Health(), NullObserver()), nothing_merged(broker, provenance)
    loop = Loop(broker, owned, settings, watchers, ThreadPool(2), merging)
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
