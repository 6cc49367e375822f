"""What a worker leaves to its successor, and what the successor makes of it: snapshots, replays, gaps."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import msgpack
import pytest
from simulation.cluster import MemoryCluster
from simulation.faults import Fault, Kind
from simulation.log import Message
from simulation.process import TOPICS, Process
from simulation.world import Outputs, outputs_of, pointer_of
from stream.one_worker import (
    MOST_FETCHES,
    OTHERS,
    SETUP,
    WORKER,
    Worker,
    cluster_of_all,
    cluster_with,
    input_log,
    killed_after,
    offset_of,
    offsets_of,
    visible,
)
from support.records import FakeRecord, good, stream

from stream_apple.errors import (
    GapError,
    SnapshotError,
)
from stream_apple.records.message.prediction_formats import decode_prediction
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.partitions.recovery import Exceptions
from stream_apple.stream.partitions.state import State
from stream_apple.stream.positions.lineage import NO_SNAPSHOT, SnapshotPointer
from stream_apple.stream.snapshots.blocks import FORMAT

pytestmark = pytest.mark.usefixtures("small_sizes")


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Only what nobody refers to is freed. Kernels are there: to compile them leaves garbage that refers to models."""
    Worker(cluster_of_all()).run()
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def partition_models() -> list[PartitionModel]:
    """All that there are in this process."""
    return [found for found in gc.get_objects() if type(found) is PartitionModel]


class TestMemory:
    """A model may be most of a machine's memory."""

    @pytest.mark.usefixtures("no_collector")
    def test_models_that_are_dropped_need_no_garbage_collector(self) -> None:
        """Neither after errors, whose tracebacks refer to much, nor after partitions were revoked or lost."""
        before = len(partition_models())
        faults = [Fault(call, Kind.ABORTABLE) for call in (20, 60, 90)]
        worker = Worker(cluster_of_all(), faults, {40: "revoke", 120: "lose"}).run()
        assert len(worker.models) == len(partition_models()) - before == 2


