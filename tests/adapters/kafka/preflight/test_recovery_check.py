"""`check` on what a worker has left behind: it must find what would make the next one refuse to start."""

import uuid

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from support.topics import COMPACTED, TopicFactory
from support.waiting import DEADLINE_S, wait_until

from stream_apple.adapters.kafka.admin import Cluster
from stream_apple.adapters.kafka.preflight.recovery_check import check_recovery
from stream_apple.config import Config, load
from stream_apple.stream.positions.lineage import NO_SNAPSHOT, OffsetMetadata, Provenance, SnapshotPointer


def _policies(cluster: Cluster, topic: str) -> list[str]:
    """What its broker says, and nothing else."""
    return [answer()["cleanup.policy"] for answer in cluster.asked_settings("topic", [topic]).values()]


class Left:
    """What a worker of one partition has left: ten records, ten messages in the models topic, one offset."""

    def __init__(self, kafka: str, topic: TopicFactory) -> None:
        self.kafka = kafka
        self.environ = {
            "STREAM_APPLE_KAFKA__BOOTSTRAP_SERVERS": kafka,
            "STREAM_APPLE_WORKER__GROUP": f"group-{uuid.uuid4().hex}",
            "STREAM_APPLE_TOPICS__EXAMPLES": topic("examples"),
            "STREAM_APPLE_TOPICS__MODELS": topic("models", config=COMPACTED),
        }
        producer = Producer(self.config.kafka)
        for name in (self.config.topics.examples, self.config.topics.models):
            for number in range(10):
                producer.produce(name, b"x", str(number), partition=0)
        assert producer.flush(DEADLINE_S) == 0

    @property
    def config(self) -> Config:
        """The configuration of all that environ says."""
        return load(None, self.environ)

    def commit(self, offset: int, snapshot: SnapshotPointer | None, start: int = 0) -> None:
        """The offset and its note, as the worker commits them."""
        config = self.config
        lineage = Provenance.of(config).lineage(0, start)
        self.commit_text(offset, OffsetMetadata(lineage, snapshot).to_text())

    def commit_text(self, offset: int, metadata: str) -> None:
        """The offset and any text."""
        config = self.config
        member = Consumer({**config.kafka, "group.id": config.worker.group})
        member.commit(offsets=[TopicPartition(config.topics.examples, 0, offset, metadata)], asynchronous=False)
        member.close()

    def delete_before(self, name: str, offset: int) -> None:
        """As retention does; of a compacted topic, it takes another policy for a moment."""
        cluster = Cluster(self.config.kafka)
        compacted = name == self.config.topics.models
        if compacted:
            self._set_policy(cluster, name, "compact,delete")
        (future,) = cluster.client.delete_records([TopicPartition(name, 0, offset)]).values()
        future.result(DEADLINE_S)
        if compacted:
            self._set_policy(cluster, name, "compact")

    @staticmethod
    def _set_policy(cluster: Cluster, name: str, policy: str) -> None:
        cluster.set_settings(name, {"cleanup.policy": policy})
        wait_until(lambda: policy in _policies(cluster, name), f"{name} has the policy {policy}")

    def save(self, provenance: Provenance) -> None:
        """A message of a snapshot."""
        producer = Producer(self.config.kafka)
        producer.produce(self.config.topics.models, b"part", provenance.snapshot_key(0, 0), 0)
        assert producer.flush(DEADLINE_S) == 0

    def findings(self, verdict: str) -> list[str]:
        """Texts of one verdict, all about the group."""
        found = list(check_recovery(Cluster(self.config.kafka), self.config))
        assert {finding.subject for finding in found} == {f"group {self.config.worker.group}"}
        return [finding.text for finding in found if finding.verdict == verdict]


@pytest.fixture
def left(kafka: str, topic: TopicFactory) -> Left:
    """A partition of which nothing is committed yet."""
    return Left(kafka, topic)


def test_a_new_group_needs_nothing(left: Left) -> None:
    """Nothing committed: the first record that there is will do."""
    left.delete_before(left.config.topics.examples, 5)
    assert left.findings("fault") == []
    assert left.findings("ok") == [f"readable, partitions of {left.config.topics.examples} with an offset: 0"]


@pytest.mark.parametrize(
    ("snapshot", "needed"),
    [(None, 0), (SnapshotPointer(4, 0, 9, "0" * 32), 4)],
)
def test_records_that_are_gone_are_a_fault(left: Left, snapshot: SnapshotPointer | None, needed: int) -> None:
    """Needed are those since the snapshot, or since the model's start: not one may be missing, as `run` tells it."""
    name = left.config.topics.examples
    left.commit(8, snapshot)
    if needed:
        left.delete_before(name, needed)
    assert left.findings("fault") == []
    left.delete_before(name, needed + 2)
    (fault,) = left.findings("fault")
    assert fault.startswith(f"expected the records of {name}-0 from offset {needed} on, which model ")
    assert f"found {needed + 2} as the first" in fault
    assert f'set worker.accept_gap = ["0@{needed}"]' in fault


