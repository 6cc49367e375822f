"""Offsets that can't be believed: lost ones, and those that are older than what readers see."""

import logging

import pytest
import structlog
from simulation.cluster import MemoryCluster
from simulation.log import Message
from simulation.process import TOPICS
from simulation.world import Outputs, outputs_of
from stream.one_worker import OTHERS, SETUP, Worker, cluster_of_all, cluster_with, input_log, killed_after, offsets_of
from structlog.typing import EventDict
from support.records import FakeRecord, stream

from stream_apple.core.codec.prediction_formats import decode_prediction
from stream_apple.errors import BrokerError, ConfigurationError, GapError
from stream_apple.stream.partitions.partition import State
from stream_apple.stream.snapshots import evidence

pytestmark = pytest.mark.usefixtures("small_sizes")


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
