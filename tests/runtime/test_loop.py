"""Exactly once, by cutting the loop short at every single call it makes of its broker; and what it does besides.

Here one worker lives its whole life in `Loop.run`; several at once are in `simulation/test_schedules.py`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgpack
import pytest
from runtime.records import DECODER, SETTINGS, FakeRecord, good, stream
from simulation.cluster import MemoryCluster
from simulation.faults import CrashError, Fault, Kind, When
from simulation.log import Message
from simulation.process import GROUP, TOPICS, Process, Setup
from simulation.small import small
from simulation.world import Output, Outputs, make_cluster, outputs_of, pointer_of

from stream_apple.core.encode import decode_prediction
from stream_apple.errors import (
    BrokerError,
    ConfigurationError,
    GapError,
    ModelError,
    SnapshotError,
    TooManyRejectsError,
)
from stream_apple.runtime.deadletters import RejectLimits
from stream_apple.runtime.lineage import Lineage, Pointer
from stream_apple.runtime.loop import MAX_ABORTS
from stream_apple.runtime.partition import TRANSITIONS, Partition, State
from stream_apple.runtime.ports import Committed, Record
from stream_apple.runtime.recovery import Found
from stream_apple.runtime.snapshot import message_key
from stream_apple.runtime.step import PartitionModel

WORKER = "worker-0"
MOST_FETCHES = 2_000
SETUP = Setup()
NEVER = SETUP.pace._replace(commit_records=10_000)
"""No commit before the last."""


@pytest.fixture(autouse=True)
def smallness() -> Iterator[None]:
    """Snapshots of several messages, and restores of several turns."""
    with small(block_slots=256):
        yield


class Worker(Process):
    """One life of a worker; it is asked to stop when it has learned everything, unless it dies before.

    events  call number -> "revoke" or "lose", before the first fetch from then on
    """

    def __init__(
        self,
        cluster: MemoryCluster,
        faults: Sequence[Fault] = (),
        events: Mapping[int, str] | None = None,
        setup: Setup = SETUP,
        tick: float = 0.0,
    ) -> None:
        super().__init__(cluster, WORKER, faults, setup, tick=tick)
        self.cluster = cluster
        self.records: list[Record] = []
        self._events = dict(events or {})
        self._fetches = 0
        self._fetch = self.broker.fetch
        self.broker.fetch = self.fetch  # type: ignore[method-assign]

    def fetch(self, limit: int, timeout_s: float) -> Sequence[Record]:
        """What the broker has; the last one asks the loop to stop."""
        self._fetches += 1
        assert self._fetches < MOST_FETCHES, f"no end; models stand at {self.live}"
        due = next((call for call in self._events if call <= len(self.broker.calls)), None)
        group = self.cluster.group(GROUP, TOPICS.examples)
        if due is not None and self.live:
            if self._events.pop(due) == "revoke":
                group.shake()
            else:
                group.expire(WORKER)
        records = self._fetch(limit, timeout_s)
        self.records += records
        if not records and self.live == {log.number: log.end for log in self.cluster.logs(TOPICS.examples)}:
            self.loop.stop()
        return records


def input_log() -> dict[int, list[FakeRecord]]:
    """Two partitions, short enough to fail at each of their calls."""
    return {
        0: stream(32, seed=5, partition=0, bad_share=0.2),
        1: stream(20, seed=5, partition=1, bad_share=0.2),
    }


def cluster_with(log: Mapping[int, Sequence[FakeRecord]], dead_letter_partitions: int | None = None) -> MemoryCluster:
    """Topics, with these examples."""
    cluster = make_cluster(len(log), dead_letter_partitions)
    for records in log.values():
        cluster.load(TOPICS.examples, records)
    return cluster


def cluster_of_all() -> MemoryCluster:
    """With the input log."""
    return cluster_with(input_log())


def offsets_of(cluster: MemoryCluster) -> dict[int, Committed]:
    """What the group has committed; the dictionary itself."""
    return cluster.group(GROUP, TOPICS.examples).offsets


def visible(cluster: MemoryCluster) -> list[tuple[str, int, Output]]:
    """Topic, partition and content of all that readers see."""
    return [(topic, number, output) for (topic, number), some in outputs_of(cluster).items() for output in some]


def offset_of(topic: str, output: Output) -> int:
    """The offset of the example that an output answers for."""
    if topic == TOPICS.predictions:
        return int(str(decode_prediction(output.value or b"")["offset"]))
    return int(dict(output.headers)["__stream_apple.errors.offset"] or b"")


@pytest.fixture(scope="module")
def expected() -> Outputs:
    """What a run that nothing disturbs publishes, checked to answer for every record."""
    cluster = cluster_of_all()
    worker = Worker(cluster).run()
    answered = [(partition, offset_of(topic, output)) for topic, partition, output in visible(cluster)]
    assert sorted(answered) == sorted((r.number, r.at) for records in input_log().values() for r in records)
    assert worker.broker.calls.count("commit") > 3
    return outputs_of(cluster)


def calls_of_a_run() -> list[str]:
    """The calls of the port that an undisturbed run makes."""
    return Worker(cluster_of_all()).run().broker.calls


def killed_after(
    log: Mapping[int, Sequence[FakeRecord]], commits: int, setup: Setup = SETUP, tick: float = 0.0
) -> MemoryCluster:
    """What a worker leaves behind that died when it had committed so many times, and had learned more since."""
    calls = Worker(cluster_with(log), setup=setup, tick=tick).run().broker.calls
    places = [number for number, name in enumerate(calls) if name == "commit"]
    cluster = cluster_with(log)
    with pytest.raises(CrashError):
        Worker(cluster, [Fault(places[commits - 1] + 5, Kind.CRASH)], setup=setup, tick=tick).run()
    return cluster


class TestExactlyOnce:
    """Published outputs, after any accident, equal those of a run without one."""

    @pytest.mark.parametrize("when", [When.BEFORE, When.AFTER])
    def test_killed_at_any_call(self, expected: Outputs, when: When) -> None:
        """A worker dies in call k, before or after its effect; its successor completes the output."""
        for call in range(len(calls_of_a_run())):
            cluster = cluster_of_all()
            with pytest.raises(CrashError):
                Worker(cluster, [Fault(call, Kind.CRASH, when)]).run()
            Worker(cluster).run()
            assert outputs_of(cluster) == expected, f"call {call}"

    @pytest.mark.parametrize("when", [When.BEFORE, When.AFTER])
    def test_a_transaction_fails_at_any_call(self, expected: Outputs, when: When) -> None:
        """An abortable error in call k leaves the same worker to do it again; so does one in doubt."""
        calls = calls_of_a_run()
        for call in range(len(calls)):
            cluster = cluster_of_all()
            worker = Worker(cluster, [Fault(call, Kind.ABORTABLE, when)]).run()
            if call >= len(calls) - calls[::-1].index("fetch"):  # on its way out: a successor has to do the rest
                Worker(cluster).run()
            assert outputs_of(cluster) == expected, f"call {call}"
            assert worker.broker.closed

    @pytest.mark.parametrize("event", ["revoke", "lose"])
    def test_a_rebalance_at_any_fetch(self, expected: Outputs, event: str) -> None:
        """Partitions that go and come back leave no trace in the output."""
        for call in range(len(calls_of_a_run())):
            cluster = cluster_of_all()
            Worker(cluster, events={call: event}).run()
            assert outputs_of(cluster) == expected, f"call {call}"

    def test_killed_again_and_again(self, expected: Outputs) -> None:
        """Many lives, each cut after a few more calls than the last."""
        cluster = cluster_of_all()
        for calls in range(12, 200, 5):
            try:
                Worker(cluster, [Fault(calls, Kind.CRASH)]).run()
            except CrashError:
                continue
            break
        assert outputs_of(cluster) == expected

    def test_a_commit_that_fails_in_a_revocation(self, expected: Outputs) -> None:
        """The models that learned uncommitted records do not survive it."""
        for call in range(6, len(calls_of_a_run())):
            cluster = cluster_of_all()
            Worker(cluster, [Fault(call + 1, Kind.ABORTABLE)], {call: "revoke"}).run()
            Worker(cluster).run()
            assert outputs_of(cluster) == expected, f"call {call}"


class TestLife:
    """What happens to partitions, and what does not."""

    def test_a_partition_that_comes_back_is_not_replayed(self) -> None:
        """Its model stands at the committed offset, so the same object goes on."""
        worker = Worker(cluster_of_all(), events={20: "revoke", 50: "revoke"}).run()
        assert worker.made == 2
        assert worker.sample("examples_total", partition="0", outcome="replayed") == 0
        assert worker.sample("rebalances_total", event="assigned") == 3

    def test_a_lost_partition_is_recovered(self) -> None:
        """Its model has learned what was never committed, so another is made."""
        worker = Worker(cluster_of_all(), events={50: "lose"}).run()
        assert worker.made == 4
        assert worker.sample("rebalances_total", event="lost") == 1

    def test_committed_offsets_name_the_model(self) -> None:
        """Every committed offset is one past the last record, with start and fingerprint beside it."""
        cluster = cluster_of_all()
        Worker(cluster).run()
        offsets = offsets_of(cluster)
        assert offsets[0].offset == input_log()[0][-1].at + 1
        assert offsets[0].metadata.startswith('{"v":1,"start":0,"model":"')
        assert offsets[0].metadata != offsets[1].metadata

    def test_dead_letters_fold_into_fewer_partitions(self) -> None:
        """Partition p goes to p modulo the topic's count."""
        cluster = cluster_with(input_log(), dead_letter_partitions=1)
        Worker(cluster).run()
        places = {(topic, partition) for topic, partition, _ in visible(cluster)}
        assert places == {(TOPICS.dead_letters, 0), (TOPICS.predictions, 0), (TOPICS.predictions, 1)}

    def test_outputs_carry_key_and_time_of_their_record(self) -> None:
        """A dead letter is the record as it came; a prediction has its key and timestamp."""
        first, second = good(0), good(1)._replace(payload=b"\xc1", extra=[("h", b"1")])
        cluster = cluster_with({0: [first, second]})
        Worker(cluster).run()
        (_, _, prediction), (_, _, letter) = visible(cluster)
        assert (prediction.key, prediction.timestamp_ms) == (first.named, first.time_ms)
        assert (letter.key, letter.value, letter.timestamp_ms) == (second.named, second.payload, second.time_ms)
        assert letter.headers[0] == ("h", b"1")

    def test_records_of_a_partition_that_is_not_ours_are_left_alone(self) -> None:
        """Neither learned nor answered: that is its owner's to do."""
        cluster = cluster_of_all()
        worker = Worker(cluster)
        fetch = worker.broker.fetch

        def with_strays(limit: int, timeout_s: float) -> Sequence[Record]:
            return [good(3, partition=7), *fetch(limit, timeout_s)]

        worker.broker.fetch = with_strays  # type: ignore[method-assign]
        worker.run()
        assert {partition for _, partition, _ in visible(cluster)} == {0, 1}
        assert set(offsets_of(cluster)) == {0, 1}

    def test_states_follow_the_table(self) -> None:
        """Each step outside the table raises and changes nothing."""
        for state in State:
            for following in set(State) - TRANSITIONS[state]:
                model = PartitionModel("t", 0, Lineage(0, "m"), SETTINGS, DECODER)
                partition = Partition(Found(model, None, restore=False, jump=None))
                partition.state = state
                with pytest.raises(AssertionError, match="can't go from"):
                    partition.enter(following)
                assert partition.state is state


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
        setup = SETUP._replace(pace=SETUP.pace._replace(snapshot_interval_s=8.0))
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
                cluster.log(TOPICS.models, 0).append(Message(message_key("another", 0, 0), b"foreign", 1))

        worker.broker.send = with_foreign  # type: ignore[method-assign]
        worker.run()
        pointer = pointer_of(cluster, 0, SETUP)
        assert pointer is not None
        assert pointer.last - pointer.first > len(self._own(cluster, pointer)) - 1
        assert Worker(cluster).run().models[0].digest() == pointer.digest

    def test_compaction_keeps_what_is_needed(self) -> None:
        """The newest snapshot of each partition stays whole, the older ones go."""
        cluster = cluster_of_all()
        setup = SETUP._replace(pace=SETUP.pace._replace(snapshot_interval_s=0.0))
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
            (lambda value: msgpack.packb({**msgpack.unpackb(value), "v": 99}), "newer version"),
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
            log.append(Message(message_key(GROUP, 0, index), damage(value) if index == 1 else value, 1))
        committed = offsets_of(cluster)[0]
        text = committed.metadata.replace(f"{pointer.first},{pointer.last}", f"{moved.first},{moved.last}")
        offsets_of(cluster)[0] = committed._replace(metadata=text)
        assert pointer_of(cluster, 0, SETUP) == moved
        with pytest.raises(SnapshotError, match=rf"examples-0 at offset {pointer.at} .*{message}"):
            Worker(cluster).run()

    def test_a_snapshot_that_is_gone(self) -> None:
        """Its messages were deleted: the worker leaves, and begins no new model by itself."""
        cluster = cluster_with({0: input_log()[0]})
        Worker(cluster).run()
        log = cluster.log(TOPICS.models, 0)
        log.delete_before(log.end)
        with pytest.raises(SnapshotError, match="gone"):
            Worker(cluster).run()

    def _own(self, cluster: MemoryCluster, pointer: Pointer) -> list[FakeRecord]:
        records = cluster.log(TOPICS.models, 0).committed()
        own = message_key(GROUP, 0)
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

    def test_what_the_snapshot_has_learned_may_go(self, expected: Outputs) -> None:
        """Retention up to the snapshot's offset hurts nobody."""
        setup = SETUP._replace(pace=SETUP.pace._replace(snapshot_interval_s=0.0))
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
        Worker(cluster, setup=SETUP._replace(accepted=frozenset({(0, 0)}))).run()
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


