"""Work on several models at once: nothing is lost, nothing overtakes, and nobody works on what was dropped."""

import random
import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest
from stream.learning.late_threads import LateThreads, OwnThread
from support.clock import Clock
from support.records import DECODER, SETTINGS, TOPIC, good, stream
from support.waiting import DEADLINE_S

from stream_apple.errors import ModelError
from stream_apple.stream.learning import scheduler as scheduler_module
from stream_apple.stream.learning.scheduler import LearningScheduler
from stream_apple.stream.learning.threads import ThreadPool, Threads
from stream_apple.stream.log.columns import bytes_of
from stream_apple.stream.log.ports import Record
from stream_apple.stream.model.partition_model import BatchResult, PartitionModel
from stream_apple.stream.partitions.partition import Partition
from stream_apple.stream.partitions.recovery import RecoveryPlan
from stream_apple.stream.positions.lineage import Lineage

PARTITIONS = 5
RECORDS = {number: stream(300, seed=number, partition=number, bad_share=0.1) for number in range(PARTITIONS)}


def partition(number: int) -> Partition:
    """With a model that has learned nothing."""
    model = PartitionModel(TOPIC, number, Lineage(0, "m"), SETTINGS, DECODER)
    return Partition(model, RecoveryPlan(model.lineage, 0))


class Published:
    """What comes out, by partition."""

    def __init__(self) -> None:
        self.offsets: dict[int, list[int]] = {}
        self.predictions: dict[int, list[bytes]] = {}
        self.threads: set[int] = set()

    def __call__(self, place: Partition, records: list[Record], result: BatchResult) -> None:
        """Take it down."""
        self.threads.add(threading.get_ident())
        self.offsets.setdefault(place.number, []).extend(record.offset() for record in records)
        self.predictions.setdefault(place.number, []).extend(result.predictions)
        assert result.next_offset == self.offsets[place.number][-1] + 1


@pytest.fixture(params=["own", "late", "pool of 1", "pool of 4"])
def threads(request: pytest.FixtureRequest) -> Iterator[Threads]:
    """Of every kind."""
    kind: str = request.param
    made: Threads
    if kind == "own":
        made = OwnThread()
    elif kind == "late":
        made = LateThreads(random.Random(1), 0.3)
    else:
        made = ThreadPool(int(kind[-1]))
    yield made
    made.close()


def test_the_result_is_that_of_one_thread(threads: Threads) -> None:
    """Each partition's records in their order, whatever is learned beside them, in whatever portions."""
    published, draw = Published(), random.Random(3)
    scheduler = LearningScheduler(threads, published, 10_000)
    places = {number: partition(number) for number in RECORDS}
    left = {number: list(records) for number, records in RECORDS.items()}
    while any(left.values()):
        number = draw.choice([number for number, records in left.items() if records])
        size = draw.randint(1, 40)
        scheduler.add(places[number], list[Record](left[number][:size]))
        left[number] = left[number][size:]
        if draw.random() < 0.5:
            scheduler.collect(draw.choice([0.0, 0.001]))
    scheduler.settle()
    assert not scheduler.busy
    assert published.threads == {threading.get_ident()}
    for number, records in RECORDS.items():
        alone = partition(number).model
        assert published.predictions[number] == alone.process(records).predictions
        assert places[number].model.digest() == alone.digest()
        assert published.offsets[number] == [record.at for record in records]


def test_a_call_sees_what_was_added_before_it(threads: Threads) -> None:
    """It has the model to itself between two batches, and is answered when the earlier one has been published."""
    published = Published()
    scheduler = LearningScheduler(threads, published, 10_000)
    place, records = partition(0), RECORDS[0]
    seen: list[tuple[int, int]] = []
    scheduler.add(place, list(records[:100]))
    scheduler.ask(place, lambda: place.model.next_offset, lambda at: seen.append((at, len(published.offsets[0]))))
    scheduler.add(place, list(records[100:]))
    scheduler.settle()
    ((at, count),) = seen
    assert published.offsets[0] == [record.at for record in records]
    assert at == records[count - 1].at + 1


def test_room_is_limited() -> None:
    """Records count until what came of them has been published."""
    scheduler = LearningScheduler(LateThreads(random.Random(1), 0.0), Published(), 10)
    place = partition(0)
    scheduler.add(place, list(RECORDS[0][:9]))
    assert scheduler.room
    scheduler.add(place, list(RECORDS[0][9:10]))
    assert not scheduler.room
    scheduler.settle()
    assert scheduler.room