def test_an_accepted_gap_is_a_note(left: Left) -> None:
    """The line that the fault asks for is what makes it a note; another gap's name does not."""
    name = left.config.topics.examples
    left.commit(8, SnapshotPointer(4, 0, 9, "0" * 32))
    left.delete_before(name, 6)
    left.environ["STREAM_APPLE_WORKER__ACCEPT_GAP"] = "0@5,0@3"
    assert len(left.findings("fault")) == 1
    left.environ["STREAM_APPLE_WORKER__ACCEPT_GAP"] = "0@4"
    assert left.findings("fault") == []
    (note,) = left.findings("note")
    assert note == (
        f"{name}-0: worker.accept_gap lets the model go on without the records from offset 4 on, found 6 as the first"
    )


@pytest.mark.parametrize(("first", "last"), [(2, 9), (4, 10)])
def test_a_snapshot_that_is_gone_is_a_fault(left: Left, first: int, last: int) -> None:
    """Deleted from the front, or in a topic that was made anew and is shorter; and the first record is gone, too."""
    name = left.config.topics.models
    left.delete_before(name, 3)
    left.commit(8, SnapshotPointer(4, 3, 9, "0" * 32))
    assert left.findings("fault") == []
    left.commit(8, SnapshotPointer(4, 2, 9, "0" * 32))
    again = f"{name}-0: the snapshot is gone, and the model is learned again from offset 0 on"
    assert (left.findings("fault"), left.findings("note")) == ([], [again])
    left.delete_before(left.config.topics.examples, 1)
    left.commit(8, SnapshotPointer(4, first, last, "0" * 32))
    (fault,) = left.findings("fault")
    assert fault == (
        f"{name}-0: expected the snapshot in messages {first} to {last}, found 3 to 9 in the log: {NO_SNAPSHOT}"
    )


def test_a_snapshot_without_an_offset_is_a_fault(left: Left) -> None:
    """The offsets are lost: a worker would answer everything again. Snapshots of other groups mean nothing."""
    config = left.config
    left.save(Provenance.of(config)._replace(group="another"))
    assert left.findings("fault") == []
    left.save(Provenance.of(config))
    (fault,) = left.findings("fault")
    assert fault.startswith(f"expected an offset of {config.topics.examples}-0 that group {config.worker.group} has ")
    assert f"it has a snapshot in {config.topics.models}-0 at message 11, found none: the offsets are lost" in fault
    assert "or topics.examples was another topic" in fault
    left.commit(8, None)
    assert left.findings("fault") == []


def test_an_offset_behind_the_end_is_a_fault(left: Left) -> None:
    """The topic was deleted and made anew under the same name."""
    left.commit(11, None)
    (fault,) = left.findings("fault")
    assert fault.startswith(f"expected {left.config.topics.examples}-0 to reach the committed offset 11 of group ")


def test_a_topic_that_is_gone_is_no_fault_of_offsets(left: Left) -> None:
    """That there is no topic of models is found by the check of topics: offsets are readable all the same."""
    left.commit(8, SnapshotPointer(4, 0, 9, "0" * 32))
    left.environ["STREAM_APPLE_TOPICS__MODELS"] = "none"
    assert left.findings("fault") == []


def test_another_model_is_a_fault(left: Left) -> None:
    """Offsets of something else, and of a model with other settings, are told as `run` tells them."""
    left.commit_text(8, "")
    assert left.findings("fault")[0].startswith("expected a note of the model at the committed offset 8 of ")
    left.commit(8, None)
    assert left.findings("fault") == []
    left.environ["STREAM_APPLE_LEARNER__BITS"] = "12"
    assert left.findings("fault")[0].startswith("expected model ")


def test_a_record_to_skip_is_a_note(left: Left) -> None:
    """Before it is answered; then it is the fault that `run` makes of it."""
    name = left.config.topics.examples
    left.environ["STREAM_APPLE_WORKER__SKIP"] = "0@8"
    left.commit(8, SnapshotPointer(4, 0, 9, "0" * 32))
    assert left.findings("fault") == []
    assert left.findings("note") == [
        f"{name}-0: worker.skip makes a dead letter of the record at offset 8, unread; the log ends at 10"
    ]
    left.environ["STREAM_APPLE_WORKER__SKIP"] = "0@7"
    (fault,) = left.findings("fault")
    assert fault.startswith(f"worker.skip: expected a record of {name}-0 that has no answer yet, found 0@7, which ")


def test_a_partition_that_does_not_exist_is_a_fault(left: Left) -> None:
    """A slip of the pen in either setting would otherwise do nothing, in silence."""
    left.environ |= {"STREAM_APPLE_WORKER__SKIP": "0@8, 1@8", "STREAM_APPLE_WORKER__ACCEPT_GAP": "7@0"}
    found = list(check_recovery(Cluster(left.config.kafka), left.config))
    text = f"expected partitions of {left.config.topics.examples} below 1, found"
    assert [(finding.subject, finding.text) for finding in found if finding.verdict == "fault"] == [
        ("worker.accept_gap", f"{text} 7@0"),
        ("worker.skip", f"{text} 1@8"),
    ]