class TestRefusals:
    """When going on makes no sense."""

    @pytest.mark.parametrize("topic", [TOPICS.predictions, TOPICS.models])
    def test_too_few_partitions(self, topic: str) -> None:
        """Partition p of predictions and models must exist for every p of the examples."""
        cluster = MemoryCluster(dict.fromkeys(TOPICS, 2) | {topic: 1})
        worker = Worker(cluster)
        with pytest.raises(ConfigurationError, match=rf"expected topic {topic} to have 2 partitions.*found 1"):
            worker.run()
        assert worker.broker.closed

    def test_another_configuration(self) -> None:
        """The committed offset names the model it belongs to; another one does not go on from it."""
        cluster = cluster_of_all()
        Worker(cluster).run()
        with pytest.raises(ConfigurationError, match=r"expected model [0-9a-f]{16} .* examples-0 in group group"):
            Worker(cluster, setup=SETUP._replace(model={"learner": {"bits": 11}})).run()

    @pytest.mark.parametrize("metadata", ["", "null", '{"v":1}', "[1]", '{"v":9,"start":0,"model":"x"}'])
    def test_an_offset_that_somebody_else_committed(self, metadata: str) -> None:
        """Without our note beside it, there is no model that the offset belongs to."""
        cluster = cluster_of_all()
        offsets_of(cluster)[0] = Committed(3, metadata)
        with pytest.raises(ConfigurationError, match="committed offset 3 of examples-0"):
            Worker(cluster).run()

    def test_nothing_of_a_batch_with_a_fatal_record_is_published(self) -> None:
        """Neither predictions nor dead letters, and the offset stays."""
        settings = SETTINGS._replace(reject_limits=RejectLimits(3, 1.0))
        cluster = cluster_with({0: [good(0), good(1), *(good(i)._replace(payload=b"") for i in range(2, 9))]})
        worker = Worker(cluster, setup=SETUP._replace(settings=settings))
        with pytest.raises(TooManyRejectsError, match="examples-0@5"):
            worker.run()
        assert (visible(cluster), offsets_of(cluster)) == ([], {})
        assert worker.broker.closed

    def test_a_model_error_commits_nothing(self) -> None:
        """Not even the batches before it in the same transaction: they are processed again."""
        cluster = cluster_with({0: [good(i) for i in range(30)]})
        worker = Worker(cluster, setup=SETUP._replace(pace=NEVER))

        class Exploding(PartitionModel):
            def process(self, records: Sequence[Any], *lap: Any) -> Any:
                if self.next_offset > 10:
                    raise ModelError("examples-0@11: not finite")
                return super().process(records, *lap)

        worker.loop._recovery._new_model = lambda number, lineage: Exploding(
            "examples", number, lineage, SETTINGS, DECODER
        )
        with pytest.raises(ModelError):
            worker.run()
        assert (visible(cluster), offsets_of(cluster)) == ([], {})

    def test_transactions_that_never_succeed(self) -> None:
        """After ten in a row the process leaves, so that its supervisor sees it."""
        cluster = cluster_of_all()
        faults = [Fault(call, Kind.ABORTABLE) for call in range(2, 1000)]
        with pytest.raises(BrokerError, match=f"{MAX_ABORTS} transactions in a row failed; the last one: made to fail"):
            Worker(cluster, faults).run()
        assert visible(cluster) == []