class TestSnapshots:
    """What is written for successors, and what they make of it."""

    def test_a_stopped_worker_leaves_nothing_to_replay(self) -> None:
        """Its successor restores every model, learns no record again and publishes nothing."""
        cluster = cluster_of_all()
        first = Worker(cluster).run()
        done = outputs_of(cluster)
        second = Worker(cluster).run()
        assert outputs_of(cluster) == done
        assert (second.records, second.broker.calls.count("send")) == ([], 0)
        assert State.REPLAYING not in second.states
        assert {n: m.digest() for n, m in second.models.items()} == {n: m.digest() for n, m in first.models.items()}

    def test_a_killed_worker_s_successor_replays_from_its_snapshot(self) -> None:
        """Only the records between the snapshot and the committed offset are learned again, in silence."""
        setup = SETUP._replace(loop=SETUP.loop._replace(snapshot_interval_s=8.0))
        cluster = killed_after({0: stream(60, seed=3)}, commits=3, setup=setup, tick=0.06)
        pointer, committed = pointer_of(cluster, 0, SETUP), offsets_of(cluster)[0].offset
        assert pointer is not None
        again = [record.at for record in stream(60, seed=3) if pointer.at <= record.at < committed]
        assert again
        second = Worker(cluster).run()
        assert second.records[0].offset() == again[0]
        assert second.sample("examples_total", partition="0", outcome="replayed") == len(again)
        assert len(visible(cluster)) == 60

    def test_one_partition_lives_while_another_is_restored(self) -> None:
        """A restore takes turns, in which the loop goes on fetching; a held partition gives nothing."""
        cluster = cluster_of_all()
        Worker(cluster).run()
        cluster.load(TOPICS.examples, [good(100, partition=0), good(100, partition=1)])
        worker = Process(cluster, WORKER, tick=0.06)
        lives: list[set[int]] = []
        while len(worker.live) < 2:
            worker.step()
            lives.append(set(worker.live))
            assert len(lives) < MOST_FETCHES
        assert lives.index({0}) > 3
        assert worker.broker.calls.count("fetch") > 4
        assert worker.models[1].next_offset < 100

    def test_models_of_other_groups_lie_in_the_same_topic(self) -> None:
        """Messages under foreign keys, between one's own, are stepped over."""
        cluster = cluster_with({0: input_log()[0]})
        worker = Worker(cluster)
        send = worker.broker.send

        def with_foreign(topic: str, *rest: Any, **named: Any) -> None:
            send(topic, *rest, **named)
            if topic == TOPICS.models:
                cluster.log(TOPICS.models, 0).append(Message(OTHERS.snapshot_key(0, 0), b"foreign", 1))

        worker.broker.send = with_foreign  # type: ignore[method-assign]
        worker.run()
        pointer = pointer_of(cluster, 0, SETUP)
        assert pointer is not None
        assert pointer.last - pointer.first > len(self._own(cluster, pointer)) - 1
        assert Worker(cluster).run().models[0].digest() == pointer.digest

    def test_compaction_keeps_what_is_needed(self) -> None:
        """The newest snapshot of each partition stays whole, the older ones go."""
        cluster = cluster_of_all()
        setup = SETUP._replace(loop=SETUP.loop._replace(snapshot_interval_s=0.0))
        Worker(cluster, setup=setup).run()
        before = len(cluster.log(TOPICS.models, 0).committed())
        cluster.compact(TOPICS.models)
        pointer = pointer_of(cluster, 0, SETUP)
        assert pointer is not None
        assert len(cluster.log(TOPICS.models, 0).committed()) == len(self._own(cluster, pointer)) < before
        assert Worker(cluster).run().records == []

    @pytest.mark.parametrize(
        ("damage", "message"),
        [
            (lambda _: b"", "undamaged message"),
            (lambda value: msgpack.packb({**msgpack.unpackb(value), "at": 3}), "expected"),
            (
                lambda value: msgpack.packb({**msgpack.unpackb(value), "v": 99}),
                f"format {FORMAT}, found 99; to start over, use",
            ),
            (lambda value: value[:-20] + b"x" * 20, "undamaged message"),
        ],
    )
    def test_a_damaged_snapshot(self, damage: Callable[[bytes], bytes], message: str) -> None:
        """The worker refuses to start from it, and says which one."""
        cluster = cluster_with({0: input_log()[0]})
        Worker(cluster).run()
        pointer = pointer_of(cluster, 0, SETUP)
        assert pointer is not None
        log = cluster.log(TOPICS.models, 0)
        values = [record.payload or b"" for record in self._own(cluster, pointer)]
        moved = pointer._replace(first=log.end, last=log.end + len(values) - 1)
        for index, value in enumerate(values):
            log.append(Message(SETUP.provenance.snapshot_key(0, index), damage(value) if index == 1 else value, 1))
        committed = offsets_of(cluster)[0]
        text = committed.metadata.replace(f"{pointer.first},{pointer.last}", f"{moved.first},{moved.last}")
        offsets_of(cluster)[0] = committed._replace(metadata=text)
        assert pointer_of(cluster, 0, SETUP) == moved
        with pytest.raises(SnapshotError, match=rf"examples-0 at offset {pointer.at} .*{message}"):
            Worker(cluster).run()

    def test_a_snapshot_that_is_gone(self) -> None:
        """Its messages were deleted, and the first record: the worker leaves, and begins no new model by itself."""
        cluster = cluster_with({0: input_log()[0]})
        Worker(cluster).run()
        log = cluster.log(TOPICS.models, 0)
        log.delete_before(log.end)
        cluster.log(TOPICS.examples, 0).delete_before(1)
        with pytest.raises(SnapshotError, match=r"gone from the log .*topics.models was another topic"):
            Worker(cluster).run()

    @pytest.mark.parametrize("foreign", [0, 1])
    def test_a_models_topic_that_was_made_anew(self, foreign: int) -> None:
        """What is asked for may come yet, as far as the log can say: but not for longer than a leader needs."""
        cluster = cluster_with({0: input_log()[0]})
        Worker(cluster).run()
        cluster.renew(TOPICS.models)
        for _ in range(foreign):
            cluster.log(TOPICS.models, 0).append(Message(OTHERS.snapshot_key(0, 0), b"foreign", 1))
        committed = offsets_of(cluster)[0]
        assert '"snapshot":[' in committed.metadata
        worker = Process(cluster, WORKER, tick=0.02)
        for _ in range(MOST_FETCHES):
            worker.step()
            if worker.ended is not None:
                break
        assert isinstance(worker.error, SnapshotError)
        assert f"found the end of the log at {foreign}: was the topic made anew? Or {NO_SNAPSHOT}" in str(worker.error)
        assert worker.error.exit_code == 73
        assert offsets_of(cluster)[0] == committed

    def _own(self, cluster: MemoryCluster, pointer: SnapshotPointer) -> list[FakeRecord]:
        records = cluster.log(TOPICS.models, 0).committed()
        own = SETUP.provenance.snapshot_key(0)
        return [r for r in records if pointer.first <= r.at <= pointer.last and (r.named or b"").startswith(own)]


