"""What a leader makes of the contributions to a round, on the cluster in memory; and of what is amiss."""

import math
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from simulation.cluster import MemoryCluster
from simulation.log import Message
from simulation.memory_broker import Member, MemoryBroker
from simulation.small import small
from stream.merging.merged_models import OPTIONS
from support.clock import Clock
from support.operations import operations
from support.records import DECODER, SETTINGS, TOPIC, new_model, stream

from stream_apple.errors import ConfigurationError
from stream_apple.learners.apple.learner import as_apple
from stream_apple.learners.apple.merging.merge import merge
from stream_apple.learners.apple.merging.mergeable import mergeable_of
from stream_apple.stream.log.ports import Committed, Header
from stream_apple.stream.merging.leader import Leader, pause_s
from stream_apple.stream.merging.merge_log import MergedModel, MergeLog, NoMerge
from stream_apple.stream.merging.merging_context import MergingContext
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import Lineage, OffsetMetadata, Provenance, SnapshotPointer, Topics
from stream_apple.stream.positions.merge_note import (
    BoundaryNote,
    BoundaryState,
    MergedPointer,
    MergeNote,
    MergeSettings,
)
from stream_apple.stream.snapshots.codec import encode_snapshot
from stream_apple.stream.snapshots.merge_messages import MergeManifest

TOPICS = Topics(TOPIC, "predictions", "dead-letters", "models", "merges")
MEMBER = Member("group", "worker-0", "group.worker-0")


class PeekingBroker(MemoryBroker):
    """One that tells what is committed, and has messages of others between those that are sent to it."""

    notes: Mapping[int, Committed]

    def send(  # noqa: D102  as in the port
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: list[Header] | None = None,
        on_written: Callable[[int], None] | None = None,
    ) -> None:
        log = self._cluster.log(topic, partition)
        offset = log.append(Message(key, value, timestamp_ms, tuple(headers or ())))
        assert key is not None
        assert on_written is not None
        on_written(offset)
        log.append(Message(b"group/adopted/7", b"anything", 0))
        log.append(Message(b"others" + key[5:], value, 0))

    def committed_now(self, partitions: Sequence[int]) -> Mapping[int, Committed | None]:
        """As the test has it."""
        return {number: self.notes.get(number) for number in partitions}


class Contribution(NamedTuple):
    """A partition's model at the end of a round, and what is noted of it."""

    model: PartitionModel
    committed: Committed


class World:
    """A cluster with partitions that contribute, and a leader."""

    def __init__(self, partitions: int = 3, patience_s: float = math.inf) -> None:
        counts = dict.fromkeys(TOPICS, partitions) | {TOPICS.merges: 1}
        self.cluster = MemoryCluster(counts)
        self.provenance = Provenance("group", TOPICS, {"made": "up"}, MergeSettings(1, "votes", patience_s, 60.0))
        self.broker = PeekingBroker(self.cluster, MEMBER, TOPIC)
        self.notes: dict[int, Committed] = {}
        self.broker.notes = self.notes
        self.clock = Clock(0.0)
        self.tasks: list[tuple[Callable[[], object], Callable[[object], None]]] = []
        self.merges: list[tuple[MergeManifest, int, int]] = []
        self.leader = self.leads(None)

    def leads(self, newest: MergedPointer | None) -> Leader:
        """A new leader, which knows where the newest merged model is."""
        log = MergeLog(self.context)
        return Leader(self.context, log, lambda call, then: self.tasks.append((call, then)), lambda: None, newest)

    @property
    def context(self) -> MergingContext:
        """That of a worker whose metrics are told of merges alone."""
        recorder: Any = self
        return MergingContext(self.broker, self.provenance, OPTIONS, self.model, recorder, self.clock)

    def merged(self, merge: MergeManifest, _seconds: float, read_bytes: int, written_bytes: int) -> None:
        """Count."""
        self.merges.append((merge, read_bytes, written_bytes))

    def model(self, partition: int, lineage: Lineage) -> PartitionModel:
        """One that has learned nothing."""
        return PartitionModel(TOPIC, partition, lineage, SETTINGS, DECODER)

    def contributes(self, partition: int, number: int, records: int = 60) -> PartitionModel:
        """The partition has learned so many records, and waits at the end of a round."""
        lineage = self.provenance.lineage(partition, 0)
        model = self.model(partition, lineage)
        model.process(stream(records, seed=7, partition=partition))
        snapshot = encode_snapshot(model)
        log = self.cluster.log(TOPICS.models, partition)
        offsets = [
            log.append(Message(self.provenance.snapshot_key(partition, index), value, 0))
            for index, value in enumerate(snapshot.messages)
        ]
        pointer = SnapshotPointer(snapshot.at, offsets[0], offsets[-1], snapshot.digest)
        self.notes[partition] = self.note(lineage, pointer, number, BoundaryState.CONTRIBUTED)
        return model

    def note(self, lineage: Lineage, pointer: SnapshotPointer, number: int, state: BoundaryState) -> Committed:
        """What is committed of a partition at a boundary."""
        assert self.provenance.merging is not None
        merge_note = MergeNote.of(self.provenance.merging)._replace(boundary=BoundaryNote(number, pointer.at, state))
        return Committed(pointer.at, OffsetMetadata(lineage, pointer, merge_note).to_text())

    def works(self, leader: Leader, times: int = 30, seconds: float = 0.2) -> None:
        """So many iterations of the loop, or until a merged model is to be committed."""
        for _ in range(times):
            self.clock.now += seconds
            leader.step()
            while self.tasks:
                call, then = self.tasks.pop(0)
                then(call())
            if leader.sent is not None:
                return

    def commits(self, leader: Leader) -> MergedPointer:
        """What was sent is committed."""
        pointer = leader.sent
        assert pointer is not None
        leader.committed()
        return pointer

    def follower(self, newest: MergedPointer | None) -> MergeLog:
        """One who reads, and has been told that."""
        log = MergeLog(self.context)
        log.follow(newest)
        return log

    def answer(self, log: MergeLog, number: int) -> MergedModel | NoMerge:
        """What comes of asking long enough."""
        for _ in range(100):
            self.clock.now += 0.2
            answer = log.ask(number)
            if answer is not NoMerge.UNKNOWN:
                return answer
            log.read_on()
        raise AssertionError("expected an answer")


