"""Many workers on many partitions, in virtual time: what a fleet lives through, and what must come of it.

All workers take one iteration of their loops in each turn, and a turn takes TURN_S of the one clock that all look at.
Meanwhile records arrive, and at fixed turns this happens to a share of the workers: they are killed and are back at
once; killed, and missed when their session has ended; added again; asked to stop; or asleep for longer than their
session, to wake up as zombies.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from simulation.member_process import End
from simulation.merging.oracle import in_lockstep
from simulation.process import GROUP, TOPICS, Process, Setup
from simulation.world import SETUP, Input, complete, make_cluster, make_input, outputs_of, pointer_of, state_of
from stream.learning.late_threads import LateThreads
from support.clock import Clock
from support.records import DECODER, TOPIC, good

from stream_apple.stream.loop.loop import LoopSettings
from stream_apple.stream.loop.transaction import CommitSettings
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.partitions.state import State
from stream_apple.stream.positions.merge_note import MergeSettings

TURN_S = 0.1
"""Of virtual time: so long a fetch of an idle worker waits."""
COMMITS_S = 0.5
SEED = 23
HOT = 50
"""One partition of so many has HOT_TIMES as many records."""
HOT_TIMES = 6
SHARE = 10
"""One worker of so many, and at least one, is struck at a time."""
ARRIVING = 0.4
"""Share of the partitions in which a record arrives in a turn."""
BETWEEN = 12
"""Turns from one accident to the next."""
MOST_TURNS = 4_000
LOOP = LoopSettings(fetch_records=60, commits=CommitSettings(1_000, COMMITS_S), snapshot_interval_s=5.0)


class Size(NamedTuple):
    """How large a fleet is: partitions, workers that share them, and records in all partitions but the hot ones."""

    partitions: int
    workers: int
    records: int

    @property
    def counts(self) -> tuple[int, ...]:
        """Records of each partition."""
        hot = (self.records * HOT_TIMES if number % HOT == 1 else self.records for number in range(self.partitions))
        return tuple(hot)


def given_to(size: Size, merging: MergeSettings | None) -> Input:
    """The records of each partition.

    Where all wait for all, none begins with a clock that is days ahead, and each comes to the ends of the same two
    rounds at last: so nobody waits for what does not come.
    """
    given = make_input(SEED, size.counts)
    if merging is None:
        return given
    closed = []
    for number, (first, *rest) in enumerate(given):
        after = (rest[-1].at + 1 + index for index in range(3))
        last = [good(at, hours=8.0 + index * merging.every, partition=number) for index, at in enumerate(after)]
        closed.append((good(first.at, partition=number), *rest, *last))
    return tuple(closed)


class Wait(NamedTuple):
    """The longest time, in turns, that a live partition had records before it and none learned.

    owned  partitions of its worker then
    """

    turns: int
    owned: int


class Fleet:
    """One run of a fleet, a function of its size and of what is merged.

    processes  all that were ever started
    turns      that have been taken
    longest    of the waits of all partitions
    moved      what has happened -> how many partitions had another owner then
    """

    def __init__(self, size: Size, merging: MergeSettings | None = None) -> None:
        self.size = size
        # Merged models are saved when rounds end.
        loop = LOOP if merging is None else LOOP._replace(snapshot_interval_s=3600.0)
        self.setup = Setup(SETUP.settings, loop, SETUP.model, merging=merging)
        self.given = given_to(size, merging)
        self.cluster = make_cluster(size.partitions)
        self.processes: list[Process] = []
        self.turns = 0
        self.longest = Wait(0, size.partitions)
        self.moved: Counter[str] = Counter()
        self._accident = "started"
        self._group = self.cluster.group(GROUP, TOPIC)
        self._group.patience = 20 * size.workers
        self._clock = Clock(0.0)
        self._draw = random.Random(SEED)
        self._input = [iter(records) for records in self.given]
        self._running: dict[str, Process] = {}
        self._asleep: set[str] = set()
        self._owners: dict[int, str] = {}
        self._stands: dict[int, tuple[int, int]] = {}
        late = random.Random(SEED)
        self.cluster.transactions.lags = lambda: late.random() < 0.3

    def run(self) -> "Fleet":
        """From the first worker's start until all is learned; AssertionError if a process leaves without a reason."""
        for number in range(self.size.workers):
            self._start(f"worker-{number:03}")
        accidents: Sequence[Callable[[list[str]], None]] = (
            self._killed_and_back,
            self._missed,
            self._added,
            self._stopped,
            self._added,
            self._asleep_for_long,
        )
        for accident in accidents:
            self._take_turns(BETWEEN)
            share = max(self.size.workers // SHARE, 1)
            self._accident = accident.__name__.lstrip("_")
            accident(self._draw.sample(sorted(self._running), share))
        self._take_turns(BETWEEN)
        self._asleep.clear()
        for records in self._input:
            self.cluster.load(TOPIC, list(records))
        ends = {log.number: log.end for log in self.cluster.logs(TOPIC)}
        while self.live != ends:
            assert self.turns < MOST_TURNS, f"behind after {self.turns} turns: {self._behind(ends)}"
            self._take_turns(1)
        return self

    def stop(self) -> None:
        """Let all workers save their models and leave."""
        for process in self._running.values():
            process.stop()
            assert process.error is None
        self._running.clear()

    @property
    def live(self) -> dict[int, int]:
        """The next offset of each partition that has an owner who goes on with it."""
        return {number: at for process in self._running.values() for number, at in process.live.items()}

    def model_of(self, partition: int) -> PartitionModel:
        """The model of the partition's owner."""
        (owner,) = (process for process in self._running.values() if partition in process.live)
        return owner.owned.by_number[partition].model

    def calls(self) -> Counter[str]:
        """How often all processes have made each call of the port."""
        return Counter(name for process in self.processes for name in process.broker.calls)

    def _behind(self, ends: Mapping[int, int]) -> dict[int, int | None]:
        live = self.live
        return {number: live.get(number) for number, end in ends.items() if live.get(number) != end}

    def _start(self, name: str) -> None:
        threads = LateThreads(random.Random(self._draw.random()), 0.7)
        measured = not self.processes  # one of them, since metrics cost more than all the rest
        process = Process(self.cluster, name, setup=self.setup, measured=measured, threads=threads, clock=self._clock)
        self.processes.append(process)
        self._running[name] = process

    def _take_turns(self, count: int) -> None:
        for _ in range(count):
            self.turns += 1
            self._clock.now += TURN_S
            for records in self._input:
                if self._draw.random() < ARRIVING:
                    self.cluster.load(TOPIC, list(islice(records, 1)))
            for name, process in list(self._running.items()):
                if name not in self._asleep:
                    process.step()
                    self._revive(name, process)
            self._watch()

    def _revive(self, name: str, process: Process) -> None:
        """Start a process again that has left, as a supervisor does."""
        if process.ended is not None:
            assert not process.unprovoked, f"{name} left without a reason: {process.error!r}"
            assert process.ended is not End.CRASHED
            self._start(name)

    def _watch(self) -> None:
        """See which partitions have moved, and which were passed over."""
        before, self._stands = self._stands, {}
        for name, process in self._running.items():
            owned = {} if name in self._asleep else process.owned.by_number
            for number, partition in owned.items():
                if partition.state is not State.LIVE:
                    continue  # it waits for its model, or for others
                if self._owners.get(number) != name:
                    self._owners[number] = name
                    self.moved[self._accident] += 1
                at, since = before.get(number, (-1, 0))
                if partition.sent_offset != at or at == self.cluster.log(TOPIC, number).stable:
                    since = self.turns
                self._stands[number] = (partition.sent_offset, since)
                waited = Wait(self.turns - since, len(owned))
                if waited.turns * self.longest.owned > self.longest.turns * waited.owned:
                    self.longest = waited

    def _killed_and_back(self, names: list[str]) -> None:
        for name in names:
            self._running.pop(name).kill()
            self._start(name)

    def _missed(self, names: list[str]) -> None:
        for name in names:
            self._running.pop(name).kill()
        self._take_turns(3)
        for name in names:
            self._group.expire(name)
            self.cluster.transactions.init(f"{GROUP}.{name}")  # as the coordinator does in time

    def _added(self, names: list[str]) -> None:
        """As many as are missing."""
        missing = [f"worker-{number:03}" for number in range(self.size.workers)]
        for name in [name for name in missing if name not in self._running][: len(names)]:
            self._start(name)

    def _stopped(self, names: list[str]) -> None:
        for name in names:
            self._running.pop(name).stop()
            self._group.expire(name)

    def _asleep_for_long(self, names: list[str]) -> None:
        self._asleep.update(names)
        self._take_turns(2)
        for name in names:
            self._group.expire(name)
            self.cluster.transactions.init(f"{GROUP}.{name}")


class Alone(NamedTuple):
    """What a partition's records come to without workers: the model, and its predictions."""

    model: PartitionModel
    answers: list[bytes]


def alone(fleet: Fleet) -> list[Alone]:
    """Of each partition; where models are merged, all of them together."""
    if fleet.setup.merging is not None:
        return [Alone(lane, lane.answers) for _, lane in sorted(in_lockstep(fleet.given, fleet.setup).items())]
    found = []
    for partition, records in enumerate(fleet.given):
        lineage = fleet.setup.provenance.lineage(partition, 0)
        model = PartitionModel(TOPIC, partition, lineage, fleet.setup.settings, DECODER)
        found.append(Alone(model, model.process(records).predictions))
    return found


def check(fleet: Fleet) -> None:
    """All is as it comes of the records alone; AssertionError if it is not. The workers stop meanwhile.

    Each partition's model as its owner has it, to the bit; its predictions; one answer to each record; its snapshot
    and offset when all have stopped.
    """
    expected = alone(fleet)
    for partition, (model, _) in enumerate(expected):
        assert state_of(fleet.model_of(partition)) == state_of(model), f"the state of partition {partition}"
    fleet.stop()
    outputs, offsets = outputs_of(fleet.cluster), fleet.cluster.group(GROUP, TOPIC).offsets
    for partition, (records, (model, answers)) in enumerate(zip(fleet.given, expected, strict=True)):
        predictions, letters = outputs[TOPICS.predictions, partition], outputs[TOPICS.dead_letters, partition]
        assert [output.value for output in predictions] == answers
        keys = [output.key or b"" for output in (*predictions, *letters)]
        assert sorted(keys) == sorted(record.named or b"" for record in records)
        pointer, end = pointer_of(fleet.cluster, partition, fleet.setup), fleet.cluster.log(TOPIC, partition).end
        assert pointer is not None
        assert (pointer.at, pointer.digest, offsets[partition].offset) == (end, model.digest(), end)


def check_one_for_all(fleet: Fleet) -> Process:
    """When all have stopped, one worker finds all models, and changes nothing of what is published; it is returned."""
    before = outputs_of(fleet.cluster)
    group = fleet.cluster.group(GROUP, TOPIC)
    for instance in group.members:
        group.expire(instance)
    last = Process(fleet.cluster, "last", setup=fleet.setup, measured=False)
    complete(fleet.cluster, last)
    assert outputs_of(fleet.cluster) == before
    return last