def test_large_records_leave_less_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few of them may be most of the memory; a tombstone is none."""
    records = [good(0), good(1), good(2)._replace(payload=None)]
    size = len(records[0].payload or b"") + len(records[1].payload or b"")
    for most in (size, size + 1):
        monkeypatch.setattr(scheduler_module, "MOST_BYTES", most)
        scheduler = LearningScheduler(LateThreads(random.Random(1), 0.0), Published(), 10)
        scheduler.add(partition(0), list[Record](records))
        assert scheduler.room == (most > size)
        scheduler.settle()
        assert scheduler.room


@pytest.mark.parametrize("most", [1, 300, 5_000])
def test_a_batch_has_a_bound_in_bytes(most: int, threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a record at least; what comes out is what comes out of one batch."""
    monkeypatch.setattr(scheduler_module, "BATCH_BYTES", most)
    portions: list[list[Record]] = []

    def publish(_place: Partition, records: list[Record], result: BatchResult) -> None:
        portions.append(records)
        predictions.extend(result.predictions)

    predictions: list[bytes] = []
    scheduler, place = LearningScheduler(threads, publish, 10_000), partition(0)
    scheduler.add(place, list[Record](RECORDS[0][:200]))
    scheduler.add(place, list[Record](RECORDS[0][200:]))
    scheduler.settle()
    alone = partition(0).model
    assert predictions == alone.process(RECORDS[0]).predictions
    assert place.model.digest() == alone.digest()
    assert [record for records in portions for record in records] == RECORDS[0]
    sizes = [[len(record.value() or b"") for record in records] for records in portions]
    assert all(sum(each) <= most or len(each) == 1 for each in sizes)
    assert len(sizes) > len(RECORDS[0]) // 100 or most > 300


