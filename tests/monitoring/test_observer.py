"""What is kept for those who look: bounded, newest first, and off the loop's thread."""

import pytest
from support.records import FakeRecord, new_model, stream
from support.snapshots import pointer
from support.waiting import wait_until

from stream_apple.monitoring.observer import (
    RECENT_REJECTS,
    ObserverThread,
    WorkerObserver,
    rest_after,
)
from stream_apple.monitoring.partition_history import points_of
from stream_apple.records.message.feature_names import Names
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.partitions.recovery import RecoveryPlan
from stream_apple.stream.partitions.state import State
from stream_apple.stream.snapshots.codec import SnapshotDecoder, encode_snapshot


class Counted(FakeRecord):
    """A record that tells how often its value was asked for."""

    asked = 0

    def value(self) -> bytes | None:
        """The value."""
        Counted.asked += 1
        return super().value()


def owned(*states: State) -> dict[int, Partition]:
    """Partitions in these states, whose models have learned some records."""
    partitions = {}
    for number, state in enumerate(states):
        model = new_model(number)
        model.process(stream(300, seed=2, partition=number, bad_share=0.0))
        partition = Partition(model, RecoveryPlan(model.lineage, 0))
        partition.enter(state)
        partitions[number] = partition
    return partitions


def test_a_batch_costs_no_look_at_its_records() -> None:
    """On the loop's thread no value is read: one record is kept, whatever the size of the batch."""
    (partition,) = owned(State.LIVE).values()
    records = [Counted(*record) for record in stream(1000, seed=3, bad_share=0.0)]
    outcome = new_model().process(records)
    Counted.asked = 0
    watch = WorkerObserver()
    watch.processed(partition, records, outcome)
    assert Counted.asked == 0
    assert len(watch.names) == 0
    assert watch.take_names()
    assert len(watch.names) > 0
    assert not watch.take_names(), "each record is taken once"


def test_a_batch_of_no_records() -> None:
    """A model may stop before the first of those that it is given: what was remembered stays."""
    (partition,) = owned(State.LIVE).values()
    records = stream(10, seed=3, bad_share=0.0)
    watch = WorkerObserver()
    watch.processed(partition, [], new_model().process([]))
    assert not watch.take_names()
    watch.processed(partition, records, new_model().process(records))
    watch.processed(partition, [], new_model().process([]))
    assert watch.take_names()


def test_the_newest_dead_letters_are_kept() -> None:
    """Of many unusable records the last twenty stay, the newest first, as they were explained."""
    (partition,) = owned(State.LIVE).values()
    records = stream(900, seed=3, bad_share=0.2)
    model = new_model()
    watch = WorkerObserver()
    expected = []
    for start in range(0, 900, 300):
        batch = records[start : start + 300]
        result = model.process(batch)
        watch.processed(partition, batch, result)
        expected += [(reject.record.offset(), reject.reason.code, reject.message) for reject in result.rejects]
    assert len(expected) > 2 * RECENT_REJECTS
    found = [(letter.offset, letter.reason, letter.message) for letter in watch.dead_letters()]
    assert found == expected[::-1][:RECENT_REJECTS]


def test_only_whole_models_have_a_history() -> None:
    """A model that is half read has no losses yet."""
    watch = WorkerObserver(now_ms=lambda: 7)
    partitions = owned(State.LIVE, State.RESTORING, State.REPLAYING)
    watch.follow(lambda: partitions)
    watch.take_points()
    assert [len(watch.history(number, 0)) for number in range(3)] == [1, 0, 1]
    (found,) = watch.history(0, 0)
    assert found.at_ms == 7
    assert found.examples == partitions[0].model.learner.examples > 0
    assert found.whole == partitions[0].model.learner.progress.report("whole").loss
    assert (found.offset, found.lag) == (partitions[0].sent_offset, -1)
    assert watch.history(0, 7) == []


