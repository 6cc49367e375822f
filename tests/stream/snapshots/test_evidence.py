"""Offsets that can't be believed: lost ones, and those that are older than what readers see."""

import logging

import pytest
import structlog
from simulation.cluster import MemoryCluster
from simulation.log import Message, PartitionLog
from simulation.memory_broker import MemoryReader
from simulation.process import TOPICS
from simulation.world import Outputs, outputs_of
from stream.one_worker import (
    OTHERS,
    SETUP,
    Worker,
    cluster_of_all,
    cluster_with,
    input_log,
    killed_after,
    offset_of,
    offsets_of,
)
from structlog.typing import EventDict
from support.records import FakeRecord, good, stream

from stream_apple.errors import BrokerError, ConfigurationError, GapError, SnapshotError
from stream_apple.records.message.prediction_formats import decode_prediction
from stream_apple.stream.log.ports import LogRange
from stream_apple.stream.partitions.recovery import Exceptions
from stream_apple.stream.partitions.state import State
from stream_apple.stream.snapshots import evidence

pytestmark = pytest.mark.usefixtures("small_sizes")

TICK = 1.0
"""Seconds that pass with each look at the clock, where time must pass."""


@pytest.fixture
def told(log_events: list[EventDict]) -> list[EventDict]:
    """What is logged from a warning on, though the sizes are small."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    return log_events


def rewound(commits: int, until: int) -> MemoryCluster:
    """What a worker leaves that died after commit number `until`, with the offsets of an earlier one.

    So does a lone broker that dies while a transaction is being decided: its answers are seen, its offsets are not.
    """
    cluster = killed_after(input_log(), until)
    earlier = killed_after(input_log(), commits)
    before = {number: offset.offset for number, offset in offsets_of(earlier).items()}
    assert any(offset.offset > before[number] for number, offset in offsets_of(cluster).items() if number in before)
    offsets_of(cluster).clear()
    offsets_of(cluster).update(offsets_of(earlier))
    return cluster


def foreign_predictions(cluster: MemoryCluster, count: int) -> None:
    """Predictions of others behind ours: of another topic, partition, and model, and what is no prediction."""
    log = cluster.log(TOPICS.predictions, 0)
    (example, *_) = (record.payload or b"" for record in log.committed())
    told = decode_prediction(example)
    assert told["topic"] == TOPICS.examples
    other_model = example.replace(str(told["model"]).encode(), b"0" * 16)
    other_topic = example.replace(TOPICS.examples.encode(), b"exaaples")
    for index in range(count):
        log.append(Message(None, (other_model, other_topic, b"\xc1", b"", b"\x01")[index % 5], 1))


class TestOlderOffsets:
    """Answers that readers see from the committed offset on."""

    @pytest.mark.parametrize(("commits", "until"), [(1, 2), (2, 3), (1, 4)])
    def test_no_answer_is_given_twice(self, expected: Outputs, told: list[EventDict], commits: int, until: int) -> None:
        """Nor is one left out, dead letters included; the log says which were there."""
        cluster = rewound(commits, until)
        start = offsets_of(cluster)[0].offset
        worker = Worker(cluster).run()
        assert outputs_of(cluster) == expected
        assert State.REPLAYING in worker.states
        (event,) = [event for event in told if event["event"] == "offset_behind_answers" and event["partition"] == 0]
        assert event["offset"] == start < event["answered"]

    def test_without_a_hole_nothing_is_said(self, expected: Outputs, told: list[EventDict]) -> None:
        """After an ordinary crash offsets and answers agree."""
        cluster = killed_after(input_log(), 2)
        told.clear()
        Worker(cluster).run()
        assert outputs_of(cluster) == expected
        assert told == []

    def test_others_write_there_too(self, expected: Outputs, monkeypatch: pytest.MonkeyPatch) -> None:
        """Messages of others, and such as are none of a worker's, are passed over, further and further back."""
        monkeypatch.setattr(evidence, "TAIL", 3)
        cluster = rewound(1, 3)
        foreign_predictions(cluster, 200)
        Worker(cluster).run()
        found = [output for output in outputs_of(cluster)[TOPICS.predictions, 0] if output.key is not None]
        assert found == expected[TOPICS.predictions, 0]

    def test_the_end_is_all_that_is_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What lies further back than the longest tail is not looked for."""
        monkeypatch.setattr(evidence, "TAIL", 3)
        monkeypatch.setattr(evidence, "LONGEST_TAIL", 30)
        cluster = rewound(1, 3)
        foreign_predictions(cluster, 400)
        seen = len(outputs_of(cluster)[TOPICS.predictions, 0])
        worker = Worker(cluster).run()
        assert len(outputs_of(cluster)[TOPICS.predictions, 0]) > seen
        assert worker.broker.calls.count("reader.fetch") < 60

    def test_answers_to_records_that_are_gone(self) -> None:
        """The log's newest records were lost, and others will have their offsets: nothing may be said of those."""
        cluster = rewound(1, 3)
        committed = offsets_of(cluster)
        shorter = cluster_with({0: [r for r in input_log()[0] if r.at <= committed[0].offset], 1: input_log()[1]})
        offsets_of(shorter).update(committed)
        for topic in (TOPICS.predictions, TOPICS.dead_letters, TOPICS.models):
            for log in cluster.logs(topic):
                for record in log.committed():
                    message = Message(record.named, record.payload, record.time_ms, tuple(record.extra or ()))
                    shorter.log(topic, log.number).append(message)
        with pytest.raises(GapError, match=r"expected examples-0 to hold offset \d+, whose prediction is in predict"):
            Worker(shorter).run()


