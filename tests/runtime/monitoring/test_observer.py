"""What is kept for those who look: bounded, newest first, and off the loop's thread."""

from itertools import pairwise

import pytest
from support.records import FakeRecord, new_model, stream
from support.waiting import wait_until

from stream_apple.core.codec.feature_names import Names
from stream_apple.runtime.monitoring.observer import (
    HISTORY_POINTS,
    RECENT_REJECTS,
    LossHistory,
    LossPoint,
    NullObserver,
    ObserverThread,
    WorkerObserver,
    rest_after,
)
from stream_apple.runtime.partition import Partition, State
from stream_apple.runtime.recovery import RecoveryPlan


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


def point(at_ms: int) -> LossPoint:
    """A moment."""
    return LossPoint(at_ms, at_ms, 1, *[float(at_ms)] * 8)


def test_a_batch_costs_one_look_at_one_record() -> None:
    """On the loop's thread no record is decoded: one value is taken, whatever the size of the batch."""
    (partition,) = owned(State.LIVE).values()
    records = [Counted(*record) for record in stream(1000, seed=3, bad_share=0.0)]
    outcome = new_model().process(records)
    Counted.asked = 0
    watch = WorkerObserver()
    watch.processed(partition, records, outcome)
    assert Counted.asked == 1
    assert len(watch.names) == 0
    assert watch.take_names()
    assert len(watch.names) > 0
    assert not watch.take_names(), "each record is taken once"
    NullObserver().processed(partition, records, outcome)
    assert Counted.asked == 1


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


def test_histories_are_bounded_and_cover_everything() -> None:
    """However long it goes on, there are at most so many points, from the first moment to the last ones."""
    history = LossHistory()
    for second in range(20_000):
        history.add(point(1000 * second + 5))
        assert len(history.since(0)) <= HISTORY_POINTS
    points = history.since(0)
    assert len(points) > HISTORY_POINTS // 3
    assert points[0].at_ms == 5
    assert points[-1].at_ms > 19_900_000
    steps = {later.at_ms - earlier.at_ms for earlier, later in pairwise(points)}
    assert max(steps) <= 2 * min(steps)
    assert history.since(points[-2].at_ms) == [points[-1]]


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
    assert found.whole == partitions[0].model.learner.progress.progressive_loss
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