class TestGaps:
    """Records that the model needs and the log no longer has."""

    def test_the_beginning_is_gone(self) -> None:
        """Without a snapshot everything must be replayed; the message names the gap and how to accept it."""
        cluster = killed_after(input_log(), commits=2)
        assert pointer_of(cluster, 0, SETUP) is None
        cluster.log(TOPICS.examples, 0).delete_before(5)
        with pytest.raises(GapError, match=r'from offset 0 on.*found 5 as the first.*accept_gap = \["0@0"\]'):
            Worker(cluster).run()

    def test_retention_overtakes_a_worker(self) -> None:
        """The message names the gap as after a restart, which would need records of before, too."""
        cluster = cluster_of_all()
        worker = Worker(cluster)
        worker.loop.start()
        while 0 not in offsets_of(cluster):
            worker.loop.iterate()
        log = cluster.log(TOPICS.examples, 0)
        log.delete_before(log.end)
        with pytest.raises(GapError, match=rf'from offset 0 on.*found {log.end} as.*accept_gap = \["0@0"\]'):
            worker.run()

    def test_what_the_snapshot_has_learned_may_go(self, expected: Outputs) -> None:
        """Retention up to the snapshot's offset hurts nobody."""
        setup = SETUP._replace(loop=SETUP.loop._replace(snapshot_interval_s=0.0))
        cluster = killed_after(input_log(), commits=3, setup=setup)
        pointer = pointer_of(cluster, 0, SETUP)
        assert pointer is not None
        cluster.log(TOPICS.examples, 0).delete_before(pointer.at)
        Worker(cluster).run()
        assert outputs_of(cluster) == expected

    def test_an_accepted_gap(self, expected: Outputs) -> None:
        """What is left of the log is learned and answered; the jump is saved, and needs no second acceptance."""
        cluster = killed_after(input_log(), commits=2)
        stop = offsets_of(cluster)[0].offset + 4
        cluster.log(TOPICS.examples, 0).delete_before(stop)
        answered = len(outputs_of(cluster)[TOPICS.predictions, 0])
        Worker(cluster, setup=SETUP._replace(exceptions=Exceptions(frozenset({(0, 0)})))).run()
        found = outputs_of(cluster)
        late = found[TOPICS.predictions, 0][answered:]
        wanted = [o for o in expected[TOPICS.predictions, 0] if offset_of(TOPICS.predictions, o) >= stop]
        assert [offset_of(TOPICS.predictions, o) for o in late] == [offset_of(TOPICS.predictions, o) for o in wanted]
        names = {decode_prediction(output.value or b"")["model"] for output in late}
        before = decode_prediction(expected[TOPICS.predictions, 0][0].value or b"")["model"]
        assert before not in names
        assert found[TOPICS.predictions, 1] == expected[TOPICS.predictions, 1]
        successor = Worker(cluster).run()
        assert outputs_of(cluster) == found
        assert {successor.models[0].lineage.model} == names

    def test_the_topic_is_shorter_than_what_was_committed(self) -> None:
        """A topic of the same name that was made anew is not the one the model knows."""
        cluster = cluster_of_all()
        Worker(cluster).run()
        anew = cluster_with({0: input_log()[0][:3], 1: input_log()[1]})
        offsets_of(anew).update(offsets_of(cluster))
        with pytest.raises(GapError, match="made anew"):
            Worker(anew).run()