class TestSignals:
    """What the process is told and what it tells."""

    def test_stop_commits_what_was_processed(self) -> None:
        """A stop between two commits loses nothing and leaves nothing open."""
        cluster = cluster_of_all()
        worker = Worker(cluster, setup=SETUP._replace(pace=NEVER)).run()
        # The outputs, and then the snapshot of each model.
        assert worker.broker.calls.count("commit") == 3
        assert len(visible(cluster)) == 52
        assert cluster.transactions.open_ids() == {}

    def test_readiness_follows_the_partitions(self) -> None:
        """Not ready before the group has spoken; ready when all partitions are live."""
        worker = Worker(cluster_of_all())
        assert not worker.health.ready().good
        worker.health.compiled()
        assert worker.health.ready().facts["waiting_for"] == ["the group to assign partitions"]
        worker.run()
        assert worker.health.ready().facts["partitions"] == {"0": "live", "1": "live"}
        assert worker.health.ready().good

    def test_the_loop_s_time_is_booked_whole(self) -> None:
        """Every phase of the table has a series, and learning took some of the time."""
        worker = Worker(cluster_of_all())
        worker.run()
        assert (worker.sample("loop_seconds_total", phase="learn") or 0) >= 0
        assert (worker.sample("commit_seconds_count") or 0) == (
            worker.sample("transactions_total", result="committed") or -1
        )