def test_who_must_stop_waits_for_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was fetched beyond it is left to whoever fetches it again; of other partitions, everything is learned."""
    monkeypatch.setattr(scheduler_module, "BATCH_BYTES", 300)
    published = Published()
    scheduler = LearningScheduler(LateThreads(random.Random(1), 0.0), published, 10)
    places = [partition(0), partition(1)]
    for place in places:
        scheduler.add(place, list(RECORDS[place.number]))
    scheduler.settle(places[:1])
    assert 0 < len(published.offsets[0]) < 20
    assert published.offsets[1] == [record.at for record in RECORDS[1]]
    assert (scheduler.busy, scheduler.room) == (False, True)
    assert places[0].model.next_offset == published.offsets[0][-1] + 1
    scheduler.add(places[0], list(RECORDS[0][len(published.offsets[0]) :]))
    scheduler.settle()
    assert published.offsets[0] == [record.at for record in RECORDS[0]]
    alone = partition(0).model
    alone.process(RECORDS[0])
    assert places[0].model.digest() == alone.digest()


def test_how_long_a_task_has_been_waited_for() -> None:
    """The longest of all that are not done: a thread that hangs must not look like one that works."""
    clock, threads = Clock(0.0), ThreadPool(2)
    scheduler = LearningScheduler(threads, Published(), 10, clock)
    hanging = threading.Event()
    assert scheduler.longest_s == 0.0
    scheduler.ask(partition(0), lambda: hanging.wait(DEADLINE_S), lambda _: None)
    clock.now += 5.0
    scheduler.ask(partition(1), lambda: hanging.wait(DEADLINE_S), lambda _: None)
    clock.now += 2.0
    assert scheduler.longest_s == 7.0
    hanging.set()
    scheduler.settle()
    assert scheduler.longest_s == 0.0
    scheduler.close()


def test_an_error_comes_out_where_results_do(threads: Threads) -> None:
    """As it was raised."""
    scheduler = LearningScheduler(threads, Published(), 10)

    def fail() -> None:
        raise ModelError("not finite")

    scheduler.ask(partition(0), fail, lambda _: None)
    with pytest.raises(ModelError, match="not finite"):
        scheduler.settle()
    assert not scheduler.busy


def test_nothing_of_what_was_dropped_comes_out(threads: Threads) -> None:
    """Neither its result nor its error, and the scheduler goes on with something else."""
    published = Published()
    scheduler = LearningScheduler(threads, published, 10)
    place = partition(0)

    def fail() -> None:
        raise ModelError("not finite")

    for _ in range(3):
        scheduler.add(place, list(RECORDS[0][:20]))
        scheduler.ask(place, fail, lambda _: None)
    scheduler.drop()
    assert (scheduler.busy, scheduler.room, published.offsets) == (False, True, {})
    scheduler.add(partition(0), [good(0)])
    scheduler.settle()
    assert published.offsets == {0: [0]}


def test_a_drop_waits_for_the_thread_that_has_the_model() -> None:
    """Whoever drops the models next must be the only one to have them."""
    ended = threading.Event()

    def slow() -> None:
        time.sleep(0.1)
        ended.set()

    threads = ThreadPool(1)
    scheduler = LearningScheduler(threads, Published(), 10)
    scheduler.ask(partition(0), slow, lambda _: None)
    scheduler.drop()
    assert ended.is_set()
    scheduler.close()


def test_partitions_are_learned_at_the_same_time() -> None:
    """Two calls that wait for each other both end, which they could not in one thread."""
    scheduler = LearningScheduler(ThreadPool(2), Published(), 10)
    barrier = threading.Barrier(2, timeout=DEADLINE_S)
    passed: list[int] = []
    for number in range(2):
        scheduler.ask(partition(number), barrier.wait, passed.append)
    scheduler.settle()
    assert sorted(passed) == [0, 1]
    scheduler.close()


def test_one_partition_is_never_learned_twice_at_once() -> None:
    """Its calls are made in their order, with many threads idle."""
    scheduler = LearningScheduler(ThreadPool(4), Published(), 10)
    place, running, most, order = partition(0), [0], [0], list[int]()

    def call(number: int) -> int:
        running[0] += 1
        most[0] = max(most[0], running[0])
        time.sleep(0.002)
        running[0] -= 1
        return number

    for number in range(10):
        scheduler.ask(place, lambda number=number: call(number), order.append)  # type: ignore[misc]
    scheduler.settle()
    assert (most, order) == ([1], list(range(10)))
    scheduler.close()


class StandingStill:
    """Partitions whose models come to the end of a round at record 100, and what is published of them."""

    def __init__(self, threads: Threads, most: int = 10_000) -> None:
        self.published = Published()
        self.scheduler = LearningScheduler(threads, self._publish, most)
        settings = SETTINGS._replace(merge_every=1)
        model = PartitionModel(TOPIC, 0, Lineage(0, "m"), settings, DECODER)
        self.place = Partition(model, RecoveryPlan(model.lineage, 0))
        self.among = 1
        hours = [good(at, 1.0, 0.5 if at < 100 else 1.5) for at in range(300)]
        self.records: list[Record] = list(hours)

    def _publish(self, place: Partition, records: list[Record], result: BatchResult) -> None:
        self.published(place, records, result)
        if result.boundary is not None:
            self.scheduler.hold(place, result.boundary.at, self.among)

    def release(self) -> None:
        """Let the model go on behind the end of the round."""
        assert self.place.model.rounds is not None
        self.place.model.rounds.go_on()
        self.scheduler.go_on(self.place)


def test_what_follows_where_a_model_stands_still_is_kept(threads: Threads) -> None:
    """The rest of its batch, batches behind it, and what comes meanwhile: in their order, once, when it goes on."""
    still, draw = StandingStill(threads), random.Random(5)
    left = list(still.records)
    while left:
        size = draw.randint(1, 40)
        still.scheduler.add(still.place, left[:size])
        left = left[size:]
        still.scheduler.collect(draw.choice([0.0, 0.001]))
        published = len(still.published.offsets.get(0, []))
        assert still.scheduler.unlearned(0) == len(still.records) - len(left) - published
    still.scheduler.settle()
    assert still.published.offsets[0] == list(range(100))
    assert still.scheduler.unlearned(0) == 200
    assert still.scheduler.take_losses() == []
    assert still.scheduler.room
    still.release()
    still.scheduler.settle()
    assert still.published.offsets[0] == list(range(300))
    assert still.scheduler.room


@pytest.mark.parametrize(("among", "kept"), [(1, 80), (4, 20), (0, 0)])
def test_no_more_is_kept_than_there_is_room_for(
    among: int, kept: int, threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not fit has to come again, and nothing behind it is kept; half of the memory is left for others."""
    still = StandingStill(threads, 80)
    still.among = among
    monkeypatch.setattr(scheduler_module, "MOST_BYTES", 2 * bytes_of(still.records[100:180]))
    for at in range(0, 280, 20):
        still.scheduler.add(still.place, still.records[at : at + 20])
        still.scheduler.settle()
        assert still.scheduler.room
    assert still.scheduler.take_losses() == [(still.place, 100 + kept)]
    assert still.scheduler.take_losses() == [], "it was told"
    still.release()
    still.scheduler.settle()
    assert still.published.offsets[0] == list(range(100 + kept))
    still.scheduler.add(still.place, still.records[100 + kept :])
    still.scheduler.settle()
    assert still.published.offsets[0] == list(range(300))


def test_who_is_left_keeps_nothing() -> None:
    """Whatever its model comes to while it is waited for; its records are the next owner's."""
    still = StandingStill(LateThreads(random.Random(1), 0.0))
    still.scheduler.add(still.place, list(still.records[:150]))
    still.scheduler.settle([still.place])
    assert still.published.offsets.get(0, []) in ([], list(range(100)))
    still.release()
    still.scheduler.settle()
    assert len(still.published.offsets.get(0, [])) in (0, 100)
    still.scheduler.drop()


def test_a_call_beside_the_models(threads: Threads) -> None:
    """It waits for no partition; settling waits for it."""
    told: list[int] = []
    scheduler = LearningScheduler(threads, Published(), 10)
    for number in range(3):
        scheduler.run_aside(partial(lambda each: each, number), told.append)
    scheduler.settle()
    assert told == [0, 1, 2]