class TestMerging:
    """From contributions to a merged model that others read."""

    def test_a_round(self) -> None:
        """All contribute; the merged model is that of their models in order, and is read back with its record."""
        with small(16_000):
            world = World()
            models = {number: world.contributes(number, 3) for number in (2, 0, 1)}
            leader = world.leader
            world.works(leader)
            pointer = world.commits(leader)
            assert leader.sent is None
            assert leader.newest == pointer
            expected = merge([models[number].learner for number in range(3)])
            answer = world.answer(world.follower(pointer), 3)
            assert isinstance(answer, MergedModel)
            assert answer.model.digest() == expected.model.digest() == answer.manifest.digest
            manifest = answer.manifest
            assert [(each.partition, each.at, each.digest) for each in manifest.roster] == [
                (number, models[number].next_offset, models[number].digest()) for number in range(3)
            ]
            assert manifest.counts == expected.counts._asdict()
            ((made, read_bytes, written_bytes),) = world.merges
            assert (made.round, made.members, made.left_out) == (3, (0, 1, 2), {})
            assert read_bytes > 0
            assert written_bytes > 0
            world.works(leader)
            assert leader.sent is None

    def test_a_roster_of_one(self) -> None:
        """It is merged, and is that model."""
        world = World(1)
        model = world.contributes(0, 0)
        world.works(world.leader)
        answer = world.answer(world.follower(world.commits(world.leader)), 0)
        assert isinstance(answer, MergedModel)
        assert answer.model.digest() == mergeable_of(model.learner).digest()

    def test_many_rounds_and_leaders(self) -> None:
        """Each leader knows what those before it have merged, and merges nothing again; all are found later."""
        world = World(2)
        newest, leader = None, world.leader
        for number in (0, 1, 4, 2):
            for partition in range(2):
                world.contributes(partition, number, 40 + 5 * number)
            world.works(leader)
            newest = world.commits(leader)
            world.works(leader)
            assert leader.sent is None
            leader.close()
            leader = world.leads(newest)
            world.works(leader)
            assert leader.sent is None
        log = world.follower(newest)
        digests = set()
        for number in (4, 0, 2, 1):
            answer = world.answer(log, number)
            assert isinstance(answer, MergedModel)
            assert answer.manifest.round == number
            digests.add(answer.manifest.digest)
        assert len(digests) == 4
        assert world.answer(log, 3) is NoMerge.ABSENT

    def test_a_displaced_contribution(self) -> None:
        """While it was read, its partition has gone on alone: the merge is made anew, of the others."""
        with small(16_000):
            world = World()
            models = [world.contributes(number, 3) for number in range(3)]
            leader = world.leader
            world.clock.tick = 0.1  # a step reads no more than once
            world.works(leader, 2)
            world.contributes(1, 3, 70)
            world.cluster.compact(TOPICS.models)
            metadata = world.provenance.read_metadata(1, world.notes[1])
            assert metadata.snapshot is not None
            world.notes[1] = world.note(metadata.lineage, metadata.snapshot, 3, BoundaryState.SKIPPED)
            world.works(leader)
            answer = world.answer(world.follower(world.commits(leader)), 3)
            assert isinstance(answer, MergedModel)
            assert [each.partition for each in answer.manifest.roster] == [0, 2]
            expected = merge([models[0].learner, models[2].learner])
            assert answer.manifest.digest == expected.model.digest()

    def test_a_damaged_contribution(self) -> None:
        """Does not keep the others waiting."""
        world = World()
        for number in range(3):
            world.contributes(number, 3)
        pointer = world.provenance.read_metadata(1, world.notes[1]).snapshot
        assert pointer is not None
        lineage = world.provenance.lineage(1, 0)
        world.notes[1] = world.note(lineage, pointer._replace(digest="0" * 32), 3, BoundaryState.CONTRIBUTED)
        world.works(world.leader)
        answer = world.answer(world.follower(world.commits(world.leader)), 3)
        assert isinstance(answer, MergedModel)
        assert answer.manifest.excluded == ((1, "displaced"),)

    def test_memory(self) -> None:
        """A contribution that is read and merged takes a fraction of what its table would."""
        table = as_apple(new_model(settings=SETTINGS).learner).table
        whole = table.slots.nbytes + table.companions.nbytes

        def peak(partitions: int) -> int:
            with small():
                world = World(partitions)
                for number in range(partitions):
                    world.contributes(number, 3)
                tracemalloc.start()
                try:
                    world.works(world.leader)
                    return tracemalloc.get_traced_memory()[1]
                finally:
                    tracemalloc.stop()

        # The least of some, as other threads of the process, and what is made only once, can only add to it.
        few, many = (min(peak(partitions) for _ in range(4)) for partitions in (4, 12))
        assert many - few < 8 * whole / 2

    def test_patience(self) -> None:
        """A partition that does not come is recorded as late; so is that it is idle."""
        world = World(patience_s=10.0)
        world.contributes(0, 3)
        world.contributes(2, 3)
        world.works(world.leader, 40)
        assert world.leader.sent is None
        world.works(world.leader, 40)
        answer = world.answer(world.follower(world.commits(world.leader)), 3)
        assert isinstance(answer, MergedModel)
        assert answer.manifest.excluded == ((1, "late"),)

    def test_closed_in_mid_merge(self) -> None:
        """What a thread still makes for a leader that is none any more is not sent."""
        world = World(1)
        world.contributes(0, 0)
        leader = world.leader
        while not world.tasks:
            world.clock.now += 0.2
            leader.step()
        leader.close()
        (call, then) = world.tasks.pop()
        then(call())
        assert leader.sent is None
        assert world.cluster.log(TOPICS.merges, 0).end == 0

    def test_notes_of_others(self) -> None:
        """Something else commits in the group: ConfigurationError says so."""
        world = World(1)
        world.notes[0] = Committed(5, "something else")
        with pytest.raises(ConfigurationError, match="something else commits in this group"):
            world.works(world.leader)