def test_dropped_models_are_not_held() -> None:
    """What is ours is asked for each time."""
    watch = WorkerObserver()
    assert watch.owned == {}
    partitions = owned(State.LIVE)
    watch.follow(lambda: partitions)
    assert list(watch.owned) == [0]
    partitions.clear()
    assert watch.owned == {}


def test_the_thread_takes_in_what_comes() -> None:
    """Names and points appear without anyone asking, and the thread ends with its context."""
    (partition,) = owned(State.LIVE).values()
    watch = WorkerObserver(Names(most=1000))
    watch.follow(lambda: {0: partition})
    batch = stream(10, bad_share=0.0)
    outcome = new_model().process(batch)
    thread = ObserverThread(watch)
    with thread:
        watch.processed(partition, batch, outcome)
        wait_until(lambda: len(watch.names) and watch.history(0, 0), "names and points")
    assert not thread._thread.is_alive()


@pytest.mark.parametrize(("spent", "rest"), [(0.0, 0.05), (0.0001, 0.05), (0.005, 1.0), (0.05, 10.0)])
def test_names_take_half_a_percent(spent: float, rest: float) -> None:
    """After work comes a rest two hundred times as long."""
    assert rest_after(spent) == pytest.approx(rest)


class Worker:
    """An observer at some time of day, of one partition whose records behind are known."""

    def __init__(self, partition: Partition, now_ms: int) -> None:
        self.now_ms = now_ms
        self.watch = WorkerObserver(now_ms=lambda: self.now_ms)
        self.watch.follow(lambda: {0: partition}, lambda _: 5.0)

    def see(self, *moments_ms: int) -> None:
        """Look at these moments."""
        for self.now_ms in moments_ms:
            self.watch.take_points()

    @property
    def times(self) -> list[int]:
        """Of the points that it has."""
        return [point.at_ms for point in self.watch.history(0, 0)]


def restarted(partition: Partition) -> Partition:
    """The partition in another process, from the newest snapshot."""
    snapshot = encode_snapshot(partition.model)
    model = new_model(0)
    decoder = SnapshotDecoder(model, pointer(snapshot))
    for message in snapshot.messages:
        decoder.add(message)
    found = Partition(model, RecoveryPlan(model.lineage, 0))
    found.enter(State.LIVE)
    return found


def test_a_history_goes_on_after_a_restart() -> None:
    """What was seen before the snapshot is there, to the bit, and what follows comes behind it."""
    (partition,) = owned(State.LIVE).values()
    digest = partition.model.digest()
    before = Worker(partition, 0)
    before.see(1_000, 3_000, 20_000)
    assert partition.model.digest() == digest, "it is no part of the model"
    after = Worker(restarted(partition), 100_000)
    after.see(100_000)
    assert after.times == [1_000, 3_000, 20_000, 100_000]
    assert after.watch.history(0, 0)[:3] == before.watch.history(0, 0)
    assert after.watch.history(0, 0)[-1].lag == 5
    after.see(101_000, 120_000)
    assert after.times == [1_000, 3_000, 20_000, 100_000, 101_000, 120_000]


def test_a_history_comes_back_with_its_partition() -> None:
    """What another worker has seen meanwhile stands between what this one has seen before and after."""
    (partition,) = owned(State.LIVE).values()
    first = Worker(partition, 0)
    first.see(1_000, 20_000)
    second = Worker(restarted(partition), 0)
    second.see(30_000, 50_000)
    returned = restarted(second.watch.owned[0])
    first.watch.follow(lambda: {0: returned})
    first.see(60_000)
    assert first.times == [1_000, 20_000, 30_000, 50_000, 60_000]


def test_a_history_is_handed_over_seldom() -> None:
    """Making it costs a millisecond: it is made every ten seconds, not at every look."""
    (partition,) = owned(State.LIVE).values()
    worker = Worker(partition, 0)
    worker.see(1_000)
    handed = partition.model.attachments["history"]
    worker.see(2_000, 9_000)
    assert partition.model.attachments["history"] is handed
    worker.see(11_000)
    assert partition.model.attachments["history"] is not handed
    assert len(points_of(partition.model.attachments["history"])) == 4
