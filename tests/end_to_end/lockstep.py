"""What workers that merge with patience for ever must have come to: the log, learned in one process in lockstep."""

from typing import NamedTuple

from confluent_kafka import Consumer, Message, TopicPartition
from support.topics import read_to_end
from support.waiting import DEADLINE_S

from stream_apple.app.model_factories import onlooker_factory
from stream_apple.config import Config
from stream_apple.learners.apple.merging.merge import adopt, merge
from stream_apple.stream.log.ports import Committed
from stream_apple.stream.merging.adoptions import AdoptionRecord, decode_adoption
from stream_apple.stream.positions.lineage import Provenance


class Lane:
    """A partition's records, its model, and what it answers."""

    def __init__(self, config: Config, number: int, records: list[Message]) -> None:
        self.model = onlooker_factory(config)(number, Provenance.of(config).lineage(number, 0))
        self.predictions: list[bytes] = []
        self.letters = 0
        self._records = records
        self._done = 0

    def go_on(self) -> None:
        """Up to the next end of a round, or the end."""
        for start in range(self._done, len(self._records), 2_000):
            batch = self._records[start : start + 2_000]
            result = self.model.process(batch)  # type: ignore[arg-type]
            self.predictions += result.predictions
            self.letters += len(result.rejects)
            if result.boundary is not None:
                at = result.boundary.at
                self._done = start + sum((record.offset() or 0) < at for record in batch)
                return
        self._done = len(self._records)


class Lockstep(NamedTuple):
    """The partitions after all, and how many rounds have been merged."""

    lanes: list[Lane]
    rounds: int


def in_lockstep(config: Config, partitions: int) -> Lockstep:
    """All that is in the log; AssertionError if a partition is waited for that has come to its end."""
    inputs = read_to_end(str(config.kafka["bootstrap.servers"]), config.topics.examples, partitions)
    lanes = [Lane(config, number, inputs[number]) for number in range(partitions)]
    rounds = 0
    for lane in lanes:
        lane.go_on()
    while any(lane.model.held is not None for lane in lanes):
        held = [lane.model.held and lane.model.held.round for lane in lanes]
        assert len(set(held)) == 1, f"expected all to wait at the end of one round, found {held}"
        merged = merge([lane.model.learner for lane in lanes], parents=config.merge.parents).model
        rounds += 1
        for lane in lanes:
            adopt(lane.model.learner, merged)
            assert lane.model.rounds is not None
            lane.model.rounds.go_on()
            lane.go_on()
    return Lockstep(lanes, rounds)


def check_lockstep(config: Config, partitions: int) -> Lockstep:
    """What readers see, and what is saved, is what models in lockstep come to: in every byte, once."""
    kafka, provenance = str(config.kafka["bootstrap.servers"]), Provenance.of(config)
    expected = in_lockstep(config, partitions)
    found = read_to_end(kafka, config.topics.predictions, partitions)
    read = read_to_end(kafka, config.topics.dead_letters, partitions // 2)
    letters = sum(len(messages) for messages in read.values())
    for number, lane in enumerate(expected.lanes):
        assert [message.value() for message in found[number]] == lane.predictions, f"predictions of {number}"
    assert letters == sum(lane.letters for lane in expected.lanes)
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": provenance.group})
    asked = [TopicPartition(config.topics.examples, number) for number in range(partitions)]
    for place, lane in zip(consumer.committed(asked, timeout=DEADLINE_S), expected.lanes, strict=True):
        snapshot = provenance.read_metadata(place.partition, Committed(place.offset, place.metadata or "")).snapshot
        assert snapshot is not None
        assert (snapshot.at, snapshot.digest) == (lane.model.next_offset, lane.model.digest())
    consumer.close()
    return expected


def adoptions_of(config: Config) -> list[AdoptionRecord]:
    """All adoption records that readers see."""
    group = config.worker.group
    messages = read_to_end(str(config.kafka["bootstrap.servers"]), config.topics.merges)[0]
    return [
        decode_adoption(group, message.value())
        for message in messages
        if (message.key() or b"").startswith(f"{group}/adopted/".encode())
    ]
