"""`stream-apple verify` of partitions that merge, on a real broker: stopped at a boundary, and when merges are gone."""

import json
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from end_to_end.test_merging import configure
from stream.merging.lockstep import hourly
from support.command import call_command
from support.null_watchers import NullObserver
from support.topics import LogEnds, TopicFactory
from support.worker_process import WorkerProcess

from stream_apple.app.model_factories import model_factory, settings_of
from stream_apple.app.startup import connect
from stream_apple.app.worker import assemble
from stream_apple.config import Config
from stream_apple.monitoring.health import Health
from stream_apple.monitoring.metrics import Metrics
from stream_apple.stream.log.ports import Committed
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.positions.lineage import Provenance
from stream_apple.stream.positions.merge_note import BoundaryNote, BoundaryState

FIRST, REST = 30, 25 + 20
GIVEN = {number: hourly(number, [FIRST + number, 25, 20]) for number in range(4)}
DEADLINE_S = 120.0


def feed(config: Config) -> None:
    """Send all records."""
    producer = Producer({"bootstrap.servers": config.kafka["bootstrap.servers"], "enable.idempotence": True})
    for number, records in GIVEN.items():
        for record in records:
            place = config.topics.examples, record.payload, record.named, number
            producer.produce(*place, timestamp=record.time_ms)
    assert producer.flush(DEADLINE_S) == 0


def committed(config: Config) -> dict[int, Committed]:
    """What stands beside each partition."""
    consumer = Consumer({"bootstrap.servers": config.kafka["bootstrap.servers"], "group.id": config.worker.group})
    try:
        found = consumer.committed([TopicPartition(config.topics.examples, number) for number in range(4)], timeout=30)
        return {each.partition: Committed(each.offset, each.metadata or "") for each in found if each.offset >= 0}
    finally:
        consumer.close()


def stop_where_it_has_adopted(config: Config) -> None:
    """One life of a worker in this process, turn by turn, until partition 0 has adopted, and learned no further."""
    settings, broker = settings_of(config), connect(config)
    new_model = model_factory(config.topics.examples, settings, settings.decoder())
    loop, owned = assemble(config, broker, new_model, Metrics(), Health(), NullObserver())
    loop.start()

    def stay(partition: Partition) -> None:
        """What is kept of it is not learned."""

    loop._learning.go_on = stay  # type: ignore[method-assign]
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        loop.iterate()
        partition = owned.get(0)
        rounds = None if partition is None else partition.model.rounds
        if rounds is not None and rounds.passed:
            break
    loop.drain()  # as SIGTERM has it done
    broker.close()


def test_stopped_at_a_boundary(kafka: str, topic: TopicFactory, tmp_path: Path) -> None:
    """The offset stands at the end of a round, with the merge adopted and the record behind it unanswered: no fault."""
    path, config = configure(tmp_path, kafka, topic)
    feed(config)
    stop_where_it_has_adopted(config)
    noted = Provenance.of(config).read_metadata(0, committed(config)[0])
    assert noted.merge is not None
    assert noted.merge.boundary is not None
    assert noted.merge.boundary == BoundaryNote(noted.merge.boundary.round, FIRST, BoundaryState.ADOPTED)
    assert committed(config)[0].offset == FIRST
    done = call_command("verify", "--config", path, "--json")
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert json.loads(done.stdout)["partitions"][0]["records"] == FIRST

    with WorkerProcess(path, tmp_path / "worker.log") as worker:
        ends = {number: len(records) for number, records in GIVEN.items()}
        worker.wait_until(
            lambda: {number: each.offset for number, each in committed(config).items()} == ends, "all was answered", 0.2
        )
        live = call_command("verify", "--config", path, "--json")
        assert live.returncode == 0, (live.stdout, live.stderr)
        assert worker.terminate() == 0
    found = json.loads(call_command("verify", "--config", path, "--json").stdout)
    assert found["verified"]
    assert found["partitions"][0]["made_again"]["matched"] == 2

    # Retention takes what was merged: what can still be proved is, and the rest is told.
    gone = LogEnds(kafka).of(config.topics.merges)
    admin = AdminClient({"bootstrap.servers": kafka})
    for future in admin.delete_records([TopicPartition(config.topics.merges, 0, gone)]).values():
        future.result(DEADLINE_S)
    done = call_command("verify", "--config", path)
    assert done.returncode == 76, done.stderr
    proved, unproved = sum(FIRST + number for number in GIVEN), len(GIVEN) * REST
    assert f" {proved} predictions, 0 dead letters: no faults; {unproved} unproved\n" in done.stdout
    assert call_command("verify", "--config", path, "--allow-unproved").returncode == 0
