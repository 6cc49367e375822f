"""Partitions that merge, in one process without Kafka, loop or notes: what workers must come to, whatever befalls them.

Nothing of how workers do it is used but the merge itself. Where the boundaries are is found by a model that learns
alone and looks at each record by itself; each stretch between two of them is then learned in one call.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from simulation.process import Setup
from support.records import DECODER, TOPIC, FakeRecord

from stream_apple.learners.apple.merging.merge import merge
from stream_apple.learners.apple.merging.mergeable import mergeable_of
from stream_apple.learners.merging_port import Mergeable
from stream_apple.stream.merging.adoptions import AdoptionRecord
from stream_apple.stream.model.model_image import Ended
from stream_apple.stream.model.partition_model import EpochEnd, PartitionModel
from stream_apple.stream.positions.merge_note import BoundaryState
from stream_apple.stream.snapshots.merge_messages import MergeManifest


class Stop(NamedTuple):
    """The end of a round in a partition.

    epoch    the one that ends
    records  of the partition, before it
    """

    round: int
    epoch: int
    records: int


def stops_of(records: Sequence[FakeRecord], every: int, setup: Setup) -> list[Stop]:
    """Where a partition comes to the ends of rounds, by a model that learns one record after another."""
    model = PartitionModel(TOPIC, 0, setup.provenance.lineage(0, 0), setup.settings, DECODER)
    return [
        Stop(end.epoch // every, end.epoch, count)
        for count, record in enumerate(records)
        for end in model.process([record]).ends
        if model.clock.epoch // every > end.epoch // every
    ]


class Lane(PartitionModel):
    """A partition's model, which knows nothing of rounds, and what it answers.

    stop  the one that it stands at; None when it has learned all
    """

    def __init__(self, partition: int, records: Sequence[FakeRecord], setup: Setup) -> None:
        assert setup.merging is not None
        super().__init__(TOPIC, partition, setup.provenance.lineage(partition, 0), setup.settings, DECODER)
        self.answers: list[bytes] = []
        self.stop: Stop | None = None
        self._records = records
        self._stops = stops_of(records, setup.merging.every, setup)
        self._done = 0
        self._grown: EpochEnd | None = None

    def go_on(self) -> None:
        """Learn up to the next stop, and end the epoch there."""
        self.stop = self._stops.pop(0) if self._stops else None
        until = len(self._records) if self.stop is None else self.stop.records
        if until > self._done:
            self.answers += self.process(self._records[self._done : until]).predictions
        self._done = until
        if self.stop is not None:
            self._grown = self._end_epoch(self.stop.epoch, self._records[until].at)

    def contribution(self) -> Mergeable:
        """What it is made of now, in memory of its own."""
        options, state = mergeable_of(self.learner)
        return Mergeable(options, state.copy())

    def _end_epoch(self, epoch: int, offset: int, *, digested: bool = True) -> EpochEnd:
        grown, self._grown = self._grown, None
        if grown is not None:  # before it was merged
            return grown
        growth = self.learner.end_epoch(nominate=True)
        self.ended = Ended(epoch, self.learner.digest() if digested else "")
        return EpochEnd(epoch, offset, growth, self.ended.digest, self.learner.progress.report("last_epoch"))


Lanes = Mapping[int, Lane]


def _lanes(given: Sequence[Sequence[FakeRecord]], setup: Setup) -> dict[int, Lane]:
    lanes = {partition: Lane(partition, records, setup) for partition, records in enumerate(given)}
    for lane in lanes.values():
        lane.go_on()
    return lanes


def in_lockstep(given: Sequence[Sequence[FakeRecord]], setup: Setup) -> Lanes:
    """All partitions, merged with patience for ever; AssertionError if that is for ever."""
    assert setup.merging is not None
    lanes, parents = _lanes(given, setup), setup.merging.parents
    newest = dict.fromkeys(lanes, -1)
    while stops := {number: lane.stop.round for number, lane in lanes.items() if lane.stop is not None}:
        newest |= stops
        number = min(stops.values())
        assert all(reached >= number for reached in newest.values()), f"round {number} is waited for: {newest}"
        roster = [lane for partition, lane in sorted(lanes.items()) if stops.get(partition) == number]
        model = merge([lane.learner for lane in roster], parents=parents).model
        for lane in roster:
            lane.adopt(model)
            lane.go_on()
    return lanes


def as_recorded(
    given: Sequence[Sequence[FakeRecord]],
    setup: Setup,
    manifests: Mapping[int, MergeManifest],
    adoptions: Sequence[AdoptionRecord],
    check: Callable[[AdoptionRecord, Lane], None] = lambda *_: None,
) -> Lanes:
    """All partitions, merged of those who were in it, and each going on with what is recorded that it did.

    manifests  round -> what is recorded of its merge
    adoptions  in any order
    check      called with each record and the partition's model, as it goes on
    """
    assert setup.merging is not None
    lanes, parents = _lanes(given, setup), setup.merging.parents
    recorded = {(each.partition, each.round, each.at): each for each in adoptions}
    contributions: dict[tuple[int, int, int], Mergeable] = {}
    models: dict[int, Mergeable] = {}

    def place(partition: int, lane: Lane) -> tuple[int, int, int]:
        assert lane.stop is not None
        return partition, lane.stop.round, lane.next_offset

    moved = True
    while moved:
        moved = False
        for partition, lane in lanes.items():
            if lane.stop is not None and place(partition, lane) not in contributions:
                contributions[place(partition, lane)] = lane.contribution()
        for number, manifest in manifests.items():
            of = [(each.partition, number, each.at) for each in manifest.roster]
            if number not in models and all(each in contributions for each in of):
                models[number] = merge([contributions[each] for each in of], parents=parents).model
                assert models[number].digest() == manifest.digest, f"round {number} is not that of its roster"
        for partition, lane in lanes.items():
            if lane.stop is None:
                continue
            record = recorded.get(place(partition, lane))
            assert record is not None, f"partition {partition} went on at {lane.stop} without a record"
            if record.state is BoundaryState.ADOPTED:
                if record.round not in models:
                    continue
                lane.adopt(models[record.round])
            check(record, lane)
            lane.go_on()
            moved = True
    assert all(lane.stop is None for lane in lanes.values()), {number: lane.stop for number, lane in lanes.items()}
    return lanes
