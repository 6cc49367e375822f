"""Partitions that merge on a real broker, in workers that are killed: each answer is that of models in one process."""

import random
from pathlib import Path

from confluent_kafka import Producer
from stream.merging.lockstep import Lockstep, hourly
from support.records import HOUR, START
from support.topics import LogEnds, TopicFactory, create_worker_topics, read_to_end
from support.waiting import DEADLINE_S
from support.worker_config import write_config
from support.worker_process import WorkerProcess

from stream_apple.app.model_factories import settings_of
from stream_apple.config import Config, load
from stream_apple.stream.merging.adoptions import decode_adoption
from stream_apple.stream.positions.lineage import Provenance

PARTITIONS = 4


def configure(directory: Path, kafka: str, topic: TopicFactory) -> tuple[Path, Config]:
    """Workers on new topics, which wait for each other as long as it takes."""
    topics = create_worker_topics(topic, PARTITIONS, merges=True)
    path = write_config(
        directory / "stream_apple.toml",
        kafka,
        kafka={"session.timeout.ms": 6000},
        topics=topics,
        worker={"commit_interval": "40ms", "snapshot_interval": "1s", "fetch_records": 50},
        learner={"bits": 12},
        limits={"max_features": 16},
        merge={"mode": "average", "patience": "forever"},
    )
    return path, load(path, {})


def test_workers_are_killed_at_random_moments(kafka: str, topic: TopicFactory, tmp_path: Path) -> None:
    """Two workers; one of them is killed some times, partition 0's leader or not."""
    path, config = configure(tmp_path, kafka, topic)
    counts = [40, 25, 60, 30]
    given = {number: hourly(number, [count + 3 * number for count in counts]) for number in range(PARTITIONS)}
    wanted = Lockstep(Provenance.of(config), settings_of(config), given).learn()
    assert wanted.merges == len(counts) - 1

    ends, draw = LogEnds(kafka), random.Random(14)

    def answered() -> int:
        return sum(map(len, read_to_end(kafka, config.topics.predictions, PARTITIONS).values()))

    def merged() -> int:
        return ends.of(config.topics.merges)

    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})

    def produce(hour: int) -> None:
        for number, records in given.items():
            for record in records:
                if (record.time_ms - START) // HOUR == hour:
                    place = config.topics.examples, record.payload, record.named, number
                    producer.produce(*place, timestamp=record.time_ms)
        assert producer.flush(DEADLINE_S) == 0

    log = tmp_path / "worker.log"
    produce(0)
    with WorkerProcess(path, log, "worker-1") as steady:
        for hour in range(1, len(counts)):
            with WorkerProcess(path, log, "worker-0") as killed:
                target = merged() + draw.randint(1, 6)  # a merge and its adoptions are some more
                produce(hour)
                killed.wait_until(lambda target=target: merged() >= target, "something had been merged")  # type: ignore[misc]
                killed.kill()
        with WorkerProcess(path, log, "worker-0") as last:
            last.wait_for_event("live")
            last.wait_until(lambda: answered() >= sum(map(len, given.values())), "everything was answered", 0.3)
            assert last.terminate() == 0
        assert steady.terminate() == 0
    found = read_to_end(kafka, config.topics.predictions, PARTITIONS)
    for number, answers in wanted.answers.items():
        assert [message.value() for message in found[number]] == answers
    (messages,) = read_to_end(kafka, config.topics.merges).values()
    adopted = [
        decode_adoption(config.worker.group, message.value())
        for message in messages
        if b"/adopted/" in (message.key() or b"")
    ]
    assert sorted((each.round, each.partition) for each in adopted) == sorted(
        (each, number) for each in {record.round for record in adopted} for number in range(PARTITIONS)
    )
    assert all(each.included for each in adopted)
    firsts = [message.key() for message in messages if (message.key() or b"").endswith(b"/0")]
    manifests = [key for key in firsts if b"/adopted/" not in (key or b"")]
    assert len(manifests) == len(set(manifests)) == wanted.merges