class TestUndecidedAnswers:
    """A lone broker that lost a disk does not decide what it had there; the worker's next commit would."""

    def _leave(self, cluster: MemoryCluster, message: FakeRecord) -> None:
        log = cluster.log(TOPICS.predictions, 0)
        log.append(Message(message.named, message.payload, message.time_ms), transaction=1_000_000)

    def test_of_records_that_will_be_answered(self) -> None:
        """Readers would see both answers: nothing is answered."""
        cluster = killed_after(input_log(), 2)
        count = len(cluster.log(TOPICS.predictions, 0).committed())
        later = killed_after(input_log(), 3).log(TOPICS.predictions, 0).committed()
        self._leave(cluster, later[count])
        before = outputs_of(cluster)
        with pytest.raises(BrokerError, match=r"decision on the messages of predictions-0 from offset \d+ on within"):
            Worker(cluster, tick=30.0).run()
        assert outputs_of(cluster) == before

    def test_of_records_before_the_committed_offset(self, told: list[EventDict]) -> None:
        """They are the only answers to these: the worker says what it waits for, goes on, and its commit decides them.

        Whoever left them, such as a stranger, may never end the transaction.
        """
        cluster = killed_after(input_log(), 2)
        log = cluster.log(TOPICS.predictions, 0)
        told.clear()
        self._leave(cluster, log.committed()[-1])
        begins = log.end - 1
        worker = Worker(cluster, tick=30.0).run()
        assert worker.live[0] == cluster.log(TOPICS.examples, 0).end
        awaited = [event["doing"] for event in told if event["event"] == "answer_awaited"]
        assert awaited == [f"a decision on the transaction in predictions-0 from offset {begins} on"]