@pytest.mark.parametrize(("waited", "pause"), [(0.0, 0.02), (1.0, 0.1), (60.0, 0.2), (math.inf, 0.2)])
def test_looks_become_rare(waited: float, pause: float) -> None:
    """The longer the wait so far, the longer until the next look; within bounds."""
    assert pause_s(waited, 0.02, 0.2) == pause


class TestReading:
    """The log of merges, where something is amiss."""

    def test_nothing_merged_yet(self) -> None:
        """There is nothing to be had."""
        assert World().follower(None).ask(0) is NoMerge.ABSENT

    def test_it_is_gone(self) -> None:
        """Retention has removed the model, or all: whoever waits goes on alone, and a leader goes on merging."""
        world = World(1)
        pointers = []
        for number in (0, 1, 2):
            world.contributes(0, number, 40 + number)
            world.works(world.leader)
            pointers.append(world.commits(world.leader))
        log = world.cluster.log(TOPICS.merges, 0)
        log.delete_before(pointers[1].first)
        follower = world.follower(pointers[-1])
        assert world.answer(follower, 0) is NoMerge.GONE
        assert isinstance(world.answer(follower, 1), MergedModel)
        follower.drop()
        log.delete_before(log.end)
        follower = world.follower(pointers[-1])
        assert world.answer(follower, 2) is NoMerge.GONE
        assert world.answer(follower, 3) is NoMerge.ABSENT
        leader = world.leads(pointers[-1])
        world.works(leader)
        assert leader.sent is None
        world.contributes(0, 3, 50)
        world.works(leader)
        assert isinstance(world.answer(world.follower(world.commits(leader)), 3), MergedModel)


def test_a_partition_that_has_only_answered_records_is_not_read_anew() -> None:
    """Of thousands, each does so twice a second; what is noted of it beside its offset is what it was."""
    world = World(20)
    pointer = SnapshotPointer(7, 0, 3, "0" * 32)
    for number in range(20):
        world.notes[number] = world.note(world.provenance.lineage(number, 0), pointer, 5, BoundaryState.ADOPTED)
    world.works(world.leader, 3)
    unmoved = operations(lambda: world.works(world.leader, 1))
    for number, note in world.notes.items():
        world.notes[number] = note._replace(offset=note.offset + 1)
    assert operations(lambda: world.works(world.leader, 1)) < 2 * unmoved
    world.contributes(4, 6)
    world.works(world.leader, 1)
    assert 6 in world.leader._rounds.opened