class TestLostOffsets:
    """Nothing is committed, and yet there was a model."""

    def _empty(self, cluster: MemoryCluster, topic: str) -> None:
        for log in cluster.logs(topic):
            log.delete_before(log.end)

    def test_a_snapshot_is_left(self) -> None:
        """The group would answer everything again: it is told what to do, and answers nothing."""
        cluster = cluster_of_all()
        Worker(cluster).run()
        self._empty(cluster, TOPICS.predictions)
        offsets_of(cluster).clear()
        before = outputs_of(cluster)
        with pytest.raises(
            ConfigurationError, match=r"offset of examples-0 .* snapshot in models-0 at message 0, found"
        ):
            Worker(cluster).run()
        assert outputs_of(cluster) == before

    def test_predictions_are_left(self) -> None:
        """A worker that had not taken a snapshot yet is known by its answers."""
        cluster = killed_after(input_log(), 2)
        offsets_of(cluster).clear()
        before = outputs_of(cluster)
        with pytest.raises(
            ConfigurationError, match=r"no prediction of model \w{16} in predictions-0, .* group group "
        ):
            Worker(cluster).run()
        assert outputs_of(cluster) == before

    @pytest.mark.parametrize("count", [1, 40])
    def test_other_groups_are_there(self, expected: Outputs, count: int) -> None:
        """Their models and predictions in the same topics are no evidence against a new group."""
        cluster = cluster_of_all()
        for index in range(count):
            cluster.log(TOPICS.models, 0).append(Message(OTHERS.snapshot_key(0, index), b"foreign", 1))
            cluster.log(TOPICS.models, 1).append(Message(SETUP.provenance.snapshot_key(11, index), b"not 1", 1))
            cluster.log(TOPICS.predictions, 1).append(Message(None, b"\xc1", 1))
        worker = Worker(cluster).run()
        assert State.RESTORING not in worker.states
        found = outputs_of(cluster)
        assert found[TOPICS.predictions, 0] == expected[TOPICS.predictions, 0]
        assert found[TOPICS.predictions, 1][count:] == expected[TOPICS.predictions, 1]

    def test_a_tombstone_is_no_snapshot(self, expected: Outputs) -> None:
        """Who has deleted a group's snapshots by their keys, and its predictions, has begun anew."""
        cluster = cluster_of_all()
        cluster.log(TOPICS.models, 0).append(Message(SETUP.provenance.snapshot_key(0, 0), None, 1))
        Worker(cluster).run()
        assert outputs_of(cluster) == expected

    def test_a_partition_that_was_added(self) -> None:
        """It has no offset, and nothing else either: its model is a new one, while the others go on."""
        cluster = cluster_with({0: input_log()[0], 1: []})
        Worker(cluster).run()
        assert 1 not in offsets_of(cluster)
        cluster.load(TOPICS.examples, stream(20, seed=5, partition=1, bad_share=0.2))
        worker = Worker(cluster).run()
        assert worker.live[1] == cluster.log(TOPICS.examples, 1).end

    @pytest.mark.parametrize("hidden", [True, False])
    def test_what_is_not_committed_is_no_evidence(self, expected: Outputs, *, hidden: bool) -> None:
        """A worker that died before its first commit has answered nothing."""
        cluster = cluster_of_all()
        producer = cluster.transactions.init("somebody")
        log = cluster.log(TOPICS.models, 0)
        cluster.transactions.add(producer, log)
        cluster.transactions.append(producer, log, Message(SETUP.provenance.snapshot_key(0, 0), b"part", 1))
        if not hidden:
            cluster.transactions.end(producer, committed=False)
        Worker(cluster).run()
        assert outputs_of(cluster) == expected


def without_newest_answers(cluster: MemoryCluster, count: int, letters: int = 0) -> int:
    """Remove partition 0's newest predictions and dead letters, as a late abort does; the first record without one."""
    lost = []
    cluster.answers_lost = True
    for topic, some in ((TOPICS.predictions, count), (TOPICS.dead_letters, letters)):
        log = cluster.log(topic, 0)
        gone = {record.at for record in log.committed()[len(log.committed()) - some :]}
        lost += [offset_of(topic, output) for output in outputs_of(cluster)[topic, 0][-some:] if some]
        log._entries = [entry for entry in log.entries() if entry.offset not in gone]
    return min(lost)


class TestLostAnswers:
    """Records before the committed offset without an answer, after the newest one."""

    def _ends_with_predictions(self) -> MemoryCluster:
        """A cluster whose newest answers of partition 0 are three predictions or more."""
        cluster = killed_after(input_log(), 2)
        predicted = [offset_of(TOPICS.predictions, each) for each in outputs_of(cluster)[TOPICS.predictions, 0]]
        assert predicted[-1] == offsets_of(cluster)[0].offset - 1
        return cluster

    def test_they_are_given_again(self, expected: Outputs, told: list[EventDict]) -> None:
        """Each record has one answer in the end, and the log names what was lost."""
        cluster = self._ends_with_predictions()
        committed = offsets_of(cluster)[0].offset
        first = without_newest_answers(cluster, 1)
        told.clear()
        Worker(cluster, tick=TICK).run()
        assert outputs_of(cluster) == expected
        (event,) = [event for event in told if event["event"] == "offset_after_answers"]
        assert (event["partition"], event["offset"]) == (0, committed)
        assert event["answered"] <= first

    def test_the_snapshot_has_learned_them(self, expected: Outputs, told: list[EventDict]) -> None:
        """The model comes from the log's start; without that the worker ends, and accepts the loss by name."""
        cluster = cluster_of_all()
        Worker(cluster).run()
        first = without_newest_answers(cluster, 3, 3)
        told.clear()
        Worker(cluster, tick=TICK).run()
        assert sorted(outputs_of(cluster)[TOPICS.predictions, 0]) == sorted(expected[TOPICS.predictions, 0])
        assert [(e["reason"], e["source"]) for e in told if e["event"] == "snapshot_replaced"] == [("too_new", "log")]
        without_newest_answers(cluster, 3, 3)
        cluster.log(TOPICS.examples, 0).delete_before(2)
        cluster.log(TOPICS.models, 0).compact()
        before = outputs_of(cluster)
        with pytest.raises(SnapshotError, match=r"whose answers are lost; .*accept_gap = \[\"0@") as caught:
            Worker(cluster, tick=TICK).run()
        assert outputs_of(cluster) == before
        name = int(str(caught.value).rpartition("0@")[2].rstrip('"]'))
        assert name >= first
        setup = SETUP._replace(exceptions=Exceptions(frozenset({(0, name)})))
        cluster.load(TOPICS.examples, [])
        Worker(cluster, setup=setup, tick=TICK).run()
        assert outputs_of(cluster) == before

    def test_deleted_answers_are_no_evidence(self, told: list[EventDict]) -> None:
        """Retention has removed every prediction, or every dead letter: the offset is trusted."""
        for topic in (TOPICS.predictions, TOPICS.dead_letters):
            cluster = self._ends_with_predictions()
            if topic == TOPICS.dead_letters:
                without_newest_answers(cluster, 1)
            cluster.log(topic, 0).delete_before(cluster.log(topic, 0).end)
            before = {offset_of(TOPICS.predictions, each) for each in outputs_of(cluster)[TOPICS.predictions, 0]}
            committed = offsets_of(cluster)[0].offset
            told.clear()
            Worker(cluster, tick=TICK).run()
            assert not [event for event in told if event["event"] == "offset_after_answers"]
            after = {offset_of(TOPICS.predictions, each) for each in outputs_of(cluster)[TOPICS.predictions, 0]}
            assert min(after - before) >= committed

    def test_an_end_that_is_too_early_is_no_evidence(
        self, expected: Outputs, told: list[EventDict], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A broker that was frozen reports the end of its log before others have replaced it: for some seconds only."""
        cluster = self._ends_with_predictions()
        told.clear()
        worker = Worker(cluster, tick=0.01)
        log, asked = cluster.log(TOPICS.predictions, 0), list[int]()
        early = log.committed()[-1].at

        def log_range(topic: str, partition: int) -> LogRange:
            found = cluster.log(topic, partition).range()
            if topic != TOPICS.predictions or partition != 0 or len(asked) == 2:
                return found
            asked.append(found.high)
            return found._replace(high=early)

        def log_end(reader: MemoryReader) -> int:
            return early if reader._log is log and len(asked) < 2 else reader._log.end

        monkeypatch.setattr(worker.broker, "log_range", log_range)
        monkeypatch.setattr(MemoryReader, "log_end", property(log_end))
        worker.run()
        assert len(asked) == 2
        assert outputs_of(cluster) == expected
        assert told == []

    @pytest.mark.parametrize(("folds", "letters"), [(2, 1), (1, 1), (1, 3)])
    def test_dead_letters_are_answers(self, told: list[EventDict], folds: int, letters: int) -> None:
        """They may be in a partition that others share, and the open transaction of a stranger may hide all of it."""
        tail = [good(1 + index, partition=1)._replace(payload=b"x") for index in range(letters)]
        cluster = cluster_with({0: [good(0)], 1: [good(0, partition=1), *tail]}, folds)
        log = cluster.log(TOPICS.dead_letters, 1 % folds)
        log.append(Message(None, b"of another", 1), transaction=99)
        Worker(cluster, tick=TICK).run()
        before = outputs_of(cluster)
        log.append(Message(None, b"of another", 1), transaction=99)
        told.clear()
        Worker(cluster, tick=TICK).run()
        assert "offset_after_answers" not in {event["event"] for event in told}
        assert outputs_of(cluster) == before

    def test_dead_letters_are_found_where_they_were(self, told: list[EventDict]) -> None:
        """Their topic has got a partition since, to which this partition's would go now."""
        tail = [good(1 + index, partition=1)._replace(payload=b"x") for index in range(3)]
        cluster = cluster_with({0: [good(0)], 1: [good(0, partition=1), *tail]}, 1)
        Worker(cluster).run()
        cluster._logs[TOPICS.dead_letters].append(PartitionLog(TOPICS.dead_letters, 1))
        told.clear()
        Worker(cluster, tick=TICK).run()
        assert told == []
        assert outputs_of(cluster)[TOPICS.dead_letters, 1] == []

    def test_what_was_left_out_is_not_answered_again(self) -> None:
        """Not even if the dead letter of the skipped record is lost: a replay would learn the record."""
        exceptions = Exceptions(skips=frozenset({(0, 5)}))
        cluster = cluster_with({0: [good(at) for at in range(10)]})
        Worker(cluster, setup=SETUP._replace(exceptions=exceptions)).run()
        assert without_newest_answers(cluster, 4, 1) == 5
        before = outputs_of(cluster)
        setup = SETUP._replace(exceptions=exceptions._replace(gaps=frozenset({(0, 6)})))
        Worker(cluster, setup=setup, tick=TICK).run()
        assert outputs_of(cluster) == before

    def test_scores_are_answers(self, told: list[EventDict]) -> None:
        """Nothing was learned of examples without a label."""
        cluster = cluster_with({0: [good(0), good(1, label=None), good(2, label=None)]})
        Worker(cluster).run()
        told.clear()
        Worker(cluster).run()
        assert told == []

    def test_markers_are_no_records(self, expected: Outputs, told: list[EventDict]) -> None:
        """The committed offset is after a marker and aborted records, as another tool may have set it with its note."""
        cluster = cluster_of_all()
        Worker(cluster).run()
        log = cluster.log(TOPICS.examples, 0)
        log.append(Message(None, b"x", 1), transaction=77)
        log.mark(77, committed=False)
        offsets_of(cluster)[0] = offsets_of(cluster)[0]._replace(offset=log.end)
        answered = offset_of(TOPICS.predictions, expected[TOPICS.predictions, 0][-1])
        (example,) = [record for record in log.committed() if record.at == answered]
        log.append(Message(None, example.payload, example.time_ms))
        told.clear()
        Worker(cluster, tick=TICK).run()
        found = outputs_of(cluster)[TOPICS.predictions, 0]
        assert found[:-1] == expected[TOPICS.predictions, 0]
        assert offset_of(TOPICS.predictions, found[-1]) == log.end - 1
        assert told == []


class TestMissingSnapshots:
    """The committed offset points to a snapshot that is not in the log."""

    def _lose(self, cluster: MemoryCluster, most: int = 1_000) -> None:
        """Abort partition 0's newest snapshot, or the first messages of it, as a transaction in two parts may do."""
        log, pointer = cluster.log(TOPICS.models, 0), SETUP.provenance.read_metadata(0, offsets_of(cluster)[0]).snapshot
        assert pointer is not None
        gone = range(pointer.first, min(pointer.last + 1, pointer.first + most))
        assert pointer.last > pointer.first
        log._entries = [entry for entry in log.entries() if entry.offset not in gone]

    @pytest.mark.parametrize(("earlier", "lost"), [(True, 1_000), (True, 1), (False, 1_000), (False, 1)])
    def test_an_earlier_one_or_the_log_replaces_it(
        self, expected: Outputs, told: list[EventDict], *, earlier: bool, lost: int
    ) -> None:
        """The model has the same state as if the snapshot were there."""
        whole = cluster_of_all()
        wanted = SETUP.provenance.read_metadata(0, offsets_of(Worker(whole).run().cluster)[0]).snapshot
        cluster = cluster_with({number: records[:10] for number, records in input_log().items()})
        if earlier:
            Worker(cluster).run()
            for records in input_log().values():
                cluster.load(TOPICS.examples, records[10:])
        else:
            cluster = cluster_of_all()
        Worker(cluster).run()
        self._lose(cluster, lost)
        told.clear()
        worker = Worker(cluster).run()
        (event,) = [event for event in told if event["event"] == "snapshot_replaced" and event["reason"] == "missing"]
        assert event["source"] == ("snapshot" if earlier else "log")
        assert outputs_of(cluster) == expected
        assert wanted is not None
        assert worker.live[0] == wanted.at
        assert worker.models[0].digest() == wanted.digest

    def test_nothing_replaces_it(self) -> None:
        """The worker ends, without waiting, and answers nothing."""
        cluster = cluster_of_all()
        Worker(cluster).run()
        self._lose(cluster)
        cluster.log(TOPICS.examples, 0).delete_before(2)
        with pytest.raises(
            SnapshotError, match=r"the snapshot of examples-0 at offset \d+ .* more messages, found none"
        ):
            Worker(cluster).run()
